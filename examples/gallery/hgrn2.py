"""HGRN2: the key is what the forget gate leaves.

Source: Qin et al., 2024, https://arxiv.org/abs/2404.07904.

`low` is the layer's lower bound of the forget gate; the gates are given before their sigmoid.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("S[b h k v]; f[b h k t], i[b h v t], o[b h k t], low[h k] -> y[b h v t]")
def hgrn2(S: Any, f: Any, i: Any, o: Any, low: Any) -> Any:
    f = low + (1 - low) * sw.sigmoid(f)
    S = f * S + (1 - f) * i
    return S, sw.sum(sw.sigmoid(o) * S, "k")


def example(rand: Any) -> Any:
    b, h, k, v, t = 2, 2, 8, 6, 35
    inputs = {"f": rand(b, h, k, t), "i": rand(b, h, v, t), "o": rand(b, h, k, t)}
    return hgrn2, inputs | {"low": rand(h, k, low=0.2, high=0.9)}


def reference(f: Any, i: Any, o: Any, low: Any) -> Any:
    """As attention with a decay a channel: no state, every pair of steps."""
    f = low[..., None] + (1 - low[..., None]) * torch.sigmoid(f)
    total = torch.log(f).cumsum(-1)
    decay = torch.exp(total[..., :, None] - total[..., None, :]).tril()
    return torch.einsum("bhkt,bhkts,bhks,bhvs->bhvt", torch.sigmoid(o), decay, 1 - f, i)
