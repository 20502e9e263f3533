"""Tensors that know how far a computation may be off, and the functions of a step on them and on traced values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import assume
from torch import Tensor

import scanweaver as sw

AXES = ("b", "d", "n")
"""The dimensions of every tensor here, besides time; 1 where it lacks one."""


class Checked:
    """A tensor over all of AXES (1 where it lacks one) and how far a computation with unit roundoff `unit` may be off.

    First-order running error analysis, as in Higham, Accuracy and Stability of Numerical Algorithms, section 3.3.
    """

    def __init__(self, x: Tensor, e: Tensor | float, unit: float):
        self.x, self.unit = x, unit
        self.e = e if isinstance(e, Tensor) else torch.full_like(x, e)

    def _of(self, other: Any) -> Checked:
        if isinstance(other, Checked):
            return other
        x = torch.tensor(float(other), dtype=self.x.dtype, device=self.x.device)
        return Checked(x, self.unit * abs(float(other)), self.unit)

    def rounded(self, x: Tensor, e: Tensor, ulps: int = 1) -> Checked:
        return Checked(x, e + ulps * self.unit * x.abs(), self.unit)

    def __add__(self, other: Any) -> Checked:
        o = self._of(other)
        return self.rounded(self.x + o.x, self.e + o.e)

    def __sub__(self, other: Any) -> Checked:
        o = self._of(other)
        return self.rounded(self.x - o.x, self.e + o.e)

    def __mul__(self, other: Any) -> Checked:
        o = self._of(other)
        x = self.x * o.x
        # beside the product's own rounding, which a fused multiply-add leaves out
        return self.rounded(x, self.x.abs() * o.e + o.x.abs() * self.e + self.e * o.e)

    def __truediv__(self, other: Any) -> Checked:
        o = self._of(other)
        x = self.x / o.x
        least = (o.x.abs() - o.e).clamp(min=0)  # a divisor that may be zero leaves the quotient open
        return self.rounded(x, (self.e + x.abs() * o.e) / least, 2)

    def unary(self, name: str) -> Checked:
        function = UNARY[name]
        x = function(self.x)
        if name in STEEPEST:  # what rises and falls may be as far off between the ends of an interval as nowhere there
            steepest, widest = STEEPEST[name]
            e = (steepest * self.e).clamp(max=widest)
        else:
            e = torch.maximum((function(self.x + self.e) - x).abs(), (function(self.x - self.e) - x).abs())
        return self.rounded(x, e, 8)


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": lambda x: x * torch.sigmoid(x),
    "softplus": lambda x: torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs())),
    "relu": torch.relu,
    "abs": torch.abs,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
}
STEEPEST = {"sin": (1.0, 2.0), "cos": (1.0, 2.0), "silu": (1.1, math.inf)}
"""The steepest slope of functions that rise and fall, and how far apart their values are at most."""

BOUNDED = ("tanh", "sigmoid", "sin", "erf")


class InTorch:
    """The functions of a step on `Checked` tensors."""

    def unary(self, name: str, x: Checked) -> Checked:
        return x.unary(name)

    def may_regroup(self, factors: Sequence[Any]) -> None:
        """Leaves out an example in which an order of multiplying overflows or underflows: which is ours to choose."""
        sizes = [torch.as_tensor(f.x if isinstance(f, Checked) else f).abs().double() for f in factors]
        sizes = [torch.where(size.isfinite() & (size > 0), size, 1.0) for size in sizes]
        most, least = (math.prod(size.clamp(**ends) for size in sizes) for ends in ({"min": 1.0}, {"max": 1.0}))
        assume(bool((torch.as_tensor(most) < 1e38).all()) and bool((torch.as_tensor(least) > 1e-37).all()))

    def binary(self, name: str, a: Checked, b: Any) -> Checked:
        b = a._of(b)
        return Checked(getattr(torch, name)(a.x, b.x), torch.maximum(a.e, b.e), a.unit)

    def where(self, c: Tensor, a: Checked, b: Any) -> Checked:
        b = a._of(b)
        return Checked(torch.where(c, a.x, b.x), torch.where(c, a.e, b.e), a.unit)

    def reduce(self, name: str, x: Checked, axes: Sequence[str]) -> Checked:
        dims = [AXES.index(axis) for axis in axes]
        if name == "sum":
            terms = math.prod(x.x.shape[dim] for dim in dims)
            e = x.e.sum(dims, True) + terms * x.unit * x.x.abs().sum(dims, True)
            return Checked(x.x.sum(dims, True), e, x.unit)
        return Checked(getattr(torch, f"a{name}")(x.x, dims, True), torch.amax(x.e, dims, True), x.unit)


class InScanWeaver:
    """The same functions on traced values."""

    def unary(self, name: str, x: Any) -> Any:
        return abs(x) if name == "abs" else getattr(sw, name)(x)

    def may_regroup(self, factors: Sequence[Any]) -> None: ...

    def binary(self, name: str, a: Any, b: Any) -> Any:
        return getattr(sw, name)(a, b)

    def where(self, c: Any, a: Any, b: Any) -> Any:
        return sw.where(c, a, b)

    def reduce(self, name: str, x: Any, axes: Sequence[str]) -> Any:
        return getattr(sw, name)(x, " ".join(axes))
