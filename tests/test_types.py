"""Integers, bools, marks and positions on each device: what is computed in what, and what is stored as what."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from seed import SEED
from torch import Tensor

import scanweaver as sw

CPU = pytest.param(("cpu", "serial"), id="cpu")
ON_GPU = [
    pytest.param(("cuda", strategy), id=f"cuda-{strategy}", marks=pytest.mark.gpu)
    for strategy in ("serial", "lanes", "blelloch")
]
EVERYWHERE = pytest.mark.parametrize("where", [CPU, *ON_GPU])
IN_ORDER = pytest.mark.parametrize("where", [CPU, ON_GPU[0]])
BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])

Where = tuple[str, str]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def generator(where: Where, salt: int = 0) -> torch.Generator:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    return torch.Generator(where[0]).manual_seed(SEED + salt)


def normal(where: Where, *shape: int, salt: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(where, salt), device=where[0])


def whole(where: Where, *shape: int, low: int = 0, high: int = 100, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(low, high, shape, generator=generator(where), device=where[0]).to(dtype)


def ordered(x: Tensor, reverse: bool) -> Tensor:
    """Time last, in the order of the walk, or back from it."""
    return x.flip(-1) if reverse else x


# --- integers ------------------------------------------------------------------------------------------------------


@IN_ORDER
@BOTH_WAYS
@pytest.mark.parametrize("mark", ["uint8", "int8", "int16", "int32", "int64"])
def test_a_marked_state_wraps_at_its_bits(where: Where, mark: str, reverse: bool) -> None:
    count = sw.recurrence(f"n[b]:{mark}=3; x[b t] -> n[b t], wide[b t]", parallel="never")
    x = whole(where, 3, 60, low=-(2**62), high=2**62)

    def step(n: Any, x: Any) -> Any:
        wide = n + x
        return wide, (wide, n)

    with poisoned():
        (stored, before), last = count(step)(x, reverse=reverse, return_last=True)
    dtype = getattr(torch, mark)
    assert stored.dtype == torch.int64 and last.dtype == dtype and before.dtype == dtype
    n = torch.full((3,), 3, dtype=dtype, device=x.device)
    steps = reversed(range(60)) if reverse else range(60)
    for t in steps:
        assert torch.equal(before[:, t], n)
        assert torch.equal(stored[:, t], n.long() + x[:, t])
        n = (n.long() + x[:, t]).to(dtype)
    assert torch.equal(last, n)


@IN_ORDER
@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_are_computed_in_64_bits(where: Where, dtype: torch.dtype) -> None:
    """pytorch 3304: a sum of bytes is not a byte."""
    total = sw.recurrence("n[b]:int64; x[b t] -> n[b t], same[b t], narrow[b t]:int8")
    x = whole(where, 2, 300, high=200, dtype=dtype)
    n, same, narrow = total(lambda n, x: (n + x, (n + x, x, n + x)))(x)
    assert n.dtype == torch.int64 and same.dtype == dtype and narrow.dtype == torch.int8
    assert torch.equal(n, x.long().cumsum(-1)) and torch.equal(same, x) and torch.equal(narrow, n.to(torch.int8))


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("mark", ["uint8", "int16", "int64", "bool", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("steps", [0, 1, 2, 33, 300])
def test_delays_of_every_type(where: Where, mark: str, steps: int, reverse: bool) -> None:
    """One step later, exactly, in every order of time."""
    later = sw.recurrence(f"past[b]:{mark}; x[b t] -> y[b t]:{mark}", parallel="require")(lambda past, x: (x, past))
    dtype = getattr(torch, mark)
    x = (normal(where, 3, steps) * 50).to(dtype)
    init = (normal(where, 3, salt=1) * 50).to(dtype)
    with poisoned():
        y, last = later(x, init=init, reverse=reverse, return_last=True, strategy=where[1])
    assert y.dtype == dtype and last.dtype == dtype
    want = torch.cat((init[:, None], ordered(x, reverse)), -1)
    assert torch.equal(y, ordered(want[:, :-1], reverse)) and torch.equal(last, want[:, -1])


@IN_ORDER
def test_bits(where: Where) -> None:
    """An xorshift generator (Marsaglia, J. Stat. Soft. 8(14), 2003), 32 bits in an int32 state."""
    draw = sw.recurrence("s[b]:int32; tick[t] -> u[b t]:int32", parallel="never")

    def step(s: Any, tick: Any) -> Any:
        s = sw.cast(s ^ (s << 13), torch.int32)
        s = s ^ ((s & 0xFFFFFFFF) >> 17)
        s = s ^ (s << 5)
        return s, s

    seeds = torch.tensor([1, 2463534242 - 2**32, 77], dtype=torch.int32, device=where[0])
    u = draw(step)(torch.empty(1, device=where[0]).expand(200), init=seeds)
    s = seeds.long() & 0xFFFFFFFF
    for t in range(200):
        s = s ^ (s << 13) & 0xFFFFFFFF
        s = s ^ (s >> 17)
        s = s ^ (s << 5) & 0xFFFFFFFF
        assert torch.equal(u[:, t].long() & 0xFFFFFFFF, s)


# --- bools ---------------------------------------------------------------------------------------------------------


@IN_ORDER
@BOTH_WAYS
def test_a_bool_state(where: Where, reverse: bool) -> None:
    """A gate with hysteresis: opens above 1, closes below -1."""
    gate = sw.recurrence("open[b]:bool=1; x[b t] -> open[b t], y[b t]", parallel="never")

    def step(open: Any, x: Any) -> Any:
        open = (open & ~(x < -1)) | (x > 1)
        return open, (open, sw.where(open, x, 0))

    x = normal(where, 4, 100)
    (opened, y), last = gate(step)(x, reverse=reverse, return_last=True)
    assert opened.dtype == last.dtype == torch.bool and y.dtype == torch.float32
    state = torch.ones(4, dtype=torch.bool, device=x.device)
    for t in reversed(range(100)) if reverse else range(100):
        state = (state & ~(x[:, t] < -1)) | (x[:, t] > 1)
        assert torch.equal(opened[:, t], state)
    assert torch.equal(last, state) and torch.equal(y, torch.where(opened, x, 0))


@IN_ORDER
@pytest.mark.parametrize("init", [True, False, 1, torch.tensor([True, False, True])])
def test_starts_of_a_bool_state(where: Where, init: Any) -> None:
    parity = sw.recurrence("odd[b]:bool; x[b t]", parallel="never")(lambda odd, x: odd ^ x)
    x = normal(where, 3, 50) > 0
    given = init.to(where[0]) if isinstance(init, Tensor) else init
    begin = torch.as_tensor(init, device=where[0]).expand(3).bool()
    assert torch.equal(parity(x, init=given), (x.long().cumsum(-1) + begin[:, None]) % 2 == 1)


# --- marks ---------------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize(("dtype", "mark"), [*itertools.product(FLOATS, ("float16", "bfloat16", "float32", "float64"))])
def test_an_output_is_stored_as_marked(where: Where, dtype: torch.dtype, mark: str) -> None:
    total = sw.recurrence(f"h[b]; x[b t], a[b t] -> y[b t]:{mark}, z[b t]", parallel="require")
    x, a = normal(where, 2, 70).to(dtype), normal(where, 2, 70, salt=1).sigmoid()
    y, z = total(lambda h, x, a: ((h := a * h + x), (h, h)))(x, a, strategy=where[1])
    assert y.dtype == getattr(torch, mark) and z.dtype == dtype
    want = reference.affine(a, x, dtype=torch.float64)[0]
    exact = torch.promote_types(dtype, torch.float32)
    for result in (y, z):
        precision = min((result.dtype, exact), key=lambda dtype: -torch.finfo(dtype).eps)
        assert reference.error(result, want) <= reference.FLOOR[precision]


@EVERYWHERE
def test_a_float64_mark_computes_in_float64(where: Where) -> None:
    total = sw.recurrence("h[b]:float64; x[b t] -> y[b t]")(lambda h, x: ((h := 0.999 * h + x), h))
    x = normal(where, 2, 2000)
    y, last = total(x, return_last=True, strategy=where[1])
    want = reference.affine(torch.full_like(x, 0.999, dtype=torch.float64), x, dtype=torch.float64)[1]
    assert y.dtype == torch.float32 and last.dtype == torch.float64
    assert reference.error(last, want) < 1e-13


@IN_ORDER
@pytest.mark.parametrize("mark", ["float16", "bfloat16"])
def test_a_narrow_state_is_rounded_at_every_step(where: Where, mark: str) -> None:
    total = sw.recurrence(f"h[b]:{mark}; x[b t] -> y[b t]", parallel="never")(lambda h, x: ((h := h + x), h))
    x = normal(where, 2, 100)
    y, last = total(x, return_last=True)
    h = torch.zeros(2, dtype=getattr(torch, mark), device=x.device)
    for t in range(100):
        wide = h.float() + x[:, t]
        assert torch.equal(y[:, t], wide)
        h = wide.to(h.dtype)
    assert torch.equal(last, h)


@IN_ORDER
def test_values_are_stored_as_marked(where: Where) -> None:
    marks = ("bool", "uint8", "int32", "float16", "float64", "complex64")
    outputs = ", ".join(f"{name}_{mark}[b t]:{mark}" for name in ("x", "k", "p") for mark in marks)
    store = sw.recurrence(f"h[]; x[b t], k[b t], p[b t] -> {outputs}")
    x, k = whole(where, 2, 40, high=200) + 0.25, whole(where, 2, 40, low=-5, high=5, dtype=torch.int16)
    p = k > 1
    results = store(lambda h, x, k, p: (h, (*(x,) * 6, *(k,) * 6, *(p,) * 6)))(x.float(), k, p)
    for result, (value, mark) in zip(results, itertools.product((x, k, p), marks), strict=True):
        assert result.dtype == getattr(torch, mark)
        wide = value.long() if mark == "uint8" else value
        assert torch.equal(result, wide.to(result.dtype)), mark


# --- positions -----------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize("size", [1, 2, 17, 64])
def test_positions_of_extremes(where: Where, size: int) -> None:
    at = sw.recurrence("h[]; x[b n t] -> hi[b t], lo[b t], top[b t], short[b t]:int16")

    def step(h: Any, x: Any) -> Any:
        hi = sw.argmax(x, "n")
        return h, (hi, sw.argmin(x, "n"), sw.take(x, hi, "n"), hi)

    x = whole(where, 3, size, 50, high=4).float()  # ties: the first
    x[0, size // 2, 3] = torch.nan
    hi, lo, top, short = at(step)(x, strategy=where[1])
    assert hi.dtype == lo.dtype == torch.int64 and short.dtype == torch.int16
    first = (x == x.amax(1, keepdim=True)) | x.isnan()
    assert torch.equal(hi, first.long().argmax(1)) and torch.equal(short.long(), hi)
    assert torch.equal(lo, ((x == x.amin(1, keepdim=True)) | x.isnan()).long().argmax(1))
    torch.testing.assert_close(top, x.amax(1), equal_nan=True, rtol=0, atol=0)


@IN_ORDER
def test_positions_over_several_axes(where: Where) -> None:
    at = sw.recurrence("h[]; x[b d n m t] -> hi[b t], lo[b t], turned[b t]")

    def step(h: Any, x: Any) -> Any:
        return h, (sw.argmax(x, "d n m"), sw.argmin(x, "d n m"), sw.argmax(x, "m d n"))

    x = whole(where, 2, 3, 4, 5, 30, high=6)
    hi, lo, turned = at(step)(x)
    flat = x.flatten(1, 3)
    assert torch.equal(hi, (flat == flat.amax(1, keepdim=True)).long().argmax(1))
    assert torch.equal(lo, (flat == flat.amin(1, keepdim=True)).long().argmax(1))
    flat = x.permute(0, 3, 1, 2, 4).flatten(1, 3)
    assert torch.equal(turned, (flat == flat.amax(1, keepdim=True)).long().argmax(1))


@IN_ORDER
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_a_table_is_read_where_an_integer_says(where: Where, dtype: torch.dtype) -> None:
    read = sw.recurrence("h[b]; table[q], i[b t], flags[q], z[b q] -> y[b t], flag[b t], same[b t], w[b t]")

    def step(h: Any, table: Any, i: Any, flags: Any, z: Any) -> Any:
        h = 0.5 * h + sw.take(table, i, "q")
        return h, (h, sw.take(flags, i, "q"), sw.take(table, 2, "q"), sw.take(z, i, "q"))

    table, flags = normal(where, 9), normal(where, 9, salt=1) > 0
    i = whole(where, 3, 40, high=9, dtype=dtype)
    z = torch.complex(normal(where, 3, 9, salt=2), normal(where, 3, 9, salt=3))
    y, flag, same, w = read(step)(table, i, flags, z)
    half = torch.full(i.shape, 0.5, device=table.device)
    assert reference.error(y, reference.affine(half, table[i.long()], dtype=torch.float64)[0]) < 1e-6
    assert flag.dtype == torch.bool and torch.equal(flag, flags[i.long()])
    assert bool((same == table[2]).all())
    assert w.dtype == torch.complex64 and torch.equal(w, z.gather(1, i.long()))


@IN_ORDER
def test_viterbi_in_integers(where: Where) -> None:
    """Scores along a renamed axis, and where each came from, against dynamic programming in PyTorch."""
    viterbi = sw.recurrence("s[b n]:int64; P[k n], e[b n t] -> s[b n t], back[b n t]:int8", parallel="never")

    def step(s: Any, P: Any, e: Any) -> Any:
        scores = sw.rename(s, n="k") + P
        s = sw.max(scores, "k") + e
        return s, (s, sw.argmax(scores, "k"))

    P, e = whole(where, 6, 6, low=-9, high=9), whole(where, 2, 6, 40, low=-20, high=20)
    s, back = viterbi(step)(P, e)
    state = torch.zeros(2, 6, dtype=torch.int64, device=P.device)
    for t in range(40):
        scores = state[:, :, None] + P
        best = scores.amax(1)
        assert torch.equal(back[..., t].long(), (scores == best[:, None]).long().argmax(1))
        state = best + e[..., t]
        assert torch.equal(s[..., t], state)


def test_compiled_for_other_chips() -> None:
    x = torch.zeros(3, 64)
    cases: list[tuple[str, Callable[..., Any]]] = [
        (f"h[b]:{mark}; x[b t] -> y[b t]:{mark}", lambda h, x: (sw.where(x > 0, x, -x), h))
        for mark in ("float64", "bfloat16", "complex64")
    ]
    cases += [
        ("n[b]:int32, open[b]:bool; x[b t] -> y[b t], z[b t]", lambda *v: ((3, v[2] > 0), v[:2])),
        ("n[b]:int8, k[b]:int64; x[b t] -> y[b t], z[b t]", lambda *v: ((sw.cast(v[2], "int8"), 5), v[:2])),
    ]
    for text, step in cases:
        f = sw.recurrence(text)(step)
        for target, strategy in itertools.product(("sm_80", "sm_90", "sm_100"), ("serial", "lanes", "blelloch")):
            assert f".target {target}" in f.artifact_for(target, x, strategy=strategy).stages["ptx"]
