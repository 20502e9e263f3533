"""The reference semantics of `recurrence` and `scan`, against loops over Python numbers, NumPy and SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import InterpretationError

from scanweaver.dialects.recurrence import Recurrence
from scanweaver.dialects.scan import Scan
from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.interpreters import run_module
from scanweaver.transforms.convert_recurrence_to_scan import ConvertRecurrenceToScanPass


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math_dialect.Math, Recurrence, Scan):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def function(arguments: str, results: list[str], body: str) -> ModuleOp:
    """`body` is the text of one operation of an iteration space."""
    names = ", ".join(f"%r{i}" for i in range(len(results)))
    types = ", ".join(results)
    return parse(
        f"func.func @f({arguments}) -> ({types}) {{\n"
        "  %zero = arith.constant 0.0 : f64\n"
        f"  {names} = {body}\n  return {names} : {types}\n}}"
    )


def run(module: ModuleOp, *arrays: Any, **options: Any) -> tuple[Any, ...]:
    return run_module(module, "f", *arrays, **options)


RNG = np.random.default_rng(20)


def uniform(*shape: int, low: float = -1, high: float = 1) -> np.ndarray:
    return RNG.uniform(low, high, shape)


# --- recurrence: one state ---------------------------------------------------------------------------------------


def affine(direction: str = "forward", type: str = "f64") -> ModuleOp:
    return function(
        f"%a: tensor<?x{type}>, %b: tensor<?x?x{type}>, %h0: tensor<?x{type}>",
        [f"tensor<?x?x{type}>", f"tensor<?x{type}>"],
        f"""recurrence.generic {direction} [r: parallel, t: time]
          states(h[r] = %h0[r] : tensor<?x{type}>)
          inputs(a = %a[t] : tensor<?x{type}>, b = %b[r, t] : tensor<?x?x{type}>)
          results(y[r, t] : tensor<?x?x{type}>, last h[r] : tensor<?x{type}>)
        {{
        ^bb0(%h: {type}, %a_t: {type}, %b_t: {type}):
          %ah = arith.mulf %a_t, %h : {type}
          %new = arith.addf %ah, %b_t : {type}
          recurrence.yield states(%new : {type}) outputs(%new : {type})
        }}""",
    )


@pytest.mark.parametrize(("rows", "steps"), [(3, 40), (1, 1), (0, 5), (4, 0), (0, 0)])
def test_affine_is_a_filter(rows: int, steps: int) -> None:
    b, h0 = uniform(rows, steps), uniform(rows)
    y, last = run(affine(), np.full(steps, 0.9), b, h0)
    expected = h0[:, None] * 0.9 ** np.arange(1, steps + 1)
    if b.size:
        expected = expected + lfilter([1.0], [1.0, -0.9], b, axis=1)
    np.testing.assert_allclose(y, expected, rtol=1e-13)
    np.testing.assert_allclose(last, expected[:, -1] if steps else h0, rtol=1e-13)


def test_reverse_is_the_flipped_sequence() -> None:
    a, b, h0 = uniform(9), uniform(2, 9), uniform(2)
    y, last = run(affine("reverse"), a, b, h0)
    flipped, last_forward = run(affine(), a[::-1], b[:, ::-1], h0)
    assert np.array_equal(y, flipped[:, ::-1])
    assert np.array_equal(last, last_forward)
    assert np.array_equal(last, y[:, 0])


@pytest.mark.parametrize(
    ("a", "b", "expected", "reverse"),
    [
        ([0.5, 0, 0.5], [1, 1, 1], [1, 1, 1.5], None),
        ([1, 1.5, 0.8, 2], [1, -1, 0.5, 2], [1, 0.5, 0.9, 3.8], [3.15, 2.15, 2.1, 2]),
    ],
)
def test_affine_by_hand(a: list[float], b: list[float], expected: list[float], reverse: list[float] | None) -> None:
    y, _ = run(affine(), np.array(a, float), np.array([b], float), np.zeros(1))
    np.testing.assert_allclose(y[0], expected, rtol=1e-15)
    if reverse is not None:
        y, _ = run(affine("reverse"), np.array(a, float), np.array([b], float), np.zeros(1))
        np.testing.assert_allclose(y[0], reverse, rtol=1e-15)


def test_each_operation_rounds_at_its_own_type() -> None:
    """1 + 2^-8 is lost in bfloat16 at every step, 1 + 2^-24 in float32, and neither in float64."""
    ones = np.ones(8)
    for type, small, expected in (("bf16", 2.0**-8, 1), ("f16", 2.0**-11, 1), ("f32", 2.0**-24, 1)):
        dtype = {"f16": np.float16, "f32": np.float32, "bf16": np.float32}[type]
        y, last = run(affine(type=type), ones.astype(dtype), np.full((1, 8), small, dtype), np.ones(1, dtype))
        assert y.dtype == dtype and last.tolist() == [expected]
    _, last = run(affine(), ones, np.full((1, 8), 2.0**-24), np.ones(1))
    assert last.tolist() == [1 + 2.0**-21]


def test_a_float16_input_with_a_wide_state() -> None:
    module = function(
        "%x: tensor<?xf16>",
        ["tensor<?xf16>", "tensor<f64>"],
        """recurrence.generic forward [t: time]
          states(h[] = %zero[] : f64)
          inputs(x = %x[t] : tensor<?xf16>)
          results(y[t] : tensor<?xf16>, last h[] : tensor<f64>)
        {
        ^bb0(%h: f64, %x_t: f16):
          %wide = arith.extf %x_t : f16 to f64
          %new = arith.addf %h, %wide : f64
          %y = arith.truncf %new : f64 to f16
          recurrence.yield states(%new : f64) outputs(%y : f16)
        }""",
    )
    y, last = run(module, np.full(1024, 1000, np.float16))
    assert last == 1024000
    assert y[64] == 65000 and np.isinf(y[65:]).all()


# --- recurrence: several states, kinds of results ------------------------------------------------------------------

SELECTIVE = function(
    "%u: tensor<?x?x?xf64>, %dt: tensor<?x?x?xf64>, %A: tensor<?x?xf64>, %B: tensor<?x?x?xf64>, %C: tensor<?x?x?xf64>, "
    "%h0: tensor<?x?xf64>, %g: f64",
    ["tensor<?x?x?xf64>", "tensor<?x?x?x?xf64>", "tensor<?x?xf64>", "tensor<?x?x?xf64>"],
    """recurrence.generic forward [b: parallel, d: parallel, n: state, t: time]
      states(h[b, d, n] = %h0[d, n] : tensor<?x?xf64>)
      inputs(u = %u[b, d, t] : tensor<?x?x?xf64>, dt = %dt[b, d, t] : tensor<?x?x?xf64>, A = %A[d, n] : tensor<?x?xf64>,
             B = %B[b, n, t] : tensor<?x?x?xf64>, C = %C[b, n, t] : tensor<?x?x?xf64>, g = %g[] : f64)
      results(y[b, t, d] : tensor<?x?x?xf64>, sampled 4 saved[n, t, b, d] : tensor<?x?x?x?xf64>,
              reduced sums[n, d] : tensor<?x?xf64>, last h[d, n, b] : tensor<?x?x?xf64>)
    {
    ^bb0(%h: f64, %u_t: f64, %dt_t: f64, %a: f64, %b: f64, %c: f64, %gain: f64):
      %e = arith.mulf %dt_t, %a : f64
      %decay = math.exp %e : f64
      %kept = arith.mulf %decay, %h : f64
      %du = arith.mulf %dt_t, %u_t : f64
      %x = arith.mulf %du, %b : f64
      %new = arith.addf %kept, %x : f64
      %ch = arith.mulf %c, %new : f64
      %sum = recurrence.reduce add %ch over [n] : f64
      %y = arith.mulf %gain, %sum : f64
      recurrence.yield states(%new : f64) outputs(%y : f64, %h : f64, %new : f64)
    }""",
)


@pytest.mark.parametrize("sizes", [(2, 3, 4, 9), (1, 1, 1, 1), (2, 2, 0, 3), (2, 1, 3, 0), (0, 2, 2, 5)])
def test_selective_scan(sizes: tuple[int, int, int, int]) -> None:
    b, d, n, steps = sizes
    u, dt, A = uniform(b, d, steps), uniform(b, d, steps, low=0), -uniform(d, n, low=0)
    B, C, h0 = uniform(b, n, steps), uniform(b, n, steps), uniform(d, n)
    y, saved, sums, last = run(SELECTIVE, u, dt, A, B, C, h0, 0.5)
    assert y.shape == (b, steps, d) and saved.shape == (n, math.ceil(steps / 4), b, d)
    total = np.zeros((n, d))
    for i in range(b):
        for j in range(d):
            h = [float(x) for x in h0[j]]
            for t in range(steps):
                if t % 4 == 0:
                    np.testing.assert_allclose(saved[:, t // 4, i, j], h, rtol=1e-12)
                for k in range(n):
                    h[k] = math.exp(dt[i, j, t] * A[j, k]) * h[k] + dt[i, j, t] * u[i, j, t] * B[i, k, t]
                expected = 0.5 * sum(C[i, k, t] * h[k] for k in range(n))
                assert y[i, t, j] == pytest.approx(expected, rel=1e-12, abs=1e-14)
                total[:, j] += h
            np.testing.assert_allclose(last[j, :, i], h, rtol=1e-12)
    np.testing.assert_allclose(sums, total, rtol=1e-12)


def test_states_read_each_other_as_they_were() -> None:
    module = function(
        "%n: tensor<?xi64>, %one: i64",
        ["tensor<?xi64>", "tensor<i64>", "tensor<i64>"],
        """recurrence.generic forward [t: time]
          states(p[] = %one[] : i64, q[] = %one[] : i64)
          inputs(n = %n[t] : tensor<?xi64>)
          results(f[t] : tensor<?xi64>, last q[] : tensor<i64>, last p[] : tensor<i64>)
        {
        ^bb0(%p: i64, %q: i64, %n_t: i64):
          %sum = arith.addi %p, %q : i64
          recurrence.yield states(%q : i64, %sum : i64) outputs(%p : i64)
        }""",
    )
    f, q, p = run(module, np.arange(8), 1)
    assert f.tolist() == [1, 1, 2, 3, 5, 8, 13, 21] and (q, p) == (55, 34)


def reduced(result: str, type: str = "f32", direction: str = "forward") -> ModuleOp:
    """An output that is x itself, summed into `result`."""
    return function(
        f"%x: tensor<?x?x{type}>, %start: {type}",
        [f"tensor<{'?x' * len(result.split())}{type}>"],
        f"""recurrence.generic {direction} [r: parallel, t: time]
          states(h[r] = %start[] : {type})
          inputs(x = %x[r, t] : tensor<?x?x{type}>)
          results(reduced s[{", ".join(result.split())}] : tensor<{"?x" * len(result.split())}{type}>)
        {{
        ^bb0(%h: {type}, %x_t: {type}):
          recurrence.yield states(%h : {type}) outputs(%x_t : {type})
        }}""",
    )


def test_a_reduced_result_is_added_in_order() -> None:
    """1 is lost beside 1e8 in float32, so the order shows."""
    big = np.float32(1e8)
    steps = np.array([[1, big, -big], [1, 1, 1]], np.float32)
    assert run(reduced("r"), steps, 0.0)[0].tolist() == [0, 3]  # (1 + big) - big
    assert run(reduced("r", direction="reverse"), steps, 0.0)[0].tolist() == [1, 3]
    assert run(reduced("t"), steps.T.copy(), 0.0)[0].tolist() == [0, 3]
    lanes = np.array([[1, 0], [big, 0], [0, -big]], np.float32)
    assert run(reduced(""), lanes, 0.0)[0].tolist() == 0
    assert run(reduced(""), lanes[[1, 2, 0]], 0.0)[0].tolist() == 1  # rows in index order
    # Each row adds its own steps, then rows are added: big + 1 and -big + 1 have both lost their 1.
    assert run(reduced(""), np.array([[big, 1], [-big, 1]], np.float32), 0.0)[0].tolist() == 0
    assert run(reduced(""), np.zeros((3, 0), np.float32), 0.0)[0] == 0


def test_a_reduced_half_is_rounded_once() -> None:
    (total,) = run(reduced("r", "bf16"), np.ones((1, 1000), np.float32), 0.0)
    assert total.tolist() == [1000]  # adding in bfloat16 would stop at 256
    (total,) = run(reduced("r", "f16"), np.full((1, 4), 2049, np.float16), 0.0)
    assert total.tolist() == [np.float16(4 * float(np.float16(2049)))]


def test_a_constant_is_reduced_over_time_alone() -> None:
    module = function(
        "%x: tensor<?x?xf64>",
        ["tensor<f64>"],
        """recurrence.generic forward [r: parallel, t: time]
          states(h[r] = %zero[] : f64)
          inputs(x = %x[r, t] : tensor<?x?xf64>)
          results(reduced count[] : tensor<f64>)
        {
        ^bb0(%h: f64, %x_t: f64):
          %one = arith.constant 1.0 : f64
          recurrence.yield states(%h : f64) outputs(%one : f64)
        }""",
    )
    assert run(module, np.zeros((3, 7)))[0] == 7


def test_sampled_steps_of_a_reverse_walk_are_those_of_memory() -> None:
    module = function(
        "%x: tensor<?xf64>",
        ["tensor<?xf64>"],
        """recurrence.generic reverse [t: time]
          states(h[] = %zero[] : f64)
          inputs(x = %x[t] : tensor<?xf64>)
          results(sampled 3 s[t] : tensor<?xf64>)
        {
        ^bb0(%h: f64, %x_t: f64):
          %new = arith.addf %h, %x_t : f64
          recurrence.yield states(%new : f64) outputs(%new : f64)
        }""",
    )
    x = np.arange(8.0)
    suffix = np.cumsum(x[::-1])[::-1]
    assert run(module, x)[0].tolist() == suffix[[0, 3, 6]].tolist()


# --- recurrence: axes ----------------------------------------------------------------------------------------------


def test_rename_mixes_a_state_with_itself() -> None:
    module = function(
        "%W: tensor<?x?xf64>, %x: tensor<?x?x?xf64>",
        ["tensor<?x?x?xf64>"],
        """recurrence.generic forward [b: parallel, d: state, e: state, t: time]
          states(h[b, d] = %zero[] : f64)
          inputs(W = %W[d, e] : tensor<?x?xf64>, x = %x[t, b, d] : tensor<?x?x?xf64>)
          results(y[t, b, d] : tensor<?x?x?xf64>)
        {
        ^bb0(%h: f64, %w: f64, %x_t: f64):
          %other = recurrence.rename %h [d to e] : f64
          %product = arith.mulf %w, %other : f64
          %dot = recurrence.reduce add %product over [e] : f64
          %sum = arith.addf %dot, %x_t : f64
          %new = math.tanh %sum : f64
          recurrence.yield states(%new : f64) outputs(%new : f64)
        }""",
    )
    W, x = uniform(4, 4), uniform(6, 3, 4)
    (y,) = run(module, W, x)
    h = np.zeros((3, 4))
    for t in range(6):
        h = np.tanh(h @ W.T + x[t])
        np.testing.assert_allclose(y[t], h, rtol=1e-12)
    with pytest.raises(InterpretationError, match="axis 'd' has size 4, and 3 in 'x'"):
        run(module, W, x[:, :, :3])
    with pytest.raises(InterpretationError, match=r"rename \[d to e\]: the axes have sizes 4 and 3"):
        run(module, W[:, :3], x)


def reduction(kind: str, over: str, left: str, result: str = "f64") -> ModuleOp:
    """x[d, e, t] reduced over `over`; the axes `left` and t remain."""
    type = f"tensor<{'?x' * len([*left.split(), 't'])}{result}>"
    return function(
        "%x: tensor<?x?x?xf64>",
        [type],
        f"""recurrence.generic forward [d: state, e: state, t: time]
          states(h[] = %zero[] : f64)
          inputs(x = %x[d, e, t] : tensor<?x?x?xf64>)
          results(y[{", ".join([*left.split(), "t"])}] : {type})
        {{
        ^bb0(%h: f64, %x_t: f64):
          %y = recurrence.reduce {kind} %x_t over [{over}] : f64
          recurrence.yield states(%h : f64) outputs(%y : {result})
        }}""",
    )


@pytest.mark.parametrize(("kind", "function"), [("add", np.sum), ("max", np.max), ("min", np.min)])
def test_reductions(kind: str, function: Any) -> None:
    x = uniform(3, 4, 5)
    np.testing.assert_allclose(run(reduction(kind, "d, e", ""), x)[0], function(x, axis=(0, 1)), rtol=1e-14)
    np.testing.assert_allclose(run(reduction(kind, "d", "e"), x)[0], function(x, axis=0), rtol=1e-14)
    empty = {"add": 0.0, "max": -np.inf, "min": np.inf}[kind]
    assert run(reduction(kind, "e, d", ""), x[:0])[0].tolist() == [empty] * 5
    x[2, 1, 3] = np.nan
    assert np.isnan(run(reduction(kind, "d, e", ""), x)[0]).tolist() == [False, False, False, True, False]


def test_a_sum_is_taken_as_its_axes_are_listed() -> None:
    big = 1e17  # 1 is lost beside it
    x = np.array([[big, 1], [-big, 1]])[..., np.newaxis]
    assert run(reduction("add", "d, e", ""), x)[0].tolist() == [1.0]  # big + 1 - big + 1
    assert run(reduction("add", "e, d", ""), x)[0].tolist() == [2.0]  # big - big + 1 + 1


@pytest.mark.parametrize(("kind", "expected"), [("argmax", [1, 0, 2]), ("argmin", [0, 0, 0])])
def test_the_first_extreme_counts(kind: str, expected: list[int]) -> None:
    x = np.array([[1, 3, 2, 3], [2, 2, 2, 2], [0, 1, 4, 4]], float)[..., np.newaxis]
    (y,) = run(reduction(kind, "e", "d", "i64"), x)
    assert y.dtype == np.int64 and y[:, 0].tolist() == expected


def test_take_follows_an_index_along_an_axis() -> None:
    """A walk through a table of next positions; a position outside stands for the nearest."""
    module = function(
        "%next: tensor<?x?xi32>, %at: tensor<?xi32>",
        ["tensor<?x?xi32>"],
        """recurrence.generic forward [b: parallel, q: state, t: time]
          states(s[b] = %at[b] : tensor<?xi32>)
          inputs(next = %next[q, t] : tensor<?x?xi32>)
          results(path[b, t] : tensor<?x?xi32>)
        {
        ^bb0(%s: i32, %next_t: i32):
          %new = recurrence.take %next_t at %s of q : i32, i32
          recurrence.yield states(%new : i32) outputs(%new : i32)
        }""",
    )
    table = RNG.permuted(np.tile(np.arange(5, dtype=np.int32), (7, 1)), axis=1).T.copy()
    (path,) = run(module, table, np.arange(5, dtype=np.int32))
    for b in range(5):
        at = b
        for t in range(7):
            at = table[at, t]
            assert path[b, t] == at
    assert run(module, table, np.array([-3, 9], np.int32))[0][:, 0].tolist() == [table[0, 0], table[4, 0]]


def test_take_by_an_index_that_varies_over_the_axis() -> None:
    module = function(
        "%x: tensor<?xi64>, %p: tensor<?xi64>, %t: tensor<?xi64>, %h0: tensor<?xi64>",
        ["tensor<?xi64>"],
        """recurrence.generic forward [q: state, t: time]
          states(h[q] = %h0[q] : tensor<?xi64>)
          inputs(p = %p[q] : tensor<?xi64>, tick = %t[t] : tensor<?xi64>)
          results(last h[q] : tensor<?xi64>)
        {
        ^bb0(%h: i64, %p_q: i64, %tick: i64):
          %new = recurrence.take %h at %p_q of q : i64, i64
          recurrence.yield states(%new : i64) outputs()
        }""",
    )
    h0, p = np.array([10, 20, 30, 40]), np.array([3, 0, 0, 2])
    (last,) = run(module, h0, p, np.zeros(2, np.int64), h0)
    assert last.tolist() == h0[p][p].tolist()


# --- what is refused -----------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused() -> None:
    a, b, h0 = np.ones(4), np.ones((2, 4)), np.ones(2)
    with pytest.raises(SignatureError, match="f takes 3 arguments, got 2"):
        run(affine(), a, b)
    with pytest.raises(SignatureError, match=r"argument 1 must be tensor<\?x\?xf64>, got an array of shape \(4,\)"):
        run(affine(), a, a, h0)
    with pytest.raises(SignatureError, match=r"argument 0 must be .*, got an array of shape .* and type int64"):
        run(affine(), a.astype(np.int64), b, h0)
    with pytest.raises(InterpretationError, match="axis 't' has size 3, and 4 in 'b'"):
        run(affine(), a[:3], b, h0)
    with pytest.raises(InterpretationError, match="axis 'r' has size 3, and 2 in 'b'"):
        run(affine(), a, b, np.ones(3))


def test_an_axis_without_a_size_is_refused() -> None:
    text = """recurrence.generic forward [r: parallel, t: time]
          states(h[r] = %zero[] : f64)
          inputs(x = %x[t] : tensor<?xf64>)
          results(last h[r] : tensor<SIZExf64>)
        {
        ^bb0(%h: f64, %x_t: f64):
          recurrence.yield states(%x_t : f64) outputs()
        }"""
    module = function("%x: tensor<?xf64>", ["tensor<?xf64>"], text.replace("SIZE", "?"))
    with pytest.raises(InterpretationError, match="no operand and no static type gives axis 'r' its size"):
        run(module, np.arange(3.0))
    module = function("%x: tensor<?xf64>", ["tensor<4xf64>"], text.replace("SIZE", "4"))
    assert run(module, np.arange(3.0))[0].tolist() == [2.0] * 4


def test_packed_sequences_are_refused() -> None:
    module = function(
        "%x: tensor<?xf64>, %offsets: tensor<?xi32>",
        ["tensor<?xf64>"],
        """recurrence.generic forward [s: parallel, t: time]
          states(h[s] = %zero[] : f64)
          inputs(x = %x[t] : tensor<?xf64>)
          offsets(%offsets : tensor<?xi32>)
          results(last h[s] : tensor<?xf64>)
        {
        ^bb0(%h: f64, %x_t: f64):
          recurrence.yield states(%x_t : f64) outputs()
        }""",
    )
    with pytest.raises(UnsupportedError, match=r"recurrence\.generic with offsets"):
        run(module, np.arange(3.0), np.array([0, 3], np.int32))


def test_an_operation_without_meaning_here_is_named() -> None:
    module = function(
        "%x: tensor<?xi1>, %start: i1",
        ["tensor<i1>"],
        """recurrence.generic forward [t: time]
          states(h[] = %start[] : i1)
          inputs(x = %x[t] : tensor<?xi1>)
          results(last h[] : tensor<i1>)
        {
        ^bb0(%h: i1, %x_t: i1):
          %n = math.ctpop %x_t : i1
          recurrence.yield states(%n : i1) outputs()
        }""",
    )
    with pytest.raises(InterpretationError, match=r"math\.ctpop"):
        run(module, np.array([True]), False)


# --- scan: the algebra ---------------------------------------------------------------------------------------------

ORDERS = ["fold", "tree"]
HEADER = """[r: parallel, t: time]
      states(h[r] = %h0[r] : tensor<?xf64>, g[r] = %h0[r] : tensor<?xf64>, d[] = %zero[] : f64, w[r] = %zero[] : f64)
      inputs(a = %a[t] : tensor<?xf64>, b = %b[r, t] : tensor<?x?xf64>)
      results(y[r, t] : tensor<?x?xf64>, last h[r] : tensor<?xf64>, last g[r] : tensor<?xf64>, last d[] : tensor<f64>,
              last w[r] : tensor<?xf64>)"""
RESULTS = ["tensor<?x?xf64>", "tensor<?xf64>", "tensor<?xf64>", "tensor<f64>", "tensor<?xf64>"]
ARGUMENTS = "%a: tensor<?xf64>, %b: tensor<?x?xf64>, %h0: tensor<?xf64>"
# h, then g that reads the old and the new h; d keeps the last a; w is no monoid and reads g and d.
STEP = """
          %ah = arith.mulf %a_t, %h : f64
          %new_h = arith.addf %ah, %b_t : f64
          %hh = arith.mulf %h, %new_h : f64
          %bg = arith.mulf %b_t, %g : f64
          %new_g = arith.addf %bg, %hh : f64
          %gw = arith.mulf %g, %w : f64
          %gwd = arith.addf %gw, %d : f64
          %new_w = math.tanh %gwd : f64
          %hg = arith.subf %new_h, %g : f64
          %y = arith.addf %hg, %w : f64
          recurrence.yield states(%new_h : f64, %new_g : f64, %a_t : f64, %new_w : f64) outputs(%y : f64)"""

CHAIN = function(
    ARGUMENTS,
    RESULTS,
    f"""recurrence.generic forward {HEADER}
    {{
    ^bb0(%h: f64, %g: f64, %d: f64, %w: f64, %a_t: f64, %b_t: f64):{STEP}
    }}""",
)

COMBINE = """combine {
        ^bb0(%p: f64, %q: f64, %p2: f64, %q2: f64):
          %pp = arith.mulf %p2, %p : f64
          %pq = arith.mulf %p2, %q : f64
          %qq = arith.addf %pq, %q2 : f64
          scan.yield %pp, %qq : f64, f64
        } apply {
        ^bb0(%p: f64, %q: f64, %s: f64):
          %ps = arith.mulf %p, %s : f64
          %new = arith.addf %ps, %q : f64
          scan.yield %new : f64
        }"""


def chain_scan(direction: str = "forward", combine: str = COMBINE) -> ModuleOp:
    return function(
        ARGUMENTS,
        RESULTS,
        f"""scan.generic {direction} {HEADER}
      prelude {{
      ^bb0(%a_t: f64, %b_t: f64):
        scan.yield %a_t, %b_t : f64, f64
      }} components {{
        scan.component "affine" [0] lift {{
        ^bb0(%a_t: f64, %b_t: f64):
          scan.yield %a_t, %b_t : f64, f64
        }} {combine}
        scan.component "delay" [2] lift {{
        ^bb0(%h: f64, %new_h: f64, %a_t: f64, %b_t: f64):
          scan.yield %a_t : f64
        }} combine {{
        ^bb0(%x: f64, %x2: f64):
          scan.yield %x2 : f64
        }} apply {{
        ^bb0(%x: f64, %s: f64):
          scan.yield %x : f64
        }}
        scan.component "affine" [1] lift {{
        ^bb0(%h: f64, %d: f64, %new_h: f64, %new_d: f64, %a_t: f64, %b_t: f64):
          %hh = arith.mulf %h, %new_h : f64
          scan.yield %b_t, %hh : f64, f64
        }} {COMBINE}
        scan.component "sequential" [3] because "math.tanh of the state"
      }} step {{
      ^bb0(%h: f64, %g: f64, %d: f64, %w: f64, %a_t: f64, %b_t: f64):{STEP}
      }}""",
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7, 8, 33])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_scan_of_every_kind_of_component(order: Any, steps: int, rows: int) -> None:
    a, b, h0 = uniform(steps), uniform(rows, steps), uniform(rows)
    got = run(chain_scan(), a, b, h0, order=order)
    for value, expected in zip(got, run(CHAIN, a, b, h0), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    # … and that is what the step says, by Python numbers.
    for r in range(rows):
        h = g = float(h0[r])
        d = w = 0.0
        for t in range(steps):
            new_h = float(a[t]) * h + float(b[r, t])
            y = new_h - g + w
            h, g, d, w = new_h, float(b[r, t]) * g + h * new_h, float(a[t]), math.tanh(g * w + d)
            assert got[0][r, t] == pytest.approx(y, rel=1e-11, abs=1e-12)
        assert [x if np.ndim(x) == 0 else x[r] for x in got[1:]] == pytest.approx([h, g, d, w], rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_a_reverse_scan(order: Any) -> None:
    a, b, h0 = uniform(9), uniform(2, 9), uniform(2)
    y, *last = run(chain_scan("reverse"), a, b, h0, order=order)
    flipped, *last_forward = run(CHAIN, a[::-1], b[:, ::-1], h0)
    np.testing.assert_allclose(y[:, ::-1], flipped, rtol=1e-12)
    for value, expected in zip(last, last_forward, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("%pp = arith.mulf %p2, %p ", "%pp = arith.addf %p2, %p "),
        ("%pq = arith.mulf %p2, %q ", "%pq = arith.mulf %p, %q2 "),
        ("%qq = arith.addf %pq, %q2 ", "%qq = arith.addf %pq, %q "),
        ("%ps = arith.mulf %p, %s ", "%ps = arith.mulf %q, %s "),
    ],
)
@pytest.mark.parametrize("order", ORDERS)
def test_a_wrong_algebra_shows(order: Any, right: str, wrong: str) -> None:
    """Nothing of a proved component comes from the step, so a planted fault is seen."""
    assert right in COMBINE
    a, b, h0 = uniform(8), uniform(2, 8), uniform(2)
    (y, *_), (expected, *_) = (
        run(chain_scan(combine=COMBINE.replace(right, wrong)), a, b, h0, order=order),
        run(CHAIN, a, b, h0),
    )
    assert np.abs(y - expected).max() > 1e-3


def test_orders_differ_where_combine_is_not_associative() -> None:
    halved = COMBINE.replace("%qq = arith.addf %pq, %q2 ", "%qq = arith.subf %pq, %q2 ")
    a, b, h0 = uniform(8), uniform(2, 8), uniform(2)
    fold, tree = (run(chain_scan(combine=halved), a, b, h0, order=order)[1] for order in ORDERS)
    assert np.abs(fold - tree).max() > 1e-3


def resets(combine: str, apply: str) -> ModuleOp:
    return function(
        "%ok: tensor<?xi1>, %x: tensor<?xf64>",
        ["tensor<?xf64>"],
        f"""scan.generic forward [t: time]
      states(h[] = %zero[] : f64)
      inputs(reset = %ok[t] : tensor<?xi1>, x = %x[t] : tensor<?xf64>)
      results(y[t] : tensor<?xf64>)
      prelude {{
      ^bb0(%reset: i1, %x_t: f64):
        scan.yield %reset, %x_t : i1, f64
      }} components {{
        scan.component "affine" [0] lift {{
        ^bb0(%reset: i1, %x_t: f64):
          scan.yield %reset, %x_t : i1, f64
        }} combine {{
        ^bb0(%r: i1, %q: f64, %r2: i1, %q2: f64):
          %any = arith.ori %r, %r2 : i1
          %sum = arith.addf %q, %q2 : f64
          {combine}
          scan.yield %any, %qq : i1, f64
        }} apply {{
        ^bb0(%r: i1, %q: f64, %s: f64):
          %sum = arith.addf %s, %q : f64
          {apply}
          scan.yield %new : f64
        }}
      }} step {{
      ^bb0(%h: f64, %reset: i1, %x_t: f64):
        %sum = arith.addf %h, %x_t : f64
        %new = arith.select %reset, %x_t, %sum : f64
        recurrence.yield states(%new : f64) outputs(%new : f64)
      }}""",
    )


@pytest.mark.parametrize("order", ORDERS)
def test_a_reset_selects_so_that_a_nan_stops_there(order: Any) -> None:
    module = resets("%qq = arith.select %r2, %q2, %sum : f64", "%new = arith.select %r, %q, %sum : f64")
    reset, x = np.array([False, False, True, False]), np.array([np.nan, 1, 5, 1])
    (y,) = run(module, reset, x, order=order)
    np.testing.assert_array_equal(y, [np.nan, np.nan, 5, 6])


@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.sampled_from(["forward", "reverse"]))
@settings(max_examples=30, deadline=None)
def test_fold_tree_and_loop_agree(steps: int, seed: int, direction: str) -> None:
    rng = np.random.default_rng(seed)
    a, b, h0 = rng.uniform(-1, 1, steps), rng.uniform(-1, 1, (2, steps)), rng.uniform(-1, 1, 2)
    _, *fold = run(chain_scan(direction), a, b, h0, order="fold")
    _, *tree = run(chain_scan(direction), a, b, h0, order="tree")
    h = h0.copy()
    for t in range(steps)[:: 1 if direction == "forward" else -1]:
        h = a[t] * h + b[:, t]
    np.testing.assert_allclose(fold[0], h, rtol=1e-10, atol=1e-12)
    for one, other in zip(fold, tree, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


# --- slots of a pool -----------------------------------------------------------------------------------------------


def pooled(slots: str, parallel: str) -> ModuleOp:
    """h is advanced in place; m, which lacks axis d, starts from a copy by row."""
    module = function(
        "%h: tensor<?x?xf64>, %copy: tensor<?xf64>, %xs: tensor<?x?x?xf64>, "
        f"%slots: tensor<?x{slots}>, %m: tensor<?xbf16>",
        ["tensor<?x?x?xf64>", "tensor<?x?xf64>", "tensor<?xbf16>"],
        f"""recurrence.generic forward [b: parallel, d: parallel, t: time]
          states(h[b, d] = %h[@b, d] : tensor<?x?xf64>, m[b] = %copy[b] : tensor<?xf64>)
          inputs(x = %xs[b, d, t] : tensor<?x?x?xf64>)
          slots(%slots[b] : tensor<?x{slots}>)
          results(y[b, d, t] : tensor<?x?x?xf64>,
                  last h[@b, d] into %h : tensor<?x?xf64>, last m[@b] into %m : tensor<?xbf16>)
        {{
        ^bb0(%old: f64, %count: f64, %x: f64):
          %half = arith.constant 0.5 : f64
          %decayed = arith.mulf %old, %half : f64
          %new = arith.addf %decayed, %x : f64
          %more = arith.addf %count, %half : f64
          %sum = arith.addf %new, %more : f64
          recurrence.yield states(%new : f64, %more : f64) outputs(%sum : f64)
        }}""",
    )
    if parallel:
        ConvertRecurrenceToScanPass(parallel).apply(Context(), module)
        module.verify()
    return module


@pytest.mark.parametrize("slot_type", ["i32", "i64"])
@pytest.mark.parametrize("parallel", ["", "require", "never"])
@pytest.mark.parametrize("slots", [[3, -1, 0, -7], [1, 4, 2, 0], [-1, -1, -1, -1]])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_rows_use_their_slots(slot_type: str, parallel: str, slots: list[int], steps: int) -> None:
    """A row without a slot gives 0 and writes nothing; slots that no row has stay as they are."""
    h, m = uniform(5, 3), np.float32([1, 2, 3, 4, 5])
    copy, x = uniform(4), uniform(4, 3, steps)
    numbers = np.array(slots, np.int32 if slot_type == "i32" else np.int64)
    want_h, want_m, want = h.copy(), m.copy(), np.zeros((4, 3, steps))
    for row, slot in enumerate(slots):
        if slot < 0:
            continue
        state, count = h[slot], copy[row]
        for t in range(steps):
            state, count = 0.5 * state + x[row, :, t], count + 0.5
            want[row, :, t] = state + count
        want_h[slot], want_m[slot] = state, count
    y, last_h, last_m = run(pooled(slot_type, parallel), h, copy, x, numbers, m)
    np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(last_h, want_h, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(last_m, want_m, rtol=2**-8)
    used = [slot for slot in slots if slot >= 0]
    assert all(last_m[slot] == m[slot] for slot in range(5) if slot not in used)
    assert all((last_m[slot].view(np.uint32) & 0xFFFF) == 0 for slot in used), "a bfloat16 has 8 bits of mantissa"
