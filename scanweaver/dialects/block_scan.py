"""Scans over the participants of a block: `scan.block_scan`, and the two sweeps that Blelloch makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import IntAttr, StringAttr, i32
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from scanweaver.dialects.scan_regions import check_elementwise, check_types, yielded
from scanweaver.dialects.schedule import ALGORITHMS, BLELLOCH, SHUFFLE

WORKGROUP = LLVMPointerType(IntAttr(3))
"""A pointer to a block's shared memory."""


@irdl_op_definition
class BlockScanOp(IRDLOperation):
    """The states before each participant's stretch of a tile, from every participant's folded element.

    Participants are the `warps` · `lanes` (warp-major) of a block that share a row. Participant p gets

        apply(combine(e_0, …, e_{p-1}), carry)        the carry itself for p = 0

        %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%a, %b : f32, f32) carry(%c : f32)
               position(%lane, %warp, %row : i32, i32, i32) scratch() combine { … } apply { … }

    `algorithm` (`shuffle` unless said) is how: see `lower-block-scan`.

    `carry` is the same in all participants. `position` is the participant's lane and warp across time, and its row
    in the block. `scratch` are pointers to workgroup memory. shuffle: where warps > 1, one per element value, `warps` x
    rows of it. blelloch: one per element value and state, for as many as `Sweep.slots` says a row.
    """

    name = "scan.block_scan"
    elements = var_operand_def()
    carry = var_operand_def()
    position = var_operand_def(i32)
    scratch = var_operand_def(WORKGROUP)
    lanes = prop_def(IntAttr)
    row_lanes = prop_def(IntAttr)
    warps = prop_def(IntAttr)
    algorithm = prop_def(StringAttr, default_value=StringAttr(SHUFFLE))
    combine = region_def("single_block")
    apply = region_def("single_block")
    res = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        elements: Sequence[SSAValue],
        carry: Sequence[SSAValue],
        position: Sequence[SSAValue],
        scratch: Sequence[SSAValue],
        combine: Region,
        apply: Region,
        *,
        lanes: int,
        row_lanes: int,
        warps: int,
        algorithm: str = SHUFFLE,
    ):
        super().__init__(
            operands=[elements, carry, position, scratch],
            properties={
                "lanes": IntAttr(lanes),
                "row_lanes": IntAttr(row_lanes),
                "warps": IntAttr(warps),
                "algorithm": StringAttr(algorithm),
            },
            result_types=[[value.type for value in carry]],
            regions=[combine, apply],
        )

    def verify_(self) -> None:
        element = [value.type for value in self.elements]
        carry = [value.type for value in self.carry]
        check_elementwise("combine", self.combine.block)
        check_elementwise("apply", self.apply.block)
        check_types("combine's arguments", self.combine.block.arg_types, element + element)
        check_types("combine's yield", [v.type for v in yielded(self.combine)], element)
        check_types("apply's arguments", self.apply.block.arg_types, element + carry)
        check_types("apply's yield", [v.type for v in yielded(self.apply)], carry)
        check_types("results", [r.type for r in self.res], carry)
        if len(self.position) != 3:
            raise VerifyException("position is the lane and the warp across time, and the row in the block")
        if self.lanes.data * self.row_lanes.data > 32 or 32 % (self.lanes.data * self.row_lanes.data):
            raise VerifyException("lanes and row_lanes share the 32 lanes of a warp")
        if self.algorithm.data not in ALGORITHMS:
            raise VerifyException(f"algorithm is one of {', '.join(ALGORITHMS)}, got {self.algorithm.data}")
        sweeps = self.algorithm.data == BLELLOCH
        if bool(self.scratch) != (sweeps or self.warps.data > 1):
            raise VerifyException("scratch is there exactly where several warps share a row")
        needed, each = (
            len(element) + (len(carry) if sweeps else 0),
            "element value and state" if sweeps else "element value",
        )
        if self.scratch and len(self.scratch) != needed:
            raise VerifyException(f"scratch is one pointer per {each}, got {len(self.scratch)}")

    def print(self, printer: Printer) -> None:
        shape = f"lanes {self.lanes.data}, row_lanes {self.row_lanes.data}, warps {self.warps.data}"
        algorithm = "" if self.algorithm.data == SHUFFLE else f" {self.algorithm.data}"
        printer.print_string(f"{algorithm} [{shape}]")
        for name in ("elements", "carry", "position", "scratch"):
            print_typed_values(printer, name, cast(Sequence[SSAValue], getattr(self, name)))
        for name, region in (("combine", self.combine), ("apply", self.apply)):
            printer.print_string(f" {name} ")
            printer.print_region(region)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> BlockScanOp:
        algorithm = BLELLOCH if parser.parse_optional_keyword(BLELLOCH) else SHUFFLE
        sizes: dict[str, int] = {}
        with parser.in_square_brackets():
            for i, name in enumerate(("lanes", "row_lanes", "warps")):
                if i:
                    parser.parse_punctuation(",")
                parser.parse_keyword(name)
                sizes[name] = parser.parse_integer()
        groups: list[list[SSAValue]] = []
        for name in ("elements", "carry", "position", "scratch"):
            parser.parse_keyword(name)
            groups.append(parse_typed_values(parser))
        parser.parse_keyword("combine")
        combine = parser.parse_region()
        parser.parse_keyword("apply")
        op = cls(
            groups[0], groups[1], groups[2], groups[3], combine, parser.parse_region(), **sizes, algorithm=algorithm
        )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class UpSweepOp(IRDLOperation):
    """The first sweep: a tree of combined elements, in workgroup memory.

        buffer[p] = element of participant p
        for d in 1, 2, 4, … P/4:                        # the root is not needed
            for i in 2d-1, 4d-1, 6d-1, … P-1:           # in parallel; a barrier after each d
                buffer[i] = combine(buffer[i-d], buffer[i])

        scan.up_sweep [participants 256] elements(%a, %b : f32, f32) position(%p, %row : i32, i32)
             buffers(%x, %y : !llvm.ptr<3>, !llvm.ptr<3>) combine { … }

    `by_row 64` says that neighbouring lanes hold neighbouring rows, of which a block has 64; else they hold
    neighbouring participants.
    """

    name = "scan.up_sweep"
    elements = var_operand_def()
    position = var_operand_def(i32)
    buffers = var_operand_def(WORKGROUP)
    participants = prop_def(IntAttr)
    by_row = opt_prop_def(IntAttr)
    combine = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        elements: Sequence[SSAValue],
        position: Sequence[SSAValue],
        buffers: Sequence[SSAValue],
        combine: Region,
        *,
        participants: int,
        by_row: int | None = None,
    ):
        super().__init__(
            operands=[elements, position, buffers],
            properties={
                "participants": IntAttr(participants),
                "by_row": None if by_row is None else IntAttr(by_row),
            },
            regions=[combine],
        )

    def verify_(self) -> None:
        element = [value.type for value in self.elements]
        check_elementwise("combine", self.combine.block)
        check_types("combine's arguments", self.combine.block.arg_types, element + element)
        check_types("combine's yield", [v.type for v in yielded(self.combine)], element)
        _verify_sweep(self.participants.data, self.position, self.buffers, len(element))

    def print(self, printer: Printer) -> None:
        _print_shape(printer, self.participants.data, self.by_row)
        print_typed_values(printer, "elements", self.elements)
        print_typed_values(printer, "position", self.position)
        print_typed_values(printer, "buffers", self.buffers)
        printer.print_string(" combine ")
        printer.print_region(self.combine)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> UpSweepOp:
        participants, by_row = _parse_shape(parser)
        elements, position, buffers = (_parse_group(parser, name) for name in ("elements", "position", "buffers"))
        parser.parse_keyword("combine")
        op = cls(elements, position, buffers, parser.parse_region(), participants=participants, by_row=by_row)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class DownSweepOp(IRDLOperation):
    """The second sweep: states handed down the tree that `scan.up_sweep` left. Participant p gets the state before it.

        states[P-1] = carry
        for d in P/2, … 4, 2, 1:
            for i in 2d-1, 4d-1, … P-1:                 # in parallel; a barrier after each d
                before = states[i]
                states[i-d] = before                    # the earlier half starts where both do
                states[i] = apply(buffer[i-d], before)  # the later half after the earlier one
        result = states[p]

    Blelloch's down-sweep hands down elements from an identity at the root; handing down states needs no identity and
    applies where that combines.

        %h = scan.down_sweep [participants 256] carry(%c : f32) position(%p, %row : i32, i32)
             buffers(%x, %y : …) states(%z : !llvm.ptr<3>) apply { … }
    """

    name = "scan.down_sweep"
    carry = var_operand_def()
    position = var_operand_def(i32)
    buffers = var_operand_def(WORKGROUP)
    states = var_operand_def(WORKGROUP)
    participants = prop_def(IntAttr)
    by_row = opt_prop_def(IntAttr)
    apply = region_def("single_block")
    res = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        carry: Sequence[SSAValue],
        position: Sequence[SSAValue],
        buffers: Sequence[SSAValue],
        states: Sequence[SSAValue],
        apply: Region,
        *,
        participants: int,
        by_row: int | None = None,
    ):
        super().__init__(
            operands=[carry, position, buffers, states],
            properties={
                "participants": IntAttr(participants),
                "by_row": None if by_row is None else IntAttr(by_row),
            },
            result_types=[[value.type for value in carry]],
            regions=[apply],
        )

    def verify_(self) -> None:
        carry = [value.type for value in self.carry]
        arguments = self.apply.block.arg_types
        check_elementwise("apply", self.apply.block)
        check_types("apply's states", arguments[len(arguments) - len(carry) :], carry)
        check_types("apply's yield", [v.type for v in yielded(self.apply)], carry)
        check_types("results", [r.type for r in self.res], carry)
        _verify_sweep(self.participants.data, self.position, self.buffers, len(arguments) - len(carry))
        if len(self.states) != len(carry):
            raise VerifyException(f"states is one pointer per state, got {len(self.states)}")

    def print(self, printer: Printer) -> None:
        _print_shape(printer, self.participants.data, self.by_row)
        for name in ("carry", "position", "buffers", "states"):
            print_typed_values(printer, name, cast(Sequence[SSAValue], getattr(self, name)))
        printer.print_string(" apply ")
        printer.print_region(self.apply)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> DownSweepOp:
        participants, by_row = _parse_shape(parser)
        names = ("carry", "position", "buffers", "states")
        carry, position, buffers, states = (_parse_group(parser, name) for name in names)
        parser.parse_keyword("apply")
        op = cls(carry, position, buffers, states, parser.parse_region(), participants=participants, by_row=by_row)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def sweep_slots(participants: int, rows: int, by_row: bool, bytes: int) -> int:
    """Elements of one buffer of a sweep, elements of so many bytes; with lanes across time, pads keep banks apart."""
    every, pad = padding(bytes)
    return participants * rows if by_row else (participants + participants // every * pad) * rows


def padding(bytes: int) -> tuple[int, int]:
    """After how many elements how many are left out: a word, or an element of more, after as many as lie side by side
    in the banks. The strides of a sweep's levels then meet no bank twice, up to the 256 participants of a block."""
    return BANKS * WORD // bytes, max(1, WORD // bytes)


BANKS = 32
"""Banks of workgroup memory: words whose addresses differ by a multiple of it are read one after the other."""
WORD = 4
"""Bytes of a bank."""


def _verify_sweep(participants: int, position: Sequence[SSAValue], buffers: Sequence[SSAValue], values: int) -> None:
    if participants < 2 or participants & (participants - 1):
        raise VerifyException(f"participants of a sweep are a power of two, 2 or more, got {participants}")
    if len(position) != 2:
        raise VerifyException("position is the participant and the row in the block")
    if len(buffers) != values:
        raise VerifyException(f"buffers is one pointer per element value, got {len(buffers)}")


def _print_shape(printer: Printer, participants: int, by_row: IntAttr | None) -> None:
    rows = "" if by_row is None else f", by_row {by_row.data}"
    printer.print_string(f" [participants {participants}{rows}]")


def _parse_shape(parser: Parser) -> tuple[int, int | None]:
    with parser.in_square_brackets():
        parser.parse_keyword("participants")
        participants = parser.parse_integer()
        if parser.parse_optional_punctuation(",") is None:
            return participants, None
        parser.parse_keyword("by_row")
        return participants, parser.parse_integer()


def _parse_group(parser: Parser, name: str) -> list[SSAValue]:
    parser.parse_keyword(name)
    return parse_typed_values(parser)


def print_typed_values(printer: Printer, name: str, values: Sequence[SSAValue]) -> None:
    """` name(%a, %b : f32, f32)`"""
    printer.print_string(f" {name}(")
    printer.print_list(values, printer.print_operand)
    if values:
        printer.print_string(" : ")
        printer.print_list([value.type for value in values], printer.print_attribute)
    printer.print_string(")")


def parse_typed_values(parser: Parser) -> list[SSAValue]:
    """`(%a, %b : f32, f32)` or `()`."""
    parser.parse_punctuation("(")
    names = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    if not names:
        parser.parse_punctuation(")")
        return []
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    parser.parse_punctuation(")")
    return list(parser.resolve_operands(names, types, parser.pos))
