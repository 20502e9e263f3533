"""Where each value of a step is computed: at the outermost level that knows its axes, as `skeleton/` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from scanweaver.algebras.component import SOURCE
from scanweaver.dialects import recurrence, scan
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.recurrence import Axes, block_axes
from scanweaver.explain.expressions import ATOM, WIDENED, formula

MAX_FORMULA = 64
"""Characters from which on a part of a formula gets a name."""


class Level(Enum):
    """From the outermost to the innermost; a position is one along the axes that values mix along.

    What a row's positions know without a step is computed before the walk on a CPU, where it fits, else once a tile.
    The last level, by what it needs, comes after a loop over positions.
    """

    KERNEL = "once"
    ROW = "once per row"
    ROW_AND_STATE = "once per row, or once a tile, and position"
    STEP = "once per step"
    STATE_AND_STEP = "once per step and position"
    AFTER_REDUCE = "once per step, after the reduce"


@dataclass(frozen=True)
class Read:
    """An input, and the level at which it is read."""

    level: Level
    name: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """A value of the step: `name` = `text`, computed at a level; `inline`: it stands inside another's text only."""

    level: Level
    operation: str
    name: str
    text: str
    axes: tuple[str, ...]
    source: str
    inline: bool


def level(axes: Axes, states: Axes, time: str, reduced: bool = False) -> Level:
    """The level of a value with these axes; `reduced`: it needs the outcome of a reduce over the states."""
    if axes & states:
        return Level.STATE_AND_STEP if time in axes else Level.ROW_AND_STATE
    if time in axes:
        return Level.AFTER_REDUCE if reduced else Level.STEP
    return Level.ROW if axes else Level.KERNEL


class Placement:
    """The values of a scheduled scan's prelude and step, in order."""

    def __init__(self, op: scan.GenericOp):
        self.op = op
        self.states = frozenset(op.axes_of_kind(IteratorKind.STATE))
        self.axes = block_axes(op.prelude.block, op.input_axes) | block_axes(op.step.block, op.step_axes())
        self.alias: dict[SSAValue, SSAValue] = dict(
            zip(op.step.block.args[op.num_states :], scan.yielded(op.prelude), strict=True)
        )
        self.names: dict[SSAValue, str] = {}
        self._helpers = 0
        self._texts: dict[SSAValue, tuple[str, int]] = {}
        self._reduced = self._after_reduce()
        self._name_arguments()

    def placed(self) -> Iterator[Placed]:
        """Every operation but constants."""
        ends = self._ends()
        for inner in self._operations():
            value = inner.results[0]
            self._texts[value] = text, _ = formula(inner, self._text)
            inline = value not in ends and self._is_inlined(value, text)
            if not inline:
                self.names[value] = ends.get(value) or self._helper()
            yield Placed(
                self.level(value),
                inner.name,
                self.names.get(value, ""),
                text,
                tuple(axis for axis in self.op.axis_names if axis in self._loop_axes(value)),
                _source(inner),
                inline,
            )

    def reads(self) -> list[Read]:
        """Where the inputs are read."""
        arrays = zip(self.op.prelude.block.args, self.op.input_arrays, strict=True)
        return [Read(self.level(argument), array.name, array.axes) for argument, array in arrays]

    def level(self, value: SSAValue) -> Level:
        axes, time = self._loop_axes(value), self.op.time_axis
        return level(axes, self.states, time, value in self._reduced)

    def _loop_axes(self, value: SSAValue) -> Axes:
        """The axes that it is computed over: of a reduce, its operand's."""
        owner = value.owner
        return self.axes[owner.value if isinstance(owner, recurrence.ReduceOp) else value]

    def _after_reduce(self) -> set[SSAValue]:
        """The values that need the outcome of a reduce."""
        found: set[SSAValue] = set()
        for inner in self._operations():
            if any(self._named(o) in found or isinstance(o.owner, recurrence.ReduceOp) for o in inner.operands):
                found.update(inner.results)
        return found

    def _helper(self) -> str:
        """A name that no array has."""
        taken = {array.name for array in (*self.op.states, *self.op.input_arrays, *self.op.result_arrays)}
        while True:
            self._helpers += 1
            if (name := f"v{self._helpers}") not in taken:
                return name

    # --- names ------------------------------------------------------------------------------------------------

    def _name_arguments(self) -> None:
        for argument, array in zip(self.op.prelude.block.args, self.op.input_arrays, strict=True):
            self.names[argument] = array.name
        for argument, state in zip(self.op.step.block.args, self.op.states, strict=False):
            self.names[argument] = state.name

    def _ends(self) -> dict[SSAValue, str]:
        """What the step yields, by its names."""
        found: dict[SSAValue, str] = {}
        results = self.op.result_arrays
        for value, result in zip(self.op.step_yield.outputs, results, strict=False):
            found.setdefault(self._named(value), result.name)
        for value, state in zip(self.op.step_yield.states, self.op.states, strict=True):
            found[self._named(value)] = f"new {state.name}"
        return {value: name for value, name in found.items() if isinstance(value.owner, Operation)}

    def _named(self, value: SSAValue) -> SSAValue:
        return self.alias.get(value, value)

    def _text(self, value: SSAValue) -> tuple[str, int]:
        value = self._named(value)
        if value in self.names:
            return self.names[value], ATOM
        if isinstance(value.owner, arith.ConstantOp):
            return formula(value.owner, self._text)
        return self._texts[value]

    def _is_inlined(self, value: SSAValue, text: str) -> bool:
        """Whether it stands inside the one formula that needs it, at the same place."""
        if isinstance(value.owner, recurrence.RenameOp | WIDENED):
            return True  # no more than a read, at another position or as a wider type
        users = self._users(value)
        if len(text) > MAX_FORMULA or len(users) != 1 or not users[0].results:
            return False
        user = users[0].results[0]
        return self._loop_axes(value) == self._loop_axes(user) and self.level(value) is self.level(user)

    def _users(self, value: SSAValue) -> list[Operation]:
        """What reads a value, in the prelude and in the step."""
        values = [value, *(argument for argument, named in self.alias.items() if named is value)]
        users = [use.operation for each in values for use in each.uses]
        return [user for user in users if not isinstance(user, scan.ScanYieldOp)]

    # --- the step ---------------------------------------------------------------------------------------------

    def _operations(self) -> Iterator[Operation]:
        blocks: Sequence[Block] = (self.op.prelude.block, self.op.step.block)
        for block in blocks:
            for inner in block.ops:
                if inner.results and not isinstance(inner, arith.ConstantOp):
                    yield inner


def _source(op: Operation) -> str:
    """The user's line; of a conversion before a store, that of what is stored."""
    source = op.attributes.get(SOURCE)
    if isinstance(source, StringAttr):
        return source.data
    return next((_source(o.owner) for o in op.operands if isinstance(o.owner, Operation)), "")
