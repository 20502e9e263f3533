"""A one-pole low-pass filter whose cutoff moves.

Source: Smith, Introduction to Digital Filters, 2007, https://ccrma.stanford.edu/~jos/filters/.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("y[c]; x[c t], cutoff[c t], rate[] -> out[c t]")
def one_pole(y: Any, x: Any, cutoff: Any, rate: Any = 48000.0) -> Any:
    gain = -sw.expm1(-2 * math.pi * cutoff / rate)
    y = y + gain * (x - y)
    return y, y


def example(rand: Any) -> Any:
    return one_pole, {"x": rand(6, 100), "cutoff": rand(6, 100, low=20, high=8000), "rate": 44100.0}


def reference(x: Any, cutoff: Any, rate: Any) -> Any:
    """SciPy, one sample a call: its filters' coefficients stand still."""
    from scipy.signal import lfilter

    x, pole = x.double().numpy(), np.exp(-2 * np.pi * cutoff.double().numpy() / rate)
    out = np.empty_like(x)
    for c in range(len(x)):
        memory = 0.0
        for t, (sample, p) in enumerate(zip(x[c], pole[c], strict=True)):
            (out[c, t],), _ = lfilter([1 - p], [1, -p], [sample], zi=[p * memory])
            memory = out[c, t]
    return torch.from_numpy(out)
