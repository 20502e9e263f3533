"""Affine forms Σ p_j·h_j + q, and the arithmetic that they are computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue


@dataclass(frozen=True)
class Term:
    """A coefficient: its value (None: one) and the flag that says it is absent (None: never)."""

    value: SSAValue | None
    absent: SSAValue | None = None


@dataclass(frozen=True)
class Form:
    """Σ terms[j]·h_j + offset (None: nothing added)."""

    terms: dict[int, Term]
    offset: SSAValue | None


class Arithmetic:
    """The few operations that forms are computed with, at a builder."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.type: Attribute = i1
        self._negated: dict[SSAValue, SSAValue] = {}

    def _insert(self, op: Operation) -> SSAValue:
        return self.builder.insert(op).results[0]

    def constant(self, value: float, type: Attribute) -> SSAValue:
        assert isinstance(type, AnyFloat)
        return self._insert(arith.ConstantOp(FloatAttr(value, type)))

    def flag(self, value: bool) -> SSAValue:
        return self._insert(arith.ConstantOp(IntegerAttr(int(value), i1)))

    def added(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.AddfOp(a, b))

    def negated(self, value: SSAValue | None) -> SSAValue:
        if value is None:
            return self.constant(-1.0, self.type)
        if value not in self._negated:
            self._negated[value] = self._insert(arith.NegfOp(value))
        return self._negated[value]

    def multiplied(self, value: SSAValue | None, factor: SSAValue) -> SSAValue:
        return factor if value is None else self._insert(arith.MulfOp(value, factor))

    def divided(self, value: SSAValue | None, divisor: SSAValue) -> SSAValue:
        return self._insert(arith.DivfOp(value or self.constant(1.0, divisor.type), divisor))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        return self._insert(math.FmaOp(a, b, c))

    def selected(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return a if a is b else self._insert(arith.SelectOp(condition, a, b))

    def either(self, a: SSAValue, b: SSAValue | None) -> SSAValue:
        return a if b is None else self._insert(arith.OrIOp(a, b))

    def both(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        return None if a is None or b is None else self.all_of(a, b)

    def inverted(self, a: SSAValue) -> SSAValue:
        return self._insert(arith.XOrIOp(a, self.flag(True)))

    def unless(self, absent: SSAValue | None, value: SSAValue) -> SSAValue:
        """The value, or zero where it is absent."""
        return value if absent is None else self.selected(absent, self.constant(0.0, value.type), value)

    def value(self, term: Term, type: Attribute) -> SSAValue:
        return term.value or self.constant(1.0, type)

    def sum_of_terms(self, a: Term, b: Term, type: Attribute) -> Term:
        present = [self.unless(term.absent, self.value(term, type)) for term in (a, b)]
        return Term(self.added(*present), self.both(a.absent, b.absent))

    def selected_term(self, condition: SSAValue, a: Term, b: Term, type: Attribute) -> Term:
        absent = None
        if a.absent is not None or b.absent is not None:
            absent = self.selected(condition, a.absent or self.flag(False), b.absent or self.flag(False))
        if a.value is None and b.value is None:
            return Term(None, absent)
        return Term(self.selected(condition, self.value(a, type), self.value(b, type)), absent)

    def subtracted(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.SubfOp(a, b))

    def corrects(self, errors: Sequence[SSAValue], corrected: Sequence[SSAValue]) -> SSAValue:
        """Whether there is an error to correct for, and the corrected values are finite.

        An element that was just lifted has the constant 0 for its error, with which this folds away.
        """
        zero = self.constant(0.0, errors[0].type)
        there = [self._insert(arith.CmpfOp(error, zero, "one")) for error in errors]
        return self.all_of(reduce(self.either, there), self.are_finite(corrected))

    def are_finite(self, values: Sequence[SSAValue]) -> SSAValue:
        """Whether corrected values are finite. An error is NaN where a product of coefficients overflowed, and makes
        NaN of an infinite state, as an error of 0 does."""
        return reduce(self.all_of, [self._is_finite(value) for value in values])

    def all_of(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.AndIOp(a, b))

    def _is_finite(self, value: SSAValue) -> SSAValue:
        size = self._insert(math.AbsFOp(value))
        return self._insert(arith.CmpfOp(size, self.constant(float("inf"), value.type), "olt"))
