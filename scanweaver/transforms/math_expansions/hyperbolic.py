"""tanh, by way of expm1."""

from __future__ import annotations

from xdsl.ir import SSAValue

from scanweaver.transforms.math_expansions.emitter import Emitter
from scanweaver.transforms.math_expansions.exponential import expm1


def tanh(e: Emitter, x: SSAValue) -> SSAValue:
    """Hyperbolic tangent: -t / (t + 2) with t = e^(-2|x|) - 1, which neither overflows nor cancels."""
    t = expm1(e, e.mul(e.abs(x), e.number(-2)))
    return e.copysign(e.div(t, e.add(t, e.number(2))), x)
