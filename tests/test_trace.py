"""Tracing: what a step computes, held against PyTorch through the reference interpreter, and what it refuses."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import scanweaver as sw
from scanweaver.dialects.recurrence import GenericOp
from scanweaver.errors import SignatureError, TraceError
from scanweaver.frontend.dtypes import short_name
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import renamed_axes, result_dtypes, touched_axes, trace_step
from scanweaver.interpreters import run_module


def trace(
    text: str, step: Callable[..., Any], *, constants: dict[str, Any] | None = None, absent: str = "", **dtypes: str
):
    """The module of a step; inputs are float32 unless `dtypes` says otherwise, those in `absent` are not given."""
    signature = parse_signature(text)
    inputs = tuple(
        Given(array.name, array.axes, dtypes.get(array.name, "f32"))
        for array in signature.inputs
        if array.name not in absent.split()
    )
    named = tuple((name, type(value), value) for name, value in (constants or {}).items())
    module = trace_step(
        step, signature, Specialization(inputs, (None,) * len(signature.states), constants=named, return_last=True)
    )
    module.verify()
    return module


def generic(module: Any) -> GenericOp:
    (op,) = (op for op in module.walk() if isinstance(op, GenericOp))
    return op


def per_element(function: Callable[..., Any], *inputs: torch.Tensor, out: str = "") -> torch.Tensor:
    """`function` of a step's values, applied at every step of one-dimensional inputs."""
    names = ("x", "y", "z")[: len(inputs)]

    def step(h: Any, *values: Any) -> Any:
        return h, function(*values)

    text = f"h[]; {', '.join(name + '[t]' for name in names)} -> o[t]{out}"
    dtypes = {name: short_name(x.dtype) or "" for name, x in zip(names, inputs, strict=True)}
    module = trace(text, step, **dtypes)
    # MLIR's integers have no sign: bytes go in and come out as int8.
    arrays = [x.view(torch.int8).numpy() if x.dtype == torch.uint8 else x.numpy() for x in inputs]
    result = torch.from_numpy(np.asarray(run_module(module, "step", *arrays)[0]))
    return result.view(torch.uint8) if result_dtypes(module)[0] == "u8" else result


EDGES = [0.0, -0.0, 1e-30, 1e-3, 0.5, -0.5, 1.0, -1.0, 3.7, -3.7, 20.0, -20.0, 90.0, -90.0, 200.0, -200.0]
X = torch.tensor([*EDGES, math.inf, -math.inf, math.nan])
PAIRS = torch.cartesian_prod(X, X)
A, B = PAIRS[:, 0].contiguous(), PAIRS[:, 1].contiguous()
INTS = torch.tensor([-7, -1, 0, 1, 2, 5, 63, 2**40], dtype=torch.int64)
M, N = (part.contiguous() for part in torch.cartesian_prod(INTS, INTS).unbind(1))
BOOLS = torch.tensor([False, True])
P, Q = (part.contiguous() for part in torch.cartesian_prod(BOOLS, BOOLS).unbind(1))


# --- what a step computes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        *((getattr(sw, name), getattr(torch, name)) for name in ("exp", "exp2", "log", "log2", "log1p", "expm1")),
        *((getattr(sw, name), getattr(torch, name)) for name in ("sqrt", "rsqrt", "sin", "cos", "tanh", "erf")),
        *((getattr(sw, name), getattr(torch, name)) for name in ("sigmoid", "relu", "isnan")),
        (sw.silu, lambda x: torch.nn.functional.silu(x.double()).float()),
        (sw.softplus, lambda x: torch.logaddexp(x.double(), torch.zeros(()).double()).float()),
        (sw.detach, lambda x: x),
        (abs, abs),
        (lambda x: -x, lambda x: -x),
        (lambda x: +x, lambda x: x),
        (lambda x: x**2, lambda x: x**2),
        (lambda x: x**3, lambda x: x**3),
        (lambda x: x**7, lambda x: x**7),
        (lambda x: x**-1, lambda x: 1 / x),
        (lambda x: x**-2, lambda x: 1 / (x * x)),
        (lambda x: x**0, torch.ones_like),
        (lambda x: x**1, lambda x: x),
        (lambda x: x**2.0, lambda x: x**2),
        (lambda x: abs(x) ** 0.5, lambda x: x.abs() ** 0.5),
        (lambda x: abs(x) ** 1.7, lambda x: x.abs() ** 1.7),
        (lambda x: 2**x, torch.exp2),
        (lambda x: 3.0**x, lambda x: 3.0**x),
        (lambda x: 2 / x, lambda x: 2 / x),
        (lambda x: 1 - x, lambda x: 1 - x),
        (lambda x: sw.clamp(x, -1, 2.5), lambda x: x.clamp(-1, 2.5)),
        (lambda x: sw.clamp(x, hi=1), lambda x: x.clamp(max=1)),
        (lambda x: sw.where(x > 0.5, x, -x), lambda x: torch.where(x > 0.5, x, -x)),
        (lambda x: sw.where(x > 0, 1.0, 0.25), lambda x: torch.where(x > 0, 1.0, 0.25)),
        (lambda x: sw.cast(x, torch.bfloat16), lambda x: x.bfloat16().float()),
        (lambda x: sw.cast(x, "float16"), lambda x: x.half().float()),
        (lambda x: sw.cast(x, torch.bool), lambda x: x.bool()),
        (lambda x: np.float32(1.5) * x, lambda x: 1.5 * x),
        (lambda x: x < np.float64(0.5), lambda x: x < 0.5),
    ],
)
def test_functions_of_one_value(ours: Callable[..., Any], theirs: Callable[..., torch.Tensor]):
    torch.testing.assert_close(per_element(ours, X), theirs(X), rtol=2e-6, atol=1e-38, equal_nan=True)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x, y: x + y, lambda x, y: x + y),
        (lambda x, y: x - y, lambda x, y: x - y),
        (lambda x, y: x * y, lambda x, y: x * y),
        (lambda x, y: x / y, lambda x, y: x / y),
        # NumPy takes a square root for -inf ** 0.5, which is NaN there and inf in C.
        (lambda x, y: sw.where(x < -1e9, 0, x**y), lambda x, y: torch.where(x < -1e9, 0.0, x**y)),
        (sw.maximum, torch.maximum),
        (sw.minimum, torch.minimum),
        (sw.logaddexp, torch.logaddexp),
        *((op, op) for op in (lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y)),
        *((op, op) for op in (lambda x, y: x == y, lambda x, y: x != y, lambda x, y: (x < y) & ~(x == y))),
        (lambda x, y: sw.where(sw.isnan(x) | (y > 0), y, 1), lambda x, y: torch.where(x.isnan() | (y > 0), y, 1.0)),
    ],
)
def test_functions_of_two_values(ours: Callable[..., Any], theirs: Callable[..., torch.Tensor]):
    torch.testing.assert_close(per_element(ours, A, B), theirs(A, B), rtol=2e-6, atol=1e-38, equal_nan=True)


@pytest.mark.parametrize(
    "both",
    [
        *(lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: -x, lambda x, y: abs(x)),
        *(lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y, lambda x, y: ~x, lambda x, y: 3 * x + 1),
        *(lambda x, y: x < y, lambda x, y: x == y, lambda x, y: x != 5, lambda x, y: x >= -1, lambda x, y: x < 0.5),
        *(lambda x, y: x << abs(y), lambda x, y: x >> abs(y), lambda x, y: x << 3, lambda x, y: x >> 1),
        *(
            lambda x, y: x / 2,
            lambda x, y: x + 0.5,
            lambda x, y: (x + 0.25) * y,
            lambda x, y: x**2,
            lambda x, y: 2 << x,
        ),
    ],
)
def test_integers_are_computed_in_64_bits(both: Callable[..., Any]):
    wanted = both(M, N)
    got = per_element(both, M, N)
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=0)


def test_functions_of_integers():
    for ours, theirs in ((sw.maximum, torch.maximum), (sw.minimum, torch.minimum)):
        assert torch.equal(per_element(ours, M, N), theirs(M, N))
    torch.testing.assert_close(per_element(sw.exp, M[:30]), torch.exp(M[:30].float()))
    assert torch.equal(per_element(lambda x: sw.cast(x, torch.int8), M), M.to(torch.int8))
    assert torch.equal(per_element(lambda x: sw.cast(x, torch.uint8) + 0, M), M.to(torch.uint8).long())
    assert torch.equal(per_element(lambda x: sw.cast(x, torch.int64), X[:12]), X[:12].long())
    assert torch.equal(per_element(sw.isnan, M), torch.zeros_like(M, dtype=torch.bool))


@pytest.mark.parametrize(
    "both",
    [
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: x ^ y,
        lambda x, y: ~x,
        lambda x, y: x == y,
        lambda x, y: x < y,
        lambda x, y: x & True,
        lambda x, y: x >= y,
    ],
)
def test_bools(both: Callable[..., Any]):
    assert torch.equal(per_element(both, P, Q), both(P, Q))


def test_narrow_integers_are_widened_and_kept():
    x = torch.tensor([250, 3, 7], dtype=torch.uint8)
    assert torch.equal(per_element(lambda x: x, x), x)
    assert torch.equal(per_element(lambda x: x + x, x), x.long() + x.long())
    y = torch.tensor([-100, 3, 7], dtype=torch.int8)
    assert torch.equal(per_element(lambda x: x * 2, y), y.long() * 2)
    assert torch.equal(per_element(lambda x: x * 2, y, out=":int8"), y * 2)


def test_numbers_alone_give_numbers():
    assert sw.exp(2.0) == math.exp(2.0)
    assert sw.exp(1000) == math.inf and sw.log(0.0) == -math.inf and math.isnan(sw.sqrt(-1.0))
    assert sw.where(True, 1, 2) == 1 and sw.maximum(2, 3) == 3 and math.isnan(sw.minimum(math.nan, 1.0))
    assert sw.clamp(5, 0, 1) == 1 and sw.cast(2.7, torch.int32) == 2
    assert sw.logaddexp(0.0, 0.0) == pytest.approx(math.log(2)) and sw.silu(0.0) == 0
    assert sw.logaddexp(-math.inf, -math.inf) == -math.inf and sw.silu(-89) == pytest.approx(-89 * math.exp(-89), abs=0)
    assert sw.sigmoid(1j) == 1 / (1 + sw.exp(-1j)) and sw.sigmoid(-800.0) == 0


RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_the_selective_scan():
    def step(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, *, softplus: bool = False):
        if softplus:
            dt = sw.softplus(dt)
        h = sw.exp(dt * A) * h + dt * B * u
        y = sw.sum(C * h, "n")
        if D is not None:
            y = y + D * u
        return h, y if z is None else y * sw.silu(z)

    text = "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]"
    b, d, n, t = 2, 3, 4, 5
    u, dt, A, B, C, D, z = (
        floats(b, d, t),
        floats(b, d, t),
        -abs(floats(d, n)),
        floats(b, n, t),
        floats(b, n, t),
        floats(d),
        floats(b, d, t),
    )
    module = trace(text, step, constants={"softplus": True})
    y, last = run_module(module, "step", u, dt, A, B, C, D, z)

    h, ys = torch.zeros(b, d, n, dtype=torch.float64), []
    u_, dt_, A_, B_, C_, D_, z_ = (torch.from_numpy(x).double() for x in (u, dt, A, B, C, D, z))
    dt_ = torch.nn.functional.softplus(dt_)
    for k in range(t):
        h = torch.exp(dt_[:, :, k, None] * A_) * h + (dt_[:, :, k] * u_[:, :, k])[..., None] * B_[:, None, :, k]
        ys.append(((h * C_[:, None, :, k]).sum(-1) + D_ * u_[:, :, k]) * torch.nn.functional.silu(z_[:, :, k]))
    np.testing.assert_allclose(y, torch.stack(ys, -1).numpy(), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(last, h.numpy(), rtol=2e-5, atol=1e-6)
    assert touched_axes(module) == ("n",)
    assert [array.name for array in generic(module).input_arrays] == ["u", "dt", "A", "B", "C", "D", "z"]

    plain = trace(text, step, constants={"softplus": False}, absent="D z")
    assert [array.name for array in generic(plain).input_arrays] == ["u", "dt", "A", "B", "C"]
    assert "log1p" not in str(plain)


def test_a_state_mixes_with_itself_through_a_renamed_axis():
    def step(h: Any, W: Any, x: Any) -> Any:
        return sw.tanh(sw.sum(W * sw.rename(h, d="e"), "e") + x)

    module = trace("h[b d]; W[d e], x[b d t]", step)
    W, x = floats(3, 3), floats(2, 3, 4)
    out, last = run_module(module, "step", W, x)
    h = np.zeros((2, 3))
    for k in range(4):
        h = np.tanh(h @ W.astype(float).T + x[..., k])
        np.testing.assert_allclose(out[..., k], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(last, out[..., -1])
    assert touched_axes(module) == ("d", "e") and renamed_axes(module) == (("d", "e"),)


def test_over_axes():
    x = floats(2, 3, 4)
    x[0, 0] = -np.inf
    x[1, 1, 2] = np.inf
    x[0, 2, 1] = x[0, 2, 3] = 9.0

    def over(function: Callable[..., Any], text: str = "h[]; x[b q t] -> y[b t]") -> np.ndarray:
        return run_module(trace(text, lambda h, x: (h, function(x))), "step", x)[0]

    xt = torch.from_numpy(x)
    np.testing.assert_array_equal(over(lambda x: sw.max(x, "q")), xt.amax(1).numpy())
    np.testing.assert_array_equal(over(lambda x: sw.min(x, "q")), xt.amin(1).numpy())
    np.testing.assert_array_equal(over(lambda x: sw.argmax(x, "q")), x.argmax(1))
    np.testing.assert_array_equal(over(lambda x: sw.argmin(x, "q")), x.argmin(1))
    np.testing.assert_allclose(over(lambda x: sw.logsumexp(x, "q")), torch.logsumexp(xt, 1).numpy(), rtol=1e-6)
    np.testing.assert_array_equal(over(lambda x: sw.take(x, 2, "q")), x[:, 2])
    np.testing.assert_array_equal(over(lambda x: sw.take(x, sw.argmax(x, "q"), "q")), x.max(1))
    both = over(lambda x: sw.logsumexp(x, "b q"), "h[]; x[b q t] -> y[t]")
    np.testing.assert_allclose(both, torch.logsumexp(xt, (0, 1)).numpy(), rtol=1e-6)


def test_several_states_and_outputs_nest():
    def step(m: Any, n: Any, x: Any) -> Any:
        new = sw.maximum(m, x)
        return (new, n + 1), (new - x, n, x > 0)

    module = trace("m[b]=-inf, n[b]:int32=5; x[b t] -> y[b t], count[b t], up[t b]", step)
    x = floats(2, 6)
    y, count, up, m, n = run_module(module, "step", x)
    np.testing.assert_array_equal(y, np.maximum.accumulate(x, 1) - x)
    np.testing.assert_array_equal(count, np.broadcast_to(np.arange(5, 11, dtype=np.int32), (2, 6)))
    assert count.dtype == np.int32 and n.dtype == np.int32 and up.dtype == np.bool_
    np.testing.assert_array_equal(up, (x > 0).T)
    np.testing.assert_array_equal(m, x.max(1))
    np.testing.assert_array_equal(n, [11, 11])


def test_an_int32_state_wraps():
    module = trace("n[]:int32; x[t]", lambda n, x: n + 2**30 + 2**30 * 0 * sw.cast(x, torch.int64))
    trajectory, _ = run_module(module, "step", floats(3))
    np.testing.assert_array_equal(trajectory, np.array([2**30, -(2**31), -(2**30)], dtype=np.int32))


def test_a_bool_state_is_a_flag():
    def step(open: Any, x: Any) -> Any:
        return open | (x > 0)

    out, last = run_module(trace("open[]:bool; x[t]", step), "step", np.float32([-1, 2, -3]))
    assert out.tolist() == [False, True, True] and bool(last)


def test_values_that_lack_axes_are_broadcast():
    module = trace("h[b d]; x[b t], w[t] -> y[b d t]", lambda h, x, w: (w, 0.5))
    y, last = run_module_sizes(module, floats(2, 3), floats(3), h0=np.zeros((2, 4), np.float32))
    assert y.shape == (2, 4, 3) and (y == 0.5).all() and last.shape == (2, 4)


def run_module_sizes(module: Any, *arrays: Any, h0: Any) -> Any:
    """Run a step whose state has an axis of its own: the module is traced anew with `init` as an operand."""
    signature = parse_signature("h[b d]; x[b t], w[t] -> y[b d t]")
    inputs = (Given("x", ("b", "t"), "f32"), Given("w", ("t",), "f32"))
    spec = Specialization(inputs, (Given("h", ("b", "d"), "f32"),), return_last=True)
    return run_module(trace_step(lambda h, x, w: (w, 0.5), signature, spec), "step", h0, *arrays)


# --- what the module says -----------------------------------------------------------------------------------------


def test_types_of_storage_and_computation():
    def step(h: Any, x: Any, a: Any) -> Any:
        return a * h + x, h

    op = generic(trace("h[b]; x[b t], a[b t] -> y[b t]", step, x="bf16", a="f32"))
    assert [str(type) for type in op.state_types] == ["f32"]
    assert [str(array.element_type) for array in op.result_arrays] == ["bf16", "f32"]
    op = generic(trace("h[b]; x[b t], a[b t] -> y[b t]", step, x="f16", a="f64"))
    assert [str(array.element_type) for array in op.result_arrays] == ["f16", "f64"]
    op = generic(trace("h[b]; x[b t], a[b t] -> y[b t]:float32", step, x="f16", a="i32"))
    assert [str(array.element_type) for array in op.result_arrays] == ["f32", "f32"]


def test_operands_starts_and_sizes():
    signature = parse_signature("h[... d n], g[]=2; x[... d t], A[d n], r[] -> y[... t d]")
    spec = Specialization(
        inputs=(Given("x", ("_0", "d", "t"), "f32"), Given("A", ("d", "n"), "f32"), Given("r", (), "f32", scalar=True)),
        inits=(Given("h", ("d", "n"), "f32"), None),
        leading=("_0",),
        reverse=True,
        sizes=(("n", 16),),
    )
    module = trace_step(lambda h, g, x, A, r: ((h * A * r, g), x), signature, spec)
    module.verify()
    op = generic(module)
    assert op.is_reverse and op.axis_names == ("_0", "d", "n", "t")
    assert [str(array.type) for array in op.init_arrays] == ["tensor<?x16xf32>", "f32"]
    assert [array.axes for array in op.states] == [("_0", "d", "n"), ()]
    assert [str(array.type) for array in op.input_arrays] == ["tensor<?x?x?xf32>", "tensor<?x16xf32>", "f32"]
    assert [array.axes for array in op.result_arrays] == [("_0", "t", "d")]
    assert "arith.constant 2.000000e+00" in str(module)


def test_last_alone():
    signature = parse_signature("h[b]; x[b t] ->")
    module = trace_step(lambda h, x: h + x, signature, Specialization((Given("x", ("b", "t"), "f32"),), (None,)))
    assert [array.axes for array in generic(module).result_arrays] == [("b",)]


def test_every_operation_knows_its_line_without_its_folder():
    op = generic(trace("h[b]; x[b t]", lambda h, x: sw.exp(h) + x))
    sources = [str(inner.attributes["recurrence.source"]) for inner in op.body.block.ops if inner.name == "math.exp"]
    assert len(sources) == 1
    assert sources[0].startswith('"test_trace.py:') and "sw.exp(h) + x" in sources[0] and "/" not in sources[0]


def test_constants_unroll():
    def step(h: Any, x: Any, *, times: int = 1) -> Any:
        for _ in range(times):
            h = h * x
        return h

    counts = [str(trace("h[b]; x[b t]", step, constants={"times": n})).count("arith.mulf") for n in (1, 3)]
    assert counts == [1, 3]


# --- what a value cannot do ---------------------------------------------------------------------------------------


def refusal(
    step: Callable[..., Any], text: str = "h[b]; x[b t]", error: type[Exception] = TraceError, **dtypes: str
) -> str:
    with pytest.raises(error) as caught:
        trace(text, step, **dtypes)
    return str(caught.value)


def test_if():
    def step(h: Any, x: Any) -> Any:
        if h > 0:
            return x
        return h

    message = refusal(step)
    assert "`if` on a step's value" in message and "sw.where(cond, a, b)" in message
    assert "test_trace.py:" in message and "if h > 0:" in message


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (lambda h, x: x if h > 0 else h, "`if` on a step's value"),
        (lambda h, x: h > 0 and x > 0, "`and` on a step's value: write `&`"),
        (lambda h, x: h > 0 or x > 0, "`or` on a step's value: write `|`"),
        (lambda h, x: not h, "`not` on a step's value: write `~`"),
        (lambda h, x: 0 < h < 1, "write `(a < x) & (x < b)`"),
        (lambda h, x: max(h, 0), "`max()` on a step's value: write `sw.maximum(a, b)`"),
        (lambda h, x: x + min(h, x, 3), "`min()` on a step's value: write `sw.minimum(a, b)`"),
        (lambda h, x: bool(h), "`bool()` on a step's value"),
        (lambda h, x: math.exp(h), "`math.exp()` on a step's value"),
        (lambda h, x: math.exp(h), "write `sw.exp`"),
        (lambda h, x: x * math.fabs(h), "write abs(x)"),
        (lambda h, x: float(h), "write sw.cast(x, torch.float32)"),
        (lambda h, x: int(h), "write sw.cast(x, torch.int64)"),
        (lambda h, x: round(h), "`round()` on a step's value"),
        (lambda h, x: math.floor(h), "`math.floor()` on a step's value"),
        (lambda h, x: [h for _ in range(h)], "`range()` on a step's value"),
        (lambda h, x: torch.exp(h), "`torch.exp()` on a step's value"),
        (lambda h, x: torch.exp(h), "write `sw.exp`"),
        (lambda h, x: torch.clip(h, 0), "write sw.clamp(x, lo, hi)"),
        (lambda h, x: torch.nn.functional.softplus(h), "write `sw.softplus`"),
        (lambda h, x: torch.add(h, x), "write the operator `+`"),
        (lambda h, x: np.exp(h), "`np.exp()` on a step's value"),
        (lambda h, x: np.exp(h), "write `sw.exp`"),
        (lambda h, x: np.floor(h), "a step is written with Python's operators and the functions of `sw`"),
        (lambda h, x: np.asarray(h), "`np.asarray()` on a step's value"),
        (lambda h, x: h.exp(), "write `sw.exp(x)`"),
        (lambda h, x: h[0], 'sw.take(x, i, "q")'),
        (lambda h, x: len(h), "has no length"),
        (lambda h, x: sum(h), "cannot be unpacked"),
        (lambda h, x: 3 in h, "contains nothing"),
        (lambda h, x: h // 2, "`//` on a step's value is not in the language"),
        (lambda h, x: 7 % h, "`%` on a step's value is not in the language"),
        (lambda h, x: h @ x, "sw.sum(W * sw.rename"),
        (lambda h, x: h + "a", "expected a step's value or a number, got a `str`"),
        (lambda h, x: h + None, "got None"),
        (lambda h, x: h + {}, "got a `dict`"),
        (lambda h, x: (h > 0) * x, "a bool in `*`: write `sw.where(cond, a, b)`"),
        (lambda h, x: x + (h > 0), "a bool in `+`"),
        (lambda h, x: sw.exp(h > 0), "a bool in `sw.exp`"),
        (lambda h, x: -(h > 0), "a bool in `-x`"),
        (lambda h, x: h & x, "`&` is for bools and integers, got a float"),
        (lambda h, x: ~h, "`~` is for bools and integers, got a float"),
        (lambda h, x: h << 1, "`<<` is for integers, got a float"),
        (lambda h, x: sw.where(h, x, 0), "the condition of `sw.where` is a bool, got a float"),
        (lambda h, x: sw.where(h > 0, x > 0, x), "`where` of a bool and a number"),
        (lambda h, x: sw.clamp(h), "needs at least one of its bounds"),
        (lambda h, x: sw.cast(h, "quux"), "a dtype is one of"),
        (lambda h, x: sw.cast(h, torch.float64), "a step computes in float64 where one of its inputs is float64"),
        (lambda h, x: sw.sum(h > 0, "b"), "a bool in `sw.sum`"),
        (lambda h, x: sw.sum(h, 1), "are one string"),
        (lambda h, x: sw.sum(3.0, "b"), "got the number 3.0"),
        (lambda h, x: sw.take(h, 1.0, "b"), "an integer counted from 0, got 1.0"),
        (lambda h, x: sw.take(h, -1, "b"), "an integer counted from 0, got -1"),
        (lambda h, x: sw.take(h, h, "b"), "the position of `sw.take` is an integer, got a float"),
        (lambda h, x: sw.sum(h), "`sw.sum` takes (x, axes), got (a value)"),
        (lambda h, x: sw.sum(h, dim=0), "`sw.sum` takes (x, axes), got (a value, dim=)"),
        (lambda h, x: sw.where(h > 0, x), "`sw.where` takes (cond, a, b), got (a value, a value)"),
        (lambda h, x: sw.clamp(h, min=0), "`sw.clamp` takes (x, lo=None, hi=None), got (a value, min=)"),
        (lambda h, x: sw.maximum(h, x, 3), "`sw.maximum` takes (a, b), got (a value, a value, 3)"),
        (lambda h, x: sw.rename(h, "b"), "`sw.rename` takes (x, **axes), got (a value, 'b')"),
        (lambda h, x: sw.rename(h, b=["c"]), "expected the name of an axis"),
        (lambda h, x: h * sw.cast(math.inf, "int32"), "`sw.cast` to int32: expected a finite number, got inf"),
        (lambda h, x: h * sw.log(0j), "`sw.log` of the number 0j is not finite"),
        (lambda h, x: h.shape[0] * x, "no attribute `shape`: its axes are the signature's"),
        (lambda h, x: h.to(torch.float16), "no attribute `to`: write `sw.cast(x, dtype)`"),
        (lambda h, x: h.float(), "no attribute `float`: write sw.cast(x, torch.float32)"),
        (lambda h, x: h.clone(), "no attribute `clone`: a value is never changed"),
        (lambda h, x: h.item(), "no attribute `item`: it is known only when the kernel runs"),
        (lambda h, x: h.add_(1), "no attribute `add_`"),
        (lambda h, x: h(x), "not a function"),
        (lambda h, x: x if f"{h:.2f}" else h, "a step's value is not a number"),
        (lambda h, x: pow(h, 2, 3), "`pow()` with a modulus"),
        (lambda h, x: operator.delitem(h, 0), "nothing can be taken out of it"),
        (lambda h, x: h + 10**400, "the integer is larger than any float64"),
        (lambda h, x: h + 2**70 * (sw.cast(h, torch.int64)), "does not fit into 64 bits"),
    ],
)
def test_misuse_names_what_to_write(step: Callable[..., Any], wanted: str):
    message = refusal(step)
    assert wanted in message
    assert message.splitlines()[-1].strip().startswith("test_trace.py:")


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (lambda h, x: sw.sum(x, "q"), "`sw.sum` over `q`, which the value does not have; it varies over `b`"),
        (lambda h, x: sw.sum(x, "b,d"), "axes are separated by spaces"),
        (lambda h, x: sw.max(x, "t"), "`sw.max` over time `t`"),
        (lambda h, x: sw.sum(x, ""), "one or more different axes"),
        (lambda h, x: sw.rename(x, b="q"), "`sw.rename` to `q`, which no array of the signature has"),
        (lambda h, x: sw.rename(x, b="b"), "an axis that the value has already"),
        (lambda h, x: sw.rename(x, b="t"), "to time `t`"),
        (lambda h, x: sw.take(x, 0, "d"), "`sw.take` over `d`"),
    ],
)
def test_wrong_axes(step: Callable[..., Any], wanted: str):
    message = refusal(step, error=SignatureError)
    assert wanted in message and "test_trace.py:" in message


SCALE = torch.ones(8)


def test_a_closed_over_tensor():
    weight = torch.ones(8)
    message = refusal(lambda h, x: weight * h)
    assert "`weight` is a tensor of shape (8,) that the step closes over" in message
    assert "make it an input, such as `weight[d]`" in message
    assert "`SCALE` is a tensor" in refusal(lambda h, x: h + SCALE)
    assert "`SCALE` is a tensor" in refusal(lambda h, x: sw.maximum(SCALE, h))
    array = np.ones((2, 3))
    assert "`array[d n]`" in refusal(lambda h, x: array * h)
    zero = torch.tensor(0.5)
    assert "`zero[]`" in refusal(lambda h, x: zero * h)


def test_a_closed_over_number_is_fixed():
    half = 0.5
    assert "arith.constant 5.000000e-01" in str(trace("h[b]; x[b t]", lambda h, x: half * h + x))


SCALARS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in ("float16", "float32", "float64", "longdouble", "int8", "uint8", "int64")},
    **{f"array-{name}": functools.partial(np.array, dtype=name) for name in ("float32", "float64", "int32")},
}


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("scalar", SCALARS)
def test_numpy_scalars_are_numbers_on_both_sides(scalar: str, name: str):
    apply, c, x = getattr(operator, name), SCALARS[scalar](2), torch.tensor([0.5, 1.5, 2.0, 2.5])
    torch.testing.assert_close(per_element(lambda h: apply(c, h), x), apply(2, x))
    torch.testing.assert_close(per_element(lambda h: apply(h, c), x), apply(x, 2))


@pytest.mark.parametrize("scalar", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow"])
def test_numpy_complex_scalars_too(scalar: Callable[[Any], Any], name: str):
    apply, c, x = getattr(operator, name), scalar(1 + 2j), torch.tensor([0.5, 1.5, 2.0, 2.5])
    for part, of in ((sw.real, torch.real), (sw.imag, torch.imag)):
        left, right = of(apply(1 + 2j, x)), of(apply(x, 1 + 2j))
        torch.testing.assert_close(per_element(lambda h: part(apply(c, h)), x), left, rtol=1e-5, atol=1e-5)  # noqa: B023
        torch.testing.assert_close(per_element(lambda h: part(apply(h, c)), x), right, rtol=1e-5, atol=1e-5)  # noqa: B023


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_numpy_integers_shift_and_mask_integers(name: str):
    apply, k = getattr(operator, name), torch.tensor([1, 5, 12, 40])
    for c in (np.int64(3), np.uint8(3), np.array(3)):
        torch.testing.assert_close(per_element(lambda h: apply(c, h), k), apply(torch.tensor(3), k))  # noqa: B023
        torch.testing.assert_close(per_element(lambda h: apply(h, c), k), apply(k, 3))  # noqa: B023


def test_functions_want_a_steps_value():
    with pytest.raises(TraceError, match="is a tensor"):
        sw.exp(SCALE)  # type: ignore[arg-type]


# --- what a step returns ------------------------------------------------------------------------------------------


def test_a_flat_tuple():
    message = refusal(lambda h, x: (h, x, x), "h[b]; x[b t] -> y[b t], z[b t]", SignatureError)
    assert "a tuple of 3 values" in message and "not one flat tuple" in message and "`return h, (y, z)`" in message
    message = refusal(lambda g, h, x: (g, h, x), "g[b], h[b]; x[b t] -> y[b t]", SignatureError)
    assert "`return (g, h), y`" in message


@pytest.mark.parametrize(
    ("text", "returned", "wanted"),
    [
        ("h[b]; x[b t] -> y[b t]", lambda h, x: h, "returned one value: expected the new states and the outputs"),
        ("h[b]; x[b t] -> y[b t]", lambda h, x: None, "returned None: expected the new states and the outputs"),
        ("h[b]; x[b t] -> y[b t]", lambda h, x: (h, (x, x)), "expected the new states, then 1 output: `return h, y`"),
        (
            "g[b], h[b]; x[b t] -> y[b t]",
            lambda g, h, x: (h, x),
            "expected 2 new states, then the outputs: `return (g, h), y`",
        ),
        ("h[b]; x[b t]", lambda h, x: (h, x), "the new states alone, since the signature has no outputs: `return h`"),
        ("h[b]; x[b t] ->", lambda h, x: (h, x), "the new states alone"),
        ("h[b]; x[b t] -> y[b t]", lambda h, x: (h, None), "output `y`: expected a step's value or a number, got None"),
        ("h[b]; x[b t]", lambda h, x: h > 0, "state `h` is floating, and the step gives it a bool"),
        ("n[b]:int32; x[b t]", lambda n, x: n + 0.5, "state `n` is an integer, and the step gives it floating"),
        ("o[b]:bool; x[b t]", lambda o, x: x, "sw.cast(x, torch.bool)"),
    ],
)
def test_wrong_returns(text: str, returned: Callable[..., Any], wanted: str):
    assert wanted in refusal(returned, text, SignatureError)


def test_an_axis_that_is_not_reduced():
    message = refusal(lambda h, x, C: (h + x, C * h), "h[b n]; x[b n t], C[b n t] -> y[b t]", SignatureError)
    assert "output `y[b t]` is given a value that also varies over `n`" in message
    assert '`sw.sum(…, "n")`' in message and "test_trace.py:" in message
    assert message.splitlines()[-1].strip() == "^" * len("y[b t]")
    message = refusal(lambda h, x: h + x, "h[b]; x[b d t]", SignatureError)
    assert "state `h[b]` is given a value that also varies over `d`" in message


@pytest.mark.parametrize(
    "use", [lambda old, x: old, lambda old, x: old + x, lambda old, x: x * old, lambda old, x: -old]
)
def test_a_value_of_another_trace(use: Callable[..., Any]):
    leaked: list[Any] = []
    trace("h[b]; x[b t]", lambda h, x: leaked.append(x) or h + x)
    for old in leaked:
        assert "a value of another trace" in refusal(lambda h, x: use(old, x))  # noqa: B023
        assert "a value of another trace" in refusal(lambda h, x: 2 * old)  # noqa: B023


def test_a_long_line_is_cut():
    message = refusal(lambda h, x: math.exp(h) + 0 * (1111111111111111111111 + 2222222222222222222222222222222222 + 33))
    assert message.endswith("...") and len(message.splitlines()[-1]) < 130


def test_a_tensor_returned():
    assert "is a tensor of shape (8,)" in refusal(lambda h, x: SCALE)


def test_outputs_need_inputs_that_are_given():
    def step(h: Any, x: Any, z: Any = None) -> Any:
        return h + x, x

    with pytest.raises(SignatureError, match="axis `q` of output `y` is in no state and in none of the inputs given"):
        trace("h[b]; x[b t], z[b q t] -> y[b q t]", step, absent="z")


def test_attributes_may_be_asked_for():
    def step(h: Any, x: Any) -> Any:
        assert not hasattr(h, "shape") and getattr(h, "device", None) is None and f"{h}".startswith("<a step's")
        return h + x

    trace("h[b]; x[b t]", step)


def test_names_that_are_no_functions_say_what_to_write():
    for name, wanted in {"abs": "abs\\(x\\)", "clip": "sw.clamp", "pow": "operator `\\*\\*`", "mean": "sw.sum"}.items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}': write .*{wanted}"):
            getattr(sw, name)
