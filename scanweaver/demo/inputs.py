"""What the demo reads: a text that Python ships, and a series of prices that `arch` ships."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def text_bytes(count: int) -> Tensor:
    """The first `count` bytes, as int64 (1, count), of what Python's help says about compound statements."""
    from pydoc_data.topics import topics

    text = topics["compound"].encode()[:count]
    return torch.tensor([list(text)])


@dataclass(frozen=True)
class Prices:
    """Daily closes of an index, adjusted for dividends."""

    dates: Any  # datetime64, one a day
    close: Tensor  # float64, one a day

    @property
    def days(self) -> str:
        return f"{self.close.numel()} days, {self.dates[0]:%Y-%m-%d} to {self.dates[-1]:%Y-%m-%d}"

    @property
    def returns(self) -> Tensor:
        """Daily returns in percent, one fewer than days."""
        return 100 * (self.close[1:] / self.close[:-1] - 1)


def sp500() -> Prices:
    """The S&P 500, 1999 to 2018."""
    from arch.data import sp500

    frame: Any = sp500.load()
    return Prices(frame.index, torch.tensor(frame["Adj Close"].to_numpy()))
