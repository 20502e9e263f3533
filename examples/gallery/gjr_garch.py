"""GJR-GARCH(1, 1, 1): a fall raises the variance more than a rise.

Source: Glosten, Jagannathan and Runkle, Journal of Finance 48, 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("variance[b], shock[b]; r[b t], omega[b], alpha[b], gamma[b], beta[b] -> out[b t]")
def gjr_garch(variance: Any, shock: Any, r: Any, omega: Any, alpha: Any, gamma: Any, beta: Any) -> Any:
    variance = omega + shock + beta * variance
    weight = sw.where(r < 0, alpha + gamma, alpha)
    return (variance, weight * r * r), variance


def example(rand: Any) -> Any:
    inputs = {"r": rand(6, 90), "omega": rand(6, low=0.01, high=0.1), "alpha": rand(6, low=0.02, high=0.05)}
    inputs |= {"gamma": rand(6, low=0.05, high=0.1), "beta": rand(6, low=0.8, high=0.85)}
    start = rand(6, low=0.2, high=0.5)
    return gjr_garch, inputs | {"init": (start, (inputs["alpha"] + inputs["gamma"] / 2) * start)}


def reference(r: Any, omega: Any, alpha: Any, gamma: Any, beta: Any, init: Any) -> Any:
    """The `arch` package's own recursion."""
    from arch.univariate import GARCH

    rows = []
    for x, *parameters, start in zip(r.numpy(), omega, alpha, gamma, beta, init[0], strict=True):
        x = x.astype(np.float64)
        bounds = np.tile([0.0, np.inf], (len(x), 1))
        values = np.array([float(p) for p in parameters])
        rows.append(GARCH(p=1, o=1, q=1).compute_variance(values, x, np.empty_like(x), float(start), bounds))
    return torch.from_numpy(np.stack(rows))
