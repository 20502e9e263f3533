"""RetNet's retention, as a recurrence.

Source: Sun et al., 2023, https://arxiv.org/abs/2307.08621, section 2.1.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("S[b h k v]; q[b h k t], k[b h k t], v[b h v t], gamma[h] -> o[b h v t]")
def retnet(S: Any, q: Any, k: Any, v: Any, gamma: Any) -> Any:
    S = gamma * S + k * v
    return S, sw.sum(q * S, "k")


def example(rand: Any) -> Any:
    b, h, k, v, t = 2, 3, 8, 6, 37
    inputs = {"q": rand(b, h, k, t), "k": rand(b, h, k, t), "v": rand(b, h, v, t)}
    return retnet, inputs | {"gamma": 1 - 2.0 ** rand(h, low=-8, high=-5)}


def reference(q: Any, k: Any, v: Any, gamma: Any) -> Any:
    """The paper's parallel form, (Q Kᵀ ∘ D) V with D[t, s] = gamma^(t - s)."""
    t = torch.arange(q.shape[-1], dtype=q.dtype)
    D = (gamma[:, None, None] ** (t[:, None] - t)).tril()
    return torch.einsum("bhkt,bhks,hts,bhvs->bhvt", q, k, D, v)
