"""The affine algebra: h' = A·h + b with A and b free of the component's states h (up to four of them).

    element   A, b
    combine   (A, b), (C, d) -> (C·A, C·b + d)
    apply     (A, b), h -> A·h + b

Every value of the step is interpreted as Σ p_j·h_j + q. Each operation has a rule or ends the proof. Licensed is
re-association: products distribute over sums and are regrouped; nothing else of float arithmetic is rewritten.

**Resets.** Where only one branch of a select reads a state, its coefficient is *absent* in the other case: a flag
beside it in the element. combine and apply select on the flag, they never multiply by a zero in its place, so that a
NaN or an infinity does not cross a reset:  apply(p absent, q; h) = q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, Operation, Region, SSAValue

from scanweaver.algebras.component import Component, Draft, Lift, Proof, Refused
from scanweaver.dialects import recurrence

NAME = "affine"
MAX_STATES = 4


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


def prove(component: Component) -> Proof:
    """Raises `Refused` naming the operation that is not affine in the component's states."""
    types = {value.type for value in component.old}
    if len(types) != 1 or not isinstance(next(iter(types)), AnyFloat):
        raise Refused(None, f"{component.described}: the affine algebra is over floats of one type")
    if len(component.states) > MAX_STATES:
        raise Refused(
            None, f"{component.described} depend on each other; a matrix of at most {MAX_STATES} states is proved"
        )
    forms = _Interpreter(component)
    rows = [forms.of(value) for value in component.new]
    return _Matrix(component, forms.lift, rows).proof()


class _Interpreter:
    """Interprets the values of a body as affine forms, writing coefficients into the lift."""

    def __init__(self, component: Component):
        self.component = component
        self.lift = Lift(component)
        self.ops = _Arithmetic(self.lift.builder)
        self._forms: dict[SSAValue, Form] = {
            value: Form({j: Term(None)}, None) for j, value in enumerate(component.old)
        }

    def of(self, value: SSAValue) -> Form:
        if value not in self._forms:
            if self.component.is_free(value):
                self._forms[value] = Form({}, self.lift.free(value))
            else:
                assert isinstance(value.owner, Operation)
                self._forms[value] = self._rule(value.owner)
        return self._forms[value]

    def _rule(self, op: Operation) -> Form:
        ops, component = self.ops, self.component
        match op:
            case arith.AddfOp():
                return self._sum(self.of(op.lhs), self.of(op.rhs))
            case arith.SubfOp():
                return self._sum(self.of(op.lhs), self._scaled(self.of(op.rhs), ops.negated, op))
            case arith.NegfOp():
                return self._scaled(self.of(op.operand), ops.negated, op)
            case arith.MulfOp():
                return self._product(op, op.lhs, op.rhs)
            case arith.DivfOp():
                if not component.is_free(op.rhs):
                    raise self._refused(op, f"divides by a value that depends on {component.described}")
                divisor = self.lift.free(op.rhs)
                return self._scaled(self.of(op.lhs), lambda value: ops.divided(value, divisor), op)
            case math.FmaOp():
                return self._sum(self._product(op, op.a, op.b), self.of(op.c))
            case arith.SelectOp():
                if not component.is_free(op.cond):
                    raise self._refused(op, f"has a condition that depends on {component.described}")
                return self._select(self.lift.free(op.cond), self.of(op.lhs), self.of(op.rhs), op.result.type)
            case recurrence.ReduceOp() if op.kind.data is recurrence.ReduceKind.ADD:
                raise self._refused(op, f"mixes {component.described} along {', '.join(op.axis_names)}")
            case recurrence.RenameOp():
                raise self._refused(op, f"mixes {component.described} along {op.source_axis}")
            case _:
                raise self._refused(op, f"is not affine in {component.described}")

    def _refused(self, op: Operation, why: str) -> Refused:
        return Refused(op, why)

    def _product(self, op: Operation, a: SSAValue, b: SSAValue) -> Form:
        component = self.component
        if component.is_free(b):
            a, b = b, a
        if not component.is_free(a):
            raise self._refused(op, f"multiplies two values that depend on {component.described}")
        factor = self.lift.free(a)
        return self._scaled(self.of(b), lambda value: self.ops.multiplied(value, factor), op)

    def _scaled(self, form: Form, scale: Callable[[SSAValue | None], SSAValue], op: Operation) -> Form:
        self.ops.type = op.results[0].type
        terms = {j: Term(scale(term.value), term.absent) for j, term in form.terms.items()}
        return Form(terms, None if form.offset is None else scale(form.offset))

    def _sum(self, a: Form, b: Form) -> Form:
        ops = self.ops
        terms = dict(a.terms)
        for j, term in b.terms.items():
            terms[j] = ops.sum_of_terms(terms[j], term, self.component.old[j].type) if j in terms else term
        if a.offset is None or b.offset is None:
            return Form(terms, b.offset if a.offset is None else a.offset)
        return Form(terms, ops.added(a.offset, b.offset))

    def _select(self, condition: SSAValue, a: Form, b: Form, type: Attribute) -> Form:
        ops = self.ops
        terms: dict[int, Term] = {}
        for j in sorted({*a.terms, *b.terms}):
            in_a, in_b = a.terms.get(j), b.terms.get(j)
            if in_a is None:
                assert in_b is not None
                terms[j] = Term(in_b.value, ops.either(condition, in_b.absent))
            elif in_b is None:
                terms[j] = Term(in_a.value, ops.either(ops.inverted(condition), in_a.absent))
            else:
                terms[j] = ops.selected_term(condition, in_a, in_b, type)
        if a.offset is None and b.offset is None:
            return Form(terms, None)
        offset = ops.selected(condition, a.offset or ops.constant(0.0, type), b.offset or ops.constant(0.0, type))
        return Form(terms, offset)


class _Arithmetic:
    """The few operations that forms are computed with, at a builder."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.type: Attribute = i1

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
        return self.constant(-1.0, self.type) if value is None else self._insert(arith.NegfOp(value))

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
        return None if a is None or b is None else self._insert(arith.AndIOp(a, b))

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


class _Matrix:
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
        ops, size = _Arithmetic(self.lift.builder), self.size
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
        ops = _Arithmetic(draft.builder)
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
        ops = _Arithmetic(draft.builder)
        a, b, absent = self._parts(draft.args[: len(self._types)])
        states = list(draft.args[len(self._types) :])
        return draft.finish([self._row(ops, a, absent, states, b[i], i) for i in range(self.size)])

    def _gone(self, ops: _Arithmetic, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        return None if a is None or b is None else ops.either(a, b)

    def _row(
        self,
        ops: _Arithmetic,
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
