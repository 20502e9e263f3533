"""The `recurrence` dialect: one step of a recurrence, with its sequential meaning.

`recurrence.generic` is `linalg.generic`'s sibling. For each point of the parallel axes it walks time in order:

    h = init
    for t in range(T):                 # T-1 … 0 where the direction is reverse
        h, outputs[..., t] = body(h, inputs[..., t])
    last = h

A value of the body varies over its *axes*: the union of its operands' axes. `recurrence.reduce` takes axes away,
`recurrence.rename` reads along another one, `recurrence.take` picks a position. An axis that any of them touches has
the iterator type `state`: one lane must own it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DenseArrayBase, IntegerType, StringAttr, i1, i32, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from scanweaver.dialects.iteration import (
    DirectionAttr,
    IterationOp,
    IteratorAttr,
    IteratorKind,
    LayoutAttr,
    ResultKind,
    ResultKindAttr,
    element_type,
)
from scanweaver.dialects.iteration_syntax import parse_iteration, print_iteration, print_line


class ReduceKind(StrEnum):
    ADD = "add"
    MAX = "max"
    MIN = "min"
    ARGMAX = "argmax"
    ARGMIN = "argmin"


@irdl_attr_definition
class ReduceKindAttr(EnumAttribute[ReduceKind], SpacedOpaqueSyntaxAttribute):
    name = "recurrence.reduce_kind"


# --- axes of values --------------------------------------------------------------------------------------------


Axes = frozenset[str]


def result_axes(op: Operation, axes: Mapping[SSAValue, Axes]) -> Axes:
    """The axes of an operation's results, from those of its operands."""
    found: Axes = frozenset[str]().union(*(axes[operand] for operand in op.operands))
    match op:
        case ReduceOp():
            return found - set(op.axis_names)
        case RenameOp():
            return (found - {op.source_axis}) | {op.target_axis}
        case TakeOp():
            return (axes[op.value] - {op.axis_name}) | axes[op.index]
        case _:
            return found


def block_axes(block: Block, arguments: Iterable[Iterable[str]]) -> dict[SSAValue, Axes]:
    """The axes of every value of a straight-line block whose arguments have the given axes."""
    axes: dict[SSAValue, Axes] = {arg: frozenset(of) for arg, of in zip(block.args, arguments, strict=True)}
    for op in block.ops:
        found = result_axes(op, axes)
        axes.update((result, found) for result in op.results)
    return axes


# --- operations of the body ------------------------------------------------------------------------------------


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """The reduction of a value over axes that it has: `%r = recurrence.reduce add %x over [n] : f32`.

    In index order, over the axes as listed (the first outermost). `argmax` and `argmin` give the position of the
    first extreme as i64. `max` and `min` propagate NaN.
    """

    name = "recurrence.reduce"
    value = operand_def()
    kind = prop_def(ReduceKindAttr)
    axes = prop_def(ArrayAttr[StringAttr])
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, kind: ReduceKind | str, value: SSAValue, axes: Sequence[str]):
        kind = ReduceKind(kind)
        type = i64 if kind in (ReduceKind.ARGMAX, ReduceKind.ARGMIN) else value.type
        super().__init__(
            operands=[value],
            properties={"kind": ReduceKindAttr(kind), "axes": ArrayAttr(StringAttr(axis) for axis in axes)},
            result_types=[type],
        )

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.axes)

    def verify_(self) -> None:
        if not self.axis_names or len(set(self.axis_names)) != len(self.axis_names):
            raise VerifyException("reduce is over one or more different axes")
        indexed = self.kind.data in (ReduceKind.ARGMAX, ReduceKind.ARGMIN)
        if indexed and len(self.axis_names) != 1:
            raise VerifyException(f"{self.kind.data} is over one axis")
        if self.value.type == i1:
            raise VerifyException("reduce of i1 has no one meaning: extend it to a wider integer first")
        expected = i64 if indexed else self.value.type
        if self.result.type != expected:
            raise VerifyException(f"reduce {self.kind.data} of {self.value.type} gives {expected}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_operand(self.value)
        printer.print_string(f" over [{', '.join(self.axis_names)}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        kind = parser.parse_str_enum(ReduceKind)
        value = parser.parse_unresolved_operand()
        parser.parse_keyword("over")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(kind, parser.resolve_operand(value, parser.parse_type()), axes)
        op.attributes |= attributes
        return op


@irdl_op_definition
class RenameOp(IRDLOperation):
    """A value read along another axis of the same size: `%r = recurrence.rename %x [n to m] : f32`."""

    name = "recurrence.rename"
    value = operand_def()
    source = prop_def(StringAttr)
    target = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, source: str, target: str):
        super().__init__(
            operands=[value],
            properties={"source": StringAttr(source), "target": StringAttr(target)},
            result_types=[value.type],
        )

    @property
    def source_axis(self) -> str:
        return self.source.data

    @property
    def target_axis(self) -> str:
        return self.target.data

    def verify_(self) -> None:
        if self.source_axis == self.target_axis:
            raise VerifyException("rename is to another axis")
        if self.result.type != self.value.type:
            raise VerifyException("rename keeps the type")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(f" [{self.source_axis} to {self.target_axis}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    @classmethod
    def parse(cls, parser: Parser) -> RenameOp:
        value = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            source = parser.parse_identifier()
            parser.parse_keyword("to")
            target = parser.parse_identifier()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(value, parser.parse_type()), source, target)
        op.attributes |= attributes
        return op


@irdl_op_definition
class TakeOp(IRDLOperation):
    """A value at one position of an axis: `%r = recurrence.take %x at %i of q : f32, i64`."""

    name = "recurrence.take"
    value = operand_def()
    index = operand_def(IntegerType)
    axis = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, index: SSAValue, axis: str):
        super().__init__(operands=[value, index], properties={"axis": StringAttr(axis)}, result_types=[value.type])

    @property
    def axis_name(self) -> str:
        return self.axis.data

    def verify_(self) -> None:
        if self.result.type != self.value.type:
            raise VerifyException("take keeps the type")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(" at ")
        printer.print_operand(self.index)
        printer.print_string(f" of {self.axis_name}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list((self.value.type, self.index.type), printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> TakeOp:
        value = parser.parse_unresolved_operand()
        parser.parse_keyword("at")
        index = parser.parse_unresolved_operand()
        parser.parse_keyword("of")
        axis = parser.parse_identifier()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value_type = parser.parse_type()
        parser.parse_punctuation(",")
        index_type = parser.parse_type()
        op = cls(parser.resolve_operand(value, value_type), parser.resolve_operand(index, index_type), axis)
        op.attributes |= attributes
        return op


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a step: `recurrence.yield states(%h : f32) outputs(%y : bf16)`."""

    name = "recurrence.yield"
    states = var_operand_def()
    outputs = var_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsTerminator())

    def __init__(self, states: Sequence[SSAValue], outputs: Sequence[SSAValue]):
        super().__init__(operands=[states, outputs])

    def print(self, printer: Printer) -> None:
        print_step_values(printer, self.states, self.outputs)

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        return cls(*parse_step_values(parser))


def print_step_values(printer: Printer, states: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
    def print_value(value: SSAValue) -> None:
        printer.print_operand(value)
        printer.print_string(" : ")
        printer.print_attribute(value.type)

    for name, values in (("states", states), ("outputs", outputs)):
        printer.print_string(f" {name}(")
        printer.print_list(values, print_value)
        printer.print_string(")")


def parse_step_values(parser: Parser) -> tuple[list[SSAValue], list[SSAValue]]:
    def parse_value() -> SSAValue:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return parser.resolve_operand(value, parser.parse_type())

    parser.parse_keyword("states")
    states = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_value)
    parser.parse_keyword("outputs")
    return states, parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_value)


# --- the recurrence --------------------------------------------------------------------------------------------


@irdl_op_definition
class GenericOp(IterationOp):
    """A recurrence over an iteration space; see the module's docstring and `docs/architecture.md`.

    Body arguments: the old states, then the inputs' elements. The body is straight-line and isolated.
    """

    name = "recurrence.generic"
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove())

    def __init__(
        self,
        inits: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        properties: Mapping[str, Attribute],
        result_types: Sequence[Attribute],
        body: Region,
        offsets: SSAValue | None = None,
        slots: SSAValue | None = None,
        destinations: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[inits, inputs, optional(offsets), optional(slots), destinations],
            properties=dict(properties),
            result_types=[result_types],
            regions=[body],
        )

    @property
    def state_types(self) -> tuple[Attribute, ...]:
        return tuple(arg.type for arg in self.body.block.args[: self.num_states])

    @property
    def yield_op(self) -> YieldOp:
        op = self.body.block.last_op
        assert isinstance(op, YieldOp)
        return op

    def argument_axes(self) -> list[Axes]:
        """Axes of the body's arguments; an old state varies over time."""
        states = [frozenset(self.map_axes(map)) | {self.time_axis} for map in self.state_maps]
        return states + [frozenset(self.map_axes(map)) for map in self.input_maps]

    def value_axes(self) -> dict[SSAValue, Axes]:
        return block_axes(self.body.block, self.argument_axes())

    def verify_(self) -> None:
        self.verify_iteration()
        block = self.body.block
        verify_arguments(self, block)
        verify_inits(self)
        verify_body(self, block, self.argument_axes())
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("the body ends in recurrence.yield")
        verify_step(self, self.yield_op.states, self.yield_op.outputs, self.value_axes())

    def print(self, printer: Printer) -> None:
        print_iteration(self, printer)
        print_line(printer, "")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> GenericOp:
        header = parse_iteration(parser)
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.create(
            operands=[value for group in header.operands for value in group],
            properties=header.properties | {"operandSegmentSizes": segments(header.operands)},
            result_types=header.result_types,
            regions=[body],
        )
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def optional(operand: SSAValue | None) -> list[SSAValue]:
    return [] if operand is None else [operand]


def segments(operands: Sequence[Sequence[SSAValue]]) -> Attribute:
    return DenseArrayBase.from_list(i32, [len(group) for group in operands])


# --- verification shared with scan.generic ---------------------------------------------------------------------


def verify_arguments(op: IterationOp, block: Block) -> None:
    """Body arguments are the states, then the inputs' elements."""
    args = block.args
    if len(args) != op.num_states + len(op.inputs):
        raise VerifyException(
            f"the body takes {op.num_states} states and {len(op.inputs)} inputs' elements, got {len(args)} arguments"
        )
    for i, (arg, array) in enumerate(zip(args[op.num_states :], op.input_arrays, strict=True)):
        if arg.type != array.element_type:
            raise VerifyException(
                f"body argument #{op.num_states + i} is input '{array.name}' and must be {array.element_type}, "
                f"got {arg.type}"
            )


def verify_inits(op: IterationOp) -> None:
    """An init holds what its state is computed in; a floating one may be of another width."""
    for i, (init, state) in enumerate(zip(op.init_arrays, op.states, strict=True)):
        floating = isinstance(init.element_type, AnyFloat) and isinstance(state.type, AnyFloat)
        if init.element_type != state.type and not floating:
            raise VerifyException(f"init #{i} is of state '{state.name}' of {state.type}, got {init.element_type}")


def verify_body(op: IterationOp, block: Block, argument_axes: Sequence[Axes]) -> None:
    """The block is straight-line; reduce, rename and take run over `state` axes that their value has."""
    kinds = op.kinds
    axes = block_axes(block, argument_axes)
    for inner in block.ops:
        if inner.regions:
            raise VerifyException(f"the body is straight-line, got {inner.name} with regions")
        match inner:
            case ReduceOp():
                touched, has = inner.axis_names, axes[inner.value]
            case RenameOp():
                touched, has = (inner.source_axis,), axes[inner.value]
                if inner.target_axis in has:
                    raise VerifyException(f"{inner.name} to '{inner.target_axis}', an axis that its value has already")
                if kinds.get(inner.target_axis) is not IteratorKind.STATE:
                    raise VerifyException(f"{inner.name} to '{inner.target_axis}', which is not a `state` axis")
                sizes = [op.sizes.get(axis) for axis in (inner.source_axis, inner.target_axis)]
                if None not in sizes and sizes[0] != sizes[1]:
                    raise VerifyException(
                        f"{inner.name} [{inner.source_axis} to {inner.target_axis}]: "
                        f"the axes have sizes {sizes[0]} and {sizes[1]}"
                    )
            case TakeOp():
                touched, has = (inner.axis_name,), axes[inner.value]
            case _:
                continue
        for axis in touched:
            if axis not in kinds:
                raise VerifyException(f"{inner.name} names axis '{axis}', the axes are {', '.join(kinds)}")
            if axis not in has:
                raise VerifyException(f"{inner.name} is over axis '{axis}' that its value does not have")
            if kinds[axis] is not IteratorKind.STATE:
                raise VerifyException(f"{inner.name} is over axis '{axis}', which is {kinds[axis]} and not `state`")


def verify_step(
    op: IterationOp, states: Sequence[SSAValue], outputs: Sequence[SSAValue], axes: Mapping[SSAValue, Axes]
) -> None:
    """What a step yields fits the states and results, in number, type and axes."""
    if len(states) != op.num_states or len(outputs) != op.num_outputs:
        raise VerifyException(
            f"a step yields {op.num_states} states and {op.num_outputs} outputs, got {len(states)} and {len(outputs)}"
        )
    time = op.time_axis
    for i, (value, state) in enumerate(zip(states, op.states, strict=True)):
        if value.type != state.type:
            raise VerifyException(f"yielded state #{i} ('{state.name}') must be {state.type}, got {value.type}")
        extra = axes[value] - {*state.axes, time}
        if extra:
            raise VerifyException(f"yielded state #{i} ('{state.name}') keeps axis '{min(extra)}': reduce it")
    results = op.result_arrays
    for i, (value, result) in enumerate(zip(outputs, results, strict=False)):
        if value.type != result.element_type:
            raise VerifyException(
                f"yielded output #{i} ('{result.name}') must be {result.element_type}, got {value.type}"
            )
        extra = axes[value] - set(result.axes)
        if extra and op.output_kinds.data[i].data is not ResultKind.REDUCED:
            raise VerifyException(f"yielded output #{i} ('{result.name}') keeps axis '{min(extra)}': reduce it")
    for j, i in enumerate(op.last_states, op.num_outputs):
        held, state = element_type(op.res[j].type), op.states[i]
        if held != state.type and not (isinstance(held, AnyFloat) and isinstance(state.type, AnyFloat)):
            raise VerifyException(f"result #{j} is the last '{state.name}' and must hold {state.type}")


Recurrence = Dialect(
    "recurrence",
    [GenericOp, ReduceOp, RenameOp, TakeOp, YieldOp],
    [DirectionAttr, IteratorAttr, LayoutAttr, ReduceKindAttr, ResultKindAttr],
)
