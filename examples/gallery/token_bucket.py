"""A token bucket: which packets conform to a rate and a burst size.

Source: Heinanen and Guérin, RFC 2697, 1999, https://www.rfc-editor.org/rfc/rfc2697.

Whether tokens are taken depends on how many there are, so this runs in time order.
"""

from __future__ import annotations

from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("tokens[flow]; gap[flow t], size[flow t], rate[flow], burst[flow] -> conforms[flow t], left[flow t]")
def token_bucket(tokens: Any, gap: Any, size: Any, rate: Any, burst: Any) -> Any:
    tokens = sw.minimum(tokens + rate * gap, burst)
    conforms = size <= tokens
    tokens = sw.where(conforms, tokens - size, tokens)
    return tokens, (conforms, tokens)


def example(rand: Any) -> Any:
    gap, size = torch.floor(rand(9, 80, low=0, high=8)), torch.floor(rand(9, 80, low=1, high=30))
    inputs = {"gap": gap, "size": size, "rate": torch.floor(rand(9, low=2, high=6))}
    return token_bucket, inputs | {"burst": torch.floor(rand(9, low=20, high=60)), "init": 20}


def reference(gap: Any, size: Any, rate: Any, burst: Any, init: int) -> Any:
    """Packet by packet, in Python's integers."""
    conforms, left = torch.empty(gap.shape, dtype=torch.bool), torch.empty_like(gap)
    for flow in range(len(gap)):
        tokens, fill, most = init, int(rate[flow]), int(burst[flow])
        for t, (wait, need) in enumerate(zip(gap[flow].int().tolist(), size[flow].int().tolist(), strict=True)):
            tokens = min(tokens + fill * wait, most)
            conforms[flow, t] = need <= tokens
            tokens -= need if need <= tokens else 0
            left[flow, t] = tokens
    return conforms, left
