"""Generalized advantage estimation, from the last step to the first.

Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, section 3.

`gae(r, value[:, :-1], value[:, 1:], done, 0.99, 0.95, reverse=True)`: the two values are views of one tensor.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("A[b]; r[b t], value[b t], following[b t], done[b t], gamma[], lam[] -> advantage[b t]")
def gae(A: Any, r: Any, value: Any, following: Any, done: Any, gamma: Any, lam: Any) -> Any:
    A = r - value + sw.where(done, 0.0, gamma * following + gamma * lam * A)
    return A, A


def example(rand: Any) -> Any:
    values = rand(4, 61)
    inputs = {"r": rand(4, 60), "value": values[:, :-1], "following": values[:, 1:], "done": rand(4, 60) > 0.9}
    return gae, inputs | {"gamma": 0.99, "lam": 0.95, "reverse": True}


def reference(r: Any, value: Any, following: Any, done: Any, gamma: float, lam: float) -> Any:
    """The definition, a sum over all later steps of the same episode."""
    delta = r + gamma * following * ~done - value
    steps = range(r.shape[-1])
    advantage = torch.zeros_like(r)
    for t in steps:
        weight = torch.ones_like(r[:, 0])
        for later in steps[t:]:
            advantage[:, t] += weight * delta[:, later]
            weight = weight * gamma * lam * ~done[:, later]
    return advantage
