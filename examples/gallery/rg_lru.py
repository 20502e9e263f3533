"""Griffin's real-gated linear recurrent unit, with sequences that start anew.

Source: De et al., 2024, https://arxiv.org/abs/2402.19427, section 2.4.

`start` marks the first step of each sequence of a packed row: nothing crosses it, neither NaN nor inf.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("h[b d]; x[b d t], r[b d t], i[b d t], lam[d], start[b t] -> y[b d t]")
def rg_lru(h: Any, x: Any, r: Any, i: Any, lam: Any, start: Any) -> Any:
    log_a = -8.0 * sw.softplus(lam) * sw.sigmoid(r)
    x = sw.sigmoid(i) * x
    h = sw.where(start, x, sw.exp(log_a) * h + sw.sqrt(-sw.expm1(2 * log_a)) * x)
    return h, h


def example(rand: Any) -> Any:
    b, d, t = 2, 16, 60
    inputs = {"x": rand(b, d, t), "r": rand(b, d, t), "i": rand(b, d, t), "lam": rand(d, low=-5)}
    return rg_lru, inputs | {"start": rand(b, t) > 0.8}


def reference(x: Any, r: Any, i: Any, lam: Any, start: Any) -> Any:
    """The paper's formula, a = sigmoid(L)^(8 r), with L = -lam; each sequence begins without a state."""
    a = torch.sigmoid(-lam)[:, None] ** (8 * torch.sigmoid(r))
    gated = torch.sigmoid(i) * x
    y = torch.empty_like(x)
    for row in range(x.shape[0]):
        firsts = {0, *start[row].nonzero().flatten().tolist()}
        for t in range(x.shape[-1]):
            now, decay = gated[row, :, t], a[row, :, t]
            if t in firsts:
                y[row, :, t] = now if start[row, t] else torch.sqrt(1 - decay**2) * now
            else:
                y[row, :, t] = decay * y[row, :, t - 1] + torch.sqrt(1 - decay**2) * now
    return y
