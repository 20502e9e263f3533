"""A leaky integrate-and-fire neuron, exact between samples.

Source: Gerstner et al., Neuronal Dynamics, 2014, https://neuronaldynamics.epfl.ch, section 1.3.

Whether it fires depends on its voltage, and firing resets it, so this runs in time order.
"""

from __future__ import annotations

import math
from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("v[n]; current[n t], tau[n] -> spike[n t], voltage[n t]")
def lif(v: Any, current: Any, tau: Any, *, threshold: float = 1.0, reset: float = 0.0) -> Any:
    v = current + (v - current) * sw.exp(-1 / tau)
    spike = v >= threshold
    v = sw.where(spike, reset, v)
    return v, (spike, v)


def example(rand: Any) -> Any:
    return lif, {"current": rand(8, 100, low=0, high=3), "tau": rand(8, low=3, high=20), "reset": -0.25}


def reference(current: Any, tau: Any, reset: float) -> Any:
    """One neuron after the other, in Python's numbers."""
    spikes, voltages = torch.zeros(current.shape, dtype=torch.bool), torch.empty_like(current)
    for n, (row, constant) in enumerate(zip(current.tolist(), tau.tolist(), strict=True)):
        v, keep = 0.0, math.exp(-1 / constant)
        for t, drive in enumerate(row):
            v = keep * v + (1 - keep) * drive
            if v >= 1.0:
                spikes[n, t], v = True, reset
            voltages[n, t] = v
    return spikes, voltages
