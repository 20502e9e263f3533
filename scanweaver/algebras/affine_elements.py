"""The elements of the affine algebra: how a component's coefficients are held, combined and applied."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, i1
from xdsl.ir import Attribute, Region, SSAValue

from scanweaver.algebras.affine_forms import Arithmetic, Form
from scanweaver.algebras.component import Component, Draft, Lift, Proof


def element_proof(component: Component, lift: Lift, rows: list[Form]) -> Proof:
    """The regions for a component whose new states are these forms of its old ones."""
    if len(rows) == 1 and isinstance(component.old[0].type, Float32Type):
        return Compensated(component, lift, rows[0]).proof()
    return Matrix(component, lift, rows).proof()


class Compensated:
    """One float32 state: the coefficient is held with its rounding error, a + e.

        combine   (a, e, b), (c, f, d) -> (p, c·e + f·a + (c·a - p), c·b + (f·b + d))  with p = c·a rounded
        apply     (a, e, b), h -> a·h + (e·h + b)

    Products of coefficients just below one round in one direction: (1 - i·u)(1 - j·u) lies i·j·u² above a float, so
    that each of them is low by that much, and a long memory adds it up: to 4e-5 of the state, ten times the error of
    the walk in time order, at 1 - a = 5e-5. With the error beside it, the fold is closer than the walk. `c·a - p` is
    exact by one fma (Dekker, Numer. Math. 18, 1971); it is not finite where p overflows, and then left out. f·b matters
    where coefficients are the same at every step: then every stretch of a length has the same f.
    """

    def __init__(self, component: Component, lift: Lift, row: Form):
        self.lift = lift
        self.term = row.terms[0]
        self.offset = row.offset
        self.type = component.old[0].type

    def proof(self) -> Proof:
        return Proof(self._lift(), self._combine(), self._apply())

    @property
    def _types(self) -> list[Attribute]:
        return [self.type] * 3 + ([i1] if self.term.absent is not None else [])

    def _lift(self) -> Region:
        ops = Arithmetic(self.lift.builder)
        zero = ops.constant(0.0, self.type)
        element = [ops.value(self.term, self.type), zero, self.offset or zero]
        return self.lift.finish(element + ([] if self.term.absent is None else [self.term.absent]))

    def _combine(self) -> Region:
        draft = Draft(self._types * 2)
        ops = Arithmetic(draft.builder)
        count = len(self._types)
        (a, e, b, *absent_a), (c, f, d, *absent_c) = draft.args[:count], draft.args[count:]
        product = ops.multiplied(c, a)
        rounding = ops.fma(c, a, ops.negated(product))
        error = ops.fma(c, e, ops.fma(f, a, rounding))
        corrected = ops.fma(f, b, d)
        offset = ops.fma(c, b, ops.selected(ops.corrects([f], [corrected]), corrected, d))
        if not absent_c:
            return draft.finish([product, error, offset])
        offset = ops.selected(absent_c[0], d, offset)
        return draft.finish([product, error, offset, ops.either(absent_c[0], absent_a[0])])

    def _apply(self) -> Region:
        draft = Draft([*self._types, self.type])
        ops = Arithmetic(draft.builder)
        a, e, b, *absent, state = draft.args
        corrected = ops.fma(e, state, b)
        after = ops.fma(a, state, ops.selected(ops.are_finite([corrected]), corrected, b))
        return draft.finish([ops.selected(absent[0], b, after) if absent else after])


class Matrix:
    """The element of a component, from its rows: coefficients row by row, then offsets, then flags if any row has."""

    def __init__(self, component: Component, lift: Lift, rows: list[Form]):
        self.lift = lift
        self.rows = rows
        self.size = len(rows)
        self.type = component.old[0].type
        self.flagged = any(term.absent is not None for row in rows for term in row.terms.values())

    def proof(self) -> Proof:
        return Proof(self._lift(), self._combine(), self._apply())

    def _lift(self) -> Region:
        ops, size = Arithmetic(self.lift.builder), self.size
        terms = [row.terms.get(j) for row in self.rows for j in range(size)]
        values = [ops.constant(0.0, self.type) if term is None else ops.value(term, self.type) for term in terms]
        values += [row.offset or ops.constant(0.0, self.type) for row in self.rows]
        if self.flagged:
            values += [ops.flag(True) if t is None else t.absent or ops.flag(False) for t in terms]
        return self.lift.finish(values)

    @property
    def _types(self) -> list[Attribute]:
        size = self.size
        return [self.type] * (size * size + size) + ([i1] * (size * size) if self.flagged else [])

    def _parts(self, values: tuple[SSAValue, ...]) -> tuple[list[SSAValue], list[SSAValue], list[SSAValue | None]]:
        """Coefficients, offsets, flags (None each where the element carries none)."""
        square = self.size * self.size
        flags: list[SSAValue | None] = list(values[square + self.size :]) or [None] * square
        return list(values[:square]), list(values[square : square + self.size]), flags

    def _combine(self) -> Region:
        types, size = self._types, self.size
        draft = Draft(types + types)
        ops = Arithmetic(draft.builder)
        a, b, absent_a = self._parts(draft.args[: len(types)])
        c, d, absent_c = self._parts(draft.args[len(types) :])
        product: list[SSAValue] = []
        flags: list[SSAValue] = []
        for i in range(size):
            for k in range(size):
                total: SSAValue | None = None
                absent: SSAValue | None = None
                for j in range(size):
                    left, right = i * size + j, j * size + k
                    gone = self._gone(ops, absent_c[left], absent_a[right])
                    if size == 1 or gone is None:  # a lone coefficient is not read where its flag stands
                        total = (
                            ops.multiplied(c[left], a[right]) if total is None else ops.fma(c[left], a[right], total)
                        )
                    else:
                        part = ops.unless(gone, ops.multiplied(c[left], a[right]))
                        total = part if total is None else ops.added(total, part)
                    absent = gone if j == 0 else ops.both(absent, gone)
                assert total is not None
                product.append(total)
                if absent is not None:
                    flags.append(absent)
        offsets = [self._row(ops, c, absent_c, b, d[i], i) for i in range(size)]
        return draft.finish(product + offsets + flags)

    def _apply(self) -> Region:
        draft = Draft([*self._types, *[self.type] * self.size])
        ops = Arithmetic(draft.builder)
        a, b, absent = self._parts(draft.args[: len(self._types)])
        states = list(draft.args[len(self._types) :])
        return draft.finish([self._row(ops, a, absent, states, b[i], i) for i in range(self.size)])

    def _gone(self, ops: Arithmetic, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        return None if a is None or b is None else ops.either(a, b)

    def _row(
        self,
        ops: Arithmetic,
        matrix: list[SSAValue],
        absent: list[SSAValue | None],
        vector: Sequence[SSAValue],
        offset: SSAValue,
        i: int,
    ) -> SSAValue:
        """Row i of matrix·vector + offset; an absent coefficient adds nothing."""
        total = offset
        for j, value in enumerate(vector):
            at = i * self.size + j
            flag = absent[at]
            added = ops.fma(matrix[at], value, total)
            total = added if flag is None else ops.selected(flag, total, added)
        return total
