"""Four biquads in one pass, in the transposed direct form II, with the coefficients of `scipy.signal.sosfilt`.

Source: Smith, Introduction to Digital Filters, 2007, https://ccrma.stanford.edu/~jos/filters/.

A section's two states read each other, and the sections follow one another: a chain of four 2 by 2 matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import scanweaver as sw


@sw.recurrence("p0[c], q0[c], p1[c], q1[c], p2[c], q2[c], p3[c], q3[c]; x[c t], sos[s k] -> y[c t]")
def biquads(p0: Any, q0: Any, p1: Any, q1: Any, p2: Any, q2: Any, p3: Any, q3: Any, x: Any, sos: Any) -> Any:
    states: list[Any] = []
    for section, (p, q) in enumerate(((p0, q0), (p1, q1), (p2, q2), (p3, q3))):
        row = sw.take(sos, section, "s")
        b0, b1, b2, _, a1, a2 = (sw.take(row, k, "k") for k in range(6))
        y = b0 * x + p
        states += [b1 * x - a1 * y + q, b2 * x - a2 * y]
        x = y  # the next section's input
    return tuple(states), x


def example(rand: Any) -> Any:
    from scipy.signal import butter

    x = rand(6, 100)
    return biquads, {"x": x, "sos": torch.from_numpy(butter(8, 0.3, output="sos")).to(x)}


def reference(x: Any, sos: Any) -> Any:
    from scipy.signal import sosfilt

    return torch.from_numpy(np.asarray(sosfilt(sos.double().numpy(), x.double().numpy())))
