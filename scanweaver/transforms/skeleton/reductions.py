"""Reductions over state axes: what a loop carries, how it accumulates, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, i1
from xdsl.ir import Attribute, SSAValue

from scanweaver.dialects.arith import CmpfOp, CmpiOp
from scanweaver.dialects.recurrence import ReduceKind, ReduceOp
from scanweaver.transforms.skeleton.lanes import shuffled

if TYPE_CHECKING:
    from scanweaver.transforms.skeleton.evaluate import Evaluator

_INDEXED = (ReduceKind.ARGMAX, ReduceKind.ARGMIN)


class Reduction:
    """One `recurrence.reduce` at several steps: an accumulator each (argmax, argmin: the extreme and its position)."""

    def __init__(self, evaluator: Evaluator, op: ReduceOp, steps: Sequence[int]):
        self.evaluator = evaluator
        self.op = op
        self.kind = op.kind.data
        self.steps = steps
        self.type = op.value.type
        self.folds_vector = evaluator.memory.is_vector(op.axis_names)
        self.is_vector = self.folds_vector or evaluator.is_vector(evaluator.axes[op.result])

    @property
    def carried(self) -> int:
        """How many values a loop carries for it."""
        return len(self.steps) * (2 if self.kind in _INDEXED else 1)

    def start(self) -> list[SSAValue]:
        write, evaluator = self.evaluator.write, self.evaluator
        first = write.constant(_identity(self.kind, self.type), self.type)
        if self.is_vector:
            first = evaluator.broadcast(first)
        if self.kind not in _INDEXED:
            return [first] * len(self.steps)
        nowhere = write.constant(0)
        return [first, evaluator.broadcast(nowhere) if self.is_vector else nowhere] * len(self.steps)

    def accumulate(self, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """The accumulators after one more position."""
        product = self.op.value.owner
        if self.kind is ReduceKind.ADD and isinstance(product, arith.MulfOp) and self.op.value.has_one_use():
            return [self._multiplied(product, acc, k) for acc, k in zip(carried, self.steps, strict=True)]
        values = [self.evaluator.value(self.op.value, k) for k in self.steps]
        if self.kind in _INDEXED:
            extremes = zip(carried[::2], carried[1::2], values, strict=True)
            return [new for best, at, value in extremes for new in self._better(best, at, value)]
        return [self._combined(acc, value) for acc, value in zip(carried, values, strict=True)]

    def finish(self, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """One result per step, from the accumulators after the loops."""
        if self.kind in _INDEXED:
            return list(carried[1::2])
        return [self._folded(acc) if self.folds_vector else acc for acc in carried]

    def _combined(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.evaluator.write.value(_OPS[self.kind, isinstance(self.type, AnyFloat)](a, b))

    def _multiplied(self, product: arith.MulfOp, acc: SSAValue, k: int) -> SSAValue:
        """An accumulator and a product, with one rounding."""
        return self.evaluator.fma(self.evaluator.value(product.lhs, k), self.evaluator.value(product.rhs, k), acc)

    def _folded(self, acc: SSAValue) -> SSAValue:
        """The lanes of a vector accumulator combined: its halves, then the halves of that."""
        write, width = self.evaluator.write, self.evaluator.memory.width
        while width > 2:
            width //= 2
            acc = self._combined(*(shuffled(write, acc, acc, range(i, i + width)) for i in (0, width)))
        return self._combined(*(write.value(vector.ExtractOp(acc, [i], self.type)) for i in (0, 1)))

    def _better(self, best: SSAValue, at: SSAValue, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The extreme and its position after `value`: the first wins, and NaN beats all numbers."""
        write = self.evaluator.write
        largest = self.kind is ReduceKind.ARGMAX
        if isinstance(self.type, AnyFloat):
            beats = write.value(CmpfOp(value, best, "ogt" if largest else "olt"))
            value_nan = write.value(CmpfOp(value, value, "uno"))
            best_number = write.value(CmpfOp(best, best, "ord"))
            beats = write.value(arith.OrIOp(beats, write.value(arith.AndIOp(value_nan, best_number))))
        else:
            beats = write.value(CmpiOp(value, best, "sgt" if largest else "slt"))
        here = self.evaluator.position(self.op.axis_names[0])
        if self.is_vector:
            here = self.evaluator.broadcast(here)
        return write.select(beats, value, best), write.select(beats, here, at)


_OPS = {
    (ReduceKind.ADD, True): arith.AddfOp,
    (ReduceKind.ADD, False): arith.AddiOp,
    (ReduceKind.MAX, True): arith.MaximumfOp,
    (ReduceKind.MAX, False): arith.MaxSIOp,
    (ReduceKind.MIN, True): arith.MinimumfOp,
    (ReduceKind.MIN, False): arith.MinSIOp,
}


def _identity(kind: ReduceKind, type: Attribute) -> int | float:
    if kind is ReduceKind.ADD:
        return 0.0 if isinstance(type, AnyFloat) else 0
    largest = kind in (ReduceKind.MAX, ReduceKind.ARGMAX)
    if isinstance(type, AnyFloat):
        return -inf if largest else inf
    assert isinstance(type, FixedBitwidthType)
    bits = type.bitwidth
    if type == i1:
        return 0 if largest else -1
    return -(1 << (bits - 1)) if largest else (1 << (bits - 1)) - 1
