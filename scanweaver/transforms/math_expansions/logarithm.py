"""log, log2 and log1p: the argument as 2^k·(1 + f) with 1 + f in [√½, √2), and log(1 + f) as a polynomial."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from scanweaver.transforms.math_expansions import coefficients
from scanweaver.transforms.math_expansions.emitter import F32, Emitter

LN2 = math.log(2)


def log(e: Emitter, x: SSAValue) -> SSAValue:
    """Natural logarithm: -inf at 0, NaN below."""
    k, f = _reduce(e, x)
    return _at_the_edges(e, x, e.fma(k, e.number(LN2), _log_near_1(e, f)))


def log2(e: Emitter, x: SSAValue) -> SSAValue:
    """Logarithm to base 2, exact at powers of two."""
    k, f = _reduce(e, x)
    return _at_the_edges(e, x, e.fma(_log_near_1(e, f), e.number(1 / LN2), k))


def log1p(e: Emitter, x: SSAValue) -> SSAValue:
    """log(1 + x), where 1 + x only chooses k; f comes from x itself, rounded once."""
    u = e.add(x, e.number(1))
    k = _exponent(e, e.as_bits(u))
    # 2^(2-k): 2^-k itself leaves the normal range at the top of x's.
    scale = e.as_float(e.sub_bits(e.whole(e.format.bits_of(4.0)), e.to_exponent(k)))
    f = e.mul(e.fma(x, scale, e.add(scale, e.number(-4))), e.number(0.25))
    result = e.fma(e.to_float(k), e.number(LN2), _log_near_1(e, f))
    return _at_the_edges(e, u, e.keep_tiny(x, result))


def _reduce(e: Emitter, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """k and f of a positive x, both as floats; a denormal is scaled up first."""
    digits = e.format.mantissa
    denormal = e.sub_bits(e.as_bits(x), e.whole(e.format.bits_of(e.format.smallest_normal)))
    bits = e.as_bits(e.choose(denormal, e.mul(x, e.number(2.0**digits)), x))
    k = _exponent(e, bits)
    f = e.add(e.as_float(e.sub_bits(bits, e.to_exponent(k))), e.number(-1))
    scaled_by = e.and_bits(e.all_ones_if_negative(denormal), e.whole(digits))
    return e.to_float(e.sub_bits(k, scaled_by)), f


def _exponent(e: Emitter, bits: SSAValue) -> SSAValue:
    """The integer k that leaves bits / 2^k in [√½, √2)."""
    return e.from_exponent(e.sub_bits(bits, e.whole(e.format.bits_of(math.sqrt(0.5)))))


def _log_near_1(e: Emitter, f: SSAValue) -> SSAValue:
    """log(1 + f)."""
    table = coefficients.LOG[e.format.bits]
    if e.format is F32:
        return e.fma(e.mul(f, f), e.polynomial(f, table), f)
    # The series in f converges too slowly for 53 bits, the one in s = f / (2 + f) does: log(1 + f) is 2·atanh(s),
    # and with 2s = f - s·f what rounds in s is as small as f².
    s = e.div(f, e.add(f, e.number(2)))
    w = e.mul(s, s)
    half_square = e.mul(e.mul(f, f), e.number(0.5))
    tail = e.mul(w, e.polynomial(w, table))
    return e.sub(f, e.sub(half_square, e.mul(s, e.add(half_square, tail))))


def _at_the_edges(e: Emitter, x: SSAValue, result: SSAValue) -> SSAValue:
    """`result` where x is positive and finite; -inf at 0, NaN below it, infinity and NaN as they are."""
    bits = e.as_bits(x)
    one = e.whole(1)
    # A negative number gets all bits set, which is NaN; then 0 of either sign becomes -inf.
    not_negative = e.as_float(e.or_bits(bits, e.all_ones_if_negative(bits)))
    zero = e.sub_bits(e.as_bits(e.abs(x)), one)
    edge = e.choose(zero, e.number(-math.inf), not_negative)
    below = e.or_bits(bits, e.sub_bits(bits, one))
    above = e.sub_bits(e.whole(e.format.bits_of(math.inf) - 1), bits)
    return e.choose(e.or_bits(below, above), edge, result)
