"""The functions of a step: `sw.exp`, `sw.where`, `sw.sum` and the others.

Each takes a step's values and Python numbers; of numbers alone it gives a number. Composite functions are expanded
here, so that the dialects know only `arith`, `math` and what runs over axes.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.ir import Operation, SSAValue

from scanweaver.dialects.recurrence import ReduceOp, RenameOp, TakeOp
from scanweaver.errors import SignatureError
from scanweaver.frontend import complexes
from scanweaver.frontend.dtypes import LONG, NUMBER, as_number, kind_of, real_dtype, short_name
from scanweaver.frontend.misuse import FUNCTIONS, refuse, user_source
from scanweaver.frontend.values import (
    Operand,
    Value,
    as_value,
    compare,
    convert,
    extreme,
    float_type,
    floats,
    int_type,
    is_complex,
    is_infinite,
    is_nan,
    narrowed,
    promote,
    select,
    tracing_of,
)

__all__ = sorted(FUNCTIONS)  # pyright: ignore[reportUnsupportedDunderAll]


# --- one value --------------------------------------------------------------------------------------------------


def _unary(name: str, op: Callable[[SSAValue], Operation], of_number: Callable[[float], float], x: Operand) -> Any:
    if is_complex(x):
        return complexes.function(name, x)
    if tracing_of(x) is None:
        return _of_number(of_number, x)
    (value,) = floats(f"sw.{name}", x)
    return value.tracing.emit(op(value.ssa), (value,), "float")


def _of_number(function: Callable[[float], float], x: Any) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def _log_of_number(log: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: -math.inf if x == 0 else log(x)


def exp(x: Operand) -> Any:
    """e to the power x."""
    return _unary("exp", mathd.ExpOp, math.exp, x)


def exp2(x: Operand) -> Any:
    """2 to the power x."""
    return _unary("exp2", mathd.Exp2Op, lambda x: 2.0**x, x)


def expm1(x: Operand) -> Any:
    """exp(x) - 1, exact near 0."""
    return _unary("expm1", mathd.ExpM1Op, math.expm1, x)


def log(x: Operand) -> Any:
    """The natural logarithm."""
    return _unary("log", mathd.LogOp, _log_of_number(math.log), x)


def log2(x: Operand) -> Any:
    """The logarithm to base 2."""
    return _unary("log2", mathd.Log2Op, _log_of_number(math.log2), x)


def log1p(x: Operand) -> Any:
    """log(1 + x), exact near 0."""
    return _unary("log1p", mathd.Log1pOp, lambda x: -math.inf if x == -1 else math.log1p(x), x)


def sqrt(x: Operand) -> Any:
    """The square root."""
    return _unary("sqrt", mathd.SqrtOp, math.sqrt, x)


def rsqrt(x: Operand) -> Any:
    """1 / sqrt(x)."""
    return _unary("rsqrt", mathd.RsqrtOp, lambda x: math.inf if x == 0 else 1 / math.sqrt(x), x)


def sin(x: Operand) -> Any:
    """The sine."""
    return _unary("sin", mathd.SinOp, math.sin, x)


def cos(x: Operand) -> Any:
    """The cosine."""
    return _unary("cos", mathd.CosOp, math.cos, x)


def tanh(x: Operand) -> Any:
    """The hyperbolic tangent."""
    return _unary("tanh", mathd.TanhOp, math.tanh, x)


def erf(x: Operand) -> Any:
    """The error function."""
    return _unary("erf", mathd.ErfOp, math.erf, x)


def sigmoid(x: Operand) -> Any:
    """1 / (1 + exp(-x)); below 0 it is exp(x) / (1 + exp(x)), where exp(-x) might overflow."""
    z = _floating("sigmoid", x)
    if is_complex(z):
        return 1.0 / (1.0 + exp(-z))
    e = exp(-abs(z))
    return where(z < 0, e, 1.0) / (1.0 + e)


def silu(x: Operand) -> Any:
    """x · sigmoid(x). Where exp(x) is a denormal, and the product with x is not, it is exp(x + 48) · exp(-48).

    The sum is exact there, and 1 + exp(x + 48) is 1.
    """
    z = _floating("silu", x)
    if is_complex(z):
        return z * sigmoid(z)
    far = z < -86
    e = exp(where(far, z + 48.0, -abs(z)))
    return where(z < 0, z * e, z) / (1.0 + e) * where(far, math.exp(-48), 1.0)


def softplus(x: Operand) -> Any:
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)): right for every x."""
    x = _float("softplus", x)
    return maximum(x, 0.0) + log1p(exp(-abs(x)))


def relu(x: Operand) -> Any:
    """max(x, 0), NaN where x is NaN."""
    return maximum(x, 0)


def isnan(x: Operand) -> Any:
    """Whether x, or a part of it, is NaN: a bool."""
    if tracing_of(x) is None:
        return x != x
    return is_nan(_floating("isnan", x))


def detach(x: Operand) -> Any:
    """x, through which no gradient flows."""
    tracing_of(x)
    return x


def _float(name: str, x: Operand) -> Any:
    """`x` as a float, with the name of the function that wants it in a refusal."""
    if not isinstance(x, Value) and is_complex(x):
        complexes.refuse_in(f"sw.{name}")
    return float(x) if tracing_of(x) is None else floats(f"sw.{name}", x)[0]  # pyright: ignore[reportArgumentType]


def _floating(name: str, x: Operand) -> Any:
    """`x` as a float, or as it is where it is complex."""
    return x if is_complex(x) else _float(name, x)


# --- two and three values ---------------------------------------------------------------------------------------


def maximum(a: Operand, b: Operand) -> Any:
    """The larger, NaN where either is NaN."""
    if tracing_of(a, b) is None:
        return _extreme_of_numbers("maximum", builtins.max, a, b)
    return extreme("sw.maximum", a, b, largest=True)


def minimum(a: Operand, b: Operand) -> Any:
    """The smaller, NaN where either is NaN."""
    if tracing_of(a, b) is None:
        return _extreme_of_numbers("minimum", builtins.min, a, b)
    return extreme("sw.minimum", a, b, largest=False)


def _extreme_of_numbers(name: str, choose: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if is_complex(a, b):
        complexes.refuse_in(f"sw.{name}")
    return a + b if a != a or b != b else choose(a, b)


def clamp(x: Operand, lo: Operand | None = None, hi: Operand | None = None) -> Any:
    """min(max(x, lo), hi); a bound that is None is left out."""
    if lo is None and hi is None:
        refuse("`sw.clamp(x, lo, hi)` needs at least one of its bounds")
    if lo is not None:
        x = maximum(x, lo)
    return x if hi is None else minimum(x, hi)


def logaddexp(a: Operand, b: Operand) -> Any:
    """log(exp(a) + exp(b)), as max + log1p(exp(min - max)): right with infinities, whose difference is not used.

    What `min - max` loses where the larger is near 0 is much beside the result, which then is small: it is put back.
    """
    if tracing_of(a, b) is not None:
        a, b = floats("sw.logaddexp", a, b)
    large, small = maximum(a, b), minimum(a, b)
    gap = small - large
    lost = (small - gap) - large
    e = exp(gap)
    return large + log1p(where(gap > -math.inf, e + e * lost, 0.0))


def where(cond: Operand, a: Operand, b: Operand) -> Any:
    """a where cond, a bool, holds, else b. A branch that is not taken contributes nothing, not even its NaN."""
    tracing = tracing_of(cond, a, b)
    if not isinstance(cond, Value):
        return a if cond else b
    if cond.kind != "bool":
        refuse(f"the condition of `sw.where` is a bool, got {_a(cond)}: compare it, as in `sw.where(x != 0, a, b)`")
    assert tracing is not None
    return select(cond, a, b)


def cast(x: Operand, dtype: Any) -> Any:
    """x in another dtype, given as `torch.int32` or `"int32"`: rounded to its precision, wrapped to its bits.

    The step goes on computing in float32 (float64 where an input is) and int64. A complex value becomes real by
    `sw.real`, `sw.imag` or `abs`, never by a cast.
    """
    short = short_name(dtype)
    if short is None:
        refuse(f"`sw.cast` to {dtype!r}: a dtype is one of {', '.join(LONG.values())}")
    kind = kind_of(short)
    if is_complex(x) and kind in ("int", "float"):
        complexes.refuse_in(f"sw.cast(x, torch.{LONG[short]})")
    if tracing_of(x) is None:
        if kind == "int" and not math.isfinite(x):  # pyright: ignore[reportArgumentType]
            refuse(f"`sw.cast` to {LONG[short]}: expected a finite number, got {x!r}")
        return NUMBER[kind](x)
    assert isinstance(x, Value)
    value = convert(x, kind)
    if kind == "bool":
        return value
    if kind == "float":
        return _rounded(value, short)
    if kind == "complex":
        return complexes.each(value, lambda part: _rounded(part, real_dtype(short)))
    tracing = value.tracing
    if short != "i64":
        narrow = tracing.emit(arith.TruncIOp(value.ssa, int_type(short)), (value,), "int")
        widen = arith.ExtUIOp if short.startswith("u") else arith.ExtSIOp
        value = tracing.emit(widen(narrow.ssa, int_type("i64")), (narrow,), "int")
    return Value(tracing, value.ssa, value.axes, "int", short)


def _rounded(value: Value, short: str) -> Value:
    """A float with the precision of a floating dtype."""
    tracing = value.tracing
    if short == tracing.compute:
        return value
    if short == "f64":
        refuse("`sw.cast` to the precision of float64: a step computes in float64 where one of its inputs is float64")
    narrow = narrowed(value, short)
    return tracing.emit(arith.ExtFOp(narrow.ssa, float_type(tracing.compute)), (narrow,), "float")


# --- complex ----------------------------------------------------------------------------------------------------


def real(x: Operand) -> Any:
    """The real part; of a real value, itself."""
    if tracing_of(x) is None:
        return x.real
    assert isinstance(x, Value)
    return complexes.real_parts(x)[0] if x.kind == "complex" else promote("sw.real", x)[0]


def imag(x: Operand) -> Any:
    """The imaginary part; of a real value, 0."""
    if tracing_of(x) is None:
        return x.imag
    assert isinstance(x, Value)
    return complexes.real_parts(x if x.kind == "complex" else convert(promote("sw.imag", x)[0], "complex"))[1]


def conj(x: Operand) -> Any:
    """The conjugate; of a real value, itself."""
    if tracing_of(x) is None:
        return x.conjugate()
    assert isinstance(x, Value)
    return complexes.conjugate(x) if x.kind == "complex" else promote("sw.conj", x)[0]


def complex(re: Operand, im: Operand) -> Any:
    """re + i·im of two real values."""
    tracing = tracing_of(re, im)
    parts = [_float("complex", part) for part in (re, im)]
    return builtins.complex(*parts) if tracing is None else complexes.pair(tracing, *parts)


# --- over axes --------------------------------------------------------------------------------------------------


def sum(x: Operand, axes: str) -> Any:
    """The sum over axes, as in `sw.sum(C * h, "n")`."""
    value, names = _over("sum", x, axes)
    if value.kind == "complex":
        return complexes.each(value, lambda part: _reduce("add", complexes.spread(part, value), names))
    return _reduce("add", value, names)


def max(x: Operand, axes: str) -> Any:
    """The largest over axes; NaN where one is NaN."""
    value, names = _over("max", x, axes)
    return _reduce("max", value, names)


def min(x: Operand, axes: str) -> Any:
    """The smallest over axes; NaN where one is NaN."""
    value, names = _over("min", x, axes)
    return _reduce("min", value, names)


def argmax(x: Operand, axes: str) -> Any:
    """The position of the largest, the first of equals: an integer.

    Over several axes it is counted with the last of them innermost, as in `sw.argmax(x, "d n")`: d · size of n + n.
    """
    return _position("argmax", x, axes)


def argmin(x: Operand, axes: str) -> Any:
    """The position of the smallest, the first of equals, counted as `argmax` does: an integer."""
    return _position("argmin", x, axes)


def logsumexp(x: Operand, axes: str) -> Any:
    """log(sum(exp(x))) over axes, right with infinities: nothing is subtracted where the largest is infinite."""
    value, names = _over("logsumexp", x, axes)
    (value,) = floats("sw.logsumexp", value)
    top = _reduce("max", value, names)
    shift = select(is_infinite(top), 0.0, top)
    return log(_reduce("add", exp(value - shift), names)) + shift


def take(x: Operand, i: Operand, axis: str) -> Any:
    """x at position i of an axis, i an integer value or a Python int counted from 0.

    A value outside of the axis takes the nearest position; a Python int there raises SignatureError.
    """
    value, names = _over("take", x, axis)
    if len(names) != 1:
        _wrong_axis(f"`sw.take` reads one position of one axis, got {axis!r}")
    tracing = value.tracing
    if tracing.sizes.get(names[0]) == 0:
        _wrong_axis(f"`sw.take` from axis `{names[0]}`, which has size 0")
    tracing_of(i)
    if isinstance(i, Value):
        if i.kind != "int":
            refuse(f"the position of `sw.take` is an integer, got {_a(i)}: write `sw.cast(i, torch.int64)`")
    else:
        number = as_number(i)
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            refuse(f"the position of `sw.take` is an integer counted from 0, got {i!r}")
        size = tracing.sizes.get(names[0])
        if size is not None and number >= size:
            _wrong_axis(f"`sw.take` at position {number} of axis `{names[0]}`, which has size {size}")
    index = as_value(tracing, i, "int")

    def taken(x: Value) -> Value:
        if names[0] not in x.axes:
            return x
        axes = (x.axes - {names[0]}) | index.axes
        result = tracing.emit(TakeOp(x.ssa, index.ssa, names[0]), (x, index), x.kind, axes)
        result.dtype = x.dtype
        return result

    return complexes.each(value, taken) if value.kind == "complex" else taken(value)


def rename(x: Operand, /, **axes: str) -> Any:
    """x read along another axis of the same size: `sw.rename(h, d="e")`, so that a state can mix with itself."""
    if not axes:
        refuse('`sw.rename` names the axes to exchange, as in `sw.rename(h, d="e")`')
    for source, target in axes.items():
        value, _ = _over("rename", x, source)
        tracing = value.tracing
        if not isinstance(target, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse(f'`sw.rename` to {target!r}: expected the name of an axis, as in `sw.rename(h, d="e")`')
        if target == tracing.time:
            _wrong_axis(f"`sw.rename` to time `{target}`: only the axes of one step can be exchanged")
        if target not in tracing.axes:
            _wrong_axis(
                f"`sw.rename` to `{target}`, which no array of the signature has: expected {_list(tracing.axes)}"
            )
        if target in value.axes:
            _wrong_axis(
                f"`sw.rename` to `{target}`, an axis that the value has already: it varies over {_list(value.axes)}"
            )
        x = _renamed(value, source, target)
    return x


def _renamed(x: Value, source: str, target: str) -> Value:
    if x.kind == "complex":
        return complexes.each(x, lambda part: _renamed(part, source, target) if source in part.axes else part)
    axes = (x.axes - {source}) | {target}
    result = x.tracing.emit(RenameOp(x.ssa, source, target), (x,), x.kind, axes)
    result.dtype = x.dtype
    return result


def _over(name: str, x: Operand, axes: Any) -> tuple[Value, tuple[str, ...]]:
    """A value and the names of the axes to run over, all of which it has."""
    tracing = tracing_of(x)
    if not isinstance(x, Value) or tracing is None:
        refuse(f"`sw.{name}` runs over the axes of a step's value, got the number {x!r}")
    if not isinstance(axes, str):
        refuse(f'the axes of `sw.{name}` are one string, as in "n" or "d n", got {axes!r}')
    names = tuple(axes.split())
    if not names or len(set(names)) != len(names):
        _wrong_axis(f"`sw.{name}` runs over one or more different axes, got {axes!r}")
    for axis in names:
        if axis == tracing.time:
            _wrong_axis(f"`sw.{name}` over time `{axis}`: a step sees one moment, carry a state instead")
        if axis not in x.axes:
            comma = ": axes are separated by spaces" if "," in axis else ""
            _wrong_axis(
                f"`sw.{name}` over `{axis}`, which the value does not have{comma}; it varies over {_list(x.axes)}"
            )
    return x, names


def _reduce(kind: str, x: Value, axes: tuple[str, ...]) -> Value:
    if x.kind == "bool":
        refuse(f"a bool in `sw.{'sum' if kind == 'add' else kind}`: count by `sw.sum(sw.cast(x, torch.int64), ...)`")
    if x.kind == "complex":
        complexes.refuse_in(f"sw.{kind}")
    return x.tracing.emit(ReduceOp(kind, x.ssa, axes), (x,), x.kind, x.axes - set(axes))


def _position(name: str, x: Operand, axes: str) -> Value:
    value, (axis, *others) = _over(name, x, axes)
    (value,) = promote(f"sw.{name}", value)
    if not others:
        return value.tracing.emit(ReduceOp(name, value.ssa, (axis,)), (value,), "int", value.axes - {axis})
    inner = _position(name, value, " ".join(others))
    outer = _position(name, _reduce(name.removeprefix("arg"), value, tuple(others)), axis)
    ones = select(compare("==", value, value), 1, 1)
    count = take(_reduce("add", ones, tuple(others)), 0, axis)
    return outer * count + take(inner, outer, axis)


def _wrong_axis(message: str) -> NoReturn:
    raise SignatureError(f"{message}\n    {user_source()}")


def _list(axes: frozenset[str]) -> str:
    return ", ".join(f"`{axis}`" for axis in sorted(axes)) or "no axis"


def _a(x: Value) -> str:
    return {"bool": "a bool", "int": "an integer", "float": "a float", "complex": "a complex value"}[x.kind]


# --- called with other arguments --------------------------------------------------------------------------------


def _refusing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; arguments that it does not take are refused with those that it does."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is None:  # the function did not begin
                parameters = inspect.signature(function).parameters.values()
                takes = ", ".join(str(parameter.replace(annotation=parameter.empty)) for parameter in parameters)
                refuse(f"`sw.{name}` takes ({takes}), got {_given(args, kwargs)}")
            raise

    return called


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    written = [*("a value" if isinstance(arg, Value) else repr(arg) for arg in args), *(f"{key}=" for key in kwargs)]
    return f"({', '.join(written)})"


for _name in FUNCTIONS:
    globals()[_name] = _refusing(_name, globals()[_name])
