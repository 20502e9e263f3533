"""exp, exp2 and expm1: argument less the nearest multiple of ln 2, a polynomial, a product with a power of two."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import SSAValue

from scanweaver.transforms.math_expansions import avx512, coefficients
from scanweaver.transforms.math_expansions.emitter import F32, Emitter, Format

LN2 = math.log(2)


def exp(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x."""
    # Below, a result under half the smallest denormal; above, infinity.
    ends = (-104.0, 89.0) if e.format is F32 else (-746.0, 710.0)
    hi, lo = _split(e.format, -LN2, -coefficients.LN2_TAIL)

    def reduced(x: SSAValue, k: SSAValue) -> SSAValue:
        return e.fma(k, e.number(lo), e.fma(k, e.number(hi), x))

    def series(r: SSAValue) -> SSAValue:
        tail = e.polynomial(r, coefficients.EXP[e.format.bits])
        return e.fma(e.fma(tail, r, e.number(1)), r, e.number(1))

    return _by_power_of_two(e, x, ends, 1 / LN2, reduced, series)


def exp2(e: Emitter, x: SSAValue) -> SSAValue:
    """2^x."""
    ends = (-150.0, 128.0) if e.format is F32 else (-1075.0, 1024.0)

    def series(r: SSAValue) -> SSAValue:
        return e.fma(e.polynomial(r, coefficients.EXP2[e.format.bits]), r, e.number(1))

    return _by_power_of_two(e, x, ends, 1, e.sub, series)


def _by_power_of_two(
    e: Emitter,
    x: SSAValue,
    ends: tuple[float, float],
    factor: float,
    reduced: Callable[[SSAValue, SSAValue], SSAValue],
    series: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """series(r)·2^k with k = x·factor rounded to an integer and r = reduced(x, k), the same bits on every host.

    2^k itself overflows before the product does, or is a denormal. Either an instruction multiplies by it, for any k,
    and only r, which is no number where x is infinite, has to be kept small. Or x is kept within `ends` first, and
    2^k is the product of two powers, so that the second multiplication overflows, underflows and rounds denormals as
    the hardware does.
    """
    if e.has_avx512:
        k, _ = _nearest(e, x, factor)
        return avx512.scale(e, series(avx512.limit(e, reduced(x, k), 0.5)), k)
    x = e.clamp(x, *ends)
    k, bits = _nearest(e, x, factor, bias=2 * e.format.bias)
    half = e.half(bits)
    scales = [e.as_float(e.to_exponent(power)) for power in (half, e.sub_bits(bits, half))]
    return e.mul(e.mul(series(reduced(x, k)), scales[0]), scales[1])


def expm1(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x - 1."""
    y = e.clamp(x, *((-30.0, 89.0) if e.format is F32 else (-50.0, 710.0)))
    return e.keep_tiny(x, expm1_within_range(e, y))


def expm1_within_range(e: Emitter, x: SSAValue) -> SSAValue:
    """e^x - 1 where that is finite and x above -50 or so: 2^n·(e^r - 1) + (2^n - 1), of which only e^r - 1 rounds.

    Computed as twice its half, since 2^n overflows before the result does.
    """
    n, bits = _nearest(e, x, 1 / LN2, bias=e.format.bias - 1)
    scale = e.as_float(e.to_exponent(bits))
    hi, lo = _split(e.format, -LN2, -coefficients.LN2_TAIL)
    r = e.fma(n, e.number(lo), e.fma(n, e.number(hi), x))
    tail = e.polynomial(r, coefficients.EXPM1[e.format.bits])
    q = e.fma(e.mul(r, r), tail, r)
    half = e.fma(scale, q, e.add(scale, e.number(-0.5)))
    return e.add(half, half)


def _nearest(e: Emitter, x: SSAValue, factor: float, bias: int = 0) -> tuple[SSAValue, SSAValue]:
    """k = x·factor rounded to an integer, as a float, and bits whose low half is the integer k + bias.

    Adding 1.5·2^mantissa rounds to an integer and leaves it in the low bits: moved up to the exponent, and halved
    before, they lose what else is there.
    """
    magic = e.number(1.5 * 2**e.format.mantissa + bias)
    shifted = e.fma(x, e.number(factor), magic)
    return e.sub(shifted, magic), e.as_bits(shifted)


def _split(format: Format, value: float, tail: float) -> tuple[float, float]:
    """value + tail, the tail being what float64 loses, as a number of this format and the rest."""
    hi = format.rounded(value)
    return hi, (value - hi) + tail
