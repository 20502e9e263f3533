"""Values of a step on demand, each written once, at the outermost scope that knows its axes.

A value is asked for at a step k of the tile (0 … K-1). One that does not vary over time, or not over the state axis
of the loop being written, lands outside of it: `A·log2e` per state, `softplus(dt)` per step and not per state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from scanweaver.dialects import recurrence, scan
from scanweaver.dialects.arith import is_vector, like, of_any_shape
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.recurrence import Axes, block_axes
from scanweaver.transforms.skeleton.carry import Carry
from scanweaver.transforms.skeleton.memory import Memory, Steps, Tensor
from scanweaver.transforms.skeleton.reductions import Reduction
from scanweaver.transforms.skeleton.scopes import Rebinding, Scope, Writer

Body = Callable[[Sequence[SSAValue]], Sequence[SSAValue]]
"""What a loop does with the values that it carries."""


@dataclass(frozen=True)
class Lanes:
    """This thread's place among those that share a row's tile of time, for `scan.block_scan`."""

    lane: SSAValue
    warp: SSAValue
    row: SSAValue
    scratch: Mapping[int, Sequence[SSAValue]]
    """Workgroup buffers per component (its position), one per element value, where several warps share a row."""


@dataclass
class Tile:
    """The stretch of K steps that this lane walks."""

    steps: Steps
    valid: Sequence[SSAValue] | None
    """Whether each step exists; None: all do."""
    owner: SSAValue | None
    """Whether this lane walks the tile's last step (None: it does)."""

    @property
    def count(self) -> int:
        return len(self.steps.positions)


@dataclass(frozen=True)
class Old:
    state: int


@dataclass(frozen=True)
class New:
    state: int


class Evaluator:
    """Evaluates the values of one `scan.generic` for one row, tile after tile."""

    def __init__(
        self,
        op: scan.GenericOp,
        write: Writer,
        memory: Memory,
        inputs: Sequence[Tensor | SSAValue],
        carries: Sequence[Carry],
        lanes: Lanes | None,
    ):
        self.op = op
        self.write = write
        self.memory = memory
        self.inputs = inputs
        self.carries = carries
        self.lanes = lanes
        self.time = op.time_axis
        self.state_axes = op.axes_of_kind(IteratorKind.STATE)
        self.components = op.component_ops
        self.component_of = {i: c for c, component in enumerate(self.components) for i in component.state_indices}
        self.axes: dict[SSAValue, Axes] = {}
        self.alias: dict[SSAValue, SSAValue | Old | New] = {}
        self.kept: dict[SSAValue, Carry] = {}
        """Values that are computed already, by `placement.keep_untimed`."""
        self.kept_at = write.root
        """The scope that fills their buffers: what is written outside of it computes the values itself."""
        self._name_values()
        self._tile: Tile | None = None

    def _name_values(self) -> None:
        """Axes of every value of every region, and what each region's arguments stand for."""
        op = self.op
        prelude = scan.yielded(op.prelude)
        self.axes |= block_axes(op.prelude.block, op.input_axes)
        self.axes |= block_axes(op.step.block, op.step_axes())
        states = [Old(i) for i in range(op.num_states)]
        self.alias |= dict(zip(op.step.block.args, [*states, *prelude], strict=True))
        for component in self.components:
            if component.is_sequential:
                continue
            earlier = op.lift_states(component)
            stands_for = [*(Old(i) for i in earlier), *(New(i) for i in earlier), *prelude]
            self.axes |= block_axes(component.lift.block, op.lift_axes(component))
            self.alias |= dict(zip(component.lift.block.args, stands_for, strict=True))

    @property
    def tile(self) -> Tile:
        assert self._tile is not None
        return self._tile

    def enter(self, tile: Tile) -> None:
        self._tile = tile

    # --- scopes -----------------------------------------------------------------------------------------------

    def binder(self, axes: Axes) -> Scope:
        """The outermost scope in which a value with these axes can be written."""
        found: Scope | None = None
        missing = set(axes)
        for scope in self.write.scope.chain():
            here = missing & scope.bound.keys()
            if here and found is None:
                found = scope
            missing -= here
        assert not missing, f"axes {missing} are not bound"
        return self.write.root if found is None else found

    def position(self, axis: str) -> SSAValue:
        return next(scope.bound[axis] for scope in self.write.scope.chain() if axis in scope.bound)

    def positions(self, axes: Sequence[str]) -> dict[str, SSAValue]:
        """Positions along the state axes among `axes`; a tensor's pointer holds those along parallel axes."""
        return {axis: self.position(axis) for axis in axes if axis in self.state_axes}

    # --- values -----------------------------------------------------------------------------------------------

    def value(self, value: SSAValue, k: int) -> SSAValue:
        """A region's value at step k of the tile."""
        match self.alias.get(value):
            case Old(state):
                return self.old(state, k)
            case New(state):
                return self.new(state, k)
            case SSAValue() as other:
                return self.value(other, k)
            case None:
                pass
        axes = self.axes[value]
        key = (value, k if self.time in axes else None)
        scope = self.binder(axes)
        if key not in scope.memo:
            with self.write.at(scope):
                scope.memo[key] = self._written(value, k)
        return scope.memo[key]

    def _written(self, value: SSAValue, k: int) -> SSAValue:
        if value in self.kept and self.kept_at in self.write.scope.chain():
            return self.kept[value].load(self.memory, self.positions(tuple(self.axes[value])))
        if isinstance(value, BlockArgument):
            return self._input(value.index, k)
        op = value.owner
        assert isinstance(op, Operation)
        match op:
            case arith.ConstantOp():
                return self.write.at_entry(op.clone())
            case recurrence.ReduceOp():
                return self.reduce(op, k)
            case recurrence.RenameOp():
                with self.write.rebinding({op.source_axis: self.position(op.target_axis)}):
                    return self.value(op.value, k)
            case recurrence.TakeOp():
                bound = {op.axis_name: self.taken_from(op, k)}
                with self.write.rebinding(bound, one_step=self.time in self.axes[op.index]):
                    return self.value(op.value, k)
            case _:
                operands = [self.value(operand, k) for operand in op.operands]
                return self.copy(op, operands)[op.results.index(value)]

    def taken_from(self, op: recurrence.TakeOp, k: int) -> SSAValue:
        """The position that a value is taken from: one outside of the axis may stand where nothing is read of it
        (behind a select), and takes the nearest one."""
        axes = self.axes[op.index]
        key = ("position", op.index, op.axis_name, k if self.time in axes else None)
        scope = self.binder(axes)
        if key not in scope.memo:
            index = self.value(op.index, k)
            with self.write.at(scope):
                size = self.op.sizes[op.axis_name]
                if not size:
                    raise PassFailedException(f"take from axis {op.axis_name!r}, which has size 0")
                scope.memo[key] = self.write.clamped(self.write.to_i64(index), 0, size - 1)
        return scope.memo[key]

    def copy(self, op: Operation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The operation on these operands, over vector lanes where any of them is one."""
        kind, types = type(op), [result.type for result in op.results]
        wide = next((operand.type for operand in operands if is_vector(operand.type)), None)
        if wide is not None:
            operands = [self.broadcast(operand) for operand in operands]
            kind, types = of_any_shape(kind), [like(wide, type) for type in types]
        return self.write.insert(
            kind.create(operands=operands, result_types=types, properties=dict(op.properties))
        ).results

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a·b + c with one rounding, over vector lanes where any of them is one."""
        if any(is_vector(value.type) for value in (a, b, c)):
            a, b, c = (self.broadcast(value) for value in (a, b, c))
        return self.write.value(math.FmaOp(a, b, c))

    def broadcast(self, value: SSAValue) -> SSAValue:
        return self.write.wide(value, VectorType(i64, [self.memory.width]))

    def is_vector(self, axes: Axes) -> bool:
        """Whether a value with these axes differs from lane to lane: along the vector axis, or where it is taken
        from positions that do."""
        return self.memory.is_vector(tuple(axes)) or any(
            is_vector(position.type) for position in self.positions(tuple(axes)).values()
        )

    def widened(self, value: SSAValue, axes: Sequence[str] | Axes) -> SSAValue:
        """A value as something with these axes holds it: broadcast where that is a vector."""
        return self.broadcast(value) if self.memory.is_vector(tuple(axes)) else value

    def _input(self, index: int, k: int) -> SSAValue:
        source = self.inputs[index]
        if isinstance(source, SSAValue):
            return source
        positions = self.positions(source.axes)
        if self.time not in source.axes:
            return self.memory.load(source, positions)
        if isinstance(self.write.scope, Rebinding) and self.write.scope.one_step:
            return self.memory.load(source, {**positions, self.time: self.tile.steps.positions[k]})
        memo = self.write.scope.memo
        if ("steps", index) not in memo:
            memo["steps", index] = self.memory.load_steps(source, positions, self.time, self.tile.steps)
        return memo["steps", index][k]

    # --- reductions -------------------------------------------------------------------------------------------

    def reduce(self, op: recurrence.ReduceOp, k: int) -> SSAValue:
        """A reduction over state axes, in loops of its own."""
        reduction = Reduction(self, op, [k])
        return reduction.finish(self.nest(op.axis_names, reduction.start(), reduction.accumulate))[0]

    def nest(self, axes: Sequence[str], carried: Sequence[SSAValue], body: Body) -> Sequence[SSAValue]:
        """Loops over state axes, the first outermost, that carry values through `body(carried)`."""
        if not axes:
            return body(carried)
        write = self.write
        stride = self.memory.width if self.memory.is_vector((axes[0],)) else 1
        return write.loop(
            write.constant(0),
            write.constant(self.size(axes[0])),
            write.constant(stride),
            carried,
            lambda _, inner: self.nest(axes[1:], inner, body),
            axes[0],
        )

    def size(self, axis: str) -> int:
        if axis not in self.op.sizes:
            raise PassFailedException(f"the size of state axis '{axis}' must be static")
        return self.op.sizes[axis]

    # --- states -----------------------------------------------------------------------------------------------

    def new(self, state: int, k: int) -> SSAValue:
        """The state after step k."""
        value = self.value(self.op.step_yield.states[state], k)
        return self.widened(value, self.op.states[state].axes)

    def old(self, state: int, k: int) -> SSAValue:
        """The state before step k."""
        for earlier in range(k):  # in order of time, so that no step recurses through all before it
            self.new(state, earlier)
        if k:
            return self.new(state, k - 1)
        return self._carried(state) if self.lanes is None else self._incoming(self.component_of[state])[state]

    def _carried(self, state: int) -> SSAValue:
        """A state before this tile."""
        key = ("carried", state)
        scope = self.binder(self.op.state_axes[state])
        if key not in scope.memo:
            with self.write.at(scope):
                positions = self.positions(self.op.states[state].axes)
                scope.memo[key] = self.carries[state].load(self.memory, positions)
        return scope.memo[key]

    def _incoming(self, index: int) -> dict[int, SSAValue]:
        """A proved component's states before this lane's stretch."""
        states = self.components[index].state_indices
        scope = self.binder(self.op.state_axes[states[0]])
        key = ("incoming", index)
        if key not in scope.memo:
            with self.write.at(scope):
                assert self.lanes is not None
                carry = [self._carried(i) for i in states]
                incoming = self._scanned(index, self.components[index], carry, self.lanes)
                scope.memo[key] = dict(zip(states, incoming, strict=True))
        return scope.memo[key]

    def _scanned(
        self, index: int, component: scan.ComponentOp, carry: Sequence[SSAValue], lanes: Lanes
    ) -> list[SSAValue]:
        element = self._element(component, 0)
        for k in range(1, self.tile.count):
            element = self.inline(component.combine.block, [*element, *self._element(component, k)])
        schedule = self.op.schedule
        assert schedule is not None
        op = self.write.insert(
            scan.BlockScanOp(
                element,
                carry,
                [lanes.lane, lanes.warp, lanes.row],
                lanes.scratch.get(index, ()),
                component.combine.clone(),
                component.apply.clone(),
                lanes=schedule.lanes.data,
                row_lanes=schedule.row_lanes.data,
                warps=schedule.warps.data,
                algorithm=schedule.algorithm.data,
            )
        )
        return list(op.results)

    def _element(self, component: scan.ComponentOp, k: int) -> list[SSAValue]:
        return [self.value(value, k) for value in scan.yielded(component.lift)]

    def inline(self, block: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """A combine or apply region, on these arguments."""
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, scan.ScanYieldOp):
                return [values[value] for value in op.values]
            values |= dict(zip(op.results, self.copy(op, [values[operand] for operand in op.operands]), strict=True))
        raise AssertionError("a region without scan.yield")
