"""An exponentially weighted mean of a series with missing values, as `ewm(alpha=…, ignore_na=…).mean()` in pandas.

Source: pandas, https://pandas.pydata.org/docs/reference/api/pandas.DataFrame.ewm.html.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("total[b], weight[b]; x[b t], alpha[b] -> mean[b t]")
def ewm(total: Any, weight: Any, x: Any, alpha: Any, *, ignore_na: bool = False) -> Any:
    missing = sw.isnan(x)
    decay = 1 - alpha
    if ignore_na:  # a missing value is no step
        decay = sw.where(missing, 1.0, decay)
    total = decay * total + sw.where(missing, 0.0, x)
    weight = decay * weight + sw.where(missing, 0.0, 1.0)
    return (total, weight), total / weight


def example(rand: Any) -> Any:
    x = rand(9, 80)
    x = x.masked_fill(rand(9, 80) > 0.4, torch.nan)
    return ewm, {"x": x, "alpha": rand(9, low=0.05, high=0.5), "ignore_na": False}


def reference(x: Any, alpha: Any, ignore_na: bool) -> Any:
    import pandas as pd

    rows = [
        pd.Series(row).ewm(alpha=a, ignore_na=ignore_na).mean().to_numpy()
        for row, a in zip(x.numpy(), alpha.tolist(), strict=True)
    ]
    return torch.from_numpy(np.stack(rows))
