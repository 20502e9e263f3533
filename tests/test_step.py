"""`fn.step`: single steps with states in place and in slots of a pool, against loops in PyTorch."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.dialects.recurrence import Recurrence
from scanweaver.dialects.scan import Scan

DEVICE = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
INDEX = pytest.mark.parametrize("index", [torch.int32, torch.int64])


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]")
def selective(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, *, softplus: bool = False):
    if softplus:
        dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    y = sw.sum(C * h, "n")
    if D is not None:
        y = y + D * u
    return h, y if z is None else y * sw.silu(z)


def selective_loop(h: Tensor, u: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.exp(dt[..., None] * A) * h + (dt * u)[..., None] * B[:, None]
    return h, (C[:, None] * h).sum(-1)


def random_inputs(device: str, b: int, d: int, n: int, steps: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """u, dt, A, B, C of the selective scan, time last."""
    fresh = torch.Generator(device).manual_seed(7)

    def rand(*shape: int) -> Tensor:
        return torch.rand(shape, generator=fresh, device=device)

    u, dt, B, C = rand(b, d, steps) - 0.5, rand(b, d, steps), rand(b, n, steps) - 0.5, rand(b, n, steps) - 0.5
    return [u.to(dtype), dt.to(dtype), -rand(d, n), B.to(dtype), C.to(dtype)]


def at(inputs: Sequence[Tensor], t: int) -> list[Tensor]:
    return [x if i == 2 else x[..., t] for i, x in enumerate(inputs)]


def close(got: Tensor, want: Tensor, floor: float = 1e-6) -> None:
    assert got.shape == want.shape
    assert reference.error(got, want) <= floor


# --- in place ----------------------------------------------------------------------------------------------------


@DEVICE
@pytest.mark.parametrize(("b", "d", "n"), [(1, 1, 1), (2, 5, 16), (3, 16, 4), (1, 17, 3), (4, 40, 16), (70, 33, 2)])
def test_steps_are_the_recurrence(device: str, b: int, d: int, n: int) -> None:
    """d passes vectors of 4, 8 and 16 lanes: each row of a tail is advanced once."""
    inputs = random_inputs(device, b, d, n, 5)
    h = torch.zeros(b, d, n, device=device)
    with poisoned():
        outputs = [selective.step(*at(inputs, t), state=h) for t in range(5)]
    y, last = selective(*inputs, return_last=True)
    close(torch.stack(outputs, -1), y)
    close(h, last)
    exact, sums = torch.zeros(b, d, n, device=device, dtype=torch.float64), []
    for t in range(5):
        exact, out = selective_loop(exact, *(x.double() for x in at(inputs, t)))
        sums.append(out)
    close(torch.stack(outputs, -1), torch.stack(sums, -1))
    close(h, exact)


@DEVICE
def test_optional_inputs_constants_and_names(device: str) -> None:
    u, dt, A, B, C = at(random_inputs(device, 2, 9, 4, 1), 0)
    z, D = torch.rand_like(u), torch.rand(9, device=device)
    h = torch.rand(2, 9, 4, device=device)
    want_h, want = selective_loop(h.clone(), u, torch.nn.functional.softplus(dt), A, B, C)
    y = selective.step(u, dt=dt, A=A, C=C, B=B, z=z, D=D, softplus=True, state=h)
    close(y, (want + D * u) * torch.nn.functional.silu(z))
    close(h, want_h)


@DEVICE
@pytest.mark.parametrize("how", ["transposed", "sliced", "offset", "permuted"])
def test_states_wherever_they_lie(device: str, how: str) -> None:
    """Only the elements of the view change."""
    inputs = random_inputs(device, 2, 18, 4, 2)
    memory = torch.rand(4 * 18 * 4 * 3 + 1, device=device)
    view = {
        "transposed": lambda m: m[: 2 * 18 * 4].view(2, 4, 18).transpose(1, 2),
        "sliced": lambda m: m[: 4 * 18 * 12].view(4, 18, 12)[1:3, :, 2:10:2],
        "offset": lambda m: m[1 : 1 + 2 * 18 * 4].view(2, 18, 4),
        "permuted": lambda m: m[: 2 * 18 * 4].view(4, 18, 2).permute(2, 1, 0),
    }[how]
    want_memory = memory.clone()
    h, want = view(memory), view(want_memory)
    for t in range(2):
        got = selective.step(*at(inputs, t), state=h)
        new, y = selective_loop(want, *at(inputs, t))
        want.copy_(new)
        close(got, y)
    close(memory, want_memory)
    untouched = torch.ones_like(memory, dtype=torch.bool)
    view(untouched).fill_(False)
    assert torch.equal(memory[untouched], want_memory[untouched])


@DEVICE
@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_low_precision_states_are_rounded_when_stored(device: str, kept: torch.dtype, given: torch.dtype) -> None:
    inputs = random_inputs(device, 2, 19, 8, 4, given)
    h = torch.rand(2, 19, 8, device=device).to(kept)
    want = h.clone()
    for t in range(4):
        y = selective.step(*at(inputs, t), state=h)
        assert y.dtype == given and h.dtype == kept
        new, out = selective_loop(want.float(), *(x.float() for x in at(inputs, t)))
        want = new.to(kept)
        close(y, out, reference.FLOOR[given])
        close(h, want, reference.FLOOR[kept])
        h.copy_(want)  # each step on its own: one rounding, from the loop's state
    if kept != torch.float32:
        exact, _ = selective_loop(want.float(), *(x.float() for x in at(inputs, 0)))
        selective.step(*at(inputs, 0), state=h)
        nearest = (h.double() - exact.double()).abs() <= (exact.to(kept).double() - exact.double()).abs() + 1e-6
        assert bool(nearest.all()), "rounded otherwise than to nearest"


@DEVICE
def test_float64(device: str) -> None:
    inputs = [x.double() for x in random_inputs(device, 2, 9, 4, 1)]
    start = torch.rand(2, 9, 4, device=device, dtype=torch.float64)
    new, y = selective_loop(start, *at(inputs, 0))
    h = start.clone()
    close(selective.step(*at(inputs, 0), state=h), y, 1e-13)
    close(h, new, 1e-13)
    for kept in (torch.float32, torch.bfloat16, torch.float16):
        h = start.to(kept)
        new, y = selective_loop(h.double(), *at(inputs, 0))
        close(selective.step(*at(inputs, 0), state=h), y, 1e-13)
        close(h, new, reference.FLOOR[kept])


# --- several states, kinds of signatures -----------------------------------------------------------------------------


@sw.recurrence("S[b k v], n[b k], m[b]=-inf; q[b k t], key[b k t], val[b v t], i[b t], f[b t] -> y[b v t]")
def memory_cell(S: Any, n: Any, m: Any, q: Any, key: Any, val: Any, i: Any, f: Any) -> Any:
    """n and m lack axis v: every row along v reads what one of them writes."""
    new = sw.maximum(f + m, i)
    keep, write = sw.exp(f + m - new), sw.exp(i - new)
    S, n = keep * S + write * key * val, keep * n + write * key
    return (S, n, new), sw.sum(q * S, "k") / sw.maximum(abs(sw.sum(q * n, "k")), sw.exp(-new))


def memory_cell_loop(states: Sequence[Tensor], q: Tensor, key: Tensor, val: Tensor, i: Tensor, f: Tensor) -> Any:
    S, n, m = states
    new = torch.maximum(f + m, i)
    keep, write = torch.exp(f + m - new), torch.exp(i - new)
    S = keep[:, None, None] * S + write[:, None, None] * key[:, :, None] * val[:, None]
    n = keep[:, None] * n + write[:, None] * key
    scale = torch.maximum((q * n).sum(1).abs(), torch.exp(-new))
    return (S, n, new), (q[:, :, None] * S).sum(1) / scale[:, None]


def cell_inputs(device: str, b: int, k: int, v: int) -> list[Tensor]:
    fresh = torch.Generator(device).manual_seed(b)
    shapes = [(b, k), (b, k), (b, v), (b,), (b,)]
    return [torch.rand(shape, generator=fresh, device=device) - 0.3 for shape in shapes]


@DEVICE
@pytest.mark.parametrize(("b", "v"), [(1, 64), (3, 700), (300, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_state_that_other_rows_read(device: str, b: int, v: int, dtype: torch.dtype) -> None:
    states = (
        torch.rand(b, 4, v, device=device).to(dtype),
        torch.rand(b, 4, device=device).to(dtype),
        torch.rand(b, device=device).to(dtype),
    )
    for step in range(3):
        inputs = cell_inputs(device, b + step, 4, v)
        inputs = [x[:b].contiguous() for x in inputs]
        want_states, want = memory_cell_loop([x.float() for x in states], *inputs)
        y = memory_cell.step(*inputs, state=states)
        close(y, want, 1e-5)
        for got, expected in zip(states, want_states, strict=True):
            close(got, expected, 1e-6 if dtype == torch.float32 else 5e-3)


@DEVICE
@INDEX
@pytest.mark.parametrize("pool", [9, 0])
def test_slots_of_a_state_that_other_rows_read(device: str, index: torch.dtype, pool: int) -> None:
    slots = torch.tensor([4, -1, 0, 8, -5] if pool else [-1] * 5, dtype=index, device=device)
    pools = tuple(torch.rand(shape, device=device) for shape in [(pool, 4, 50), (pool, 4), (pool,)])
    before = [x.clone() for x in pools]
    inputs = cell_inputs(device, 5, 4, 50)
    with poisoned():
        y = memory_cell.step(*inputs, state=pools, slots=slots)
    rows = (slots >= 0).nonzero().flatten()
    used = slots[rows].long()
    want_states, want = memory_cell_loop([x[used] for x in before], *(x[rows] for x in inputs))
    expected = torch.zeros(5, 50, device=device)
    expected[rows] = want
    close(y, expected, 1e-5)
    for got, old, new in zip(pools, before, want_states, strict=True):
        close(got[used], new)
        unused = [slot for slot in range(pool) if slot not in used.tolist()]
        assert torch.equal(got[unused], old[unused])


@DEVICE
def test_integers_bools_and_no_axes(device: str) -> None:
    @sw.recurrence("n[b]:int32, open[b]:bool; x[b t], ok[t] -> y[b t], count[b t]:int64")
    def door(n: Any, open: Any, x: Any, ok: Any) -> Any:
        toggled = (x > 0.5) & ok
        open = open ^ toggled
        n = sw.where(toggled, n + 1, n)
        return (n, open), (sw.where(open, x, -x), n)

    n = torch.arange(20, dtype=torch.int32, device=device)
    is_open = torch.arange(20, device=device) % 3 == 0
    x = torch.rand(20, device=device)
    for ok in (True, False):
        toggled = (x > 0.5) & ok
        want_open, want_n = is_open ^ toggled, n + toggled
        y, count = door.step(x, torch.tensor(ok, device=device), state=(n, is_open))
        assert torch.equal(n, want_n.int()) and torch.equal(is_open, want_open)
        assert torch.equal(y, torch.where(want_open, x, -x)) and torch.equal(count, want_n.long())


@sw.recurrence("h[b n]:complex64; a[n], x[b t], C[b n t] -> y[b t]")
def rotation(h: Any, a: Any, x: Any, C: Any) -> Any:
    h = a * h + x
    return h, sw.real(sw.sum(C * h, "n"))


@DEVICE
@pytest.mark.parametrize("with_slots", [False, True])
def test_complex_states(device: str, with_slots: bool) -> None:
    """Real and imaginary parts in turns, in rows of a pool that are not dense."""
    a = torch.polar(torch.full((6,), 0.9), torch.linspace(0, 3, 6)).to(device)
    x, C = torch.rand(3, device=device), torch.rand(3, 6, dtype=torch.complex64, device=device)
    memory = torch.rand(5, 12, dtype=torch.complex64, device=device)
    before, pool = memory.clone(), memory[:, ::2]
    slots = torch.tensor([4, -1, 0], device=device) if with_slots else None
    states = pool if with_slots else pool[:3]
    rows = [0, 2] if with_slots else [0, 1, 2]
    used = [4, 0] if with_slots else [0, 1, 2]
    want_h = a * states.clone()[used] + x[rows, None]
    want = torch.zeros(3, device=device)
    want[rows] = (C[rows].conj() * want_h).sum(1).real
    close(rotation.step(a, x, C.conj(), state=states, slots=slots), want)
    expected = before.clone()
    expected[:, ::2][used] = want_h
    close(torch.view_as_real(memory), torch.view_as_real(expected))
    with pytest.raises(sw.SignatureError, match="a conjugated or negated view of it: resolve it first"):
        rotation.step(a, x, C, state=states.conj(), slots=slots)


@sw.recurrence("h[b]:complex64, n[b d]; a[b t], x[b d t] -> y[b d t]")
def read_by_others(h: Any, n: Any, a: Any, x: Any) -> Any:
    """h lacks axis d."""
    h = a * h
    return (h, n + x), n * sw.imag(h)


@DEVICE
@pytest.mark.parametrize("with_slots", [False, True])
def test_a_complex_state_that_other_rows_read(device: str, with_slots: bool) -> None:
    a = torch.rand(3, dtype=torch.complex64, device=device)
    x = torch.rand(3, 50, device=device)
    h, n = torch.rand(3, dtype=torch.complex64, device=device), torch.rand(3, 50, device=device)
    slots = torch.tensor([2, 0, 1], device=device) if with_slots else None
    order = [2, 0, 1] if with_slots else [0, 1, 2]
    want_h, want_n = h.clone(), n.clone()
    want_h[order], want = a * h[order], n[order] * (a * h[order]).imag[:, None]
    want_n[order] += x
    close(read_by_others.step(a, x, state=(h, n), slots=slots), want)
    close(torch.view_as_real(h), torch.view_as_real(want_h))
    close(n, want_n)


@DEVICE
def test_a_recurrence_from_text(device: str) -> None:
    text = """
    func.func @total(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
      %zero = arith.constant 0.0 : f32
      %y = recurrence.generic forward [b: parallel, t: time]
        states(h[b] = %zero[] : f32)
        inputs(x = %x[b, t] : tensor<?x?xf32>)
        results(y[b, t] : tensor<?x?xf32>)
      {
      ^bb0(%h: f32, %x_t: f32):
        %new = arith.addf %h, %x_t : f32
        recurrence.yield states(%new : f32) outputs(%h : f32)
      }
      return %y : tensor<?x?xf32>
    }"""
    total = sw.from_mlir(text)
    pool = torch.arange(4, dtype=torch.bfloat16, device=device)
    y = total.step(torch.tensor([10.0, 20.0], device=device), state=pool, slots=torch.tensor([3, 1], device=device))
    assert y.tolist() == [3, 1] and pool.tolist() == [0, 21, 2, 13]


@DEVICE
def test_leading_axes_and_scalars(device: str) -> None:
    @sw.recurrence("h[... d]; x[... d t], g[]")
    def ema(h: Any, x: Any, g: Any = 0.9) -> Any:
        return g * h + (1 - g) * x

    h, x = torch.rand(2, 3, 21, device=device), torch.rand(2, 3, 21, device=device)
    for g in ({}, {"g": 0.25}, {"g": torch.tensor(0.5, device=device)}):
        factor = float(g.get("g", 0.9))
        want = factor * h + (1 - factor) * x
        y = ema.step(x, **g, state=h)
        assert y is not h
        close(h, want)
        close(y, want)


@DEVICE
def test_without_outputs_the_states_come_back(device: str) -> None:
    @sw.recurrence("s[b], q[b]; x[b t] ->")
    def moments(s: Any, q: Any, x: Any) -> Any:
        return s + x, q + x * x

    states = (torch.zeros(5, device=device), torch.zeros(5, device=device))
    x = torch.rand(5, device=device)
    assert moments.step(x, state=states) is states
    assert torch.equal(states[0], x) and torch.equal(states[1], x * x)


@DEVICE
def test_rows_of_another_name_and_no_rows(device: str) -> None:
    @sw.recurrence("h[c]; x[c l] -> y[c l]", time="l", batch="c")
    def total(h: Any, x: Any) -> Any:
        return h + x, h

    pool = torch.rand(3, device=device)
    before = pool.clone()
    y = total.step(torch.ones(1, device=device), state=pool, slots=torch.tensor([1], device=device))
    assert torch.equal(y, before[1:2]) and torch.equal(pool, before + torch.tensor([0, 1, 0], device=device))
    empty = torch.empty(0, device=device)
    assert total.step(empty, state=empty).shape == (0,)
    slots = torch.empty(0, dtype=torch.int32, device=device)
    assert total.step(empty, state=pool, slots=slots).shape == (0,)


# --- slots -----------------------------------------------------------------------------------------------------------


@DEVICE
@INDEX
@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("b", "d", "pool"), [(1, 7, 4), (5, 33, 11), (64, 3, 64), (2, 1536, 3)])
def test_slots(device: str, index: torch.dtype, kept: torch.dtype, b: int, d: int, pool: int) -> None:
    """Unused slots hold NaN with a payload: not a bit of them changes, nor of the memory around the pool."""
    fresh = torch.Generator().manual_seed(b * d)
    slots = torch.randperm(pool, generator=fresh)[:b]
    slots[torch.rand(b, generator=fresh) < 0.3] = -1
    inputs = random_inputs(device, b, d, 4, 3)
    memory = torch.full(((pool + 2) * d * 4,), float("nan"), device=device).to(kept)
    states = memory[d * 4 : -d * 4].view(pool, d, 4)
    used = slots[slots >= 0].to(device)
    states[used] = torch.rand(len(used), d, 4, device=device).to(kept)
    bits = {2: torch.int16, 4: torch.int32}[kept.itemsize]
    untouched = torch.ones_like(memory, dtype=torch.bool)
    untouched[d * 4 : -d * 4].view(pool, d, 4)[used] = False
    before = memory.view(bits)[untouched].clone()
    rows = (slots >= 0).nonzero().flatten().to(device)
    strided = torch.stack([slots, slots], 1).to(device=device, dtype=index)[:, 0]
    for t in range(3):
        step = at(inputs, t)
        new, want = selective_loop(states[used].float(), *(x if i == 2 else x[rows] for i, x in enumerate(step)))
        expected = torch.zeros(b, d, device=device)
        expected[rows] = want
        with poisoned():
            y = selective.step(*step, state=states, slots=strided)
        close(y, expected)
        close(states[used], new, 1e-6 if kept == torch.float32 else 4e-3)
    assert torch.equal(memory.view(bits)[untouched], before)


@DEVICE
@pytest.mark.parametrize("row_stride", [1, 3])
def test_one_row_and_a_strided_pool(device: str, row_stride: int) -> None:
    """With one row the axis has no neighbours, its pool has."""

    @sw.recurrence("h[b]; x[b t] -> y[b t]")
    def total(h: Any, x: Any) -> Any:
        return h + x, h

    memory = torch.arange(30.0, device=device)
    pool = memory[::row_stride]
    y = total.step(torch.full((1,), 100.0, device=device), state=pool, slots=torch.tensor([7], device=device))
    assert y.item() == 7 * row_stride
    want = torch.arange(30.0, device=device)
    want[7 * row_stride] += 100
    assert torch.equal(memory, want)


@DEVICE
def test_nan_in_padding_rows_stays_out(device: str) -> None:
    u, dt, A, B, C = at(random_inputs(device, 3, 8, 4, 1), 0)
    u[1] = float("nan")
    pool = torch.zeros(2, 8, 4, device=device)
    y = selective.step(u, dt, A, B, C, state=pool, slots=torch.tensor([1, -1, 0], device=device))
    assert bool(y.isfinite().all()) and bool(pool.isfinite().all()) and not bool(y[1].any())


# --- what a step leaves, costs, and runs as ----------------------------------------------------------------------


def test_autograd_knows_that_states_changed() -> None:
    h, w = torch.ones(1, 2, 1), torch.ones(1, 2, 1, requires_grad=True)
    product = (h * w).sum()
    u, dt, A, B, C = at(random_inputs("cpu", 1, 2, 1, 1), 0)
    selective.step(u, dt, A, B, C, state=h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_mode_and_parameters_without_grad() -> None:
    u, dt, A, B, C = at(random_inputs("cpu", 1, 2, 1, 1), 0)
    with torch.inference_mode():
        h = torch.zeros(1, 2, 1)
        first = selective.step(u, dt, A, B, C, state=h)
    h = torch.zeros(1, 2, 1)
    with torch.no_grad():
        assert torch.equal(first, selective.step(u, dt, A.requires_grad_(), B, C, state=h))


def test_a_new_step_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    def run(b: int, pool: int) -> None:
        slots = torch.arange(b)
        selective.step(*at(random_inputs("cpu", b, 24, 4, 1), 0), state=torch.zeros(pool, 24, 4), slots=slots)

    run(5, 8)
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a tool was started"))
    run(6, 8)
    run(7, 100)


def warm_microseconds(call: Callable[[], Any], repeats: int = 400) -> float:
    for _ in range(20):
        call()
    took: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1e6


@DEVICE
def test_a_warm_step_costs_little(device: str) -> None:
    """Five inputs and a state."""
    inputs = [x.contiguous() for x in at(random_inputs(device, 1, 8, 16, 1), 0)]
    h = torch.zeros(1, 8, 16, device=device)
    took = warm_microseconds(lambda: selective.step(*inputs, state=h))
    print(f"warm step, 6 tensors: {took:.1f} us")
    assert took < 75, "25 us on an idle machine"


@pytest.mark.gpu
def test_replayed_in_a_graph() -> None:
    """Slots may change between replays: nothing of them is read by the host."""
    inputs = at(random_inputs("cuda", 4, 64, 16, 1), 0)
    pool = torch.rand(9, 64, 16, device="cuda")
    slots = torch.tensor([3, -1, 0, 5], dtype=torch.int32, device="cuda")
    selective.step(*inputs, state=pool.clone(), slots=slots)
    cells = cell_inputs("cuda", 4, 4, 50)
    cell_pools = tuple(torch.rand(shape, device="cuda") for shape in [(9, 4, 50), (9, 4), (9,)])
    memory_cell.step(*cells, state=tuple(x.clone() for x in cell_pools), slots=slots)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = selective.step(*inputs, state=pool, slots=slots)
        cell_y = memory_cell.step(*cells, state=cell_pools, slots=slots)
    for numbers in ([3, -1, 0, 5], [8, 2, -1, 1], [-1, -1, -1, -1]):
        slots.copy_(torch.tensor(numbers))
        want_pool, want_cells = pool.clone(), tuple(x.clone() for x in cell_pools)
        want = selective.step(*inputs, state=want_pool, slots=slots.clone())
        want_cell = memory_cell.step(*cells, state=want_cells, slots=slots.clone())
        graph.replay()
        assert torch.equal(y, want) and torch.equal(pool, want_pool)
        assert torch.equal(cell_y, want_cell)
        for got, expected in zip(cell_pools, want_cells, strict=True):
            assert torch.equal(got, expected)


@pytest.mark.gpu
def test_on_the_callers_stream() -> None:
    inputs = at(random_inputs("cuda", 2, 64, 16, 1), 0)
    h = torch.zeros(2, 64, 16, device="cuda")
    want, _ = selective_loop(h, *inputs)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        h.add_(1).sub_(1)
        selective.step(*inputs, state=h)
    stream.synchronize()
    close(h, want)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("with_slots", [False, True])
@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16, torch.float16])
def test_lowers_to_ptx_where_there_is_no_gpu(target: str, with_slots: bool, kept: torch.dtype) -> None:
    slots = torch.tensor([1, 0], dtype=torch.int32) if with_slots else None
    arguments = at(random_inputs("cpu", 2, 64, 16, 1), 0)
    made = selective.step.artifact_for(target, *arguments, state=torch.zeros(2, 64, 16, dtype=kept), slots=slots)
    assert f".target {target}" in made.stages["ptx"]
    for stage in ("recurrence", "scan", "scheduled"):
        parsed(made.stages[stage]).verify()
    assert [o.role for o in made.recipe.operands] == [
        "init", *["slots"] * with_slots, *["input"] * 5, "output", "last"
    ]  # fmt: skip
    cells = tuple(torch.zeros(shape) for shape in [(2, 4, 64), (2, 4), (2,)])
    made = memory_cell.step.artifact_for(target, *cell_inputs("cpu", 2, 4, 64), state=cells, slots=slots)
    assert f".target {target}" in made.stages["ptx"]
    parsed(made.stages["recurrence"]).verify()


def parsed(text: str) -> ModuleOp:
    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, math.Math, Recurrence, Scan):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


# --- refusals --------------------------------------------------------------------------------------------------------


def refused(message: str, **changes: Any) -> None:
    u, dt, A, B, C = at(random_inputs("cpu", 2, 8, 4, 1), 0)
    arguments = {"u": u, "dt": dt, "A": A, "B": B, "C": C, "state": torch.zeros(2, 8, 4)} | changes
    arguments = {name: value for name, value in arguments.items() if value is not ...}
    with pytest.raises(sw.ScanWeaverError, match=re.escape(message)) as raised:
        selective.step(**arguments)
    assert isinstance(raised.value, sw.SignatureError) or "requires grad" in message


def test_wrong_states() -> None:
    refused("state= of selective.step: expected a tensor (h[b d n]), to be advanced in place, got nothing", state=...)
    refused("expected a tensor (h[b d n]), to be advanced in place, got float", state=0.0)
    refused("got (Tensor, Tensor)", state=(torch.zeros(1), torch.zeros(1)))
    refused(
        "state `h[b d n]` of selective.step: expected the shape [b=2 d=8 n=4], got (3, 8, 4), whose `b` is 3",
        state=torch.zeros(3, 8, 4),
    )
    refused("expected the shape [b=2 d=8 n=4], got 2 dimensions, (8, 4)", state=torch.zeros(8, 4))
    refused("expected the shape [b=2 d=8 n=4], got (2, 8, 1), whose `n` is 1", state=torch.zeros(2, 8, 1))
    refused(
        "state `h[b d n]` of selective.step: expected float32 or bfloat16 or float16, got int64",
        state=torch.zeros(2, 8, 4, dtype=torch.int64),
    )
    refused("expected float32 or bfloat16 or float16, got float64", state=torch.zeros(2, 8, 4, dtype=torch.float64))
    refused(
        "expected memory of its own for every element, got strides (0, 4, 1)",
        state=torch.zeros(1, 8, 4).expand(2, 8, 4),
    )
    refused("expected memory of its own for every element", state=torch.zeros(99).as_strided((2, 8, 4), (8, 3, 1)))
    refused("is on meta", state=torch.zeros(2, 8, 4, device="meta"))
    refused(
        "state `h[b d n]` of selective.step requires grad, and a step has no gradients",
        state=torch.zeros(2, 8, 4, requires_grad=True),
    )


def test_wrong_tuples_of_states() -> None:
    inputs = cell_inputs("cpu", 2, 4, 5)
    S, n, m = torch.zeros(2, 4, 5), torch.zeros(2, 4), torch.zeros(2)
    expected = (
        "expected a tuple of 3 tensors, one for each state (S[b k v], n[b k], m[b]), to be advanced in place, got "
    )
    for state, came in ((S, "Tensor"), ((S, n), "(Tensor, Tensor)"), ((S, n, 0.0), "(Tensor, Tensor, float)")):
        with pytest.raises(sw.SignatureError, match=re.escape(expected + came)):
            memory_cell.step(*inputs, state=state)
    with pytest.raises(sw.SignatureError, match="two in the same memory"):
        memory_cell.step(*inputs, state=(S, S[:, :, 0], m))


def test_wrong_slots() -> None:
    rows = "slots= of selective.step: expected a tensor of int32 or int64 with one slot for each row of `b`, got "
    pool = torch.zeros(5, 8, 4)
    refused(rows + "list", state=pool, slots=[0, 1])
    refused(rows + "int", state=pool, slots=1)
    refused(rows + "one of float32", state=pool, slots=torch.zeros(2))
    refused(rows + "one of int16", state=pool, slots=torch.zeros(2, dtype=torch.int16))
    refused(rows + "2 dimensions, (2, 1)", state=pool, slots=torch.zeros(2, 1, dtype=torch.int32))
    refused(
        "axis `b` has size 3 in `slots`, of shape (3,), and size 2 in `u[b d]`, of shape (2, 8)",
        state=pool,
        slots=torch.arange(3),
    )
    refused(
        "slots= of selective.step: expected a tensor on cpu, where the inputs are, got one on meta",
        state=pool,
        slots=torch.arange(2, device="meta"),
    )
    refused(
        "expected the shape [b d=8 n=4], got (5, 7, 4), whose `d` is 7",
        state=torch.zeros(5, 7, 4),
        slots=torch.arange(2),
    )


def test_slots_need_rows() -> None:
    @sw.recurrence("h[d]; x[b d t] -> y[b d t]")
    def shared(h: Any, x: Any) -> Any:
        return h, h + x

    @sw.recurrence("h[b]; x[b t] -> y[b t]")
    def mixing(h: Any, x: Any) -> Any:
        return h + sw.sum(x, "b"), h

    x, slots = torch.zeros(2, 3), torch.arange(2)
    with pytest.raises(sw.SignatureError, match=re.escape("state `h[d]` has no axis `b`, whose rows the slots are of")):
        shared.step(x, state=torch.zeros(3), slots=slots)
    with pytest.raises(sw.SignatureError, match=re.escape("expected rows along `b`, and the step reduces")):
        mixing.step(torch.zeros(2), state=torch.zeros(2), slots=slots)


def test_wrong_inputs() -> None:
    refused(
        "argument `u[b d]` of selective.step: expected 2 dimensions, got 3, of shape (2, 8, 1)", u=torch.zeros(2, 8, 1)
    )
    refused("selective.step: expected a value for input `C[b n]`, got nothing", C=...)
    refused("selective.step has no argument `E`", E=1)
    for option in ("init", "return_last", "reverse", "parallel", "strategy", "cu_seqlens"):
        refused(f"selective.step takes no `{option}`", **{option: None})
    refused("argument `A[d n]` of selective.step requires grad", A=torch.zeros(8, 4, requires_grad=True))
    refused("axis `n` has size 4", B=torch.zeros(2, 5))


def test_a_slot_beyond_the_pool_is_refused_where_the_host_may_look() -> None:
    step = sw.recurrence("h[b]; x[b t] -> y[b t]")(lambda h, x: (h + x, h)).step
    pool = torch.zeros(4)
    for slots in ([9, 1], [4, -1]):
        with pytest.raises(sw.SignatureError, match=rf"slots below 4, .*`h\[b\]`, got {slots[0]}"):
            step(torch.ones(2), state=pool, slots=torch.tensor(slots))
    assert not pool.any()
    step(torch.ones(2), state=pool, slots=torch.tensor([3, -1]))
    assert pool.tolist() == [0, 0, 0, 1]
