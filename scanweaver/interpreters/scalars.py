"""`arith` and `math` on NumPy arrays, each operation at its own type.

Float operations are computed in float64 and rounded once, to nearest even, to the type of the result: float32, float16
and bfloat16 results of + - * / and sqrt are those of IEEE 754, functions are within half an ulp. A bfloat16 value is
held in a float32 array whose elements are bfloat16 numbers, an i1 in a bool array; integers wrap.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    i1,
)
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from scanweaver.dialects.arith import of_any_shape
from scanweaver.interpreters.lanes import Array, Lanes, align

# --- types -----------------------------------------------------------------------------------------------------


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """The NumPy type that holds values of a scalar type."""
    match type:
        case Float16Type():
            return np.dtype(np.float16)
        case BFloat16Type() | Float32Type():
            return np.dtype(np.float32)
        case Float64Type():
            return np.dtype(np.float64)
        case IntegerType() if type.width.data == 1:
            return np.dtype(np.bool_)
        case IntegerType() if type.width.data in (8, 16, 32, 64):
            return np.dtype(f"i{type.width.data // 8}")
        case IndexType():
            return np.dtype(np.int64)
        case _:
            raise InterpretationError(f"no NumPy type holds {type}")


def rounded(values: Array, type: Attribute) -> Array:
    """Values of a wider type as values of `type`: floats to nearest even, integers modulo 2^width."""
    if isinstance(type, BFloat16Type):
        return round_to_bfloat16(values)
    if type == i1:
        return values if values.dtype == np.bool_ else (values.astype(np.int64) & 1).astype(np.bool_)
    return values.astype(dtype_of(type))


def round_to_bfloat16(values: Array) -> Array:
    """The nearest bfloat16 numbers, ties to even, as float32; subnormals kept, overflow to infinity."""
    wide = values.astype(np.longdouble)
    _, exponent = np.frexp(wide)
    exponent = np.maximum(exponent, -125) - 8  # of the last of 8 significant bits, that of 2^-126 at least
    return np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent).astype(np.float32)


def floats(values: Array) -> Array:
    return values.astype(np.float64)


def signed(values: Array) -> Array:
    """Integers as they are; a true i1 is -1."""
    return -values.astype(np.int8) if values.dtype == np.bool_ else values


def unsigned(values: Array) -> Array:
    return values.astype(np.uint8 if values.dtype == np.bool_ else f"u{values.dtype.itemsize}")


def raw(values: Array) -> Array:
    return values


# --- functions that NumPy lacks or defines otherwise -----------------------------------------------------------


def maximum(a: Array, b: Array) -> Array:
    """The larger; NaN where either is; +0 above -0."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def minimum(a: Array, b: Array) -> Array:
    return -maximum(-a, -b)


def round_away(a: Array) -> Array:
    """To the nearest integer, ties away from zero."""
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1.0, a), whole)


def fma(a: Array, b: Array, c: Array) -> Array:
    return a.astype(np.longdouble) * b + c


def rsqrt(a: Array) -> Array:
    return 1 / np.sqrt(a)


def to_signed(a: Array) -> Array:
    """Toward zero."""
    return a.astype(np.int64)


def to_unsigned(a: Array) -> Array:
    return a.astype(np.uint64)


def divide(a: Array, b: Array) -> Array:
    """Integer division toward zero."""
    return (a - np.fmod(a, b)) // b


def divide_up(a: Array, b: Array) -> Array:
    return a // b + (a % b != 0)


def integer_power(a: Array, n: Array) -> Array:
    return np.power(floats(a), floats(n))


ERF = np.vectorize(pymath.erf, otypes=[np.float64])

View = Callable[[Array], Array]
Function = Callable[..., Any]

FLOAT_OPS: Mapping[type[Operation], Function] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: maximum,
    arith.MinimumfOp: minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.ExtFOp: raw,
    arith.TruncFOp: raw,
    arith.FPToSIOp: to_signed,
    arith.FPToUIOp: to_unsigned,
    math.AbsFOp: np.abs,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.Atan2Op: np.arctan2,
    math.AtanhOp: np.arctanh,
    math.CbrtOp: np.cbrt,
    math.CeilOp: np.ceil,
    math.CopySignOp: np.copysign,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: ERF,
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.FloorOp: np.floor,
    math.FmaOp: fma,
    math.LogOp: np.log,
    math.Log2Op: np.log2,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.PowFOp: np.power,
    math.RoundOp: round_away,
    math.RoundEvenOp: np.rint,
    math.RsqrtOp: rsqrt,
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
}
SIGNED_OPS: Mapping[type[Operation], Function] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivSIOp: divide,
    arith.FloorDivSIOp: np.floor_divide,
    arith.CeilDivSIOp: divide_up,
    arith.RemSIOp: np.fmod,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.ExtSIOp: raw,
    arith.TruncIOp: raw,
    arith.IndexCastOp: raw,
    arith.SIToFPOp: raw,
    math.AbsIOp: np.abs,
}
UNSIGNED_OPS: Mapping[type[Operation], Function] = {
    arith.DivUIOp: np.floor_divide,
    arith.CeilDivUIOp: divide_up,
    arith.RemUIOp: np.remainder,
    arith.MaxUIOp: np.maximum,
    arith.MinUIOp: np.minimum,
    arith.ShRUIOp: np.right_shift,
    arith.ExtUIOp: raw,
    arith.UIToFPOp: raw,
}
MIXED_OPS: Mapping[type[Operation], Function] = {
    arith.SelectOp: np.where,
    math.FPowIOp: integer_power,
}

# --- the interpreter functions ---------------------------------------------------------------------------------


def elementwise(view: View, function: Function):
    def run(self: InterpreterFunctions, interpreter: Interpreter, op: Operation, args: PythonValues) -> PythonValues:
        axes, arrays = align(args)
        values = np.asarray(function(*(view(array) for array in arrays)))
        return (Lanes(rounded(values, op.results[0].type), axes),)

    return run


class ScalarImpls(InterpreterFunctions):
    """The operations that no row of the tables says in full."""

    @impl(arith.ConstantOp)
    def run_constant(self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues) -> PythonValues:
        if not isinstance(op.value, IntegerAttr | FloatAttr):
            raise InterpretationError(f"a constant is a scalar here, got {op.value}")
        value = op.value.value.data
        return (Lanes(rounded(np.asarray(value), op.result.type), ()),)

    @impl(arith.BitcastOp)
    def run_bitcast(self, interpreter: Interpreter, op: arith.BitcastOp, args: PythonValues) -> PythonValues:
        (value,) = cast(tuple[Lanes], args)
        source, target = op.input.type, op.result.type
        bits = np.array(value.data)
        if source == target:
            return args
        if isinstance(source, BFloat16Type):  # the upper half of its float32
            bits = (bits.view(np.uint32) >> 16).astype(np.uint16)
        if isinstance(target, BFloat16Type):
            bits = bits.view(np.uint16).astype(np.uint32) << 16
        return (Lanes(np.asarray(bits).view(dtype_of(target)), value.axes),)


def run_cmpi(self: Any, interpreter: Interpreter, op: arith.CmpiOp, args: PythonValues) -> PythonValues:
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    view = unsigned if predicate.startswith("u") else signed
    axes, (a, b) = align(args)
    return (Lanes(np.asarray(COMPARISONS[predicate[-2:]](view(a), view(b))), axes),)


def run_cmpf(self: Any, interpreter: Interpreter, op: arith.CmpfOp, args: PythonValues) -> PythonValues:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    axes, (a, b) = align(args)
    unordered = np.isnan(a) | np.isnan(b)
    match predicate:
        case "false" | "true":
            values = np.full_like(unordered, predicate == "true")
        case "ord":
            values = ~unordered
        case "uno":
            values = unordered
        case _:
            holds = COMPARISONS[predicate[1:]](a, b)
            values = holds | unordered if predicate[0] == "u" else holds & ~unordered
    return (Lanes(np.asarray(values), axes),)


COMPARISONS: Mapping[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

TABLES: Sequence[tuple[View, Mapping[type[Operation], Function]]] = (
    (floats, FLOAT_OPS),
    (signed, SIGNED_OPS),
    (unsigned, UNSIGNED_OPS),
    (raw, MIXED_OPS),
)

_RUNS: Mapping[type[Operation], Any] = {
    arith.CmpiOp: run_cmpi,
    arith.CmpfOp: run_cmpf,
    **{op: elementwise(view, function) for view, table in TABLES for op, function in table.items()},
}
_IMPLS = {
    f"run_{kind.__module__}.{kind.name}": impl(kind)(run)
    for op, run in _RUNS.items()
    for kind in (op, of_any_shape(op))
}
ScalarFunctions = register_impls(type("ScalarFunctions", (ScalarImpls,), _IMPLS))
"""Interpreter functions of the scalar operations that a step is made of."""
