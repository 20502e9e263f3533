"""h = a·h + b along any dimension of tensors that broadcast to one shape."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

import torch

from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.recurrence import Recurrence, recurrence
from scanweaver.frontend.unreadable import UNREADABLE, check_readable

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


@cache
def _recurrence(dtype: torch.dtype) -> Recurrence:
    """The recurrence whose output has the given dtype. `b` stands first: the output takes its memory order, and it is
    `a`, the decay, that more often is broadcast."""
    name = str(dtype).removeprefix("torch.")
    mark = f":{name}" if dtype.is_complex else ""

    @recurrence(f"h[...]{mark}; b[... t], a[... t] -> h[... t]:{name}")
    def affine_scan(h: Any, b: Any, a: Any) -> Any:
        h = a * h + b
        return h, h

    return affine_scan


def affine_scan(
    a: torch.Tensor,
    b: torch.Tensor,
    init: torch.Tensor | float | None = None,
    *,
    dim: int = -1,
    reverse: bool = False,
    return_last: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    strategy: str | None = None,
) -> Any:
    """h = a·h + b along `dim`: `h[t] = a[t] * h[t-1] + b[t]`, from `h[-1] = init` (0 where not given).

    a, b: floating or complex tensors that broadcast to one shape; neither is copied or transposed. init: a number or
    a tensor that broadcasts to that shape without `dim`. With `reverse`, `h[t] = a[t] * h[t+1] + b[t]` from
    `h[T] = init`.

    Returns h, of that shape and of the dtype that PyTorch promotes those of a and b to; with `return_last` the pair
    (h, last), last in float32 (float64 where a or b is), or in the dtype of a complex h.

    Raises SignatureError, naming the argument, for shapes that do not broadcast, for dtypes that are neither floating
    nor complex and for a `dim` that is not there; UnsupportedError for `cu_seqlens` and for arguments that require
    grad.
    """
    if cu_seqlens is not None:
        raise UnsupportedError("cu_seqlens= is not built yet: call affine_scan without it, once a sequence")
    dtype = _common_dtype(a, b)
    shape = _common_shape(a, b)
    if type(dim) is not int or not -len(shape) <= dim < len(shape):
        _refuse_dim(dim, shape)
    if isinstance(init, torch.Tensor):
        _check_init(init, shape, dim)
    last_dim = dim in (-1, len(shape) - 1)
    if not last_dim or a.shape[-1:] != b.shape[-1:]:
        a, b = (x.expand(shape).movedim(dim, -1) for x in (a, b))
    scan = _recurrence(dtype)
    if reverse is not False or return_last is not False or strategy is not None:
        result = scan(b, a, init=init, reverse=reverse, return_last=return_last, strategy=strategy)
    else:
        result = scan(b, a, init=init)  # a warm call looks at fewer options
    if last_dim:
        return result
    return (result[0].movedim(-1, dim), result[1]) if return_last else result.movedim(-1, dim)


def _common_dtype(a: Any, b: Any) -> torch.dtype:
    for name, value in (("a", a), ("b", b)):
        if not isinstance(value, torch.Tensor):
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            hint = "; a coefficient that is the same everywhere may be a tensor of one element" if name == "a" else ""
            raise SignatureError(f"argument `{name}` of affine_scan: expected a tensor, got {kind}{hint}")
        if value.dtype not in _DTYPES:
            expected = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
            came = str(value.dtype).removeprefix("torch.")
            raise SignatureError(f"argument `{name}` of affine_scan: expected one of {expected}, got {came}")
    return a.dtype if a.dtype is b.dtype else torch.promote_types(a.dtype, b.dtype)


def _common_shape(a: torch.Tensor, b: torch.Tensor) -> torch.Size:
    try:
        of_a, of_b = a.shape, b.shape
    except UNREADABLE:
        for name, value in (("a", a), ("b", b)):
            check_readable(f"argument `{name}` of affine_scan", value)
        raise
    try:
        return of_a if of_a == of_b else torch.broadcast_shapes(of_a, of_b)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except RuntimeError:
        raise SignatureError(
            f"affine_scan: expected `a` and `b` of shapes that broadcast, got {tuple(a.shape)} and {tuple(b.shape)}"
        ) from None


def _refuse_dim(dim: Any, shape: torch.Size) -> NoReturn:
    if not shape:
        raise SignatureError("affine_scan: expected `a` and `b` to have a dimension to scan along, got 0-d tensors")
    raise SignatureError(
        f"dim of affine_scan: expected {-len(shape)} to {len(shape) - 1} for the shape {tuple(shape)}, got {dim!r}"
    )


def _check_init(init: torch.Tensor, shape: torch.Size, dim: int) -> None:
    rest = list(shape)
    del rest[dim]
    sizes = zip(reversed(init.shape), reversed(rest), strict=False)
    if init.dim() <= len(rest) and not any(size != of_rest == 1 for size, of_rest in sizes):
        return  # for the recurrence to check
    raise SignatureError(
        f"init of affine_scan: expected a shape that broadcasts to {tuple(rest)}, that of `a` and `b` without dim "
        f"{dim}, got {tuple(init.shape)}"
    )
