"""A Kalman filter in one dimension, of the local level model, with missing values.

Source: Kalman, Journal of Basic Engineering 82, 1960.

The variance is divided by itself plus noise, which no algebra proves yet, so this runs in time order. The mean is
affine once the gain is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("mean[b], var[b]; x[b t], process[b], noise[b] -> m[b t], P[b t]")
def kalman(mean: Any, var: Any, x: Any, process: Any, noise: Any) -> Any:
    gain = sw.where(sw.isnan(x), 0.0, var / (var + noise))
    mean = sw.where(sw.isnan(x), mean, mean + gain * (x - mean))
    var = (1 - gain) * var
    return (mean, var + process), (mean, var)  # the states are the prediction of the next step


def example(rand: Any) -> Any:
    x = rand(5, 60).cumsum(-1)
    x = x.masked_fill(rand(5, 60) > 0.6, torch.nan)
    inputs = {"x": x, "process": rand(5, low=0.1), "noise": rand(5, low=0.1)}
    return kalman, inputs | {"init": (rand(5), rand(5, low=0.5))}


def reference(x: Any, process: Any, noise: Any, init: Any) -> Any:
    """statsmodels."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    means, variances = [], []
    for series, q, r, mean, var in zip(x.double().numpy(), process, noise, *init, strict=True):
        model = UnobservedComponents(series, "llevel")
        model.ssm.tolerance = 0  # never take the gain for converged
        model.ssm.initialize_known(np.array([float(mean)]), np.array([[float(var)]]))
        found = model.filter([float(r), float(q)])
        means.append(found.filtered_state[0])
        variances.append(found.filtered_state_cov[0, 0])
    return torch.from_numpy(np.stack(means)), torch.from_numpy(np.stack(variances))
