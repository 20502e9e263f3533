"""What one tile has to do, in which order, and what may share a loop over a state axis.

A task is a reduction that others wait for, the store of an output, or the commit of a state (its value after the
tile becomes the one before the next). Tasks over the same state axes that are ready together share a loop. A state is
committed only with or after the last task that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from scanweaver.dialects import recurrence, scan
from scanweaver.dialects.recurrence import ReduceKind
from scanweaver.transforms.skeleton.evaluate import Evaluator, New, Old


@dataclass(frozen=True)
class Task:
    """`what` is a reduce operation, or the index of an output or of a state."""

    kind: str
    what: recurrence.ReduceOp | int
    axes: tuple[str, ...]
    timed: bool
    waits: frozenset[SSAValue]
    """Results of reductions that it needs."""
    reads: frozenset[int]
    """States that it reads."""


class Planner:
    """Orders the tasks of a tile of `count` steps."""

    def __init__(self, evaluator: Evaluator, count: int):
        self.evaluator = evaluator
        self.op = evaluator.op
        self.count = count
        self.shifted = reads_other_positions(self.op)

    def groups(self) -> list[list[Task]]:
        pending = self._tasks()
        done: set[SSAValue] = set()
        groups: list[list[Task]] = []
        while pending:
            group = self._next(pending, done)
            if not group:
                raise PassFailedException("a step that reduces over its own states is walked one step at a time")
            groups.append(group)
            pending = [task for task in pending if task not in group]
            done |= {task.what.result for task in group if isinstance(task.what, recurrence.ReduceOp)}
        return groups

    def _next(self, pending: Sequence[Task], done: set[SSAValue]) -> list[Task]:
        ready = [task for task in pending if task.waits <= done]
        work = [task for task in ready if task.kind != "commit"]
        first = work[:1] or ready
        for candidate in first:
            group = [task for task in work if (task.axes, task.timed) == (candidate.axes, candidate.timed)]
            commits = [task for task in ready if task.kind == "commit" and task.axes == candidate.axes]
            if candidate.timed:
                group += self._last_readers(commits, [task for task in pending if task not in group])
            if group:
                return group
        return []

    def _last_readers(self, commits: list[Task], others: Sequence[Task]) -> list[Task]:
        """The commits whose states nobody outside of them reads any more."""
        if self.shifted:  # commits go to a second buffer, so the order is free
            return commits
        while True:
            outside = [task for task in others if task not in commits]
            kept = [c for c in commits if not any(c.what in task.reads for task in outside)]
            if len(kept) == len(commits):
                return kept
            commits = kept

    def _tasks(self) -> list[Task]:
        op = self.op
        tasks = [self._task("store", j, [value]) for j, value in enumerate(op.step_yield.outputs)]
        tasks += [self._task("commit", i, self._commit_needs(i)) for i in range(op.num_states)]
        known: set[SSAValue] = set()
        work = list(tasks)
        while work:
            for result in work.pop().waits - known:
                known.add(result)
                reduce = result.owner
                assert isinstance(reduce, recurrence.ReduceOp)
                task = self._task("reduce", reduce, [reduce.value])
                tasks.append(task)
                work.append(task)
        order = {result: n for n, result in enumerate(self._all_results())}

        def place(task: Task) -> tuple[bool, int]:
            """Reductions as they are written, then the others."""
            reduce = task.what
            return (False, order[reduce.result]) if isinstance(reduce, recurrence.ReduceOp) else (True, 0)

        return sorted(tasks, key=place)

    def _all_results(self) -> Iterable[SSAValue]:
        regions = [self.op.prelude, *(c.lift for c in self.op.component_ops if not c.is_sequential), self.op.step]
        return (result for region in regions for op in region.block.ops for result in op.results)

    def _commit_needs(self, state: int) -> list[SSAValue]:
        return [self.op.step_yield.states[state], self.op.step.block.args[state]]

    def _task(self, kind: str, what: recurrence.ReduceOp | int, values: Sequence[SSAValue]) -> Task:
        waits, reads = self._slice(values)
        evaluator, op = self.evaluator, self.op
        timed = True
        if isinstance(what, recurrence.ReduceOp):
            axes: Iterable[str] = what.axis_names
            timed = evaluator.time in evaluator.axes[what.value]
        else:
            axes = op.states[what].axes if kind == "commit" else op.result_arrays[what].axes
        return Task(
            kind,
            what,
            tuple(axis for axis in evaluator.state_axes if axis in set(axes)),
            timed,
            frozenset(waits),
            frozenset(reads),
        )

    def _slice(self, values: Sequence[SSAValue]) -> tuple[set[SSAValue], set[int]]:
        """The finished reductions and the states that values are computed from."""
        evaluator = self.evaluator
        waits: set[SSAValue] = set()
        reads: set[int] = set()
        seen: set[SSAValue] = set()
        work = list(values)

        def component(state: int, new: bool) -> None:
            reads.add(state)
            op = evaluator.components[evaluator.component_of[state]]
            if evaluator.lanes is not None:
                work.extend(scan.yielded(op.lift))
            if new or self.count > 1:
                work.extend(self.op.step_yield.states[i] for i in op.state_indices)

        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            match evaluator.alias.get(value):
                case Old(state):
                    component(state, new=False)
                    continue
                case New(state):
                    component(state, new=True)
                    continue
                case SSAValue() as other:
                    work.append(other)
                    continue
                case None:
                    pass
            owner = value.owner
            if isinstance(value, BlockArgument) or not isinstance(owner, Operation):
                continue
            if isinstance(owner, recurrence.ReduceOp) and not evaluator.axes[value] & set(evaluator.state_axes):
                waits.add(value)
            else:
                work.extend(owner.operands)
        return waits, reads


def reads_other_positions(op: scan.GenericOp) -> bool:
    """Whether a state may be read at another position than the one being updated."""
    regions = [op.step, *(component.lift for component in op.component_ops if not component.is_sequential)]
    return any(
        isinstance(inner, recurrence.RenameOp | recurrence.TakeOp) for region in regions for inner in region.block.ops
    )


def axes_with_positions(op: scan.GenericOp) -> set[str]:
    """State axes by which a step tells positions apart: the lanes of a vector do not."""
    axes: set[str] = set()
    for region in (op.prelude, op.step):
        for inner in region.block.ops:
            match inner:
                case recurrence.ReduceOp() if inner.kind.data in (ReduceKind.ARGMAX, ReduceKind.ARGMIN):
                    axes |= set(inner.axis_names)
                case recurrence.RenameOp():
                    axes |= {inner.source_axis, inner.target_axis}
                case recurrence.TakeOp():
                    axes.add(inner.axis_name)
                case _:
                    pass
    return axes


def needs_single_steps(op: scan.GenericOp) -> bool:
    """Whether a state's step reduces over (or reads elsewhere in) the states of its own component, so that a tile
    can hold only one step."""
    step = op.step.block
    reads: dict[SSAValue, tuple[frozenset[int], frozenset[int]]] = {}  # states read at all; read across positions
    for i, arg in enumerate(step.args):
        reads[arg] = (frozenset([i]) if i < op.num_states else frozenset[int](), frozenset[int]())
    for inner in step.ops:
        direct = frozenset[int]().union(*(reads[operand][0] for operand in inner.operands))
        across = frozenset[int]().union(*(reads[operand][1] for operand in inner.operands))
        if isinstance(inner, recurrence.ReduceOp | recurrence.RenameOp | recurrence.TakeOp):
            across |= direct
        reads.update((result, (direct, across)) for result in inner.results)
    for component in op.component_ops:
        states = frozenset(component.state_indices)
        if any(reads[op.step_yield.states[i]][1] & states for i in states):
            return True
    return False
