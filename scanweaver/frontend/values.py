"""A step's value: a symbol whose operators append to the step's block.

Floats are computed in one type (float32, or float64 where an input is), integers in int64, bools as bools, complex
numbers as two floats. Integers that meet floats become floats, and floats that meet complex numbers complex; a bool
takes part in comparisons and `& | ^ ~` only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue

from scanweaver.dialects.arith import CmpfOp, CmpiOp  # xDSL's print no attributes: they would lose the source
from scanweaver.frontend import complexes
from scanweaver.frontend.dtypes import Kind, as_number, kind_of
from scanweaver.frontend.misuse import (
    OPERATORS,
    Misuse,
    instead_of,
    is_tensor,
    refuse,
    refuse_attribute,
    refuse_foreign,
    source_line,
    user_frame,
)

SOURCE = "recurrence.source"
"""The attribute that names the user's line on every operation of a body."""

FloatType = Float16Type | BFloat16Type | Float32Type | Float64Type

_ORDER: tuple[Kind, ...] = ("bool", "int", "float", "complex")


_FLOATS: dict[str, FloatType] = {"f16": Float16Type(), "bf16": BFloat16Type(), "f32": f32, "f64": f64}


def float_type(short: str) -> FloatType:
    return _FLOATS[short]


def int_type(short: str) -> IntegerType:
    return IntegerType(int(short[1:]))


def mlir_type(short: str) -> IntegerType | FloatType:
    """The MLIR type of a short dtype name that is not complex."""
    return float_type(short) if kind_of(short) == "float" else int_type(short)


class Tracing:
    """The step being traced: its block, the type that floats are computed in, the axes that exist, sizes known."""

    def __init__(
        self, block: Block, compute: str, axes: Iterable[str], time: str, sizes: Mapping[str, int] | None = None
    ) -> None:
        self.block = block
        self.compute = compute
        self.axes = frozenset(axes)
        self.time = time
        self.sizes = sizes or {}
        self.in_user_code = False
        self.closed = False
        self._constants: dict[tuple[Kind, str], Value] = {}

    def emit(self, op: Operation, operands: Iterable[Value], kind: Kind, axes: frozenset[str] | None = None) -> Value:
        """Append `op`; its result varies over `axes`, by default over all that its operands vary over."""
        operands = tuple(operands)
        if self.closed or any(operand.tracing is not self for operand in operands):
            refuse_leaked()
        if self.in_user_code and (frame := user_frame()) is not None:
            op.attributes[SOURCE] = StringAttr(source_line(frame.f_code.co_filename, frame.f_lineno))
        self.block.add_op(op)
        if axes is None:
            axes = frozenset[str]().union(*(operand.axes for operand in operands))
        return Value(self, op.results[0], axes, kind)

    def constant(self, number: complex, kind: Kind) -> Value:
        """A Python number as a value; one operation for each different number."""
        if self.closed:
            refuse_leaked()
        if kind == "complex":
            return complexes.pair(self, complex(number).real, complex(number).imag)
        assert not isinstance(number, complex)
        try:
            key = (kind, repr(float(number) if kind == "float" else int(number)))
        except OverflowError:
            refuse("the integer is larger than any float64")
        if key not in self._constants:
            if kind == "float":
                attribute = FloatAttr(float(number), float_type(self.compute))
            else:
                if not -(2**63) <= number < 2**63:
                    refuse(f"the integer {number} does not fit into 64 bits")
                attribute = IntegerAttr(int(number), i1 if kind == "bool" else i64)
            op = arith.ConstantOp(attribute)  # pyright: ignore[reportUnknownVariableType, reportArgumentType]
            self.block.add_op(op)
            self._constants[key] = Value(self, op.result, frozenset(), kind)
        return self._constants[key]


def refuse_leaked() -> NoReturn:
    refuse("a value of another trace: a step's values live while it runs once, so keep none of them outside of it")


class Value(Misuse):
    """One scalar of one step: an SSA value, the axes (never time) that it varies over, and its kind.

    `dtype` is the short dtype that an integer was read, cast or marked as; computed integers are int64. `parts` are
    those of a complex value, None for one that is known to be 0; `ssa` is then one of them.
    """

    __slots__ = ("axes", "dtype", "kind", "parts", "ssa", "tracing")

    def __init__(
        self, tracing: Tracing, ssa: SSAValue, axes: frozenset[str], kind: Kind, dtype: str | None = None
    ) -> None:
        self.tracing = tracing
        self.ssa = ssa
        self.axes = axes
        self.kind: Kind = kind
        self.dtype = dtype
        self.parts: complexes.Parts | None = None

    def __repr__(self) -> str:
        return f"<a step's {self.kind} value{_over(self.axes)}>"

    def __getattr__(self, name: str) -> NoReturn:
        """`h.exp()`: looked up only where a value has no such attribute."""
        refuse_attribute(name)

    @property
    def source(self) -> str:
        """The user's line that computed it; empty for a state or an input as it came."""
        attribute = self.ssa.owner.attributes.get(SOURCE) if isinstance(self.ssa.owner, Operation) else None
        return attribute.data if isinstance(attribute, StringAttr) else ""

    # --- operators ------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Value:
        return _arithmetic("+", self, other)

    def __radd__(self, other: Operand) -> Value:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Operand) -> Value:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Operand) -> Value:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return _arithmetic("*", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return divide(other, self)

    def __pow__(self, other: Operand, modulus: None = None) -> Value:
        if modulus is not None:
            refuse("`pow()` with a modulus on a step's value is not in the language")
        return power(self, other)

    def __rpow__(self, other: Operand) -> Value:
        return power(other, self)

    def __neg__(self) -> Value:
        if self.kind == "complex":
            return complexes.negated(self)
        (x,) = promote("-x", self)
        if x.kind == "int":
            return _arithmetic("-", 0, x)
        return x.tracing.emit(arith.NegfOp(x.ssa), (x,), "float")

    def __pos__(self) -> Value:
        return self if self.kind == "complex" else promote("+x", self)[0]

    def __abs__(self) -> Value:
        if self.kind == "complex":
            return complexes.absolute(self)
        (x,) = promote("abs", self)
        if x.kind == "int":
            return extreme("abs", x, -x, largest=True)
        return x.tracing.emit(mathd.AbsFOp(x.ssa), (x,), "float")

    def __lt__(self, other: Operand) -> Value:
        return compare("<", self, other)

    def __le__(self, other: Operand) -> Value:
        return compare("<=", self, other)

    def __gt__(self, other: Operand) -> Value:
        return compare(">", self, other)

    def __ge__(self, other: Operand) -> Value:
        return compare(">=", self, other)

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None else compare("==", self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None else compare("!=", self, other)

    __hash__ = object.__hash__

    def __and__(self, other: Operand) -> Value:
        return _bitwise("&", self, other)

    def __or__(self, other: Operand) -> Value:
        return _bitwise("|", self, other)

    def __xor__(self, other: Operand) -> Value:
        return _bitwise("^", self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Value:
        return _bitwise("^", self, self.kind == "bool" or -1, name="~")

    def __lshift__(self, other: Operand) -> Value:
        return _shift("<<", self, other)

    def __rlshift__(self, other: Operand) -> Value:
        return _shift("<<", other, self)

    def __rshift__(self, other: Operand) -> Value:
        return _shift(">>", self, other)

    def __rrshift__(self, other: Operand) -> Value:
        return _shift(">>", other, self)

    # --- other libraries --------------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> NoReturn:
        """`torch.exp(h)`, or a tensor that meets a step's value."""
        for arg in args:
            if is_tensor(arg):
                refuse_foreign(arg)
        name = str(getattr(func, "__name__", func))
        refuse(f"`torch.{name}()` on a step's value, which is no tensor: {instead_of(name)}")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Value:
        """`np.exp(h)` is refused; `np.float32(2) * h` is a number times a value."""
        for arg in args:
            if is_tensor(arg) and as_number(arg) is None:
                refuse_foreign(arg)
        name = str(ufunc.__name__)
        if name not in OPERATORS or method != "__call__" or kwargs:
            refuse(f"`np.{name}()` on a step's value, which is no array: {instead_of(name)}")
        left, right = (arg if isinstance(arg, Value) else as_number(arg) for arg in args)
        return getattr(operator, OPERATORS[name][1])(left, right)


Operand: TypeAlias = Value | complex
"""What an operation takes: a step's value or a Python number (bool, int and float among them)."""


def is_complex(*operands: Any) -> bool:
    """Whether one of the operands is a complex value or number."""
    return any(x.kind == "complex" if isinstance(x, Value) else isinstance(as_number(x), complex) for x in operands)


# --- conversions ------------------------------------------------------------------------------------------------


def number_kind(x: Any) -> Kind:
    match as_number(x):
        case bool():
            return "bool"
        case int():
            return "int"
        case complex():
            return "complex"
        case _:
            return "float"


def tracing_of(*operands: Any) -> Tracing | None:
    """The step that the operands belong to; None where all are numbers. Refuses tensors and other things."""
    tracing = None
    for x in operands:
        if isinstance(x, Value):
            tracing = x.tracing
    for x in operands:
        if not isinstance(x, Value) and as_number(x) is None:
            refuse_foreign(x)
    return tracing


def promote(name: str, *operands: Operand, bools: bool = False) -> tuple[Value, ...]:
    """The operands as real values of one kind, the highest among them; at least one of them is a value.

    A bool value is refused unless `bools`, where it may also meet numbers (and becomes one).
    """
    tracing = tracing_of(*operands)
    assert tracing is not None
    kinds: list[Kind] = []
    for x in operands:
        kind = x.kind if isinstance(x, Value) else number_kind(x)
        if kind == "complex":
            complexes.refuse_in(name)
        if kind == "bool" and not bools:
            if isinstance(x, Value):
                refuse(
                    f"a bool in `{name}`: write `sw.where(cond, a, b)` to choose, or `sw.cast(cond, torch.float32)` to "
                    "compute with 0 and 1"
                )
            kind = "int"
        kinds.append(kind)
    common = max(kinds, key=_ORDER.index)
    return tuple(as_value(tracing, x, common) for x in operands)


def as_value(tracing: Tracing, x: Operand, kind: Kind) -> Value:
    """A value or number as a value of the given kind, which is at least its own."""
    if isinstance(x, Value):
        return convert(x, kind)
    number = as_number(x)
    assert number is not None
    return tracing.constant(number, kind)


def convert(x: Value, kind: Kind) -> Value:
    """`x` as another kind, as PyTorch's `.to` does it, but no complex value loses its imaginary part."""
    if x.kind == kind:
        return x
    tracing = x.tracing
    if kind == "complex":
        return complexes.pair(tracing, convert(x, "float"), None)
    if kind == "bool":
        return compare("!=", x, 0)
    assert x.kind != "complex"
    if kind == "int":
        op = arith.ExtUIOp(x.ssa, i64) if x.kind == "bool" else arith.FPToSIOp(x.ssa, i64)
    else:
        convert_op = arith.UIToFPOp if x.kind == "bool" else arith.SIToFPOp
        op = convert_op(x.ssa, float_type(tracing.compute))
    return tracing.emit(op, (x,), kind)


def narrowed(x: Value, short: str) -> Value:
    """A float rounded to a narrower type, of 16 bits by way of float32, as PyTorch does it."""
    for step in ("f32", short) if x.tracing.compute == "f64" and short in ("f16", "bf16") else (short,):
        x = x.tracing.emit(arith.TruncFOp(x.ssa, float_type(step)), (x,), "float")
    return x


# --- arithmetic -------------------------------------------------------------------------------------------------

_ARITHMETIC: dict[str, tuple[Any, Any]] = {
    "+": (arith.AddfOp, arith.AddiOp),
    "-": (arith.SubfOp, arith.SubiOp),
    "*": (arith.MulfOp, arith.MuliOp),
}
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_BITWISE: dict[str, Any] = {"&": arith.AndIOp, "|": arith.OrIOp, "^": arith.XOrIOp}


def _arithmetic(name: str, a: Operand, b: Operand) -> Value:
    if is_complex(a, b):
        return complexes.arithmetic(name, a, b)
    x, y = promote(name, a, b)
    op = _ARITHMETIC[name][x.kind == "int"](x.ssa, y.ssa)
    return x.tracing.emit(op, (x, y), x.kind)


def floats(name: str, *operands: Operand) -> tuple[Value, ...]:
    """The operands, which are real, as floats."""
    return tuple(convert(x, "float") for x in promote(name, *operands))


def divide(a: Operand, b: Operand) -> Value:
    """a / b in floats, as PyTorch divides integers too."""
    if is_complex(a, b):
        return complexes.quotient(a, b)
    x, y = floats("/", a, b)
    return x.tracing.emit(arith.DivfOp(x.ssa, y.ssa), (x, y), "float")


def power(base: Operand, exponent: Operand) -> Value:
    """base ** exponent: products for small integer exponents, a square root for 0.5."""
    if isinstance(base, Value) and not isinstance(exponent, Value):
        number = as_number(exponent)
        if isinstance(number, int | float) and abs(number) <= 16 and float(number).is_integer():
            if base.kind == "int" and not isinstance(number, float) and number < 0:
                refuse("an integer to a negative power: make it a float by `sw.cast(x, torch.float32)`")
            x = base if isinstance(number, int) or base.kind == "complex" else floats("**", base)[0]
            return _product(x, int(number))
        if number in (0.5, -0.5) and base.kind != "complex":
            (x,) = floats("**", base)
            op = mathd.SqrtOp(x.ssa) if number == 0.5 else mathd.RsqrtOp(x.ssa)
            return x.tracing.emit(op, (x,), "float")
    if is_complex(base, exponent):
        return complexes.power(base, exponent)
    x, y = promote("**", base, exponent)
    if x.kind == "int":
        refuse("`**` of two integers known only when the kernel runs: make one a float by `sw.cast(x, torch.float32)`")
    if not isinstance(base, Value) and base == 2:
        return x.tracing.emit(mathd.Exp2Op(y.ssa), (y,), "float")
    return x.tracing.emit(mathd.PowFOp(x.ssa, y.ssa), (x, y), "float")


def _product(x: Value, exponent: int) -> Value:
    """x to a small integer power by repeated squaring."""
    if x.kind != "complex":
        (x,) = promote("**", x)
    if exponent < 0:
        return divide(1.0, _product(x, -exponent))
    if exponent == 0:
        return as_value(x.tracing, 1, x.kind)
    root = _product(x, exponent // 2) if exponent > 1 else None
    square = root * root if root is not None else None
    if square is None:
        return x
    return square * x if exponent % 2 else square


def compare(name: str, a: Operand, b: Operand) -> Value:
    """A comparison; with NaN only `!=` holds. Complex numbers are equal or not, and have no order."""
    if name in ("==", "!=") and is_complex(a, b):
        return complexes.equality(name, a, b)
    x, y = promote(name, a, b, bools=True)
    predicate = _COMPARISONS[name]
    if x.kind == "float":
        op = CmpfOp(x.ssa, y.ssa, ("une" if predicate == "ne" else "o" + predicate))
    else:
        sign = "" if predicate in ("eq", "ne") else "u" if x.kind == "bool" else "s"
        op = CmpiOp(x.ssa, y.ssa, sign + predicate)
    return x.tracing.emit(op, (x, y), "bool")


def extreme(name: str, a: Operand, b: Operand, *, largest: bool) -> Value:
    """The larger or smaller of two, NaN where either is NaN."""
    x, y = promote(name, a, b)
    if x.kind == "float":
        op = arith.MaximumfOp(x.ssa, y.ssa) if largest else arith.MinimumfOp(x.ssa, y.ssa)
    else:
        op = arith.MaxSIOp(x.ssa, y.ssa) if largest else arith.MinSIOp(x.ssa, y.ssa)
    return x.tracing.emit(op, (x, y), x.kind)


def select(condition: Value, a: Operand, b: Operand) -> Value:
    """`a` where `condition` holds, else `b`."""
    tracing = condition.tracing
    kinds: list[Kind] = [x.kind if isinstance(x, Value) else number_kind(x) for x in (a, b)]
    if kinds[0] != kinds[1] and "bool" in kinds:
        refuse("`where` of a bool and a number: make both bools, or one a number by `sw.cast(x, torch.float32)`")
    kind = max(kinds, key=_ORDER.index)
    if kind == "complex":
        return complexes.selected(condition, a, b)
    x, y = as_value(tracing, a, kind), as_value(tracing, b, kind)
    result = tracing.emit(arith.SelectOp(condition.ssa, x.ssa, y.ssa), (condition, x, y), kind)
    if x.dtype == y.dtype:
        result.dtype = x.dtype
    return result


# --- bits -------------------------------------------------------------------------------------------------------


def _bitwise(symbol: str, a: Operand, b: Operand, name: str | None = None) -> Value:
    x, y = promote(name or symbol, a, b, bools=True)
    if x.kind == "float":
        refuse(
            f"`{name or symbol}` is for bools and integers, got a float: compare it first, as in `(x > 0) & (y > 0)`"
        )
    return x.tracing.emit(_BITWISE[symbol](x.ssa, y.ssa), (x, y), x.kind)


def _shift(name: str, a: Operand, b: Operand) -> Value:
    """A shift of 64 bits; by 64 or more it leaves 0, or the sign."""
    x, y = promote(name, a, b)
    if x.kind == "float":
        refuse(f"`{name}` is for integers, got a float")
    tracing = x.tracing
    op = arith.ShLIOp(x.ssa, y.ssa) if name == "<<" else arith.ShRSIOp(x.ssa, y.ssa)
    if not isinstance(b, Value):
        if not 0 <= int(b.real) < 64:
            refuse(f"`{name}` by {b}: expected 0 to 63")
        return tracing.emit(op, (x, y), "int")
    shifted = tracing.emit(op, (x, y), "int")
    fits = tracing.emit(CmpiOp(y.ssa, tracing.constant(64, "int").ssa, "ult"), (y,), "bool")
    return select(fits, shifted, 0 if name == "<<" else select(x < 0, -1, 0))


def _over(axes: Iterable[str]) -> str:
    return f" over [{' '.join(sorted(axes))}]" if axes else ""


def is_nan(x: Value) -> Value:
    """Whether a float, or a part of a complex value, is NaN."""
    if x.kind == "complex":
        return complexes.any_is_nan(x)
    return x.tracing.emit(CmpfOp(x.ssa, x.ssa, "uno"), (x,), "bool")


def is_infinite(x: Value) -> Value:
    """Whether a float is inf or -inf."""
    return abs(x) == math.inf
