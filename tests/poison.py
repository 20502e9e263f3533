"""Results allocated full of NaN between guards: an element that no kernel writes, or one too many, is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

_GUARD = 64
"""Elements before and after; whole multiples of the widest alignment."""
_RARE = {torch.bool: True, torch.uint8: 0xA5, torch.int8: 0x5A, torch.int16: 0x5AA5}


def _poison(dtype: torch.dtype) -> Any:
    return float("nan") if dtype.is_floating_point or dtype.is_complex else _RARE.get(dtype, 0x5AA55AA5)


@contextmanager
def poisoned() -> Iterator[None]:
    """Within it `torch.empty_strided` gives such memory; at its end every guard must be as it was."""
    guards: list[torch.Tensor] = []

    def empty_strided(
        shape: Sequence[int], strides: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        memory = torch.full((extent + 2 * _GUARD,), _poison(dtype), dtype=dtype, device=device)
        guards.extend((memory[:_GUARD], memory[_GUARD + extent :]))
        return memory.as_strided(shape, strides, _GUARD)

    with mock.patch.object(torch, "empty_strided", empty_strided):
        yield
    for guard in guards:
        value = _poison(guard.dtype)
        intact = guard.isnan() if value != value else guard == value
        assert bool(intact.all()), "a kernel wrote outside its result"
