"""A causal convolution of width 4, SiLU and a selective scan in one pass: the middle of a Mamba block.

Source: Gu and Dao, 2023, https://arxiv.org/abs/2312.00752, figure 3.

x[t-1], x[t-2] and x[t-3] are states that are handed on; a delay costs no algebra.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import scanweaver as sw


@sw.recurrence(
    """x1[b d], x2[b d], x3[b d], h[b d n];
    x[b d t], w[d k], bias[d], dt[b d t], A[d n], B[b n t], C[b n t] -> y[b d t]"""
)
def conv_silu_scan(
    x1: Any, x2: Any, x3: Any, h: Any, x: Any, w: Any, bias: Any, dt: Any, A: Any, B: Any, C: Any
) -> Any:
    u = bias
    for i, past in enumerate((x3, x2, x1, x)):
        u = u + sw.take(w, i, "k") * past
    u = sw.silu(u)
    h = sw.exp(dt * A) * h + dt * B * u
    return (x, x1, x2, h), sw.sum(C * h, "n")


def example(rand: Any) -> Any:
    b, d, n, t = 2, 10, 4, 41
    inputs = {"x": rand(b, d, t), "w": rand(d, 4), "bias": rand(d), "dt": rand(b, d, t, low=0)}
    return conv_silu_scan, inputs | {"A": rand(d, n, low=-2, high=0), "B": rand(b, n, t), "C": rand(b, n, t)}


def reference(x: Any, w: Any, bias: Any, dt: Any, A: Any, B: Any, C: Any) -> Any:
    """PyTorch's convolution, then a loop."""
    steps = x.shape[-1]
    u = F.silu(F.conv1d(x, w[:, None], bias, padding=3, groups=x.shape[1])[..., :steps])
    h, rows = x.new_zeros(x.shape[0], *A.shape), []
    for t in range(steps):
        h = torch.exp(dt[..., t, None] * A) * h + (dt * u)[..., t, None] * B[:, None, :, t]
        rows.append((h * C[:, None, :, t]).sum(-1))
    return torch.stack(rows, -1)
