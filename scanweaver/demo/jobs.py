"""The demo's jobs: what is compiled and run, the loop it is held against, and who else computes the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from scanweaver import ops
from scanweaver.demo.inputs import Prices, text_bytes
from scanweaver.demo.mamba_block import MambaBlock
from scanweaver.demo.series import (
    ArchGarch,
    GarchFit,
    garch,
    garch_loop,
    pandas_ewm,
    weighted_mean,
    weighted_mean_loop,
)
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.ops.selective_scan import selective_scan_over

JOBS = ("selective_scan", "weighted_mean", "garch")
TEXT_BYTES = 2048
SPANS = (20, 200)
"""Days of the two means: about a month, about ten."""


@dataclass(frozen=True)
class Peer:
    """Somebody else's compiled code for the same: `compute` returns a float64 NumPy array."""

    name: str
    compute: Callable[[], Any]


@dataclass(frozen=True)
class Job:
    """`run` computes what `loop` computes step after step in a dtype; it calls `recurrence(*args, **kwargs)`."""

    name: str
    title: str
    about: str
    recurrence: Recurrence
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(repr=False)
    run: Callable[[], Tensor]
    loop: Callable[[torch.dtype], Tensor]
    peer: Peer | None = None


def jobs(device: torch.device, prices: Prices) -> Iterator[Job]:
    """JOBS in order, each with its input on `device`."""
    yield _selective_scan(device)
    yield _weighted_mean(device, prices)
    yield _garch(device, prices)


def _selective_scan(device: torch.device) -> Job:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    block = MambaBlock().to(device)
    inputs = block.scan_inputs(text_bytes(TEXT_BYTES).to(device))
    (_, width, steps), states = inputs.u.shape, inputs.A.shape[1]
    return Job(
        "selective_scan",
        "Selective scan of a Mamba block",
        f"{steps} bytes of Python's help on compound statements; {width} channels of {states} states; float32",
        selective_scan_over(),
        inputs,
        {"delta_softplus": True},
        lambda: ops.selective_scan_fn(*inputs, delta_softplus=True),
        lambda dtype: selective_scan_loop(*(x.to(dtype) for x in inputs)),
    )


def selective_scan_loop(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, z: Tensor, delta_bias: Tensor
) -> Tensor:
    """What people write without a kernel."""
    delta = functional.softplus(delta + delta_bias[:, None])
    x, h = delta * u, u.new_zeros(*u.shape[:2], A.shape[1])
    ys: list[Tensor] = []
    for t in range(u.shape[-1]):
        h = torch.exp(delta[..., t, None] * A) * h + x[..., t, None] * B[:, None, :, t]
        ys.append((h * C[:, None, :, t]).sum(-1))
    return (torch.stack(ys, -1) + D[:, None] * u) * functional.silu(z)


def _weighted_mean(device: torch.device, prices: Prices) -> Job:
    x = prices.close.to(device)
    alpha = torch.tensor([2 / (span + 1) for span in SPANS], dtype=x.dtype, device=device)
    return Job(
        "weighted_mean",
        "Exponentially weighted means",
        f"S&P 500, {prices.days}; spans of {' and '.join(map(str, SPANS))} days; float64",
        weighted_mean,
        (x, alpha),
        {},
        lambda: weighted_mean(x, alpha),
        lambda dtype: weighted_mean_loop(x.to(dtype), alpha.to(dtype)),
        Peer("pandas ewm", lambda: pandas_ewm(x, SPANS)),
    )


def _garch(device: torch.device, prices: Prices) -> Job:
    fit = GarchFit()
    r = (prices.returns - fit.mean).to(device)
    arch = ArchGarch(r, fit)
    init = (arch.start, arch.start)
    return Job(
        "garch",
        "GARCH(1, 1) variance",
        f"daily returns of the same; omega {fit.omega}, alpha {fit.alpha}, beta {fit.beta}; float64",
        garch,
        (r, *fit.parameters),
        {"init": init},
        lambda: garch(r, *fit.parameters, init=init),
        lambda dtype: garch_loop(r.to(dtype), *fit.parameters, arch.start),
        Peer("arch", arch),
    )
