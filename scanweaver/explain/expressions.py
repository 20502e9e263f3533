"""A step's values as formulas that read like the step: `exp(dt * A) * h + dt * B * u`."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from scanweaver.dialects import recurrence

Text = Callable[[SSAValue], tuple[str, int]]
"""What stands for an operand, and how tightly its last operator binds."""

ATOM, UNARY, PRODUCT, SUM, COMPARE, LOGIC = range(6)

_INFIX = {
    "addf": ("+", SUM),
    "addi": ("+", SUM),
    "subf": ("-", SUM),
    "subi": ("-", SUM),
    "mulf": ("*", PRODUCT),
    "muli": ("*", PRODUCT),
    "divf": ("/", PRODUCT),
    "andi": ("&", LOGIC),
    "ori": ("|", LOGIC),
    "xori": ("^", LOGIC),
    "shli": ("<<", LOGIC),
    "shrsi": (">>", LOGIC),
    "shrui": (">>", LOGIC),
}
_CALLS = {"maximumf": "max", "minimumf": "min", "maxsi": "max", "minsi": "min", "select": "where"}
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
"""By the ends of the predicates: ordered or not, signed or not."""
WIDENED = arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp
"""Conversions that change no value: left out."""


def formula(op: Operation, text: Text) -> tuple[str, int]:
    """An operation on what stands for its operands."""
    kind = op.name.split(".")[-1]
    if isinstance(op, arith.ConstantOp):
        return _constant(op), ATOM
    if isinstance(op, WIDENED):
        return text(op.operands[0])
    if kind in _INFIX:
        sign, level = _INFIX[kind]
        left, right = (text(operand) for operand in op.operands)
        return f"{_within(left, level)} {sign} {_within(right, level - 1)}", level  # a + (b + c) rounds otherwise
    match op:
        case arith.NegfOp():
            return f"-{_within(text(op.operand), UNARY)}", UNARY
        case math.AbsFOp():
            return f"|{text(op.operand)[0]}|", ATOM
        case math.FmaOp():
            a, b, c = map(text, op.operands)
            return f"{_within(a, PRODUCT)} * {_within(b, PRODUCT)} + {_within(c, SUM)}", SUM
        case arith.CmpfOp() | arith.CmpiOp():
            return _comparison(op, text), COMPARE
        case recurrence.ReduceOp():
            name = "sum" if op.kind.data is recurrence.ReduceKind.ADD else op.kind.data
            return f"{name} over {', '.join(op.axis_names)} of ({text(op.value)[0]})", ATOM
        case recurrence.RenameOp():
            return f"{_within(text(op.value), ATOM)}[{op.source_axis} as {op.target_axis}]", ATOM
        case recurrence.TakeOp():
            return f"{_within(text(op.value), ATOM)}[{op.axis_name} = {text(op.index)[0]}]", ATOM
        case _:
            inner = ", ".join(text(operand)[0] for operand in op.operands)
            return f"{_CALLS.get(kind, _converted(op) or kind)}({inner})", ATOM


def _within(part: tuple[str, int], level: int) -> str:
    text, own = part
    return text if own <= level else f"({text})"


def _constant(op: arith.ConstantOp) -> str:
    value = op.value
    if isinstance(value, IntegerAttr):
        number = value.value.data
        return str(bool(number)).lower() if value.type == IntegerType(1) else str(number)
    return f"{value.value.data:.9g}" if isinstance(value, FloatAttr) else str(value)


def _comparison(op: arith.CmpfOp | arith.CmpiOp, text: Text) -> str:
    names = arith.CMPF_COMPARISON_OPERATIONS if isinstance(op, arith.CmpfOp) else arith.CMPI_COMPARISON_OPERATIONS
    predicate = names[op.predicate.value.data]
    left, right = (_within(text(operand), SUM) for operand in op.operands)
    if predicate == "uno" and op.lhs == op.rhs:
        return f"isnan({left})"
    return f"{left} {_RELATIONS.get(predicate[-2:], predicate)} {right}"


def _converted(op: Operation) -> str | None:
    """`bf16` for a conversion to it."""
    casts = (arith.TruncFOp, arith.TruncIOp, arith.SIToFPOp, arith.FPToSIOp)
    others = ("uitofp", "fptoui", "bitcast", "index_cast")
    if isinstance(op, casts) or op.name.split(".")[-1] in others:
        return str(op.results[0].type)
    return None
