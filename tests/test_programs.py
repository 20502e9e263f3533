"""Recurrences as users write them, one of each kind, on each device and schedule, against loops in float64."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from reference import assert_accurate
from seed import SEED

import scanweaver as sw

CPU = pytest.param(("cpu", "serial"), id="cpu")
SERIAL = pytest.param(("cuda", "serial"), id="cuda-serial", marks=pytest.mark.gpu)
LANES = pytest.param(("cuda", "lanes"), id="cuda-lanes", marks=pytest.mark.gpu)
BLELLOCH = pytest.param(("cuda", "blelloch"), id="cuda-blelloch", marks=pytest.mark.gpu)
EVERYWHERE = pytest.mark.parametrize("where", [CPU, SERIAL, LANES, BLELLOCH])
IN_ORDER = pytest.mark.parametrize("where", [CPU, SERIAL])
BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])
LENGTHS = pytest.mark.parametrize("steps", [1, 33, 517])

Where = tuple[str, str]


def fresh(where: Where, *shape: int, low: float = -1, high: float = 1, salt: int = 0) -> torch.Tensor:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    generator = torch.Generator(where[0]).manual_seed(SEED + salt)
    return low + (high - low) * torch.rand(shape, generator=generator, device=where[0])


# --- how rows and steps fill blocks ---------------------------------------------------------------------------------


@sw.recurrence("h[b d]; a[b d t], x[b d t]")
def affine(h: Any, a: Any, x: Any) -> Any:
    return a * h + x


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_or_many_rows_and_steps(where: Where, reverse: bool, channels: bool, dtype: torch.dtype) -> None:
    """Warps across time and across rows, of which not all have work."""
    for batch, width, steps in [(1, 1, 300), (3, 70, 4), (3, 70, 9), (2, 33, 17), (1, 64, 40), (5, 100, 70)]:
        a, x = (fresh(where, batch, width, steps, salt=salt).to(dtype) for salt in (1, 2))
        if channels:
            a, x = (v.mT.contiguous().mT for v in (a, x))
        with poisoned():
            got = affine(a, x, reverse=reverse, return_last=True, strategy=where[1])
        assert_accurate(got, reference.affine, a, x, reverse=reverse)


# --- coupled states: a matrix inside one component -----------------------------------------------------------------


@sw.recurrence("h[b d], v[b d]; a[b d t], c[b d t], e[b d t], f[b d t], x[b d t], y[b d t]", parallel="require")
def two(h: Any, v: Any, a: Any, c: Any, e: Any, f: Any, x: Any, y: Any) -> Any:
    return a * h + c * v + x, e * h + f * v + y


@sw.recurrence("h0[b], h1[b], h2[b]; m[b i j t], x[b i t] -> y0[b t], y1[b t], y2[b t]", parallel="require")
def three(h0: Any, h1: Any, h2: Any, m: Any, x: Any) -> Any:
    h = [h0, h1, h2]

    def entry(i: int, j: int) -> Any:
        return sw.take(sw.take(m, i, "i"), j, "j")

    h = [sum((entry(i, j) * h[j] for j in range(3)), sw.take(x, i, "i")) for i in range(3)]
    return tuple(h), tuple(h)


@sw.recurrence("p[b], q[b], r[b], s[b]; a[b t], x[b t] -> y0[b t], y1[b t], y2[b t], y3[b t]", parallel="require")
def ring(p: Any, q: Any, r: Any, s: Any, a: Any, x: Any) -> Any:
    """Each state drives the next, the last drives the first: one component of four."""
    p, q, r, s = a * s + x, a * p - x, a * q + 0.5 * x, a * r
    return (p, q, r, s), (p, q, r, s)


@EVERYWHERE
@BOTH_WAYS
@LENGTHS
def test_two_coupled_states(where: Where, reverse: bool, steps: int) -> None:
    m = [[fresh(where, 2, 5, steps, low=-0.6, high=0.6, salt=2 * i + j) for j in range(2)] for i in range(2)]
    x = [fresh(where, 2, 5, steps, salt=9 + i) for i in range(2)]
    init = (fresh(where, 2, 5), -0.5)
    with poisoned():
        got = two(*m[0], *m[1], *x, init=init, reverse=reverse, return_last=True, strategy=where[1])
    assert_accurate(got, reference.coupled, m, x, init, reverse=reverse)


@EVERYWHERE
@BOTH_WAYS
def test_three_coupled_states_with_a_matrix_taken_apart(where: Where, reverse: bool) -> None:
    m, x = fresh(where, 2, 3, 3, 40, low=-0.4, high=0.4), fresh(where, 2, 3, 40)
    rows = [[m[:, i, j] for j in range(3)] for i in range(3)]
    got = three(m, x, reverse=reverse, return_last=True, strategy=where[1])
    assert_accurate(got, reference.coupled, rows, [x[:, i] for i in range(3)], (0.0,) * 3, reverse=reverse)


@EVERYWHERE
@LENGTHS
def test_a_ring_of_four_states(where: Where, steps: int) -> None:
    a, x = fresh(where, 3, steps, low=-0.9, high=0.9), fresh(where, 3, steps, salt=1)
    nothing = torch.zeros_like(a)
    m = [[a if j == (i - 1) % 4 else nothing for j in range(4)] for i in range(4)]
    got = ring(a, x, init=(1, None, fresh(where, 3), 2.0), return_last=True, strategy=where[1])
    starts = (1.0, 0.0, fresh(where, 3), 2.0)
    assert_accurate(got, reference.coupled, m, [x, -x, 0.5 * x, nothing], starts)


# --- delays --------------------------------------------------------------------------------------------------------


@sw.recurrence("a[b], c[b], d[b]; x[b t] -> y[b t]", parallel="require")
def three_later(a: Any, c: Any, d: Any, x: Any) -> Any:
    return (x, a, c), d


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 100])
def test_a_chain_of_delays(where: Where, reverse: bool, steps: int) -> None:
    x = fresh(where, 4, steps)
    init = (fresh(where, 4, salt=1), fresh(where, 1, salt=2), 7.0)
    with poisoned():
        got = three_later(x, init=init, reverse=reverse, return_last=True, strategy=where[1])
    want = reference.delays(x, 3, init, reverse=reverse, dtype=torch.float64)
    assert all(torch.equal(y.double(), w) for y, w in zip(reference.flat(got), want, strict=True)), "a delay is exact"


@sw.recurrence("v[b], past[b]; r[b t], omega[b], alpha[b], beta[b], start[b] -> out[b t]")
def garch(v: Any, past: Any, r: Any, omega: Any, alpha: Any, beta: Any, start: Any) -> Any:
    v = sw.where(sw.isnan(past), start, omega + alpha * past * past + beta * v)
    return (v, r), v


@EVERYWHERE
@LENGTHS
def test_garch(where: Where, steps: int) -> None:
    """A delay feeds the variance; the first step starts it, by selection."""
    r = fresh(where, 5, steps)
    lows = (0.01, 0.05, 0.85, 0.3)
    omega, alpha, beta, start = (fresh(where, 5, low=low, high=low + 0.05, salt=i) for i, low in enumerate(lows))
    got = garch(r, omega, alpha, beta, start, init=(0.0, torch.nan), return_last=True, strategy=where[1])
    assert_accurate(got, reference.garch, r, omega, alpha, beta, start)


# --- resets --------------------------------------------------------------------------------------------------------


@sw.recurrence("h[b]; a[b t], x[b t], keep[b t] -> y[b t]", parallel="require")
def segments(h: Any, a: Any, x: Any, keep: Any) -> Any:
    h = sw.where(keep, a * h + x, x)
    return h, h


@EVERYWHERE
@BOTH_WAYS
@LENGTHS
def test_nothing_crosses_a_reset(where: Where, reverse: bool, steps: int) -> None:
    """Neither NaN nor inf: before a reset they are the loop's, after it they are gone."""
    a, x = fresh(where, 6, steps), fresh(where, 6, steps, salt=1)
    keep = fresh(where, 6, steps, salt=2) > -0.7
    poison = fresh(where, 6, steps, salt=3)
    x = x.masked_fill(poison > 0.95, torch.nan).masked_fill(poison < -0.95, torch.inf)
    if where[1] == "serial":  # in parallel, a product of coefficients may be inf·0 where the loop's is not
        a = a.masked_fill(fresh(where, 6, steps, salt=4) > 0.95, torch.inf)
    got = segments(a, x, keep, init=torch.nan, reverse=reverse, return_last=True, strategy=where[1])
    exact = reference.resets(a, x, keep, torch.nan, reverse=reverse, dtype=torch.float32)
    for y, want in zip(got, exact, strict=True):
        torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5, equal_nan=True)


# --- what is not associative ---------------------------------------------------------------------------------------


@sw.recurrence("h[b d]; W[d e], x[b d t] -> y[b d t]")
def rnn(h: Any, W: Any, x: Any) -> Any:
    h = sw.tanh(sw.sum(W * sw.rename(h, d="e"), "e") + x)
    return h, h


@IN_ORDER
@BOTH_WAYS
@pytest.mark.parametrize("size", [1, 3, 16])
def test_a_recurrent_network(where: Where, reverse: bool, size: int) -> None:
    W, x = fresh(where, size, size) / size, fresh(where, 3, size, 50)
    got = rnn(W, x, init=fresh(where, size), reverse=reverse, return_last=True, strategy=where[1])
    assert_accurate(got, reference.rnn, W, x, fresh(where, size), reverse=reverse)


@sw.recurrence("h[b]; r[], x[b t] -> y[b t]")
def logistic(h: Any, r: Any, x: Any) -> Any:
    h = r * h * (1 - h) + 0.01 * x
    return h, h


@IN_ORDER
def test_a_step_that_squares_its_state(where: Where) -> None:
    x = fresh(where, 4, 60)

    def loop(*, dtype: torch.dtype) -> Any:
        def step(h: Any, now: torch.Tensor) -> Any:
            new = 2.5 * h[0] * (1 - h[0]) + 0.01 * now
            return (new,), (new,)

        return reference.loop(step, [torch.full((4,), 0.3, dtype=dtype, device=x.device)], [x.to(dtype)])

    assert_accurate(logistic(2.5, x, init=0.3, return_last=True, strategy=where[1]), loop)


@pytest.mark.parametrize(
    ("program", "shapes"), [(rnn, [(2, 2), (1, 2, 3)]), (logistic, [(), (1, 3)])], ids=["rnn", "logistic"]
)
def test_require_says_why_not(program: Any, shapes: list[tuple[int, ...]]) -> None:
    arguments = [torch.rand(shape) for shape in shapes]
    with pytest.raises(sw.NotAssociativeError):
        program(*arguments, parallel="require")
    program(*arguments)


# --- shapes of the signature ---------------------------------------------------------------------------------------


@sw.recurrence("total[b], best[b]=-inf, seen[b]:int32; x[b t], ok[b t] -> mean[b t], top[b t]:float64, count[b t]")
def statistics(total: Any, best: Any, seen: Any, x: Any, ok: Any) -> Any:
    total = sw.where(ok, total + x, total)
    best = sw.where(ok, sw.maximum(best, x), best)
    seen = sw.where(ok, seen + 1, seen)
    return (total, best, seen), (total / sw.cast(sw.maximum(seen, 1), "float32"), best, seen)


@IN_ORDER
def test_states_and_outputs_of_several_types(where: Where) -> None:
    x, ok = fresh(where, 3, 40), fresh(where, 3, 40, salt=1) > 0
    with poisoned():
        (mean, top, count), last = statistics(x, ok, return_last=True, strategy=where[1])
    seen = ok.cumsum(-1)
    assert torch.equal(count, seen)
    assert count.dtype == torch.int64, "the value that is put out was computed in int64; the state wraps at 32 bits"
    assert top.dtype == torch.float64
    assert torch.equal(top, x.masked_fill(~ok, -torch.inf).cummax(-1).values.double())
    torch.testing.assert_close(mean, (x * ok).cumsum(-1) / seen.clamp(min=1), rtol=1e-5, atol=1e-6)
    assert [state.dtype for state in last] == [torch.float32, torch.float32, torch.int32]


@sw.recurrence("S[b k v]; q[b k t], k_[b k t], v_[b v t], g[b t] -> o[b v t]", parallel="require")
def linear_attention(S: Any, q: Any, k_: Any, v_: Any, g: Any) -> Any:
    S = g * S + k_ * v_
    return S, sw.sum(q * S, "k")


@EVERYWHERE
@pytest.mark.parametrize(("k", "v", "steps"), [(1, 1, 5), (3, 2, 70), (16, 8, 130), (8, 33, 64)])
def test_a_matrix_of_states(where: Where, k: int, v: int, steps: int) -> None:
    q, key, value = (fresh(where, 2, n, steps, salt=i) for i, n in enumerate((k, k, v)))
    g = fresh(where, 2, steps, low=0.5, salt=3)

    def loop(*, dtype: torch.dtype) -> Any:
        def step(S: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
            new = g[:, None, None] * S[0] + k[:, :, None] * v[:, None, :]
            return (new,), ((q[:, :, None] * new).sum(1),)

        start = torch.zeros(2, k, v, dtype=dtype, device=q.device)
        return reference.loop(step, [start], [x.to(dtype) for x in (q, key, value, g)])

    with poisoned():
        got = linear_attention(q, key, value, g, return_last=True, strategy=where[1])
    assert_accurate(got, loop)


@sw.recurrence("m[b n], s[b n]; x[b t], w[n], scale[] -> y[b t], z[b n t]")
def summary(m: Any, s: Any, x: Any, w: Any, scale: Any = 0.5) -> Any:
    m = w * m + x
    s = scale * s + m
    return (m, s), (sw.max(s, "n") - sw.min(m, "n"), s + m)


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("scale", [None, 0.25, "tensor"])
def test_a_chain_of_states_and_a_scalar_input(where: Where, reverse: bool, scale: Any) -> None:
    x, w = fresh(where, 3, 90), fresh(where, 5, salt=1)
    given = {} if scale is None else {"scale": torch.tensor(0.25, device=where[0]) if scale == "tensor" else scale}
    factor = 0.5 if scale is None else 0.25

    def loop(*, dtype: torch.dtype) -> Any:
        def step(states: Any, now: torch.Tensor) -> Any:
            m = w.to(dtype) * states[0] + now[:, None]
            s = factor * states[1] + m
            return (m, s), (s.amax(1) - m.amin(1), s + m)

        start = torch.zeros(3, 5, dtype=dtype, device=x.device)
        return reference.loop(step, [start, start], [x.to(dtype)], reverse)

    with poisoned():
        got = summary(x, w, **given, reverse=reverse, return_last=True, strategy=where[1])
    assert_accurate(got, loop)


@sw.recurrence("h[b d]; x[b d t] -> ")
def only_last(h: Any, x: Any) -> Any:
    return 0.9 * h + x


@EVERYWHERE
@pytest.mark.parametrize("steps", [0, 1, 100])
def test_the_last_state_alone(where: Where, steps: int) -> None:
    x = fresh(where, 2, 3, steps)
    with poisoned():
        last = only_last(x, strategy=where[1])
    _, exact = reference.affine(torch.full_like(x, 0.9), x, dtype=torch.float64)
    torch.testing.assert_close(last.double(), exact, rtol=1e-5, atol=1e-6)


@sw.recurrence("n[]; tick[t] -> y[t]")
def counter(n: Any, tick: Any) -> Any:
    return n + 1, n


@EVERYWHERE
def test_a_generator_with_no_input(where: Where) -> None:
    y = counter(torch.empty(1, device=where[0]).expand(100), init=5, strategy=where[1])
    assert torch.equal(y.cpu(), torch.arange(5.0, 105.0))


@sw.recurrence("h[b]; x[b t], a[b t] -> y[b t]")
def mixed(h: Any, x: Any, a: Any) -> Any:
    h = a * h + x
    return h, h


@EVERYWHERE
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_step_in_float64_whose_output_is_narrow(where: Where, dtype: torch.dtype) -> None:
    """The output has the dtype of `x`, the first over time, though `a` makes the step compute in float64."""
    x, a = fresh(where, 3, 40).to(dtype), fresh(where, 3, 40, salt=1).double()
    y, last = mixed(x, a, return_last=True, strategy=where[1])
    assert (y.dtype, last.dtype) == (dtype, torch.float64)
    assert_accurate((y, last), reference.affine, a, x)


@sw.recurrence("h[]; x[t b d], w[b] -> y[t b]")
def pooled(h: Any, x: Any, w: Any) -> Any:
    y = h + w
    return sw.tanh(sw.sum(w, "b") + h), y


@IN_ORDER
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_reduction_that_knows_no_rows_is_worked_out_before_them(where: Where, dtype: torch.dtype) -> None:
    """`w` is reduced outside of the rows' loop, and read inside of it as well."""
    x, w = fresh(where, 11, 4, 5), fresh(where, 4, salt=1).to(dtype)
    y, last = pooled(x, w, return_last=True, strategy=where[1])
    h, total = torch.zeros((), dtype=torch.float64, device=x.device), w.double().sum()
    for row in y:
        torch.testing.assert_close(row.double(), h + w.double(), rtol=1e-5, atol=1e-5)
        h = torch.tanh(total + h)
    torch.testing.assert_close(last.double(), h, rtol=1e-5, atol=1e-5)


# --- for chips that are not there ----------------------------------------------------------------------------------

T = 64
SHAPES: dict[Any, list[tuple[int, ...]]] = {
    two: [(2, 5, T)] * 6,
    three: [(2, 3, 3, T), (2, 3, T)],
    ring: [(3, T)] * 2,
    three_later: [(4, T)],
    garch: [(5, T), (5,), (5,), (5,), (5,)],
    rnn: [(16, 16), (3, 16, T)],
    linear_attention: [(2, 16, T), (2, 16, T), (2, 8, T), (2, T)],
    summary: [(3, T), (5,)],
    only_last: [(2, 3, T)],
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("strategy", ["auto", "lanes", "serial"])
@pytest.mark.parametrize("program", SHAPES, ids=lambda program: program.__name__)
def test_lowers_to_ptx_where_there_is_no_gpu(program: Any, strategy: str, target: str) -> None:
    arguments = [torch.rand(shape) for shape in SHAPES[program]]
    if strategy == "lanes" and program is rnn:
        with pytest.raises(sw.NotAssociativeError):
            program.artifact_for(target, *arguments, strategy=strategy)
        return
    made = program.artifact_for(target, *arguments, strategy=strategy, return_last=True, reverse=True)
    assert f".target {target}" in made.stages["ptx"]


# --- deep steps, many threads ----------------------------------------------------------------------------------------


def test_a_step_of_many_operations_in_a_row() -> None:
    x = torch.rand(3, 5)

    def step(h: Any, x: Any) -> Any:
        for _ in range(300):
            x = x * 0.99 + 0.01
        return h * 0.5 + x

    h, last = sw.recurrence("h[b]; x[b t]")(step)(x), torch.zeros(3)
    for t in range(5):
        last = step(last, x[:, t])
        torch.testing.assert_close(h[:, t], last)


def test_first_calls_from_many_threads() -> None:
    step = sw.recurrence("h[b]; a[b t], x[b t]")(lambda h, a, x: a * h + 17.25 * x)
    gate, x = threading.Barrier(8), torch.rand(7, 33)
    results: list[Any] = []

    def call() -> None:
        gate.wait()
        results.append(step(x, x))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(torch.equal(result, results[0]) for result in results)


def test_trajectories_are_floats_whatever_the_step_gives() -> None:
    ones = sw.recurrence("h[b]; x[b t]")(lambda h, x: sw.where(x > 0, 1, 0))
    x = torch.randn(3, 5)
    assert torch.equal(ones(x), (x > 0).float())
    assert ones(x.half()).dtype == torch.float16
