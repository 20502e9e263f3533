"""A strongly connected component of a body's states, and the region in which a proof lifts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from scanweaver.dialects.scan import ScanYieldOp

SOURCE = "recurrence.source"
"""The discardable attribute that says which line of the user's program an operation comes from."""


class Refused(Exception):
    """A component is not what an algebra proves: the operation that stands in the way, and why."""

    def __init__(self, op: Operation | None, why: str):
        super().__init__(why)
        self.op = op
        self.why = why

    @property
    def reason(self) -> str:
        if self.op is None:
            return self.why
        source = self.op.attributes.get(SOURCE)
        where = f" ({source.data})" if isinstance(source, StringAttr) else ""
        return f"{self.op.name} {self.why}{where}"


@dataclass(frozen=True)
class Proof:
    """What an algebra proved: the three regions of a `scan.component`."""

    lift: Region
    combine: Region
    apply: Region


@dataclass(frozen=True)
class Component:
    """States that depend on each other, as an algebra sees them.

    `states` index the body's states; `old` are their block arguments and `new` what the step yields for them.
    `depends` tells which old states each value of the body reads. `leaves` are the values that a lift gets as
    arguments, in order: old and new states of earlier components, then prelude values.
    """

    states: tuple[int, ...]
    names: tuple[str, ...]
    old: tuple[SSAValue, ...]
    new: tuple[SSAValue, ...]
    depends: Mapping[SSAValue, frozenset[int]]
    leaves: tuple[SSAValue, ...]

    def reads(self, value: SSAValue) -> frozenset[int]:
        """The states of this component that a value depends on."""
        return self.depends[value] & frozenset(self.states)

    def is_free(self, value: SSAValue) -> bool:
        return not self.reads(value)

    @property
    def is_delay(self) -> bool:
        """Whether it never reads itself."""
        return all(self.is_free(value) for value in self.new)

    @property
    def described(self) -> str:
        names = [f"'{name}'" for name in self.names]
        return f"state {names[0]}" if len(names) == 1 else f"states {', '.join(names)}"


class Lift:
    """Builds a component's lift region: copies the state-free operations that its element needs."""

    def __init__(self, component: Component):
        self.component = component
        self.region = Region(Block(arg_types=[value.type for value in component.leaves]))
        self.builder = Builder(InsertPoint.at_end(self.region.block))
        self._values: dict[SSAValue, SSAValue] = {}
        for leaf, arg in zip(component.leaves, self.region.block.args, strict=True):
            # A value may be a leaf twice (a new state that is also a prelude value): the first serves.
            self._values.setdefault(leaf, arg)
            arg.name_hint = leaf.name_hint

    def free(self, value: SSAValue) -> SSAValue:
        """A value that does not read the component, inside the lift."""
        if value not in self._values:
            op = value.owner
            assert isinstance(op, Operation) and self.component.is_free(value)
            for operand in op.operands:
                self.free(operand)
            copy = self.builder.insert(op.clone(self._values))
            self._values.update(zip(op.results, copy.results, strict=True))
        return self._values[value]

    def finish(self, element: Sequence[SSAValue]) -> Region:
        """The region, yielding the element."""
        self.builder.insert(ScanYieldOp(element))
        return self.region


class Draft:
    """A one-block region under construction."""

    def __init__(self, arg_types: Sequence[Attribute]):
        self.region = Region(Block(arg_types=arg_types))
        self.builder = Builder(InsertPoint.at_end(self.region.block))

    @property
    def args(self) -> tuple[BlockArgument, ...]:
        return tuple(self.region.block.args)

    def finish(self, values: Sequence[SSAValue]) -> Region:
        self.builder.insert(ScanYieldOp(values))
        return self.region


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)
