"""tanh: a polynomial near 0, by way of expm1 elsewhere."""

from __future__ import annotations

from xdsl.ir import SSAValue

from scanweaver.transforms.math_expansions import coefficients
from scanweaver.transforms.math_expansions.emitter import F32, Emitter
from scanweaver.transforms.math_expansions.exponential import expm1_within_range


def tanh(e: Emitter, x: SSAValue) -> SSAValue:
    """Hyperbolic tangent: t / (t + 2) with t = e^(2|x|) - 1, of an |x| kept to where the result has become 1.

    Near 0 the rounding of t and of t + 2 would add up to 2.5 ulp; a polynomial takes over.
    """
    size = e.abs(x)
    y = e.minimum(size, e.number(10.0 if e.format is F32 else 20.0))
    t = expm1_within_range(e, e.add(y, y))
    far = e.div(t, e.add(t, e.number(2)))
    w = e.mul(size, size)
    near = e.fma(e.mul(size, w), e.polynomial(w, coefficients.TANH[e.format.bits]), size)
    is_near = e.sub_bits(e.as_bits(size), e.whole(e.format.bits_of(0.3125)))
    return e.copysign(e.choose(is_near, near, far), x)
