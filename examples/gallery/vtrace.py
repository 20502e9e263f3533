"""V-trace, IMPALA's correction for actors that lag behind, from the last step to the first.

Source: Espeholt et al., 2018, https://arxiv.org/abs/1802.01561, section 4.

The state is v - V of the step after, so that `following + acc` is v[t+1], which the policy's advantage reads.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("acc[b]; ratio[b t], r[b t], value[b t], following[b t], discount[b t] -> v[b t], advantage[b t]")
def vtrace(acc: Any, ratio: Any, r: Any, value: Any, following: Any, discount: Any) -> Any:
    rho, c = sw.minimum(ratio, 1.0), sw.minimum(ratio, 1.0)
    advantage = rho * (r + discount * (following + acc) - value)
    acc = rho * (r + discount * following - value) + discount * c * acc
    return acc, (value + acc, advantage)


def example(rand: Any) -> Any:
    values = rand(4, 41)
    inputs = {"ratio": torch.exp(rand(4, 40)), "r": rand(4, 40), "value": values[:, :-1], "following": values[:, 1:]}
    return vtrace, inputs | {"discount": 0.99 * (rand(4, 40) < 0.9).to(values), "reverse": True}


def reference(ratio: Any, r: Any, value: Any, following: Any, discount: Any) -> Any:
    """The definition: a sum over all later steps of products of clipped ratios."""
    rho = c = ratio.clamp(max=1)
    delta = rho * (r + discount * following - value)
    steps = range(r.shape[-1])
    v = value.clone()
    for s in steps:
        weight = torch.ones_like(r[:, 0])
        for t in steps[s:]:
            v[:, s] += weight * delta[:, t]
            weight = weight * discount[:, t] * c[:, t]
    after = torch.cat((v[:, 1:], following[:, -1:]), -1)
    return v, rho * (r + discount * after - value)
