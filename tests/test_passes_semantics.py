"""Every pass keeps the meaning: one recurrence, interpreted before and after the proof, and compiled for the CPU.

The oracle is the sequential meaning of `recurrence.generic`, interpreted. Inputs are float64, so that orders of
summation do not hide faults: what differs by more than 1e-11 is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.compiler import function_name
from scanweaver.dialects.recurrence import Recurrence
from scanweaver.dialects.scan import GenericOp, Scan
from scanweaver.frontend.signature import Array, parse_signature
from scanweaver.interpreters import run_module

SIZES = {"b": 3, "c": 9, "d": 5, "e": 4, "n": 4, "m": 4}


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math.Math, Recurrence, Scan):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


@dataclass(frozen=True)
class Case:
    """A step, and the algebras of its components in order."""

    algebras: str
    text: str
    step: Callable[..., Any]
    dtypes: Mapping[str, torch.dtype]

    @property
    def inputs(self) -> tuple[Array, ...]:
        return parse_signature(self.text).inputs


def case(algebras: str, text: str, step: Callable[..., Any], **dtypes: torch.dtype) -> Case:
    return Case(algebras, text, step, dtypes)


def selective(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    delta = sw.softplus(dt)
    h = sw.exp(delta * A) * h + delta * B * u
    return h, sw.sum(C * h, "n") + D * u


def online_softmax(m: Any, s: Any, o: Any, x: Any, v: Any) -> Any:
    top = sw.maximum(m, x)
    old, new = sw.exp(m - top), sw.exp(x - top)
    s = s * old + new
    o = o * old + v * new
    return (top, s, o), o / s


CASES = [
    # one affine state
    case("affine", "h[b]; a[b t], x[b t]", lambda h, a, x: a * h + x),
    case("affine", "h[b]; x[t b]-> y[t b]", lambda h, x: (h - x, h)),
    case("affine", "h[]=2; x[t]", lambda h, x: h / 1.5 + x),
    case("affine", "h[b d]; g[d], x[b d t] -> y[b t d]", lambda h, g, x: (g * h + x, sw.tanh(h) * x)),
    case("affine", "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d] -> y[b d t]", selective),
    case("affine", "h[c]; x[c t] -> y[c t], z[t c]", lambda h, x: (0.5 * h + x, (h * h, h - x))),
    # resets
    case("affine", "h[b]; r[b t], x[b t]", lambda h, r, x: sw.where(r, x, 0.9 * h + x), r=torch.bool),
    case(
        "affine",
        "h[c]; r[c t], s[t], x[c t]",
        lambda h, r, s, x: sw.where(s, sw.where(r, x, h) - x, 0.5 * sw.where(r, h, 2.0)),
        r=torch.bool,
        s=torch.bool,
    ),
    # several components
    case("affine affine", "g[b], h[b]; x[b t] -> y[b t]", lambda g, h, x: ((0.9 * g + x, 0.5 * h + g), h)),
    case(
        "affine delay affine",
        "h[b], h1[b], k[b]; x[b t] -> y[b t]",
        lambda h, h1, k, x: ((0.7 * h + x, h, h1 * k + h), k - h1),
    ),
    case("delay delay", "x1[b], x2[b]; x[b t] -> y[b t]", lambda x1, x2, x: ((x, x1), 0.5 * x + 0.25 * x1 - x2)),
    case(
        "affine affine",
        "h[b n], m[b]; a[n], x[b t] -> y[b t]",
        lambda h, m, a, x: ((a * h + x, 0.5 * m + sw.sum(a * h, "n")), m),
    ),
    # coupled states
    case("affine", "h[c], h1[c]; x[c t] -> y[c t]", lambda h, h1, x: ((1.2 * h - 0.5 * h1 + x, h), h)),
    case(
        "affine",
        "p[b], q[b]; r[b t], x[b t] -> y[b t]",
        lambda p, q, r, x: ((sw.where(r, x, 0.5 * p - 0.5 * q), sw.where(r, 1.0, 0.5 * p + 0.6 * q - x)), p * q),
        r=torch.bool,
    ),
    case(
        "affine",
        "p[], q[], r[], s[]; a[t], x[t]",
        lambda p, q, r, s, a, x: (0.5 * q + x, 0.3 * r - p, a * s, 0.2 * p + 0.3 * s),
    ),
    # refused, so in time order
    case("sequential", "h[b]; x[b t]", lambda h, x: sw.tanh(h + x)),
    case(
        "sequential affine delay",
        "h[c], g[c], d[c]; x[c t] -> y[c t]",
        lambda h, g, d, x: ((sw.tanh(h + x), 0.5 * g + h, g), d + h),
    ),
    case(
        "sequential",
        "h[b d]; W[d e], x[b d t]",
        lambda h, W, x: sw.tanh(sw.sum(W * sw.rename(h, d="e"), "e") + x),
    ),
    case("sequential", "h[b d]; x[b d t]", lambda h, x: h + x - sw.sum(h, "d") * 0.1),
    case("sequential affine affine", "m[b]=-inf, s[b], o[b]; x[b t], v[b t] -> y[b t]", online_softmax),
    case("sequential", "n[c]:int32; k[c t]", lambda n, k: n + sw.cast(k, torch.int32), k=torch.int64),
    # reductions
    case(
        "affine",
        "h[b n m]; x[b n t], w[b m t] -> y[b t], top[b t], at[b n t]",
        lambda h, x, w: (
            0.9 * h + x * w,
            (sw.sum(h, "n m"), sw.max(sw.min(h, "m"), "n"), sw.argmax(h, "m")),
        ),
    ),
]


def arguments(case: Case, steps: int, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    sizes = SIZES | {"t": steps, "e": SIZES["d"] if "rename" in case.step.__code__.co_names else SIZES["e"]}
    values: list[torch.Tensor] = []
    for array in case.inputs:
        shape = [sizes[axis] for axis in array.axes]
        dtype = case.dtypes.get(array.name, torch.float64)
        if dtype == torch.bool:
            values.append(torch.from_numpy(np.asarray(rng.random(shape) < 0.3)))
        elif dtype == torch.int64:
            values.append(torch.from_numpy(np.asarray(rng.integers(-9, 9, shape))))
        else:
            values.append(torch.from_numpy(np.asarray(rng.uniform(-1, 1, shape))))
    return values


@dataclass(frozen=True)
class Run:
    """What each stage of one compilation computes: outputs, then last states."""

    expected: list[np.ndarray]
    fold: list[np.ndarray]
    tree: list[np.ndarray]
    compiled: list[np.ndarray]
    scan: GenericOp


def run(case: Case, values: list[torch.Tensor], **options: Any) -> Run:
    recurrence = sw.recurrence(case.text)(case.step)
    stages = recurrence.artifact(*values, return_last=True, **options).stages
    init = options.get("init")
    given = [] if init is None else [init] if isinstance(init, torch.Tensor) else [v for v in init if v is not None]
    arrays = [value.numpy() for value in (*given, *values)]
    before, after = parse(stages["recurrence"]), parse(stages["scan"])
    name = function_name(before)
    outputs, last = recurrence(*values, return_last=True, **options)
    compiled = [*(outputs if isinstance(outputs, tuple) else [outputs]), *(last if isinstance(last, tuple) else [last])]
    return Run(
        list(run_module(before, name, *arrays)),
        list(run_module(after, name, *arrays, order="fold")),
        list(run_module(after, name, *arrays, order="tree")),
        [value.numpy() for value in compiled],
        next(op for op in after.walk() if isinstance(op, GenericOp)),
    )


def assert_close(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(got, expected, strict=True):
        assert one.shape == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)  # NaN and infinities exactly where expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_every_stage_computes_the_same(case: Case) -> None:
    for steps in (41, 1, 0):
        done = run(case, arguments(case, steps))
        if steps == 41:
            assert " ".join(c.algebra.data for c in done.scan.component_ops) == case.algebras
            assert all(np.isfinite(value).all() for value in done.expected)
        for got in (done.fold, done.tree, done.compiled):
            assert_close(got, done.expected)


@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case.text)
def test_backwards(case: Case) -> None:
    done = run(case, arguments(case, 20), reverse=True)
    for got in (done.fold, done.tree, done.compiled):
        assert_close(got, done.expected)
    forward = run(case, arguments(case, 20))
    assert any(np.abs(one - other).max() > 1e-6 for one, other in zip(done.expected, forward.expected, strict=True))


def test_starts() -> None:
    case = next(case for case in CASES if case.step is selective)
    start = torch.linspace(-1, 1, SIZES["d"] * SIZES["n"], dtype=torch.float64).reshape(SIZES["d"], SIZES["n"])
    done = run(case, arguments(case, 13), init=start)
    for got in (done.fold, done.tree, done.compiled):
        assert_close(got, done.expected)
    assert np.abs(done.expected[0] - run(case, arguments(case, 13)).expected[0]).max() > 1e-3


# --- NaN and infinities -------------------------------------------------------------------------------------------

RESETS = [
    lambda h, r, s, x: sw.where(r, x, 0.5 * h + x),
    lambda h, r, s, x: sw.where(r, 0.25, h - x),
    lambda h, r, s, x: sw.where(s, sw.where(r, x, h), h * 0.5 + x),
    lambda h, r, s, x: sw.where(r & s, 1.0, x - sw.where(r, 0.0, h)),
]


@pytest.mark.parametrize("step", RESETS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nothing_crosses_a_reset(step: Callable[..., Any], poison: float) -> None:
    """NaN and infinities stand exactly where a loop in time order has them."""
    case = Case("affine", "h[c]; r[c t], s[c t], x[c t]", step, {"r": torch.bool, "s": torch.bool})
    r, s, x = arguments(case, 60, seed=3)
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.08] = poison
    done = run(case, [r, s, x], init=torch.full((SIZES["c"],), poison, dtype=torch.float64))
    trajectory = done.expected[0]
    assert 0.05 < np.isfinite(trajectory).mean() < 0.95
    for got in (done.fold, done.tree, done.compiled):
        assert_close(got, done.expected)


def test_a_poisoned_row_is_alone() -> None:
    case = CASES[0]
    a, x = arguments(case, 17)
    clean = run(case, [a, x])
    x[1, 3] = torch.nan
    poisoned = run(case, [a, x])
    for before, after in ((clean.tree, poisoned.tree), (clean.compiled, poisoned.compiled)):
        assert np.isnan(after[0][1, 3:]).all() and np.isfinite(after[0][1, :3]).all()
        for row in (0, 2):
            assert np.array_equal(before[0][row], after[0][row])


def test_a_row_is_computed_alike_wherever_it_stands() -> None:
    """19 rows are a vector of 16 and three alone, or whatever the machine's vectors hold: the same bits for each."""

    def step(h: Any, u: Any, dt: Any, A: Any) -> Any:
        h = sw.exp(sw.softplus(dt) * A) * h + dt * u
        return h, sw.sum(h, "n") * sw.silu(u)

    rows = sw.recurrence("h[r n]; u[r t], dt[r t], A[n] -> y[r t]")(step)
    rng = np.random.default_rng(11)
    u, dt = (torch.from_numpy(rng.normal(size=(19, 70)).astype(np.float32)) for _ in range(2))
    A = -torch.arange(1.0, 5.0)
    y = rows(u, dt, A)
    for shift in (1, 8, 18):
        moved = rows(u.roll(shift, 0), dt.roll(shift, 0), A)
        assert torch.equal(moved.roll(-shift, 0), y)
