"""Mamba's selective scan.

Source: Gu and Dao, 2023, https://arxiv.org/abs/2312.00752, algorithm 2.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import scanweaver as sw


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]")
def mamba1(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
    dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    return h, (sw.sum(C * h, "n") + D * u) * sw.silu(z)


def example(rand: Any) -> Any:
    b, d, n, t = 2, 12, 5, 45
    inputs = {"u": rand(b, d, t), "dt": rand(b, d, t), "A": rand(d, n, low=-2, high=0), "B": rand(b, n, t)}
    return mamba1, inputs | {"C": rand(b, n, t), "D": rand(d), "z": rand(b, d, t)}


def reference(u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
    """The paper's loop: A and B discretized, then one step after the other."""
    dt = F.softplus(dt)
    A_bar = torch.exp(torch.einsum("bdt,dn->tbdn", dt, A))
    B_bar_u = torch.einsum("bdt,bnt,bdt->tbdn", dt, B, u)
    h, rows = torch.zeros_like(A_bar[0]), []
    for t in range(u.shape[-1]):
        h = A_bar[t] * h + B_bar_u[t]
        rows.append(torch.einsum("bdn,bn->bd", h, C[..., t]))
    return (torch.stack(rows, -1) + D[:, None] * u) * F.silu(z)
