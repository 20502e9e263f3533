"""Where code is being written: nested scopes, each with the axes that it binds and the values it holds.

A scope that has a loop under construction inserts *before* that loop: a value asked for inside the loop that does
not depend on what the loop binds is thereby written outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerType, VectorType, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from scanweaver.dialects.arith import CmpiOp, ExtSIOp, ExtUIOp, IndexCastOp, SelectOp, is_vector, like, split_type

OpT = TypeVar("OpT", bound=Operation)
LoopBody = Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]]
"""What a loop does at a position with the values that it carries."""


class Scope:
    """A block under construction."""

    def __init__(self, block: Block, parent: Scope | None, bound: dict[str, SSAValue] | None = None):
        self.block = block
        self.parent = parent
        self.bound = bound or {}
        self.memo: dict[Any, Any] = {}
        self.anchor: Operation | None = None
        self.depth: int = 0 if parent is None else parent.depth + 1

    @property
    def point(self) -> InsertPoint:
        return InsertPoint.at_end(self.block) if self.anchor is None else InsertPoint.before(self.anchor)

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


class Rebinding(Scope):
    """A scope without a block of its own: it only gives an axis another position (rename, take).

    `one_step`: that position is one step's; at the next step it is another.
    """

    one_step: bool = False

    @property
    def point(self) -> InsertPoint:
        assert self.parent is not None
        return self.parent.point


class Writer:
    """Writes operations into the current scope."""

    def __init__(self, entry: Block):
        self.root = Scope(entry, None)
        self.scope = self.root
        self._constants: dict[tuple[Attribute, str], SSAValue] = {}

    @classmethod
    def before(cls, op: Operation) -> Writer:
        """A writer in front of an operation."""
        block = op.parent_block()
        assert block is not None
        writer = cls(block)
        writer.root.anchor = op
        return writer

    def insert(self, op: OpT) -> OpT:
        Rewriter.insert_op(op, self.scope.point)
        return op

    def value(self, op: Operation) -> SSAValue:
        """Inserts an operation and gives its only result."""
        return self.insert(op).results[0]

    @contextmanager
    def at(self, scope: Scope) -> Generator[None]:
        saved, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = saved

    @contextmanager
    def rebinding(self, bound: dict[str, SSAValue], one_step: bool = False) -> Generator[None]:
        """Other positions for some axes; the same ones again find the values written under them."""
        key = ("rebinding", *bound.items())
        if key not in self.scope.memo:
            self.scope.memo[key] = Rebinding(self.scope.block, self.scope, bound)
            self.scope.memo[key].one_step = one_step
        with self.at(self.scope.memo[key]):
            yield

    def at_entry(self, op: Operation) -> SSAValue:
        """Inserts an operation without operands at the function's start."""
        first = self.root.block.first_op
        point = InsertPoint.at_end(self.root.block) if first is None else InsertPoint.before(first)
        Rewriter.insert_op(op, point)
        return op.results[0]

    # --- control flow -----------------------------------------------------------------------------------------

    def loop(
        self,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        inits: Sequence[SSAValue],
        body: LoopBody,
        axis: str | None = None,
    ) -> Sequence[SSAValue]:
        """`scf.for`; the body gets the position (bound to `axis`, if named) and the carried values."""
        block = Block(arg_types=[lower.type, *(value.type for value in inits)])
        op = self.insert(scf.ForOp(lower, upper, step, inits, Region(block)))
        position = block.args[0]
        self._nested(op, block, {axis: position} if axis else {}, lambda: body(position, block.args[1:]))
        return op.results

    def when(
        self, condition: SSAValue | None, body: Callable[[], None], otherwise: Callable[[], None] | None = None
    ) -> None:
        """`scf.if` without results; no condition means always."""
        if condition is None:
            body()
            return
        block, other = Block(), Block()
        regions = (Region(block), Region([] if otherwise is None else other))
        op = self.insert(scf.IfOp(condition, [], *regions))
        self._nested(op, block, {}, _without_results(body))
        if otherwise is not None:
            self._nested(op, other, {}, _without_results(otherwise))

    def _nested(
        self, op: Operation, block: Block, bound: dict[str, SSAValue], body: Callable[[], Sequence[SSAValue]]
    ) -> None:
        outer = self.scope
        anchored = outer
        while isinstance(anchored, Rebinding):
            assert anchored.parent is not None
            anchored = anchored.parent
        saved, anchored.anchor = anchored.anchor, op
        with self.at(Scope(block, outer, bound)):
            self.insert(scf.YieldOp(*body()))
        anchored.anchor = saved

    # --- integers ---------------------------------------------------------------------------------------------

    def constant(self, value: int | float, type: Attribute = i64) -> SSAValue:
        """A constant, written once, at the function's start."""
        key = (type, repr(value))
        if key not in self._constants:
            if isinstance(type, IntegerType):
                op = arith.ConstantOp.from_int_and_width(int(value), cast("IntegerType", type))
            else:
                assert isinstance(type, AnyFloat)
                op = arith.ConstantOp(FloatAttr(value, type))
            self._constants[key] = self.at_entry(op)
        return self._constants[key]

    def alike(self, a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Both as vectors where one is."""
        return self.wide(a, b.type), self.wide(b, a.type)

    def wide(self, value: SSAValue, type: Attribute) -> SSAValue:
        """A scalar in the shape of a type: broadcast where that is a vector."""
        shape = split_type(type)[1]
        if shape is None or is_vector(value.type):
            return value
        return self.value(vector.BroadcastOp(value, VectorType(value.type, shape)))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(arith.AddiOp(*self.alike(a, b)))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(arith.SubiOp(*self.alike(a, b)))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(arith.MuliOp(*self.alike(a, b)))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(arith.DivUIOp(*self.alike(a, b)))

    def rem(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(arith.RemUIOp(*self.alike(a, b)))

    def smaller(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """min(a, b), signed."""
        return self.value(arith.MinSIOp(a, b))

    def clamped(self, value: SSAValue, lowest: int, highest: int) -> SSAValue:
        """min(max(value, lowest), highest), signed; of a vector lane by lane."""
        least = self.value(arith.MaxSIOp(*self.alike(value, self.constant(lowest))))
        return self.value(arith.MinSIOp(*self.alike(least, self.constant(highest))))

    def is_less(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(CmpiOp(a, b, "slt"))

    def is_not_equal(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(CmpiOp(*self.alike(a, b), "ne"))

    def is_equal(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(CmpiOp(a, b, "eq"))

    def both(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        """a and b, None standing for true."""
        if a is None or b is None:
            return b if a is None else a
        return self.value(arith.AndIOp(a, b))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.value(SelectOp(condition, a, b))

    def to_i32(self, value: SSAValue) -> SSAValue:
        return self.value(arith.TruncIOp(value, i32))

    def to_i64(self, value: SSAValue) -> SSAValue:
        """An index, a signed integer or a bool, or a vector of them, as i64."""
        element, type = split_type(value.type)[0], like(value.type, i64)
        if element == i64:
            return value
        kind = IndexCastOp if isinstance(element, IndexType) else ExtUIOp if element == i1 else ExtSIOp
        return self.value(kind.create(operands=[value], result_types=[type]))


def _without_results(body: Callable[[], None]) -> Callable[[], Sequence[SSAValue]]:
    def run() -> Sequence[SSAValue]:
        body()
        return ()

    return run
