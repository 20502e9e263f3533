"""The `scan` dialect: a recurrence together with what was proved of it, and the block-wide scan it lowers to.

`scan.generic` has the iteration space of `recurrence.generic` and

    prelude      inputs' elements -> state-free values, seen by all the other regions, so nothing is written twice
    components   one `scan.component` per strongly connected component of the states, in order
    step         old states, prelude values -> new states, outputs: the original body

A component that was proved is a monoid acting on its states, in three regions:

    lift         old and new states of earlier components, prelude values -> element
    combine      earlier element, later element -> element        associative
    apply        element, states -> states                        apply(combine(e, f), h) = apply(f, apply(e, h))

so that states after any stretch of time are `apply(fold(combine, lifted elements), states before it)`. One that was
refused has algebra `sequential`, no regions, and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, StringAttr, i32, i64
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Block, Dialect, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from scanweaver.dialects.iteration import IterationOp, IteratorKind
from scanweaver.dialects.iteration_syntax import parse_iteration, print_iteration, print_line
from scanweaver.dialects.recurrence import (
    Axes,
    ReduceOp,
    RenameOp,
    TakeOp,
    YieldOp,
    block_axes,
    segments,
    verify_body,
    verify_inits,
    verify_step,
)

SEQUENTIAL = "sequential"
WORKGROUP = LLVMPointerType(IntAttr(3))
"""A pointer to a block's shared memory."""


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """Where each value of a scan lives.

        #scan.schedule<target = "sm_90", order = [b, d], vector = "", lanes = 32, warps = 1, row_lanes = 1,
                       row_warps = 4, steps = 4>

    `order`: the parallel axes as rows are numbered, innermost last. `lanes` of a warp and `warps` of a block take
    consecutive stretches of `steps` steps of one row's tile of `lanes · warps · steps` steps; `row_lanes` lanes and
    `row_warps` warps take neighbouring rows. All four 1 across time is the serial walk. On a CPU, `vector` is the axis
    that the `row_lanes` elements of a vector run along ("": scalars).
    """

    name = "scan.schedule"
    target: StringAttr
    order: ArrayAttr[StringAttr]
    vector: StringAttr
    lanes: IntAttr
    warps: IntAttr
    row_lanes: IntAttr
    row_warps: IntAttr
    steps: IntAttr

    def __init__(
        self,
        target: str,
        order: Sequence[str],
        *,
        vector: str = "",
        lanes: int = 1,
        warps: int = 1,
        row_lanes: int = 1,
        row_warps: int = 1,
        steps: int = 1,
    ):
        super().__init__(
            StringAttr(target),
            ArrayAttr(StringAttr(axis) for axis in order),
            StringAttr(vector),
            *(IntAttr(value) for value in (lanes, warps, row_lanes, row_warps, steps)),
        )

    @property
    def order_axes(self) -> tuple[str, ...]:
        return tuple(axis.data for axis in self.order)

    @property
    def is_serial(self) -> bool:
        return self.lanes.data * self.warps.data == 1

    @property
    def tile(self) -> int:
        """Steps of one tile: a sequence cut at a multiple of it gives the same bits."""
        return self.lanes.data * self.warps.data * self.steps.data

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes.data * self.warps.data * self.row_lanes.data * self.row_warps.data

    @property
    def rows_per_block(self) -> int:
        return self.row_lanes.data * self.row_warps.data

    def verify(self) -> None:
        for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
            if cast(IntAttr, getattr(self, name)).data < 1:
                raise VerifyException(f"{name} of a schedule must be 1 or more")
        if self.target.data == "cpu":
            if not self.is_serial:
                raise VerifyException("a CPU walks time in order: lanes and warps must be 1")
        elif self.lanes.data * self.row_lanes.data != 32:
            raise VerifyException(
                f"lanes and row_lanes share the 32 lanes of a warp, got {self.lanes.data} x {self.row_lanes.data}"
            )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("target = ")
            printer.print_string_literal(self.target.data)
            printer.print_string(f", order = [{', '.join(self.order_axes)}], vector = ")
            printer.print_string_literal(self.vector.data)
            for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
                printer.print_string(f", {name} = {cast(IntAttr, getattr(self, name)).data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def key(name: str, first: bool = False) -> None:
            if not first:
                parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")

        with parser.in_angle_brackets():
            key("target", first=True)
            target = StringAttr(parser.parse_str_literal())
            key("order")
            order = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
            key("vector")
            parameters: list[Attribute] = [
                target,
                ArrayAttr(StringAttr(axis) for axis in order),
                StringAttr(parser.parse_str_literal()),
            ]
            for name in ("lanes", "warps", "row_lanes", "row_warps", "steps"):
                key(name)
                parameters.append(IntAttr(parser.parse_integer()))
        return parameters


@irdl_op_definition
class ScanYieldOp(IRDLOperation):
    """Ends every region but `step`: `scan.yield %a, %b : f32, f32`."""

    name = "scan.yield"
    values = var_operand_def()
    assembly_format = "($values^ `:` type($values))? attr-dict"
    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class ComponentOp(IRDLOperation):
    """States that depend on each other, and the monoid that was proved to act on them.

    scan.component "affine" [0] lift { … } combine { … } apply { … }
    scan.component "sequential" [1] because "math.tanh of the state at step.py:3"
    """

    name = "scan.component"
    algebra = prop_def(StringAttr)
    states = prop_def(DenseArrayBase.constr(i64))
    reason = opt_prop_def(StringAttr)
    lift = region_def()
    combine = region_def()
    apply = region_def()

    def __init__(
        self,
        algebra: str,
        states: Sequence[int],
        regions: tuple[Region, Region, Region] | None = None,
        reason: str | None = None,
    ):
        properties: dict[str, Attribute] = {
            "algebra": StringAttr(algebra),
            "states": DenseArrayBase.from_list(i64, list(states)),
        }
        if reason is not None:
            properties["reason"] = StringAttr(reason)
        super().__init__(properties=properties, regions=list(regions or (Region(), Region(), Region())))

    @property
    def state_indices(self) -> tuple[int, ...]:
        return tuple(int(i) for i in self.states.get_values())

    @property
    def is_sequential(self) -> bool:
        return self.algebra.data == SEQUENTIAL

    @property
    def element_types(self) -> tuple[Attribute, ...]:
        return tuple(value.type for value in yielded(self.lift))

    def verify_(self) -> None:
        regions = (self.lift, self.combine, self.apply)
        if not self.state_indices:
            raise VerifyException("a component has one state or more")
        if self.is_sequential:
            if any(region.blocks for region in regions):
                raise VerifyException("a sequential component has no regions")
            if self.reason is None:
                raise VerifyException("a sequential component says the reason")
            return
        if any(len(region.blocks) != 1 for region in regions):
            raise VerifyException("lift, combine and apply have one block each")
        element = self.element_types
        combine, apply = self.combine.block, self.apply.block
        check_elementwise("combine", combine)
        check_elementwise("apply", apply)
        check_types("combine's arguments", combine.arg_types, element + element)
        check_types("combine's yield", [v.type for v in yielded(self.combine)], element)
        states = apply.arg_types[len(element) :]
        check_types("apply's arguments", apply.arg_types[: len(element)], element)
        if len(states) != len(self.state_indices):
            raise VerifyException(f"apply acts on {len(self.state_indices)} states, got {len(states)}")
        check_types("apply's yield", [v.type for v in yielded(self.apply)], states)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.algebra.data)
        printer.print_string(f" [{', '.join(str(i) for i in self.state_indices)}]")
        if self.reason is not None:
            printer.print_string(" because ")
            printer.print_string_literal(self.reason.data)
        if not self.is_sequential:
            for name, region in (("lift", self.lift), ("combine", self.combine), ("apply", self.apply)):
                printer.print_string(f" {name} ")
                printer.print_region(region)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> ComponentOp:
        algebra = parser.parse_str_literal()
        states = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        reason = parser.parse_str_literal() if parser.parse_optional_keyword("because") else None
        regions: tuple[Region, Region, Region] | None = None
        if parser.parse_optional_keyword("lift"):
            lift = parser.parse_region()
            parser.parse_keyword("combine")
            combine = parser.parse_region()
            parser.parse_keyword("apply")
            regions = (lift, combine, parser.parse_region())
        op = cls(algebra, states, regions, reason)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class GenericOp(IterationOp):
    """A recurrence with its proof, and, once scheduled, where to run what; see the module's docstring."""

    name = "scan.generic"
    schedule = opt_prop_def(ScheduleAttr)
    prelude = region_def("single_block")
    components = region_def("single_block")
    step = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator())

    def __init__(
        self,
        inits: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        properties: Mapping[str, Attribute],
        result_types: Sequence[Attribute],
        prelude: Region,
        components: Sequence[ComponentOp],
        step: Region,
        offsets: SSAValue | None = None,
    ):
        super().__init__(
            operands=[inits, inputs, [] if offsets is None else [offsets]],
            properties=dict(properties),
            result_types=[result_types],
            regions=[prelude, Region(Block(components)), step],
        )

    @property
    def component_ops(self) -> tuple[ComponentOp, ...]:
        return tuple(op for op in self.components.block.ops if isinstance(op, ComponentOp))

    @property
    def is_associative(self) -> bool:
        return not any(component.is_sequential for component in self.component_ops)

    @property
    def state_types(self) -> tuple[Attribute, ...]:
        return tuple(arg.type for arg in self.step.block.args[: self.num_states])

    @property
    def step_yield(self) -> YieldOp:
        op = self.step.block.last_op
        assert isinstance(op, YieldOp)
        return op

    @property
    def state_axes(self) -> list[Axes]:
        """Axes of the states' values inside a step: a state varies over time."""
        return [frozenset(self.map_axes(map)) | {self.time_axis} for map in self.state_maps]

    @property
    def input_axes(self) -> list[Axes]:
        return [frozenset(self.map_axes(map)) for map in self.input_maps]

    def prelude_axes(self) -> list[Axes]:
        """Axes of the values that the prelude yields."""
        axes = block_axes(self.prelude.block, self.input_axes)
        return [axes[value] for value in yielded(self.prelude)]

    def lift_states(self, component: ComponentOp) -> tuple[int, ...]:
        """The states whose old, then whose new values are the first arguments of a component's lift."""
        earlier: list[int] = []
        for op in self.component_ops:
            if op is component:
                break
            earlier += op.state_indices
        return tuple(earlier)

    def lift_axes(self, component: ComponentOp) -> list[Axes]:
        earlier = [self.state_axes[i] for i in self.lift_states(component)]
        return earlier + earlier + self.prelude_axes()

    def step_axes(self) -> list[Axes]:
        return self.state_axes + self.prelude_axes()

    def verify_(self) -> None:
        self.verify_iteration()
        elements = [array.element_type for array in self.input_arrays]
        check_types("the prelude's arguments", self.prelude.block.arg_types, elements)
        verify_body(self, self.prelude.block, self.input_axes)
        values = [value.type for value in yielded(self.prelude)]

        step = self.step.block
        if len(step.args) != self.num_states + len(values):
            raise VerifyException(
                f"step takes {self.num_states} states and {len(values)} prelude values, got {len(step.args)} arguments"
            )
        check_types("step's prelude values", step.arg_types[self.num_states :], values)
        if not isinstance(step.last_op, YieldOp):
            raise VerifyException("step ends in recurrence.yield")
        verify_inits(self)
        verify_body(self, step, self.step_axes())
        axes = block_axes(step, self.step_axes())
        verify_step(self, self.step_yield.states, self.step_yield.outputs, axes)

        seen: list[int] = []
        for component in self.components.block.ops:
            if not isinstance(component, ComponentOp):
                raise VerifyException(f"components holds scan.component only, got {component.name}")
            own = component.state_indices
            if any(not 0 <= i < self.num_states for i in own):
                raise VerifyException(f"a component names states 0 to {self.num_states - 1}, got {list(own)}")
            states = [self.state_types[i] for i in seen]
            if not component.is_sequential:
                check_types("lift's arguments", component.lift.block.arg_types, [*states, *states, *values])
                verify_body(self, component.lift.block, self.lift_axes(component))
                self._verify_element(component)
            seen += component.state_indices
        if sorted(seen) != list(range(self.num_states)):
            raise VerifyException(f"every state is in one component, got {seen}")
        self._verify_schedule()

    def _verify_schedule(self) -> None:
        schedule = self.schedule
        if schedule is None:
            return
        rows = [axis for axis in self.axes_of_kind(IteratorKind.PARALLEL) if axis != schedule.vector.data]
        if sorted(schedule.order_axes) != sorted(rows):
            raise VerifyException(
                f"a schedule orders the parallel axes [{', '.join(rows)}], got [{', '.join(schedule.order_axes)}]"
            )
        if schedule.vector.data and self.kinds.get(schedule.vector.data) in (None, IteratorKind.TIME):
            raise VerifyException(f"vectors run along a parallel or state axis, got '{schedule.vector.data}'")
        if not schedule.is_serial and not self.is_associative:
            raise VerifyException("lanes and warps across time need a proof: a component is sequential")

    def _verify_element(self, component: ComponentOp) -> None:
        """An element acts on its component's states: on their types, along their axes."""
        own = component.state_indices
        if len({self.state_axes[i] for i in own}) > 1:
            raise VerifyException(f"the states of a proved component have the same axes, got states {list(own)}")
        applied = component.apply.block.arg_types[len(component.element_types) :]
        check_types("the states that apply acts on", applied, [self.state_types[i] for i in own])
        axes = block_axes(component.lift.block, self.lift_axes(component))
        allowed = self.state_axes[own[0]]
        for i, value in enumerate(yielded(component.lift)):
            extra = axes[value] - allowed
            if extra:
                raise VerifyException(f"value #{i} of an element keeps axis '{min(extra)}' that no state of it has")

    def print(self, printer: Printer) -> None:
        print_iteration(self, printer)
        if self.schedule is not None:
            with printer.indented():
                print_line(printer, "schedule ")
                printer.print_attribute(self.schedule)
        for name, region in (("prelude", self.prelude), ("components", self.components), ("step", self.step)):
            print_line(printer, name + " ")
            printer.print_region(region)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> GenericOp:
        header = parse_iteration(parser)
        if parser.parse_optional_keyword("schedule"):
            header.properties["schedule"] = parser.parse_attribute()
        regions: list[Region] = []
        for name in ("prelude", "components", "step"):
            parser.parse_keyword(name)
            regions.append(parser.parse_region())
        if not regions[1].blocks:
            regions[1].add_block(Block())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls.create(
            operands=[value for group in header.operands for value in group],
            properties=header.properties | {"operandSegmentSizes": segments(header.operands)},
            result_types=header.result_types,
            regions=regions,
        )
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class BlockScanOp(IRDLOperation):
    """The states before each participant's stretch of a tile, from every participant's folded element.

    Participants are the `warps` · `lanes` (warp-major) of a block that share a row. Participant p gets

        apply(combine(e_0, …, e_{p-1}), carry)        the carry itself for p = 0

        %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%a, %b : f32, f32) carry(%c : f32)
               position(%lane, %warp, %row : i32, i32, i32) scratch() combine { … } apply { … }

    `carry` is the same in all participants. `position` is the participant's lane and warp across time, and its row
    in the block. `scratch` is, where warps > 1, a pointer to workgroup memory per element value: `warps` x rows of it.
    """

    name = "scan.block_scan"
    elements = var_operand_def()
    carry = var_operand_def()
    position = var_operand_def(i32)
    scratch = var_operand_def(WORKGROUP)
    lanes = prop_def(IntAttr)
    row_lanes = prop_def(IntAttr)
    warps = prop_def(IntAttr)
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
    ):
        super().__init__(
            operands=[elements, carry, position, scratch],
            properties={"lanes": IntAttr(lanes), "row_lanes": IntAttr(row_lanes), "warps": IntAttr(warps)},
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
        if (self.warps.data > 1) != bool(self.scratch):
            raise VerifyException("scratch is there exactly where several warps share a row")
        if self.scratch and len(self.scratch) != len(element):
            raise VerifyException(f"scratch is one pointer per element value, got {len(self.scratch)}")

    def print(self, printer: Printer) -> None:
        shape = f"lanes {self.lanes.data}, row_lanes {self.row_lanes.data}, warps {self.warps.data}"
        printer.print_string(f" [{shape}]")
        for name in ("elements", "carry", "position", "scratch"):
            values = cast(Sequence[SSAValue], getattr(self, name))
            printer.print_string(f" {name}(")
            printer.print_list(values, printer.print_operand)
            if values:
                printer.print_string(" : ")
                printer.print_list([value.type for value in values], printer.print_attribute)
            printer.print_string(")")
        for name, region in (("combine", self.combine), ("apply", self.apply)):
            printer.print_string(f" {name} ")
            printer.print_region(region)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> BlockScanOp:
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
        op = cls(groups[0], groups[1], groups[2], groups[3], combine, parser.parse_region(), **sizes)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if attributes is not None:
            op.attributes |= attributes.data
        return op


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


def yielded(region: Region) -> tuple[SSAValue, ...]:
    """What a region's `scan.yield` yields."""
    op = region.block.last_op
    if not isinstance(op, ScanYieldOp):
        raise VerifyException("the region ends in scan.yield")
    return tuple(op.values)


def check_elementwise(what: str, block: Block) -> None:
    """A lane holds one position of an element: combine and apply are straight-line and read no other."""
    for op in block.ops:
        if op.regions or isinstance(op, ReduceOp | RenameOp | TakeOp):
            raise VerifyException(f"{what} is straight-line and works position by position, got {op.name}")


def check_types(what: str, got: Sequence[Attribute], expected: Sequence[Attribute]) -> None:
    if tuple(got) != tuple(expected):
        names = [", ".join(str(type) for type in types) or "none" for types in (expected, got)]
        raise VerifyException(f"{what} must be {names[0]}, got {names[1]}")


Scan = Dialect(
    "scan",
    [BlockScanOp, ComponentOp, GenericOp, ScanYieldOp],
    [ScheduleAttr],
)
