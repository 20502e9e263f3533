"""GARCH(1, 1): the variance of each day, given the returns before it.

Source: Bollerslev, Journal of Econometrics 31, 1986.

The squared return is handed to the next day as a state, a delay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("variance[b], shock[b]; r[b t], omega[b], alpha[b], beta[b] -> out[b t]")
def garch(variance: Any, shock: Any, r: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    variance = omega + alpha * shock + beta * variance
    return (variance, r * r), variance


def example(rand: Any) -> Any:
    inputs = {"r": rand(6, 90), "omega": rand(6, low=0.01, high=0.1), "alpha": rand(6, low=0.05, high=0.1)}
    start = rand(6, low=0.2, high=0.5)
    return garch, inputs | {"beta": rand(6, low=0.8, high=0.9), "init": (start, start)}


def reference(r: Any, omega: Any, alpha: Any, beta: Any, init: Any) -> Any:
    """The `arch` package's own recursion."""
    from arch.univariate import GARCH

    rows = []
    for x, *parameters, start in zip(r.numpy(), omega, alpha, beta, init[0], strict=True):
        x = x.astype(np.float64)
        bounds = np.tile([0.0, np.inf], (len(x), 1))
        values = np.array([float(p) for p in parameters])
        rows.append(GARCH().compute_variance(values, x, np.empty_like(x), float(start), bounds))
    return torch.from_numpy(np.stack(rows))
