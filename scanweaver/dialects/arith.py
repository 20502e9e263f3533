"""
The operations of MLIR 22's `arith` that xDSL knows for scalars alone, for vectors too: comparisons, select, casts.

Each is a subclass of xDSL's operation, so that what matches that one matches ours. Source: MLIR's ArithOps.td,
release 22.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloatConstr, FixedBitwidthType, IndexType, IntegerAttr, IntegerType, VectorType, i1
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


def split_type(type: Attribute) -> tuple[Attribute, tuple[int, ...] | None]:
    """The element and the shape of a vector type; a scalar's shape is None."""
    if isinstance(type, VectorType):
        vector = cast("VectorType[Attribute]", type)
        return vector.element_type, vector.get_shape()
    return type, None


def is_vector(type: Attribute) -> bool:
    return split_type(type)[1] is not None


def like(type: Attribute, element: Attribute) -> Attribute:
    """`element` in the shape of `type`: i1 as vector<4xf32> is vector<4xi1>."""
    shape = split_type(type)[1]
    return element if shape is None else VectorType(element, shape)


_NO_FLAGS = EqAttrConstraint(arith.IntegerOverflowAttr("none"))
_INTEGER = BaseAttr(IntegerType) | VectorType.constr(BaseAttr(IntegerType))
_INDEX = BaseAttr(IndexType) | VectorType.constr(BaseAttr(IndexType))
_FLOAT = AnyFloatConstr | VectorType.constr(AnyFloatConstr)


# --- comparisons and select ------------------------------------------------------------------------------------


class _Comparison(IRDLOperation, ABC):
    """`arith.cmpX predicate, %a, %b : type`"""

    PREDICATES: ClassVar[Sequence[str]]

    def verify_(self) -> None:
        a, b, result = (value.type for value in (*self.operands, *self.results))
        if a != b:
            raise VerifyException(f"'{self.name}' compares values of one type, got {a} and {b}")
        if result != like(a, i1):
            raise VerifyException(f"'{self.name}' of {a} gives {like(a, i1)}, not {result}")
        if not 0 <= _predicate(self) < len(self.PREDICATES):
            raise VerifyException(f"'{self.name}' has no predicate {_predicate(self)}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = parser.parse_identifier()
        if predicate not in cls.PREDICATES:
            parser.raise_error(f"'{cls.name}' has no predicate '{predicate}': one of {', '.join(cls.PREDICATES)}")
        parser.parse_punctuation(",")
        a = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(cls.PREDICATES.index(predicate), 64)}
        if parser.parse_optional_keyword("fastmath"):
            properties["fastmath"] = arith.FastMathFlagsAttr(arith.FastMathFlagsAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        operands = parser.resolve_operands([a, b], [type, type], parser.pos)
        return cls.create(
            operands=operands, result_types=[like(type, i1)], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.PREDICATES[_predicate(self)]}, ")
        printer.print_list(self.operands, printer.print_operand)
        fastmath = self.properties.get("fastmath")
        if isinstance(fastmath, arith.FastMathFlagsAttr) and fastmath != arith.FastMathFlagsAttr("none"):
            printer.print_string(" fastmath")
            fastmath.print_parameter(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operands[0].type)


def _predicate(op: Operation) -> int:
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return predicate.value.data


@irdl_op_definition
class CmpiOp(_Comparison, arith.CmpiOp):
    """`%c = arith.cmpi slt, %a, %b : vector<16xi64>` gives a vector<16xi1>."""

    PREDICATES: ClassVar[Sequence[str]] = arith.CMPI_COMPARISON_OPERATIONS
    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_INTEGER | _INDEX)
    rhs = operand_def(_INTEGER | _INDEX)
    result = result_def(_INTEGER)

    def __init__(self, a: SSAValue, b: SSAValue, predicate: str):
        _init_comparison(self, a, b, predicate)


@irdl_op_definition
class CmpfOp(_Comparison, arith.CmpfOp):
    """`%c = arith.cmpf olt, %a, %b : vector<16xf32>` gives a vector<16xi1>."""

    PREDICATES: ClassVar[Sequence[str]] = arith.CMPF_COMPARISON_OPERATIONS
    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_FLOAT)
    rhs = operand_def(_FLOAT)
    fastmath = prop_def(arith.FastMathFlagsAttr, default_value=arith.FastMathFlagsAttr("none"))
    result = result_def(_INTEGER)

    def __init__(self, a: SSAValue, b: SSAValue, predicate: str):
        _init_comparison(self, a, b, predicate)


def _init_comparison(op: _Comparison, a: SSAValue, b: SSAValue, predicate: str) -> None:
    properties = {"predicate": IntegerAttr(op.PREDICATES.index(predicate), 64)}
    IRDLOperation.__init__(op, operands=[a, b], result_types=[like(a.type, i1)], properties=properties)


@irdl_op_definition
class SelectOp(arith.SelectOp):
    """
    `arith.select %c, %a, %b : f32` where one bool chooses, `… : vector<16xi1>, vector<16xf32>` where each lane has its
    own.
    """

    cond = operand_def(_INTEGER)
    lhs = operand_def(AnyAttr())
    rhs = operand_def(AnyAttr())
    result = result_def(AnyAttr())

    # The type of the condition is written where it is a vector; a declarative format cannot say so.
    assembly_format = None

    def verify_(self) -> None:
        condition, a, b, result = (value.type for value in (*self.operands, *self.results))
        if not a == b == result:
            raise VerifyException(f"'{self.name}' chooses between values of its own type {result}, got {a} and {b}")
        if condition not in (i1, like(a, i1)):
            or_lanes = f" or {like(a, i1)}" if is_vector(a) else ""
            raise VerifyException(f"'{self.name}' of {a} has a condition of type i1{or_lanes}, not {condition}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = [parser.parse_type()]
        if parser.parse_optional_punctuation(","):
            types.append(parser.parse_type())
        condition = types[0] if len(types) > 1 else i1
        operands = parser.resolve_operands(names, [condition, types[-1], types[-1]], parser.pos)
        return cls.create(operands=operands, result_types=[types[-1]], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.operands[0].type != i1:
            printer.print_attribute(self.operands[0].type)
            printer.print_string(", ")
        printer.print_attribute(self.results[0].type)


# --- casts -----------------------------------------------------------------------------------------------------


class _Cast(IRDLOperation, ABC):
    """`arith.X %a : type to type`, lane by lane."""

    assembly_format = None  # xDSL's class has made `parse` and `print` of it, which take any type

    def verify_(self) -> None:
        source, target = self.operands[0].type, self.results[0].type
        if split_type(source)[1] != split_type(target)[1]:
            raise VerifyException(f"'{self.name}' keeps the shape, got {source} to {target}")
        self.verify_elements(split_type(source)[0], split_type(target)[0])

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        """Raises VerifyException where no such cast exists."""


class _Wider(_Cast, ABC):
    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if not _bits(source) < _bits(target):
            raise VerifyException(f"'{self.name}' gives more bits, got {source} to {target}")


class _Narrower(_Cast, ABC):
    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if not _bits(source) > _bits(target):
            raise VerifyException(f"'{self.name}' gives fewer bits, got {source} to {target}")


def _bits(type: Attribute) -> int:
    assert isinstance(type, FixedBitwidthType)
    return type.bitwidth


@irdl_op_definition
class SIToFPOp(_Cast, arith.SIToFPOp):
    input = operand_def(_INTEGER)
    result = result_def(_FLOAT)


@irdl_op_definition
class UIToFPOp(_Cast, arith.UIToFPOp):
    input = operand_def(_INTEGER)
    result = result_def(_FLOAT)


@irdl_op_definition
class FPToSIOp(_Cast, arith.FPToSIOp):
    input = operand_def(_FLOAT)
    result = result_def(_INTEGER)


@irdl_op_definition
class FPToUIOp(_Cast, arith.FPToUIOp):
    input = operand_def(_FLOAT)
    result = result_def(_INTEGER)


@irdl_op_definition
class ExtSIOp(_Wider, arith.ExtSIOp):
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)
    traits = traits_def(Pure())


@irdl_op_definition
class ExtUIOp(_Wider, arith.ExtUIOp):
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)


@irdl_op_definition
class TruncIOp(_Narrower, arith.TruncIOp):
    input = operand_def(_INTEGER)
    result = result_def(_INTEGER)
    overflow_flags = opt_prop_def(_NO_FLAGS, prop_name="overflowFlags")  # mlir-opt writes the default out


@irdl_op_definition
class IndexCastOp(_Cast, arith.IndexCastOp):
    input = operand_def(_INTEGER | _INDEX)
    result = result_def(_INTEGER | _INDEX)

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if isinstance(source, IndexType) == isinstance(target, IndexType):
            raise VerifyException(f"'{self.name}' is from or to index, got {source} to {target}")


_OURS: dict[str, type[Operation]] = {
    kind.name: kind
    for kind in (
        CmpiOp,
        CmpfOp,
        SelectOp,
        SIToFPOp,
        UIToFPOp,
        FPToSIOp,
        FPToUIOp,
        ExtSIOp,
        ExtUIOp,
        TruncIOp,
        IndexCastOp,
    )
}


def of_any_shape(kind: type[Operation]) -> type[Operation]:
    """The class for an operation's vectors: ours where xDSL's takes scalars alone."""
    return _OURS.get(kind.name, kind)


Arith = Dialect(
    "arith",
    [of_any_shape(kind) for kind in arith.Arith.operations],
    list(arith.Arith.attributes),
    [arith.ArithConstantMaterializationInterface()],
)
