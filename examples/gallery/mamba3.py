"""Mamba-3: an exponential-trapezoidal rule, and a rotation of each pair of states.

Source: Lahoti et al., 2026, https://arxiv.org/abs/2603.15569.

The trapezoid also reads the B x of the step before, which is handed on as a delay. The rotation by dt·theta is
written on pairs of real numbers; what it does to a pair is found to be a complex product.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence(
    """h0[b p n], h1[b p n], v0[b p n], v1[b p n];
    x[b p t], dt[b t], A[b t], lam[b t], theta[b n t], B0[b n t], B1[b n t], C0[b n t], C1[b n t] -> y[b p t]"""
)
def mamba3(
    h0: Any, h1: Any, v0: Any, v1: Any,
    x: Any, dt: Any, A: Any, lam: Any, theta: Any, B0: Any, B1: Any, C0: Any, C1: Any,
) -> Any:  # fmt: skip
    decay, before, now = sw.exp(dt * A), (1 - lam) * dt, lam * dt
    c, s = decay * sw.cos(dt * theta), decay * sw.sin(dt * theta)
    g0, g1 = h0 + before * v0, h1 + before * v1
    v0, v1 = B0 * x, B1 * x
    h0, h1 = c * g0 - s * g1 + now * v0, s * g0 + c * g1 + now * v1
    return (h0, h1, v0, v1), sw.sum(C0 * h0 + C1 * h1, "n")


def example(rand: Any) -> Any:
    b, p, n, t = 2, 6, 4, 40
    inputs = {"x": rand(b, p, t), "dt": rand(b, t, low=0), "A": rand(b, t, low=-1, high=0), "lam": rand(b, t, low=0)}
    inputs |= {"theta": rand(b, n, t, low=-3, high=3)}
    return mamba3, inputs | {name: rand(b, n, t) for name in ("B0", "B1", "C0", "C1")}


def reference(x: Any, dt: Any, A: Any, lam: Any, theta: Any, B0: Any, B1: Any, C0: Any, C1: Any) -> Any:
    """The paper's rotary form: states only decay, B and C are turned by the angles summed up to their step."""
    turn = torch.polar(torch.ones_like(theta), -(dt[:, None] * theta).cumsum(-1))
    B, C = turn * torch.complex(B0, B1), turn * torch.complex(C0, C1)
    Bx = torch.einsum("bnt,bpt->tbpn", B, x.to(B.dtype))
    h, rows = torch.zeros_like(Bx[0]), []
    for t in range(x.shape[-1]):
        alpha = torch.exp(dt[:, t] * A[:, t])
        beta, gamma = (1 - lam[:, t]) * dt[:, t] * alpha, lam[:, t] * dt[:, t]
        h = alpha[:, None, None] * h + gamma[:, None, None] * Bx[t]
        if t:
            h = h + beta[:, None, None] * Bx[t - 1]
        rows.append((C[:, None, :, t].conj() * h).real.sum(-1))
    return torch.stack(rows, -1)
