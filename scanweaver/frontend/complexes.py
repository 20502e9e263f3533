"""Complex values: each two real ones. The dialects, the proofs and the lowerings know real numbers only.

A part that is known to be 0 is None, so that what is real has no imaginary part to compute with, and `1j` no real one:
a real factor scales both parts, whatever they are (inf·(1 + i) is inf + inf·i, as in PyTorch).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from xdsl.dialects import math as mathd

from scanweaver.frontend import values
from scanweaver.frontend.misuse import refuse

if TYPE_CHECKING:
    from scanweaver.frontend.values import Operand, Tracing, Value

Part: TypeAlias = "Value | float | None"
Parts: TypeAlias = "tuple[Value | None, Value | None]"


def refuse_in(name: str) -> NoReturn:
    """A complex value where only a real one has a meaning."""
    refuse(f"a complex value in `{name}`, which is for real ones: take `abs(x)`, `sw.real(x)` or `sw.imag(x)`")


# --- values and their parts -------------------------------------------------------------------------------------


def pair(tracing: Tracing, re: Part, im: Part) -> Value:
    """The complex value of two real parts."""
    parts = tuple(_known(tracing, part) for part in (re, im))
    present = [part for part in parts if part is not None]
    axes = frozenset[str]().union(*(part.axes for part in present))
    ssa = present[0].ssa if present else tracing.constant(0.0, "float").ssa
    value = values.Value(tracing, ssa, axes, "complex")
    value.parts = (parts[0], parts[1])
    return value


def _known(tracing: Tracing, part: Part) -> Value | None:
    if part is None or isinstance(part, values.Value):
        return part
    return None if part == 0 else tracing.constant(part, "float")


def parts_of(name: str, x: Operand) -> tuple[Part, Part]:
    """The parts of an operand of `name`, numbers staying numbers."""
    if not isinstance(x, values.Value):
        number = complex(x)
        return number.real or None, number.imag or None
    if x.kind != "complex":
        return values.floats(name, x)[0], None
    assert x.parts is not None
    return x.parts


def real_parts(x: Value) -> tuple[Value, Value]:
    """Both parts of a complex value."""
    assert x.parts is not None
    re, im = (part if part is not None else x.tracing.constant(0.0, "float") for part in x.parts)
    return re, im


def each(x: Value, function: Callable[[Value], Value]) -> Value:
    """`function`, which gives 0 of 0, of each part."""
    assert x.parts is not None
    re, im = (None if part is None else function(part) for part in x.parts)
    return pair(x.tracing, re, im)


def spread(part: Value, whole: Value) -> Value:
    """A part that varies over all axes of its complex value, to be summed over any of them."""
    if part.axes == whole.axes:
        return part
    for other in real_parts(whole):
        part = values.select(values.compare("==", other, other), part, part)
    return part


def conjugate(x: Value) -> Value:
    assert x.parts is not None
    return pair(x.tracing, x.parts[0], _minus(None, x.parts[1]))


def any_is_nan(x: Value) -> Value:
    re, im = real_parts(x)
    return values.is_nan(re) | values.is_nan(im)


# --- arithmetic -------------------------------------------------------------------------------------------------


def _zero(a: Part) -> Value | float:
    return 0.0 if a is None else a


def _plus(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _minus(a: Part, b: Part) -> Part:
    if b is None:
        return a
    return -b if a is None else a - b


def _times(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _over(a: Part, b: Value | float) -> Part:
    return None if a is None else a / b


def _tracing(*operands: Operand) -> Tracing:
    tracing = values.tracing_of(*operands)
    assert tracing is not None
    return tracing


def arithmetic(name: str, a: Operand, b: Operand) -> Value:
    """a + b, a - b or a * b."""
    tracing = _tracing(a, b)
    (a_re, a_im), (b_re, b_im) = parts_of(name, a), parts_of(name, b)
    if name == "*":
        re = _minus(_times(a_re, b_re), _times(a_im, b_im))
        return pair(tracing, re, _plus(_times(a_re, b_im), _times(a_im, b_re)))
    combined = _plus if name == "+" else _minus
    return pair(tracing, combined(a_re, b_re), combined(a_im, b_im))


def negated(x: Value) -> Value:
    return each(x, lambda part: -part)


def quotient(a: Operand, b: Operand) -> Value:
    """a / b by Smith (Commun. ACM 5(8), 1962): no square is taken that may overflow where the result does not.

    Only b is chosen between and divided by, so that a quotient stays linear in a.
    """
    tracing = _tracing(a, b)
    (a_re, a_im), (b_re, b_im) = parts_of("/", a), parts_of("/", b)
    if b_im is None:
        divisor = values.as_value(tracing, _zero(b_re), "float")
        return pair(tracing, _over(a_re, divisor), _over(a_im, divisor))
    if b_re is None:
        return pair(tracing, _over(a_im, b_im), _over(_minus(None, a_re), b_im))
    if not isinstance(b, values.Value):
        return arithmetic("*", a, 1 / complex(b))
    steep = values.compare("<", abs(b_re), abs(b_im))
    large, small = values.select(steep, b_im, b_re), values.select(steep, b_re, b_im)
    ratio = small / large
    divisor = large + small * ratio
    along, across = values.select(steep, ratio, 1.0), values.select(steep, 1.0, ratio)
    re = _plus(_times(a_re, along), _times(a_im, across))
    im = _minus(_times(a_im, along), _times(a_re, across))
    return pair(tracing, _over(re, divisor), _over(im, divisor))


def power(base: Operand, exponent: Operand) -> Value:
    """A square root for 0.5, otherwise exp(exponent · log(base)), and 0 where the base is 0."""
    tracing = _tracing(base, exponent)
    if not isinstance(base, values.Value):
        return exp(arithmetic("*", exponent, cmath.log(base))) if base else pair(tracing, None, None)
    if not isinstance(exponent, values.Value) and exponent in (0.5, -0.5):
        return function("sqrt" if exponent == 0.5 else "rsqrt", base)
    x = base if base.kind == "complex" else values.convert(values.floats("**", base)[0], "complex")
    return selected(values.compare("==", base, 0.0), 0.0, exp(arithmetic("*", exponent, log(x))))


def equality(name: str, a: Operand, b: Operand) -> Value:
    """a == b or a != b."""
    tracing = _tracing(a, b)
    (a_re, a_im), (b_re, b_im) = parts_of(name, a), parts_of(name, b)
    holds = values.as_value(tracing, True, "bool")
    for x, y in ((a_re, b_re), (a_im, b_im)):
        if x is not None or y is not None:
            holds = holds & values.compare("==", values.as_value(tracing, _zero(x), "float"), _zero(y))
    return holds if name == "==" else ~holds


def selected(condition: Value, a: Operand, b: Operand) -> Value:
    """`a` where `condition` holds, else `b`."""
    pairs = zip(parts_of("sw.where", a), parts_of("sw.where", b), strict=True)
    re, im = (x if x is y else values.select(condition, _zero(x), _zero(y)) for x, y in pairs)
    return pair(condition.tracing, re, im)


# --- functions --------------------------------------------------------------------------------------------------


def _real(op: Any, *operands: Value) -> Value:
    """An operation on real values."""
    return operands[0].tracing.emit(op(*(x.ssa for x in operands)), operands, "float")


def _scaled(x: Value) -> tuple[Value, Value]:
    """The larger of |re| and |im|, and the smaller over the larger; 0 where the larger is 0 or infinite."""
    re, im = (abs(part) for part in real_parts(x))
    large = values.extreme("abs", re, im, largest=True)
    small = values.extreme("abs", re, im, largest=False)
    return large, values.select((large > 0) & (large < math.inf), small / large, 0.0)


def absolute(x: Value) -> Value:
    """|x|, which no square on the way overflows."""
    assert x.parts is not None
    for part, other in (x.parts, x.parts[::-1]):
        if other is None:
            return abs(values.as_value(x.tracing, _zero(part), "float"))
    large, ratio = _scaled(x)
    return large * _real(mathd.SqrtOp, 1.0 + ratio * ratio)


def _log_of_absolute(x: Value) -> Value:
    large, ratio = _scaled(x)
    return _real(mathd.LogOp, large) + 0.5 * _real(mathd.Log1pOp, ratio * ratio)


def exp(x: Value) -> Value:
    assert x.parts is not None
    re, im = x.parts
    size = 1.0 if re is None else _real(mathd.ExpOp, re)
    if im is None:
        return pair(x.tracing, size, None)
    return pair(x.tracing, size * _real(mathd.CosOp, im), size * _real(mathd.SinOp, im))


def log(x: Value) -> Value:
    re, im = real_parts(x)
    return pair(x.tracing, _log_of_absolute(x), _real(mathd.Atan2Op, im, re))


def _expm1(x: Value) -> Value:
    re, im = real_parts(x)
    half = _real(mathd.SinOp, 0.5 * im)
    near = _real(mathd.ExpM1Op, re) * _real(mathd.CosOp, im) - 2.0 * (half * half)
    return pair(x.tracing, near, _real(mathd.ExpOp, re) * _real(mathd.SinOp, im))


def _log1p(x: Value) -> Value:
    re, im = real_parts(x)
    near = (abs(re) < 0.5) & (abs(im) < 0.5)
    small = 0.5 * _real(mathd.Log1pOp, re * (2.0 + re) + im * im)
    size = values.select(near, small, _log_of_absolute(x + 1.0))
    return pair(x.tracing, size, _real(mathd.Atan2Op, im, 1.0 + re))


def _sqrt(x: Value) -> Value:
    """The root whose real part is not negative."""
    re, im = real_parts(x)
    large, ratio = _scaled(x)
    along = values.select(abs(re) >= abs(im), 1.0, ratio)
    of_ratio = _real(mathd.SqrtOp, 1.0 + ratio * ratio) + along
    root = _real(mathd.SqrtOp, large) * _real(mathd.SqrtOp, 0.5 * of_ratio)
    other = values.select(root > 0, im / (2.0 * root), im)
    right = re >= 0
    return pair(
        x.tracing,
        values.select(right, root, abs(other)),
        values.select(right, other, _real(mathd.CopySignOp, root, im)),
    )


def _hyperbolic(x: Value) -> tuple[Value, Value]:
    """sinh and cosh of a real value."""
    size = abs(x)
    large = _real(mathd.ExpOp, size)
    small = 1.0 / large
    near = _real(mathd.ExpM1Op, size)
    sinh = values.select(size < 1, 0.5 * (near + near / (near + 1.0)), 0.5 * (large - small))
    return _real(mathd.CopySignOp, sinh, x), 0.5 * (large + small)


def _sin(x: Value) -> Value:
    re, im = real_parts(x)
    sinh, cosh = _hyperbolic(im)
    return pair(x.tracing, _real(mathd.SinOp, re) * cosh, _real(mathd.CosOp, re) * sinh)


def _cos(x: Value) -> Value:
    re, im = real_parts(x)
    sinh, cosh = _hyperbolic(im)
    return pair(x.tracing, _real(mathd.CosOp, re) * cosh, -(_real(mathd.SinOp, re) * sinh))


def _tanh(x: Value) -> Value:
    """With q = exp(-2|re|): ±(1 - q)(1 + q) + 4iq sin(im) cos(im), over (1 - q)² + 4q cos(im)²."""
    re, im = real_parts(x)
    twice = -2.0 * abs(re)
    q, rest = _real(mathd.ExpOp, twice), -_real(mathd.ExpM1Op, twice)
    sin, cos = _real(mathd.SinOp, im), _real(mathd.CosOp, im)
    divisor = rest * rest + 4.0 * q * (cos * cos)
    return pair(
        x.tracing,
        _real(mathd.CopySignOp, rest * (1.0 + q), re) / divisor,
        4.0 * q * (sin * cos) / divisor,
    )


_FUNCTIONS: dict[str, tuple[Callable[[Value], Value], Callable[[complex], complex]]] = {
    "exp": (exp, cmath.exp),
    "exp2": (lambda x: exp(x * math.log(2)), lambda x: cmath.exp(x * math.log(2))),
    "expm1": (_expm1, lambda x: cmath.exp(x) - 1),
    "log": (log, cmath.log),
    "log2": (lambda x: log(x) * (1 / math.log(2)), lambda x: cmath.log(x, 2)),
    "log1p": (_log1p, lambda x: cmath.log(1 + x)),
    "sqrt": (_sqrt, cmath.sqrt),
    "rsqrt": (lambda x: quotient(1.0, _sqrt(x)), lambda x: 1 / cmath.sqrt(x)),
    "sin": (_sin, cmath.sin),
    "cos": (_cos, cmath.cos),
    "tanh": (_tanh, cmath.tanh),
}


def function(name: str, x: Operand) -> Any:
    """`sw.name` of a complex value, or of a complex number."""
    if name not in _FUNCTIONS:
        refuse_in(f"sw.{name}")
    of_value, of_number = _FUNCTIONS[name]
    if isinstance(x, values.Value):
        return of_value(x)
    try:
        return of_number(x)
    except (ArithmeticError, ValueError):
        values.refuse(f"`sw.{name}` of the number {x!r} is not finite")
