"""The selective scan of Mamba (Gu and Dao, 2023, arXiv:2312.00752, algorithm 2), with mamba_ssm's arguments."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

import torch

import scanweaver.frontend.functions as sw
from scanweaver.errors import SignatureError
from scanweaver.frontend.recurrence import Recurrence, recurrence


@cache
def selective_scan_over(d: str = "d", b_axes: str = "b n t", c_axes: str = "b n t") -> Recurrence:
    """The recurrence that `selective_scan_fn` calls, for channels along `d` ("d", or "g r" where groups of them share B
    or C), and B and C over the given axes."""

    @recurrence(
        f"""h[b {d} n];
        u[b {d} t], delta[b {d} t], A[{d} n], B[{b_axes}], C[{c_axes}], D[{d}], z[b {d} t], delta_bias[{d}]
        -> out[b {d} t]"""
    )
    def selective_scan_fn(
        h: Any,
        u: Any,
        delta: Any,
        A: Any,
        B: Any,
        C: Any,
        D: Any = None,
        z: Any = None,
        delta_bias: Any = None,
        *,
        delta_softplus: bool = False,
    ) -> Any:
        if delta_bias is not None:
            delta = delta + delta_bias
        if delta_softplus:
            delta = sw.softplus(delta)
        h = sw.exp(delta * A) * h + delta * B * u
        out = sw.sum(C * h, "n")
        if D is not None:
            out = out + D * u
        return h, out if z is None else out * sw.silu(z)

    return selective_scan_fn


def selective_scan_fn(
    u: torch.Tensor,
    delta: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    D: torch.Tensor | None = None,
    z: torch.Tensor | None = None,
    delta_bias: torch.Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Any:
    """Mamba's selective scan, forward, as `mamba_ssm.ops.selective_scan_interface.selective_scan_fn`:

        delta = softplus(delta + delta_bias)                 # bias and softplus where asked for
        h[t]  = exp(delta[t] A) h[t-1] + delta[t] B[t] u[t]
        out[t] = (sum over n of C[t] h[t] + D u[t]) silu(z[t])

    u, delta, z: (b, d, l). A: (d, n). B, C: (d, n), (b, n, l), or (b, g, n, l) for g groups of channels. D, delta_bias:
    (d,). Any strides; nothing is copied.

    Returns out, (b, d, l) in u's dtype; with `return_last_state` the pair (out, h of the last step), the latter
    (b, d, n) in float32 (float64 where an input is).

    Raises SignatureError naming the argument; UnsupportedError for complex A, B, C and where grad is required.
    """
    groups = _groups(B, C)
    d = "d" if groups == 1 else "g r"

    def split(name: str, x: torch.Tensor | None, dim: int) -> torch.Tensor | None:
        """A view of `x` whose channels, dimension `dim`, are split into the groups."""
        if groups == 1 or x is None:
            return x
        if x.dim() <= dim or x.shape[dim] % groups:
            _refuse_channels(name, x, dim, groups)
        return x.unflatten(dim, (groups, -1))  # pyright: ignore[reportUnknownVariableType]

    def coefficient(name: str, x: torch.Tensor) -> tuple[torch.Tensor | None, str]:
        """B or C, and the axes it has."""
        if x.dim() == 2:
            return split(name, x, 0), f"{d} n"
        if x.dim() == 4 and x.shape[1] != 1:
            return x, "b g n t"
        return x.squeeze(1) if x.dim() == 4 else x, "b n t"

    b, b_axes = coefficient("B", B)
    c, c_axes = coefficient("C", C)
    result = selective_scan_over(d, b_axes, c_axes)(
        split("u", u, 1),
        split("delta", delta, 1),
        split("A", A, 0),
        b,
        c,
        split("D", D, 0),
        split("z", z, 1),
        split("delta_bias", delta_bias, 0),
        delta_softplus=bool(delta_softplus),
        return_last=return_last_state,
    )
    if groups == 1:
        return result
    return tuple(x.flatten(1, 2) for x in result) if return_last_state else result.flatten(1, 2)


def _groups(B: Any, C: Any) -> int:
    """How many groups of channels share B or C."""
    groups = 1
    for name, x in (("B", B), ("C", C)):
        if not isinstance(x, torch.Tensor):
            raise SignatureError(f"argument `{name}` of selective_scan_fn: expected a tensor, got {type(x).__name__}")
        if x.dim() not in (2, 3, 4):
            raise SignatureError(
                f"argument `{name}` of selective_scan_fn: expected (d, n), (b, n, l) or (b, g, n, l), got the shape "
                f"{tuple(x.shape)}"
            )
        if x.dim() == 4 and x.shape[1] != 1:
            if x.shape[1] == 0 or groups not in (1, x.shape[1]):
                raise SignatureError(
                    f"argument `{name}` of selective_scan_fn: expected {'some groups' if groups == 1 else groups}, the "
                    f"second dimension, got the shape {tuple(x.shape)}"
                )
            groups = x.shape[1]
    return groups


def _refuse_channels(name: str, x: torch.Tensor, dim: int, groups: int) -> NoReturn:
    raise SignatureError(
        f"argument `{name}` of selective_scan_fn: expected dimension {dim} to be a multiple of {groups}, the groups of "
        f"B and C, got the shape {tuple(x.shape)}"
    )
