"""One tile of time: its tasks, written in loops over the state axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from scanweaver.dialects.arith import like, split_type
from scanweaver.dialects.recurrence import ReduceOp
from scanweaver.transforms.skeleton.carry import Carry
from scanweaver.transforms.skeleton.evaluate import Body, Evaluator, Tile
from scanweaver.transforms.skeleton.memory import Steps, Tensor, byte_size
from scanweaver.transforms.skeleton.phases import Planner, Task
from scanweaver.transforms.skeleton.reductions import Reduction
from scanweaver.transforms.skeleton.scopes import Scope


class TileWriter:
    """Writes tiles: evaluates a step's tasks and stores what comes out.

    `outputs` are the tensors of the outputs, `stores` the condition under which this row stores each (None: always).
    `next` are the buffers that new states go to where old ones are still read (else the carries themselves).
    `before_commit` orders the lanes' reads of old states before the writes of new ones.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        outputs: Sequence[Tensor],
        stores: Sequence[SSAValue | None],
        next: Sequence[Carry] | None,
        before_commit: Callable[[], None] | None = None,
    ):
        self.evaluator = evaluator
        self.write = evaluator.write
        self.outputs = outputs
        self.stores = stores
        self.next = next
        self.before_commit = before_commit

    def tile(self, tile: Tile) -> None:
        evaluator = self.evaluator
        evaluator.enter(tile)
        with self.write.rebinding({evaluator.time: tile.steps.first}):
            for group in Planner(evaluator, tile.count).groups():
                self._group(group, tile)
            if self.next is not None:
                self._copy_states(self.next, tile)

    def _group(self, group: Sequence[Task], tile: Tile) -> None:
        evaluator = self.evaluator
        timed = group[0].timed
        steps = range(tile.count) if timed else range(1)
        reductions = {
            task.what: Reduction(evaluator, task.what, steps) for task in group if isinstance(task.what, ReduceOp)
        }

        def body(carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            results: list[SSAValue] = []
            for reduction in reductions.values():
                mine = carried[len(results) : len(results) + reduction.carried]
                results += reduction.accumulate(mine)
            for task in group:
                if task.kind == "store":
                    assert isinstance(task.what, int)
                    self._store(task.what, tile)
            states = [task.what for task in group if task.kind == "commit" and isinstance(task.what, int)]
            after = [self._after(state, tile) for state in states]  # all of them before one is overwritten
            if states and self.before_commit is not None:
                self.before_commit()
            for state, value in zip(states, after, strict=True):
                self._commit(state, value, tile)
            return results

        outer = evaluator.binder(frozenset([evaluator.time])) if timed else self._outside_time(reductions)
        with self.write.at(outer):
            start = [value for reduction in reductions.values() for value in reduction.start()]
            carried = list(evaluator.nest(group[0].axes, start, body))
            for op, reduction in reductions.items():
                values = reduction.finish(carried[: reduction.carried])
                del carried[: reduction.carried]
                memo = evaluator.binder(evaluator.axes[op.result]).memo
                memo.update(((op.result, k if timed else None), value) for k, value in zip(steps, values, strict=True))

    def _outside_time(self, reductions: dict[ReduceOp, Reduction]) -> Scope:
        axes = frozenset[str]().union(*(self.evaluator.axes[op.result] for op in reductions))
        return self.evaluator.binder(axes)

    def _store(self, output: int, tile: Tile) -> None:
        """An output's K steps."""
        evaluator, write = self.evaluator, self.write
        tensor, allowed = self.outputs[output], self.stores[output]
        value = evaluator.op.step_yield.outputs[output]
        values = [evaluator.widened(evaluator.value(value, k), tensor.axes) for k in range(tile.count)]
        positions = evaluator.positions(tensor.axes)

        def store(steps: Steps, values: Sequence[SSAValue]) -> None:
            evaluator.memory.store_steps(tensor, positions, evaluator.time, steps, values)

        if tile.valid is None:
            self.write.when(allowed, lambda: store(tile.steps, values))
            return
        for at, valid, value in zip(tile.steps.positions, tile.valid, values, strict=True):
            one = Steps((at,), at, reverse=False, whole=False)
            self.write.when(write.both(allowed, valid), lambda one=one, value=value: store(one, [value]))

    def _after(self, state: int, tile: Tile) -> SSAValue:
        """The state after the tile's last step."""
        evaluator, write = self.evaluator, self.write
        value = evaluator.new(state, 0)
        for k in range(1, tile.count):
            new = evaluator.new(state, k)
            value = new if tile.valid is None else write.select(tile.valid[k], new, value)
        return value

    def _commit(self, state: int, value: SSAValue, tile: Tile) -> None:
        evaluator = self.evaluator
        carry = (self.next or evaluator.carries)[state]
        positions = evaluator.positions(evaluator.op.states[state].axes)
        self.write.when(tile.owner, lambda: carry.store(evaluator.memory, positions, value))

    def _copy_states(self, next: Sequence[Carry], tile: Tile) -> None:
        evaluator = self.evaluator
        for i, state in enumerate(evaluator.op.states):
            axes = [axis for axis in evaluator.state_axes if axis in state.axes]

            def body(_: Sequence[SSAValue], i: int = i, axes: list[str] = axes) -> Sequence[SSAValue]:
                positions = evaluator.positions(axes)
                value = next[i].load(evaluator.memory, positions)
                self.write.when(tile.owner, lambda: evaluator.carries[i].store(evaluator.memory, positions, value))
                return ()

            evaluator.nest(axes, (), body)


def start_states(evaluator: Evaluator, inits: Sequence[Tensor | SSAValue]) -> None:
    """Puts the initial states into the carries."""
    op = evaluator.op
    for i, (init, state) in enumerate(zip(inits, op.states, strict=True)):
        axes = [axis for axis in evaluator.state_axes if axis in state.axes]

        def body(_: Sequence[SSAValue], i: int = i, init: Tensor | SSAValue = init) -> Sequence[SSAValue]:
            state = op.states[i]
            value = init if isinstance(init, SSAValue) else evaluator.memory.load(init, evaluator.positions(init.axes))
            value = evaluator.widened(converted(evaluator, value, state.type), state.axes)
            evaluator.carries[i].store(evaluator.memory, evaluator.positions(state.axes), value)
            return ()

        evaluator.nest(axes, (), body)


def store_last(evaluator: Evaluator, lasts: Sequence[Tensor], stores: Sequence[SSAValue | None]) -> None:
    """Stores the states after the last step."""
    op, write = evaluator.op, evaluator.write
    for i, tensor, allowed in zip(op.last_states, lasts, stores, strict=True):
        axes = [axis for axis in evaluator.state_axes if axis in op.states[i].axes]

        def body(_: Sequence[SSAValue], i: int = i, tensor: Tensor = tensor) -> Sequence[SSAValue]:
            value = evaluator.carries[i].load(evaluator.memory, evaluator.positions(op.states[i].axes))
            value = converted(evaluator, value, tensor.element)
            evaluator.memory.store(tensor, evaluator.positions(tensor.axes), value)
            return ()

        def all_positions(axes: list[str] = axes, body: Body = body) -> None:
            evaluator.nest(axes, (), body)

        write.when(allowed, all_positions)


def clear_outputs(
    evaluator: Evaluator, outputs: Sequence[Tensor], stores: Sequence[SSAValue | None], steps: SSAValue
) -> None:
    """Stores 0 at every step of the outputs: what a row without a slot gives."""
    write = evaluator.write
    for tensor, allowed in zip(outputs, stores, strict=True):

        def at_positions(_: Sequence[SSAValue], tensor: Tensor = tensor) -> Sequence[SSAValue]:
            zero = evaluator.widened(write.constant(0, tensor.element), tensor.axes)
            positions = evaluator.positions(tensor.axes) | {evaluator.time: evaluator.position(evaluator.time)}
            evaluator.memory.store(tensor, positions, zero)
            return ()

        def at_steps(tensor: Tensor = tensor, body: Body = at_positions) -> None:
            axes = [axis for axis in evaluator.state_axes if axis in tensor.axes]

            def step(_: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                return evaluator.nest(axes, carried, body)

            write.loop(write.constant(0), steps, write.constant(1), (), step, evaluator.time)

        write.when(allowed, at_steps)


def converted(evaluator: Evaluator, value: SSAValue, type: Attribute) -> SSAValue:
    """A value in the type that a state is computed or kept in: floats widen or round."""
    element = split_type(value.type)[0]
    if element == type:
        return value
    op = arith.ExtFOp if byte_size(element) < byte_size(type) else arith.TruncFOp
    return evaluator.write.value(op(value, like(value.type, type)))
