"""RWKV-6 (Finch): a decay that depends on the data, and a bonus for the present step.

Source: Peng et al., 2024, https://arxiv.org/abs/2404.05892.

The output reads the state *before* the step. `w` is given before its exponentials: the decay is exp(-exp(w)).
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("S[b h k v]; r[b h k t], k[b h k t], v[b h v t], w[b h k t], u[h k] -> y[b h v t]")
def rwkv6(S: Any, r: Any, k: Any, v: Any, w: Any, u: Any) -> Any:
    kv = k * v
    y = sw.sum(r * (S + u * kv), "k")
    return sw.exp(-sw.exp(w)) * S + kv, y


def example(rand: Any) -> Any:
    b, h, k, v, t = 2, 2, 8, 6, 36
    inputs = {name: rand(b, h, k, t) for name in ("r", "k", "w")}
    return rwkv6, inputs | {"v": rand(b, h, v, t), "u": rand(h, k)}


def reference(r: Any, k: Any, v: Any, w: Any, u: Any) -> Any:
    """Every pair of steps: s < t decays over s+1 … t-1, s = t has the bonus."""
    total = -torch.exp(w).cumsum(-1)
    before = torch.nn.functional.pad(total, (1, 0))[..., :-1]
    decay = torch.exp(before[..., :, None] - total[..., None, :]).tril(-1)
    past = torch.einsum("bhkt,bhkts,bhks,bhvs->bhvt", r, decay, k, v)
    return past + torch.einsum("bhkt,hk,bhkt,bhvt->bhvt", r, u, k, v)
