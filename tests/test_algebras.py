"""The laws of every algebra, held on random elements: exactly, because small integers are exact in floats.

Elements are lifted from random inputs by what the proof wrote, so they are elements that a kernel may meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.interpreter import Interpreter
from xdsl.ir import Region

import scanweaver as sw
from scanweaver.algebras import ALGEBRAS
from scanweaver.dialects.scan import ComponentOp, GenericOp
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import trace_step
from scanweaver.interpreters import make_interpreter
from scanweaver.interpreters.lanes import Lanes
from scanweaver.transforms.convert_recurrence_to_scan import ConvertRecurrenceToScanPass

SAMPLES = 4000
COMPLEX = {"f32": "c64", "f64": "c128"}
DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "i1": np.bool_}

Values = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Example:
    """A step that an algebra proves whole, as one component; `forgets` names the input that resets all states."""

    text: str
    step: Callable[..., Any]
    dtypes: dict[str, str]
    forgets: str = ""
    real: str = "f64"
    """The type of the inputs that `dtypes` does not name; what is `complex` has parts of this type."""

    @property
    def signature(self) -> str:
        return self.text.replace(":complex", ":complex64" if self.real == "f32" else ":complex128")

    @property
    def inputs(self) -> tuple[Given, ...]:
        dtypes = {name: COMPLEX[self.real] if of == "complex" else of for name, of in self.dtypes.items()}
        return tuple(
            Given(array.name, array.axes, dtypes.get(array.name, self.real))
            for array in parse_signature(self.signature).inputs
        )

    @property
    def parts(self) -> tuple[Given, ...]:
        """What a kernel takes: two reals for what is complex."""
        return tuple(part for given in self.inputs for part in given.parts)


def example(text: str, step: Callable[..., Any], forgets: str = "", **dtypes: str) -> Example:
    return Example(text, step, dtypes, forgets)


EXAMPLES = {
    "delay": [
        example("x[]; a[t]", lambda x, a: a),
        example("n[]:int32; a[t], b[t]", lambda n, a, b: sw.cast(a * b, torch.int32), a="i64", b="i64"),
        example("open[]:bool; a[t]", lambda open, a: a, a="i1"),
    ],
    "complex_affine": [
        example("h[]:complex; w[t], x[t]", lambda h, w, x: w * h + x, w="complex", x="complex"),
        example("h[]:complex; w[t], x[t]", lambda h, w, x: x - 2 * (h * w), w="complex", x="complex"),
        example("h[]:complex; w[t]", lambda h, w: -1j * (w * (h + w)), w="complex"),
        example(
            "h[]:complex; r[t], w[t], x[t]",
            lambda h, r, w, x: sw.where(r, x, w * h + x),
            "r",
            r="i1",
            w="complex",
            x="complex",
        ),
        example(
            "h[]:complex; r[t], s[t], w[t], x[t]",
            lambda h, r, s, w, x: sw.where(s, sw.where(r, x, w * h), sw.where(r, w, w * h + x)),
            "r",
            r="i1",
            s="i1",
            w="complex",
            x="complex",
        ),
        example("g[], h[]; c[t], s[t], x[t]", lambda g, h, c, s, x: (c * g - s * h + x, s * g + c * h)),
        example("g[], h[]; c[t], s[t]", lambda g, h, c, s: (c * g + s * h, c * h - s * g)),
    ],
    "affine": [
        example("h[]; p[t], q[t]", lambda h, p, q: p * h + q),
        example("h[]; q[t]", lambda h, q: h + q),
        example("h[]; p[t]", lambda h, p: -(p * h)),
        example("h[]; r[t], p[t], q[t]", lambda h, r, p, q: sw.where(r, q, p * h + q), "r", r="i1"),
        example(
            "h[]; r[t], s[t], p[t], q[t]",
            lambda h, r, s, p, q: sw.where(s, sw.where(r, q, h), p - sw.where(r, 1.0, p * h)),
            "r",
            r="i1",
            s="i1",
        ),
        example(
            "h[]; r[t], s[t], p[t], q[t]",
            lambda h, r, s, p, q: sw.where(s, sw.where(r, q, h), p * h),
            r="i1",
            s="i1",
        ),
        example(
            "g[], h[]; a[t], b[t], c[t], d[t], p[t], q[t]",
            lambda g, h, a, b, c, d, p, q: (a * g + b * h + p, c * g + d * h + q),
        ),
        example(
            "g[], h[]; r[t], a[t], b[t], c[t], p[t]",
            lambda g, h, r, a, b, c, p: (sw.where(r, p, a * g + b * h), sw.where(r, a, c * g - h)),
            "r",
            r="i1",
        ),
        example(
            "g[], h[]; r[t], s[t], a[t], b[t], p[t]",
            lambda g, h, r, s, a, b, p: (sw.where(s, a * h, b * g), sw.where(r, p, a * g) + sw.where(s, h, p)),
            r="i1",
            s="i1",
        ),
        example(
            "f[], g[], h[]; r[t], a[t], b[t], c[t]",
            lambda f, g, h, r, a, b, c: (a * g + c, sw.where(r, h, b), a * f + b * g + h),
            r="i1",
        ),
        example(
            "e[], f[], g[], h[]; a[t], b[t], c[t], d[t]",
            lambda e, f, g, h, a, b, c, d: (a * f + d, b * g + e, c * h, d * e + a * f + b * g + c * h),
        ),
    ],
}

CASES = [
    pytest.param(name, replace(item, real=real), id=f"{name}-{i}-{real}")
    for name, items in EXAMPLES.items()
    for i, item in enumerate(items)
    for real in ("f64", "f32")
]


@dataclass(frozen=True)
class Algebra:
    """The regions that were proved for an example, as functions of arrays."""

    generic: GenericOp
    component: ComponentOp
    interpreter: Interpreter

    def run(self, region: Region, values: Values) -> Values:
        lanes = tuple(Lanes(value, ("sample",)) for value in values)
        with np.errstate(all="ignore"):
            results = self.interpreter.run_ssacfg_region(region, lanes)
        return tuple(np.broadcast_to(value.data, SAMPLES) for value in results)

    def lift(self, inputs: Values) -> Values:
        return self.run(self.component.lift, self.run(self.generic.prelude, inputs))

    def combine(self, *elements: Values) -> Values:
        """From the left."""
        total, *later = elements
        for element in later:
            total = self.run(self.component.combine, (*total, *element))
        return total

    def apply(self, element: Values, states: Values) -> Values:
        return self.run(self.component.apply, (*element, *states))

    def step(self, states: Values, inputs: Values) -> Values:
        results = self.run(self.generic.step, (*states, *self.run(self.generic.prelude, inputs)))
        return results[: self.generic.num_states]


@cache
def _proved(text: str, step: Callable[..., Any], given: tuple[Given, ...]) -> Algebra:
    signature = parse_signature(text)
    module = trace_step(step, signature, Specialization(given, (None,) * len(signature.states)))
    ConvertRecurrenceToScanPass("require").apply(Context(), module)
    module.verify()
    (generic,) = (op for op in module.walk() if isinstance(op, GenericOp))
    (component,) = generic.component_ops
    return Algebra(generic, component, make_interpreter(module))


def proved(case: Example) -> Algebra:
    return _proved(case.signature, case.step, case.inputs)


def small(rng: np.random.Generator, dtype: str) -> np.ndarray:
    """Integers whose products of a few are exact; zeros of both signs among them."""
    if dtype == "i1":
        return rng.random(SAMPLES) < 0.4
    values = rng.integers(-4, 5, SAMPLES).astype(DTYPES[dtype])
    return np.where(rng.random(SAMPLES) < 0.05, values.dtype.type(-0.0), values) if values.dtype.kind == "f" else values


def inputs_of(case: Example, rng: np.random.Generator) -> Values:
    return tuple(small(rng, part.dtype) for part in case.parts)


def states_of(algebra: Algebra, rng: np.random.Generator) -> Values:
    return tuple(small(rng, str(type)) for type in algebra.generic.state_types)


def poisoned_at(where: np.ndarray, value: np.ndarray, poison: float) -> np.ndarray:
    return np.where(where, value.dtype.type(poison), value) if value.dtype.kind == "f" else value


def assert_same(got: Values, expected: Values) -> None:
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)  # NaN equals NaN, 0 equals -0


def test_every_algebra_has_examples() -> None:
    assert EXAMPLES.keys() == ALGEBRAS.keys()


@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_example_is_proved_by_its_algebra(name: str, case: Example) -> None:
    assert proved(case).component.algebra.data == name


@pytest.mark.parametrize(("name", "case"), CASES)
def test_an_element_is_the_step(name: str, case: Example) -> None:
    """apply(lift(inputs), states) = step(states, inputs)"""
    algebra, rng = proved(case), np.random.default_rng(1)
    inputs, states = inputs_of(case, rng), states_of(algebra, rng)
    assert_same(algebra.apply(algebra.lift(inputs), states), algebra.step(states, inputs))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_apply_is_an_action(name: str, case: Example) -> None:
    """apply(combine(e, f), h) = apply(f, apply(e, h))"""
    algebra, rng = proved(case), np.random.default_rng(2)
    e, f = (algebra.lift(inputs_of(case, rng)) for _ in range(2))
    states = states_of(algebra, rng)
    assert_same(algebra.apply(algebra.combine(e, f), states), algebra.apply(f, algebra.apply(e, states)))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_combine_is_associative(name: str, case: Example) -> None:
    """Of what acts on states: values that stand behind a flag are not part of an element."""
    algebra, rng = proved(case), np.random.default_rng(3)
    e, f, g = (algebra.lift(inputs_of(case, rng)) for _ in range(3))
    left, right = algebra.combine(algebra.combine(e, f), g), algebra.combine(e, algebra.combine(f, g))
    for value, other in zip(left, right, strict=True):
        if value.dtype == np.bool_:
            np.testing.assert_array_equal(value, other)
    for _ in range(4):
        states = states_of(algebra, rng)
        assert_same(algebra.apply(left, states), algebra.apply(right, states))
    if not any(value.dtype == np.bool_ for value in left):
        assert_same(left, right)


@pytest.mark.parametrize(("name", "case"), [case for case in CASES if case.values[1].forgets])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nothing_crosses_a_reset(name: str, case: Example, poison: float) -> None:
    """Where one of two steps resets all states, no value before it is told from another, be it NaN or infinite."""
    algebra, rng = proved(case), np.random.default_rng(4)
    at = [part.name for part in case.parts].index(case.forgets)
    inputs = inputs_of(case, rng)
    resetting = tuple(np.ones(SAMPLES, np.bool_) if i == at else value for i, value in enumerate(inputs))
    reset, after = algebra.lift(resetting), algebra.lift(inputs_of(case, rng))
    before = tuple(poisoned_at(rng.random(SAMPLES) < 0.5, value, poison) for value in inputs)
    states = states_of(algebra, rng)
    poisoned = tuple(np.full_like(value, poison) for value in states)
    expected = algebra.apply(after, algebra.apply(reset, states))
    assert all(np.isfinite(value).all() for value in expected)
    early = algebra.lift(before)
    for element in (
        algebra.combine(reset, after),
        algebra.combine(early, reset, after),
        algebra.combine(early, algebra.combine(reset, after)),
    ):
        assert_same(algebra.apply(element, poisoned), expected)


# --- affine: what stands behind a flag ----------------------------------------------------------------------------

FLAGGED = [case for case in EXAMPLES["affine"] if "r" in case.dtypes]


@pytest.mark.parametrize("case", FLAGGED, ids=lambda case: case.text)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_an_absent_coefficient_is_not_read(case: Example, poison: float) -> None:
    algebra, rng = proved(case), np.random.default_rng(5)
    size = algebra.generic.num_states
    square = size * size

    def poisoned(element: Values) -> Values:
        flags = element[square + size :]
        assert len(flags) == square
        values = [poisoned_at(flag, value, poison) for value, flag in zip(element[:square], flags, strict=True)]
        return (*values, *element[square:])

    elements = [algebra.lift(inputs_of(case, rng)) for _ in range(3)]
    assert any(flag.any() and not flag.all() for flag in elements[0][square + size :])
    states = states_of(algebra, rng)
    e, f, g = (poisoned(element) for element in elements)
    expected = algebra.apply(algebra.combine(*elements), states)
    assert_same(algebra.apply(algebra.combine(e, f, g), states), expected)
    assert_same(algebra.apply(poisoned(algebra.combine(e, algebra.combine(f, g))), states), expected)


@pytest.mark.parametrize("case", FLAGGED, ids=lambda case: case.text)
def test_a_nan_goes_where_the_step_takes_it(case: Example) -> None:
    """Whatever state is NaN: one that a new state does not read leaves it alone."""
    algebra, rng = proved(case), np.random.default_rng(7)
    inputs = inputs_of(case, rng)
    states = tuple(poisoned_at(rng.random(SAMPLES) < 0.4, value, np.nan) for value in states_of(algebra, rng))
    assert_same(algebra.apply(algebra.lift(inputs), states), algebra.step(states, inputs))


# --- affine: a float32 coefficient and its rounding error ------------------------------------------------------------

PLAIN = next(case for case in EXAMPLES["affine"] if case.text == "h[]; p[t], q[t]")


def test_a_product_of_many_coefficients_near_one_is_held_beyond_float32() -> None:
    """Rounded at each step, 2000 of them are off by 1e-5; the state is within a rounding of the exact product."""
    algebra, rng = proved(replace(PLAIN, real="f32")), np.random.default_rng(8)
    total, exact = None, np.ones(SAMPLES)
    rounded = np.ones(SAMPLES, np.float32)
    for _ in range(2000):
        p = (1 - 5e-5 * rng.random(SAMPLES)).astype(np.float32)
        element = algebra.lift((p, np.zeros(SAMPLES, np.float32)))
        total = element if total is None else algebra.combine(total, element)
        exact, rounded = exact * p.astype(np.float64), rounded * p
    assert total is not None
    (state,) = algebra.apply(total, (np.ones(SAMPLES, np.float32),))
    assert np.abs(state / exact - 1).max() < 6.1e-8
    assert np.abs(rounded / exact - 1).max() > 5e-7


ROTATING = EXAMPLES["complex_affine"][0]


@pytest.mark.parametrize("angle", [0.0, np.pi / 4, np.pi / 2, np.pi, 1.0, 1e-3])
def test_a_product_of_many_complex_coefficients_near_one_is_held_beyond_float32(angle: float) -> None:
    """The same coefficients over and over, whose products' roundings add up: 2000 of them are off by 1e-5."""
    algebra, rng = proved(replace(ROTATING, real="f32")), np.random.default_rng(10)
    w = ((1 - 5e-5 * rng.random(SAMPLES)) * np.exp(1j * angle)).astype(np.complex64)
    nothing = np.zeros(SAMPLES, np.float32)
    element = algebra.lift((w.real, w.imag, nothing, nothing))
    total, rounded, exact = element, w, w.astype(np.complex128)
    for _ in range(1999):
        total = algebra.combine(total, element)
        rounded = rounded * w
        exact = exact * w
    re, im = algebra.apply(total, (np.ones(SAMPLES, np.float32), nothing))
    assert np.abs((re + 1j * im.astype(np.float64)) / exact - 1).max() < 1.3e-7
    assert np.abs(rounded / exact - 1).max() > 1e-6


@pytest.mark.parametrize("real", ["f32", "f64"])
def test_where_a_product_overflows_its_sign_is_left(real: str) -> None:
    algebra = proved(replace(PLAIN, real=real))
    dtype = algebra.lift(inputs_of(replace(PLAIN, real=real), np.random.default_rng(9)))[0].dtype
    large, zero, half = (np.full(SAMPLES, value, dtype) for value in (np.finfo(dtype).max / 4, 0, 0.5))
    e = algebra.lift((large, zero))
    square = algebra.combine(e, e)
    for element in (square, algebra.combine(square, e), algebra.combine(square, algebra.lift((half, zero)))):
        for sign in (1, -1):
            (state,) = algebra.apply(element, (np.full(SAMPLES, sign, dtype),))
            assert (state == sign * np.inf).all()


# --- the tests can fail -------------------------------------------------------------------------------------------


def test_a_planted_fault_breaks_the_laws() -> None:
    """Operands of the product exchanged: matrices do not commute."""
    case = next(case for case in EXAMPLES["affine"] if "b[t], c[t], d[t], p[t]" in case.text)
    algebra, rng = proved(case), np.random.default_rng(6)
    e, f = (algebra.lift(inputs_of(case, rng)) for _ in range(2))
    states = states_of(algebra, rng)
    with pytest.raises(AssertionError):
        assert_same(algebra.apply(algebra.combine(f, e), states), algebra.apply(f, algebra.apply(e, states)))
