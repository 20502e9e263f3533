"""exp, exp2 and expm1: argument reduced by a multiple of ln 2, a polynomial, then powers of two made from bits.

In exp and exp2 the multiple is even, n = 2m. 2^m and 2^-m are normal for every result down to the smallest denormal,
so that (p·2^m)·2^m overflows, underflows and rounds denormals as the hardware does, with no case of its own. The
price is one degree more in the polynomial, whose argument reaches ln 2 instead of half of it.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from scanweaver.transforms.math_expansions import coefficients
from scanweaver.transforms.math_expansions.emitter import F32, Emitter, Format

LN2 = math.log(2)


def exp(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x."""
    # Below, a result under half the smallest denormal; above, infinity.
    x = e.clamp(x, *((-104.0, 89.0) if e.format is F32 else (-746.0, 710.0)))
    m, scale = _nearest(e, x, 0.5 / LN2)
    hi, lo = _split(e.format, -2 * LN2, -2 * coefficients.LN2_TAIL)
    r = e.fma(m, e.number(lo), e.fma(m, e.number(hi), x))
    tail = e.polynomial(r, coefficients.EXP[e.format.bits])
    p = e.fma(e.fma(tail, r, e.number(1)), r, e.number(1))
    return e.mul(e.mul(p, scale), scale)


def exp2(e: Emitter, x: SSAValue) -> SSAValue:
    """2^x."""
    x = e.clamp(x, *((-150.0, 128.0) if e.format is F32 else (-1075.0, 1024.0)))
    m, scale = _nearest(e, x, 0.5)
    r = e.fma(m, e.number(-2), x)
    p = e.fma(e.polynomial(r, coefficients.EXP2[e.format.bits]), r, e.number(1))
    return e.mul(e.mul(p, scale), scale)


def expm1(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x - 1."""
    y = e.clamp(x, *((-30.0, 89.0) if e.format is F32 else (-50.0, 710.0)))
    return e.keep_tiny(x, expm1_within_range(e, y))


def expm1_within_range(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x - 1 where that is finite and x above -50 or so: 2^n·(e^r - 1) + (2^n - 1), of which only e^r - 1 rounds.

    Computed as twice its half, since 2^n overflows before the result does.
    """
    n, scale = _nearest(e, x, 1 / LN2, bias=-1)
    hi, lo = _split(e.format, -LN2, -coefficients.LN2_TAIL)
    r = e.fma(n, e.number(lo), e.fma(n, e.number(hi), x))
    tail = e.polynomial(r, coefficients.EXPM1[e.format.bits])
    q = e.fma(e.mul(r, r), tail, r)
    half = e.fma(scale, q, e.add(scale, e.number(-0.5)))
    return e.add(half, half)


def _nearest(e: Emitter, x: SSAValue, factor: float, bias: int = 0) -> tuple[SSAValue, SSAValue]:
    """k = x·factor rounded to an integer, as a float, and 2^(k + bias).

    Adding 1.5·2^mantissa rounds to an integer and leaves it in the low bits; with the exponent's bias added as
    well, these bits moved up are the power of two.
    """
    magic = e.number(1.5 * 2**e.format.mantissa + e.format.bias + bias)
    shifted = e.fma(x, e.number(factor), magic)
    return e.sub(shifted, magic), e.as_float(e.to_exponent(e.as_bits(shifted)))


def _split(format: Format, value: float, tail: float) -> tuple[float, float]:
    """value + tail, the tail being what float64 loses, as a number of this format and the rest."""
    hi = format.rounded(value)
    return hi, (value - hi) + tail
