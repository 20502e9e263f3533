"""The selective scan of Mamba (Gu and Dao, 2023, arXiv:2312.00752, algorithm 2), with mamba_ssm's arguments."""

from __future__ import annotations

from functools import cache, partial
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


@cache
def complex_selective_scan_over(d: str, b_axes: str, c_axes: str, dtype: str) -> Recurrence:
    """The same for a complex A, with a state of the given dtype; B and C are complex, or real parts beside imaginary
    ones. States come in conjugate pairs of which one is kept: twice its real part is the sum of both."""

    @recurrence(
        f"""h[b {d} n]:{dtype};
        u[b {d} t], delta[b {d} t], A[{d} n], B[{b_axes}], C[{c_axes}], D[{d}], z[b {d} t], delta_bias[{d}],
        B_im[{b_axes}], C_im[{c_axes}]
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
        B_im: Any = None,
        C_im: Any = None,
        *,
        delta_softplus: bool = False,
    ) -> Any:
        b = B if B_im is None else sw.complex(B, B_im)
        c = C if C_im is None else sw.complex(C, C_im)
        if delta_bias is not None:
            delta = delta + delta_bias
        if delta_softplus:
            delta = sw.softplus(delta)
        h = sw.exp(delta * A) * h + delta * b * u
        out = 2 * sw.real(sw.sum(c * h, "n"))
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
        out[t] = (sum over n of C[t] h[t] + D u[t]) silu(z[t])   # complex A: twice the sum's real part

    u, delta, z: (b, d, l). A: (d, n). B, C: (d, n), (b, n, l), or (b, g, n, l) for g groups of channels. D, delta_bias:
    (d,). Any strides; nothing is copied. With a complex A, B and C of (d, n) are complex, and those with l are complex
    too, or real with 2·l in the place of l: real and imaginary parts in turns.

    Returns out, (b, d, l) in u's dtype; with `return_last_state` the pair (out, h of the last step), the latter
    (b, d, n) in float32 (float64 where an input is), complex64 or complex128 where A is complex.

    Raises SignatureError naming the argument; UnsupportedError where grad is required.
    """
    if not isinstance(delta_softplus, bool | int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SignatureError(f"delta_softplus of selective_scan_fn: expected True or False, got {delta_softplus!r}")
    is_complex = _is_complex(A, B, C)
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
    parts: dict[str, Any] = {}
    scan = selective_scan_over
    if is_complex:
        b, parts["B_im"] = _parts(b, u)
        c, parts["C_im"] = _parts(c, u)
        scan = partial(complex_selective_scan_over, dtype=_state_dtype(u, delta, A, B, C))
    result = scan(d, b_axes, c_axes)(
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
        **parts,
    )
    if groups == 1:
        return result
    return tuple(x.flatten(1, 2) for x in result) if return_last_state else result.flatten(1, 2)


def _is_complex(A: Any, B: Any, C: Any) -> bool:
    """Whether A is, and B and C fit it."""
    is_complex = isinstance(A, torch.Tensor) and A.is_complex()
    for name, x in (("B", B), ("C", C)):
        if isinstance(x, torch.Tensor) and x.is_complex() != is_complex and (x.dim() == 2 or not is_complex):
            expected = f"a {'complex' if is_complex else 'real'} tensor, as A is"
            came = str(x.dtype).removeprefix("torch.")
            raise SignatureError(f"argument `{name}` of selective_scan_fn: expected {expected}, got {came}")
    return is_complex


def _parts(x: torch.Tensor | None, u: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """A complex coefficient as it is; of a real one that holds parts in turns, views of both."""
    if x is None or x.is_complex() or x.shape[-1] != 2 * u.shape[-1]:
        return x, None
    return x[..., ::2], x[..., 1::2]


def _state_dtype(*inputs: torch.Tensor) -> str:
    wide = any(x.dtype in (torch.float64, torch.complex128) for x in inputs)
    return "complex128" if wide else "complex64"


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
