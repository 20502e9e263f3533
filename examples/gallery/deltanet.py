"""DeltaNet: what the memory answers to a key is replaced, not added to.

Source: Yang et al., 2024, https://arxiv.org/abs/2406.06484.

The new state depends on a sum over the old one, so that states mix along k: this runs in time order, fused.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("S[b h k v]; q[b h k t], k[b h k t], v[b h v t], beta[b h t] -> o[b h v t]")
def deltanet(S: Any, q: Any, k: Any, v: Any, beta: Any) -> Any:
    S = S + beta * k * (v - sw.sum(k * S, "k"))
    return S, sw.sum(q * S, "k")


def example(rand: Any) -> Any:
    b, h, k, v, t = 2, 2, 8, 6, 34
    keys = torch.nn.functional.normalize(rand(b, h, k, t), dim=2)
    inputs = {"q": rand(b, h, k, t), "k": keys, "v": rand(b, h, v, t)}
    return deltanet, inputs | {"beta": rand(b, h, t, low=0)}


def reference(q: Any, k: Any, v: Any, beta: Any) -> Any:
    """The paper's parallel form: (Q Kᵀ ∘ M) U, where (I + tril(diag(β) K Kᵀ, -1)) U = diag(β) V."""
    q, k, v = (x.transpose(-1, -2) for x in (q, k, v))
    system = torch.eye(q.shape[-2], dtype=q.dtype) + (beta[..., None] * k @ k.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * v, upper=False)
    return ((q @ k.mT).tril() @ U).mT
