"""The complex affine algebra: h' = w·h + b for a complex h whose parts are two states, in four words and not six.

    element   w, b
    combine   (w, b), (v, d) -> (v·w, v·b + d)
    apply     (w, b), h -> w·h + b

A component is one where its two states' affine forms are [[p, -q], [q, p]], by structure: the same operations on the
same values, a sign apart, as a complex product (or a rotation written out in reals) gives them.

In float32 the coefficient is held with its rounding error e, as that of one real state is (`affine_elements`), and for
the same reason: where |w| is just below one, a fold's products all round alike, and a long memory adds that up.
A reset is a flag beside the coefficient, on which combine and apply select.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, FloatAttr, i1
from xdsl.ir import Attribute, Operation, Region, SSAValue

from scanweaver.algebras.affine import affine_forms
from scanweaver.algebras.affine_forms import Arithmetic, Form, Term
from scanweaver.algebras.component import Component, Draft, Lift, Proof, Refused

NAME = "complex_affine"


def prove(component: Component) -> Proof:
    """Raises `Refused` where the component is not two states of this form."""
    if len(component.states) != 2:
        raise Refused(None, f"{component.described}: a complex number has two parts")
    lift, rows = affine_forms(component)
    if not _is_complex(rows):
        raise Refused(None, f"{component.described} are not multiplied as the parts of a complex number")
    return _Element(component, lift, rows).proof()


# --- the form ---------------------------------------------------------------------------------------------------


def _is_complex(rows: list[Form]) -> bool:
    """Whether the coefficients are [[p, -q], [q, p]], all four absent at the same time."""
    if any(set(row.terms) != {0, 1} for row in rows):
        return False
    (p, minus_q), (q, same_p) = ((row.terms[0], row.terms[1]) for row in rows)
    if any(_sign_between(p.absent, term.absent) != 1 for term in (minus_q, q, same_p)):
        return False
    return _sign_between(p.value, same_p.value) == 1 and _sign_between(minus_q.value, q.value) == -1


def _sign_between(a: SSAValue | None, b: SSAValue | None) -> int | None:
    """1 where two values are the same operations on the same values, -1 where a sign apart, None where neither is so.

    Rounding is symmetric, so that a sign may be taken through products, sums and choices. None is the coefficient 1.
    """
    if a is b:
        return 1
    if a is None or b is None:
        number = _number(b if a is None else a)
        return int(number) if number in (1, -1) else None
    x, y = a.owner, b.owner
    if isinstance(x, arith.NegfOp):
        return _times(-1, _sign_between(x.operand, b))
    if isinstance(y, arith.NegfOp):
        return _times(-1, _sign_between(a, y.operand))
    if not isinstance(x, Operation) or not isinstance(y, Operation) or type(x) is not type(y):
        return None
    signs = [_sign_between(c, d) for c, d in zip(x.operands, y.operands, strict=True)]
    match x:
        case arith.ConstantOp():
            one, other = _number(a), _number(b)
            return None if one is None or other is None else 1 if one == other else -1 if one == -other else None
        case arith.MulfOp() | arith.DivfOp():
            return _times(*signs)
        case arith.AddfOp() | arith.SubfOp():
            return signs[0] if signs[0] == signs[1] else None
        case arith.SelectOp():
            return signs[1] if signs[0] == 1 and signs[1] == signs[2] else None
        case _:
            return 1 if x.properties == y.properties and all(sign == 1 for sign in signs) else None


def _times(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a * b


def _number(value: SSAValue | None) -> float | None:
    """The number that a constant float is."""
    owner = None if value is None else value.owner
    attribute = owner.value if isinstance(owner, arith.ConstantOp) else None
    return attribute.value.data if isinstance(attribute, FloatAttr) else None


# --- the element ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Complex:
    re: SSAValue
    im: SSAValue


class _Element:
    """w, its rounding error where it is held with one, b, and the flag that says that w is absent where it may be."""

    def __init__(self, component: Component, lift: Lift, rows: list[Form]):
        self.lift = lift
        self.rows = rows
        self.type = component.old[0].type
        self.compensated = isinstance(self.type, Float32Type)
        self.absent = rows[0].terms[0].absent

    def proof(self) -> Proof:
        return Proof(self._lift(), self._combine(), self._apply())

    @property
    def _types(self) -> list[Attribute]:
        return [self.type] * (6 if self.compensated else 4) + ([] if self.absent is None else [i1])

    def _lift(self) -> Region:
        ops = Arithmetic(self.lift.builder)
        zero = ops.constant(0.0, self.type)
        coefficient: list[Term] = [self.rows[0].terms[0], self.rows[1].terms[0]]
        values = [ops.value(term, self.type) for term in coefficient]
        values += [zero, zero] if self.compensated else []
        values += [row.offset or zero for row in self.rows]
        return self.lift.finish(values + ([] if self.absent is None else [self.absent]))

    def _parts(self, values: tuple[SSAValue, ...]) -> tuple[_Complex, _Complex | None, _Complex, SSAValue | None]:
        """w, its error, b and the flag."""
        values, flag = (values, None) if self.absent is None else (values[:-1], values[-1])
        error = _Complex(*values[2:4]) if self.compensated else None
        return _Complex(*values[:2]), error, _Complex(*values[-2:]), flag

    def _combine(self) -> Region:
        draft = Draft(self._types * 2)
        ops = _Products(Arithmetic(draft.builder), self.type)
        count = len(self._types)
        w, w_error, b, w_absent = self._parts(draft.args[:count])
        v, v_error, d, v_absent = self._parts(draft.args[count:])
        if w_error is None or v_error is None:
            product, errors, added = ops.product(v, w), [], d
        else:
            product, rounding = ops.product_and_error(v, w)
            error = ops.product_plus(v, w_error, ops.product_plus(v_error, w, rounding))
            errors = [error.re, error.im]
            added = ops.corrected(v_error, b, d)
        offset = ops.product_plus(v, b, added)
        if v_absent is None:
            return draft.finish([product.re, product.im, *errors, offset.re, offset.im])
        offset = ops.selected(v_absent, d, offset)
        flag = ops.ops.either(v_absent, w_absent)
        return draft.finish([product.re, product.im, *errors, offset.re, offset.im, flag])

    def _apply(self) -> Region:
        draft = Draft([*self._types, self.type, self.type])
        ops = _Products(Arithmetic(draft.builder), self.type)
        w, error, b, absent = self._parts(draft.args[:-2])
        h = _Complex(*draft.args[-2:])
        after = ops.product_plus(w, h, b if error is None else ops.corrected(error, h, b))
        if absent is not None:
            after = ops.selected(absent, b, after)
        return draft.finish([after.re, after.im])


class _Products:
    """Complex products by fused multiply-adds."""

    def __init__(self, ops: Arithmetic, type: Attribute):
        self.ops = ops
        self.type = type

    def selected(self, condition: SSAValue, a: _Complex, b: _Complex) -> _Complex:
        return _Complex(self.ops.selected(condition, a.re, b.re), self.ops.selected(condition, a.im, b.im))

    def product(self, a: _Complex, b: _Complex) -> _Complex:
        ops = self.ops
        minus = ops.negated(ops.multiplied(a.im, b.im))
        return _Complex(ops.fma(a.re, b.re, minus), ops.fma(a.re, b.im, ops.multiplied(a.im, b.re)))

    def product_plus(self, a: _Complex, b: _Complex, c: _Complex) -> _Complex:
        """a·b + c."""
        ops = self.ops
        re = ops.fma(a.re, b.re, ops.fma(ops.negated(a.im), b.im, c.re))
        return _Complex(re, ops.fma(a.re, b.im, ops.fma(a.im, b.re, c.im)))

    def corrected(self, error: _Complex, factor: _Complex, offset: _Complex) -> _Complex:
        """error·factor + offset; the offset where there is no such correction."""
        corrected = self.product_plus(error, factor, offset)
        corrects = self.ops.corrects([error.re, error.im], [corrected.re, corrected.im])
        return self.selected(corrects, corrected, offset)

    def product_and_error(self, a: _Complex, b: _Complex) -> tuple[_Complex, _Complex]:
        """a·b rounded, and what rounding left out."""
        re, re_error = self._sum_of_products(a.re, b.re, self.ops.negated(a.im), b.im)
        im, im_error = self._sum_of_products(a.re, b.im, a.im, b.re)
        return _Complex(re, im), _Complex(re_error, im_error)

    def _sum_of_products(self, a: SSAValue, b: SSAValue, c: SSAValue, d: SSAValue) -> tuple[SSAValue, SSAValue]:
        """a·b + c·d, and its error: of each product by one fma (Dekker, Numer. Math. 18, 1971), of the sum by Knuth's
        six additions (TAOCP 2, 4.2.2). The products are fmas too, so that none is contracted into an addition."""
        ops, zero = self.ops, self.ops.constant(0.0, self.type)
        s, t = ops.fma(a, b, zero), ops.fma(c, d, zero)
        products = ops.added(ops.fma(a, b, ops.negated(s)), ops.fma(c, d, ops.negated(t)))
        total = ops.added(s, t)
        of_t = ops.subtracted(total, s)
        of_s = ops.subtracted(total, of_t)
        return total, ops.added(ops.added(ops.subtracted(s, of_s), ops.subtracted(t, of_t)), products)
