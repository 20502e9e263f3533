"""Mamba-2: one decay a head, a matrix of states, B and C shared by a group of heads.

Source: Dao and Gu, 2024, https://arxiv.org/abs/2405.21060.

Heads are given as (g r), r heads to each of the g groups: `x.unflatten(1, (g, r))` is a view.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("h[b g r p n]; x[b g r p t], dt[b g r t], A[g r], B[b g n t], C[b g n t], D[g r] -> y[b g r p t]")
def mamba2(h: Any, x: Any, dt: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    h = sw.exp(dt * A) * h + dt * B * x
    return h, sw.sum(C * h, "n") + D * x


def example(rand: Any) -> Any:
    b, g, r, p, n, t = 2, 2, 3, 4, 8, 33
    inputs = {"x": rand(b, g, r, p, t), "dt": rand(b, g, r, t, low=0), "A": rand(g, r, low=-2, high=0)}
    return mamba2, inputs | {"B": rand(b, g, n, t), "C": rand(b, g, n, t), "D": rand(g, r)}


def reference(x: Any, dt: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    """The dual, attention-like form of the paper's section 3: y = (L ∘ C Bᵀ) (dt x), and no state at all."""
    total = (dt * A[..., None]).cumsum(-1)
    decay = torch.exp(total[..., :, None] - total[..., None, :]).tril()  # from step s (last) to step t
    scores = torch.einsum("bgnt,bgns->bgts", C, B)[:, :, None] * decay
    return torch.einsum("bgrts,bgrs,bgrps->bgrpt", scores, dt, x) + D[..., None, None] * x
