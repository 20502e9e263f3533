"""Holt's linear trend: a level and a slope, each smoothed.

Source: Holt, 1957, reprinted in International Journal of Forecasting 20, 2004.

The two read each other, so they are proved as one component: a 2 by 2 matrix a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("level[b], trend[b]; x[b t], alpha[b], beta[b] -> smooth[b t], slope[b t]")
def holt(level: Any, trend: Any, x: Any, alpha: Any, beta: Any) -> Any:
    new = alpha * x + (1 - alpha) * (level + trend)
    trend = beta * (new - level) + (1 - beta) * trend
    return (new, trend), (new, trend)


def example(rand: Any) -> Any:
    inputs = {"x": rand(5, 70).cumsum(-1), "alpha": rand(5, low=0.2, high=0.8), "beta": rand(5, low=0.1, high=0.5)}
    return holt, inputs | {"init": (rand(5), rand(5))}


def reference(x: Any, alpha: Any, beta: Any, init: Any) -> Any:
    """statsmodels."""
    from statsmodels.tsa.holtwinters import Holt

    results = []
    for series, a, b, level, trend in zip(x.double().numpy(), alpha, beta, *init, strict=True):
        model = Holt(series, initialization_method="known", initial_level=float(level), initial_trend=float(trend))
        fit = model.fit(smoothing_level=float(a), smoothing_trend=float(b), optimized=False)
        results.append((fit.level, fit.trend))
    return tuple(torch.from_numpy(np.stack(rows)) for rows in zip(*results, strict=True))
