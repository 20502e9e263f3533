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

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i64
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from scanweaver.dialects.block_scan import BlockScanOp, DownSweepOp, UpSweepOp
from scanweaver.dialects.iteration import IterationOp, IteratorKind
from scanweaver.dialects.iteration_syntax import parse_iteration, print_iteration, print_line
from scanweaver.dialects.recurrence import (
    Axes,
    YieldOp,
    block_axes,
    optional,
    segments,
    verify_body,
    verify_inits,
    verify_step,
)
from scanweaver.dialects.scan_regions import ScanYieldOp, check_elementwise, check_types, yielded
from scanweaver.dialects.schedule import ScheduleAttr

SEQUENTIAL = "sequential"


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
        slots: SSAValue | None = None,
        destinations: Sequence[SSAValue] = (),
    ):
        super().__init__(
            operands=[inits, inputs, optional(offsets), optional(slots), destinations],
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
        if self.slot_axis is not None and not schedule.is_serial:
            raise VerifyException("lanes and warps across time have no rows without a slot: the schedule is serial")
        if self.slot_axis is not None and schedule.vector == self.slot_axis:
            raise VerifyException(f"vectors run along another axis than that of slots, got '{schedule.vector.data}'")

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


Scan = Dialect(
    "scan",
    [BlockScanOp, ComponentOp, DownSweepOp, GenericOp, ScanYieldOp, UpSweepOp],
    [ScheduleAttr],
)
