"""The two recurrences that the demo runs over a series, the same as plain loops, and what others compute of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import scanweaver as sw


@sw.recurrence("total[k], weight[k]; x[t], alpha[k] -> mean[k t]")
def weighted_mean(total: Any, weight: Any, x: Any, alpha: Any) -> Any:
    """Exponentially weighted means of one series, one for each alpha, by two states: pandas' `ewm(adjust=True)`."""
    total = (1 - alpha) * total + x
    weight = (1 - alpha) * weight + 1
    return (total, weight), total / weight


def weighted_mean_loop(x: Tensor, alpha: Tensor) -> Tensor:
    total, weight = torch.zeros_like(alpha), torch.zeros_like(alpha)
    means: list[Tensor] = []
    for x_t in x:
        total = (1 - alpha) * total + x_t
        weight = (1 - alpha) * weight + 1
        means.append(total / weight)
    return torch.stack(means, -1)


def pandas_ewm(x: Tensor, spans: Sequence[int]) -> Any:
    """pandas' values, in float64, for alpha = 2 / (span + 1)."""
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

    series: Any = pd.Series(x.cpu().double().numpy())
    return np.stack([series.ewm(span=span, adjust=True).mean().to_numpy() for span in spans])


@sw.recurrence("variance[], shock[]; r[t], omega[], alpha[], beta[] -> out[t]")
def garch(variance: Any, shock: Any, r: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    """The variance of GARCH(1, 1) on each day, given the returns before it (Bollerslev, 1986)."""
    variance = omega + alpha * shock + beta * variance
    return (variance, r * r), variance  # today's squared return is tomorrow's shock


def garch_loop(r: Tensor, omega: float, alpha: float, beta: float, start: float) -> Tensor:
    variance = shock = torch.full((), start, dtype=r.dtype, device=r.device)
    variances: list[Tensor] = []
    for r_t in r:
        variance = omega + alpha * shock + beta * variance
        shock = r_t * r_t
        variances.append(variance)
    return torch.stack(variances)


@dataclass(frozen=True)
class GarchFit:
    """Parameters of a GARCH(1, 1) with a constant mean, as `arch` fits them to the S&P 500, rounded."""

    mean: float = 0.0564
    omega: float = 0.0175
    alpha: float = 0.102
    beta: float = 0.885

    @property
    def parameters(self) -> tuple[float, float, float]:
        return self.omega, self.alpha, self.beta


class ArchGarch:
    """The same variance by `arch`'s own compiled recursion, in float64, and the variance it starts from."""

    def __init__(self, r: Tensor, fit: GarchFit):
        from arch.univariate import GARCH

        self.process: Any = GARCH()
        self.r = r.cpu().double().numpy()
        self.parameters = np.array(fit.parameters)
        self.start = float(self.process.backcast(self.r))
        self.bounds = self.process.variance_bounds(self.r)

    def __call__(self) -> Any:
        out = np.empty_like(self.r)
        return self.process.compute_variance(self.parameters, self.r, out, self.start, self.bounds)
