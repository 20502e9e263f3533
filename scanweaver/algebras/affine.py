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

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from scanweaver.algebras.affine_elements import element_proof
from scanweaver.algebras.affine_forms import Arithmetic, Form, Term
from scanweaver.algebras.component import Component, Lift, Proof, Refused
from scanweaver.dialects import recurrence

NAME = "affine"
MAX_STATES = 4


def prove(component: Component) -> Proof:
    """Raises `Refused` naming the operation that is not affine in the component's states."""
    lift, rows = affine_forms(component)
    return element_proof(component, lift, rows)


def affine_forms(component: Component) -> tuple[Lift, list[Form]]:
    """The new states as forms of the old ones, and the lift that holds their coefficients; raises `Refused`."""
    types = {value.type for value in component.old}
    if len(types) != 1 or not isinstance(next(iter(types)), AnyFloat):
        raise Refused(None, f"{component.described}: the affine algebra is over floats of one type")
    if len(component.states) > MAX_STATES:
        raise Refused(
            None, f"{component.described} depend on each other; a matrix of at most {MAX_STATES} states is proved"
        )
    forms = _Interpreter(component)
    return forms.lift, [forms.of(value) for value in component.new]


class _Interpreter:
    """Interprets the values of a body as affine forms, writing coefficients into the lift."""

    def __init__(self, component: Component):
        self.component = component
        self.lift = Lift(component)
        self.ops = Arithmetic(self.lift.builder)
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
