"""The CPU back end on everything that the language has, against the same step walked in PyTorch.

A step is written once, over a namespace: `sw` to compile it, `Torch` to run it in float64 on tensors that have every
axis of the signature (of size 1 where a value lacks it). Sizes take each road: rows that fill vectors, rows left
over, few rows, vectors along a state axis, tails of time, empty axes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from poison import poisoned
from reference import flat
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.dialects import context_of_all
from scanweaver.frontend import plan
from scanweaver.frontend.signature import Array, parse_signature
from scanweaver.transforms import pipelines

# --- the oracle ----------------------------------------------------------------------------------------------------


class Torch:
    """What `sw` offers, on tensors whose dimensions are `axes` in order."""

    def __getattr__(self, name: str) -> Any:
        """What PyTorch has under the same name."""
        return getattr(torch, name) if hasattr(torch, name) else getattr(torch.nn.functional, name)

    def __init__(self, axes: Sequence[str]):
        self.axes = axes

    def dims(self, names: str) -> list[int]:
        return [self.axes.index(name) for name in names.split()]

    def softplus(self, x: Tensor) -> Tensor:
        return torch.nn.functional.softplus(x, threshold=1000)

    def cast(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if x.is_floating_point() and not dtype.is_floating_point:
            x = x.long()
        return x.to(dtype).to(
            torch.float64 if dtype.is_floating_point else dtype if dtype == torch.bool else torch.int64
        )

    def sum(self, x: Tensor, names: str) -> Tensor:
        return x.sum(self.dims(names), keepdim=True)

    def max(self, x: Tensor, names: str) -> Tensor:
        return x.amax(self.dims(names), keepdim=True)

    def min(self, x: Tensor, names: str) -> Tensor:
        return x.amin(self.dims(names), keepdim=True)

    def logsumexp(self, x: Tensor, names: str) -> Tensor:
        return x.logsumexp(self.dims(names), keepdim=True)

    def argmax(self, x: Tensor, name: str) -> Tensor:
        """The first of the largest, where torch promises any of them."""
        (dim,) = self.dims(name)
        at = torch.arange(x.shape[dim]).view([-1 if d == dim else 1 for d in range(x.dim())]).expand_as(x)
        return torch.where(x == x.amax(dim, keepdim=True), at, x.shape[dim]).amin(dim, keepdim=True)

    def argmin(self, x: Tensor, name: str) -> Tensor:
        return self.argmax(-x, name)

    def take(self, x: Tensor, i: Any, name: str) -> Tensor:
        index = i if isinstance(i, Tensor) else torch.full([1] * x.dim(), i)
        return torch.take_along_dim(x, index, self.dims(name)[0])

    def rename(self, x: Tensor, **names: str) -> Tensor:
        ((source, target),) = names.items()
        return x.transpose(self.axes.index(source), self.axes.index(target))


def spread(x: Tensor, own: Sequence[str], axes: Sequence[str]) -> Tensor:
    """`x` with dimensions `axes`, of size 1 where it lacks them."""
    x = x.permute([own.index(axis) for axis in axes if axis in own])
    return x[tuple(slice(None) if axis in own else None for axis in axes)]


def gathered(x: Tensor, own: Sequence[str], axes: Sequence[str], sizes: Mapping[str, int]) -> Tensor:
    """The inverse: with dimensions `own`, broadcast where the value lacks some."""
    x = x.expand([sizes[axis] if axis in own else -1 for axis in axes])
    x = x[tuple(slice(None) if axis in own else 0 for axis in axes)]
    kept = [axis for axis in axes if axis in own]
    return x.permute([kept.index(axis) for axis in own])


def walk(case: Case, inputs: Mapping[str, Tensor], init: Sequence[Any], sizes: Mapping[str, int], reverse: bool):
    """Outputs and last states, floats in float64."""
    signature = parse_signature(case.signature)
    axes = [axis for axis in sizes if axis != "t"]
    step = case.step(Torch(axes))

    def computed(x: Tensor) -> Tensor:
        return x.double() if x.is_floating_point() else x if x.dtype == torch.bool else x.long()

    states = []
    for start, array in zip(init, signature.states, strict=True):
        x = torch.as_tensor(start).expand([sizes[axis] for axis in array.axes])
        x = x.to({None: torch.float64, "bool": torch.bool}.get(array.dtype, torch.int64))
        states.append(spread(x, array.axes, axes))
    outputs: list[list[Tensor]] = [[torch.empty(0)] * sizes["t"] for _ in signature.outputs]
    for t in reversed(range(sizes["t"])) if reverse else range(sizes["t"]):
        now = []
        for array in signature.inputs:
            x, own = computed(inputs[array.name]), list(array.axes)
            if "t" in own:
                x = x.select(own.index("t"), t)
                own.remove("t")
            now.append(spread(x, own, axes))
        result = step(*states, *now)
        new, out = result if signature.mode == "outputs" else (result, result)
        new, out = (x if isinstance(x, tuple) else (x,) for x in (new, out))
        states = [
            x.to(torch.int32).long() if array.dtype == "int32" else x
            for x, array in zip(new, signature.states, strict=True)
        ]
        for row, x, array in zip(outputs, out, signature.outputs, strict=True):
            row[t] = gathered(x, [axis for axis in array.axes if axis != "t"], axes, sizes)
    lasts = [gathered(x, a.axes, axes, sizes) for x, a in zip(states, signature.states, strict=True)]
    stacked = [
        torch.stack(row, array.axes.index("t")) if row else torch.empty([sizes[axis] for axis in array.axes])
        for row, array in zip(outputs, signature.outputs, strict=True)
    ]
    return stacked, lasts


# --- the cases -----------------------------------------------------------------------------------------------------

REAL = torch.float32


@dataclass(frozen=True)
class Case:
    """`step(m)` gives the step over a namespace m. An input is of float32 unless `dtypes` says otherwise; where
    `dtypes` holds a number n, it is of int64 below n."""

    signature: str
    step: Callable[[Any], Callable[..., Any]]
    dtypes: Mapping[str, Any]
    sizes: str
    layout: str = "dense"
    reverse: bool = False
    init: Any = None
    tolerance: float = 2e-6
    real: torch.dtype = REAL

    def inputs(self, sizes: Mapping[str, int], generator: torch.Generator) -> dict[str, Tensor]:
        return {
            array.name: laid_out(
                self.values(array, [sizes[axis] for axis in array.axes], generator), array, self.layout
            )
            for array in parse_signature(self.signature).inputs
        }

    def values(self, array: Array, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        dtype = self.dtypes.get(array.name, self.real)
        if isinstance(dtype, int):
            return torch.randint(0, dtype, shape, generator=generator)
        if dtype == torch.bool:
            return torch.rand(shape, generator=generator) > 0.3
        if not dtype.is_floating_point:
            return torch.randint(-90, 90, shape, generator=generator).to(dtype)
        return (torch.rand(shape, generator=generator, dtype=torch.float64) * 1.8 - 0.9).to(dtype)


def laid_out(x: Tensor, array: Array, layout: str) -> Tensor:
    """The same values in other memory."""
    if layout == "channels" and "t" in array.axes and x.dim() > 1:  # time outermost
        at = array.axes.index("t")
        return x.movedim(at, 0).contiguous().movedim(0, at)
    if layout == "sliced" and x.dim():  # no axis contiguous, odd strides, an offset
        padded = torch.zeros([2 * size + 3 for size in x.shape], dtype=x.dtype)
        view = padded[tuple(slice(3, 3 + 2 * size, 2) for size in x.shape)]
        view.copy_(x)
        return view
    return x


def twice(step: Any) -> Any:
    """The new state as output too, in an order of axes of its own."""
    return lambda m: lambda *args: (step(m)(*args),) * 2


def affine(m: Any) -> Any:
    return lambda h, a, x: a * h + x


def selective(m: Any) -> Any:
    def step(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
        dt = m.softplus(dt)
        h = m.exp(dt * -m.exp(A)) * h + dt * B * u
        y = m.sum(C * h, "n") + D * u
        return h, y * z * m.sigmoid(z)

    return step


def conditions(m: Any) -> Any:
    def step(h: Any, x: Any, ok: Any, n: Any) -> Any:
        return m.where(ok & (x > 0.25), h * 0.5 + x, m.where((n > 3) | ~ok, x + n, h))

    return step


def flags(m: Any) -> Any:
    """A bool state, an int32 state that wraps, an integer output, comparisons of states."""

    def step(open: Any, count: Any, x: Any, k: Any) -> Any:
        open = (x > 0.3) | (open & (x > -0.3))
        count = m.where(open, count * 3 + k, count - 1)
        return (open, count), (open, count, m.where(open & (count > 0), x, -x))

    return step


def integers(m: Any) -> Any:
    return lambda s, x, k: (s * 0.5 + x * k, (k << 2) + (k >> 1) * 7 - (k & 5))


def best(m: Any) -> Any:
    """Reductions of all kinds over a state axis; ties; what argmax gives is taken from."""

    def step(h: Any, x: Any, w: Any) -> Any:
        h = 0.5 * h + w * x
        i = m.argmax(w * x, "n")
        return h, (m.max(h, "n"), m.min(h, "n"), m.logsumexp(h, "n"), i, m.take(h, i, "n"), m.argmin(w, "n"))

    return step


def viterbi(m: Any) -> Any:
    """States mix along an axis by max, and tell the position; starts at numbers and at an infinity."""

    def step(s: Any, e: Any, P: Any) -> Any:
        scores = m.rename(s, n="k") + P
        return m.max(scores, "k") + e, (m.argmax(scores, "k"), m.max(s, "n"))

    return step


def network(m: Any) -> Any:
    return lambda h, W, x: m.tanh(m.sum(W * m.rename(h, d="e"), "e") + x)


def tables(m: Any) -> Any:
    """A value taken from a table at an index that each row and step has of its own; and from a state."""

    def step(h: Any, table: Any, i: Any, j: Any, x: Any) -> Any:
        h = 0.5 * h + m.take(table, i, "q") * x
        return h, m.take(h, j, "n") + m.take(h, 0, "n")

    return step


def chain(m: Any) -> Any:
    """A delay, a state that reads it, two coupled states, an output that is a past one."""

    def step(last: Any, v: Any, p: Any, q: Any, r: Any) -> Any:
        v = 0.1 + 0.2 * last * last + 0.7 * v
        p, q = 0.6 * p - 0.3 * q + r, 0.3 * p + 0.6 * q + v
        return (r, v, p, q), (last, m.sqrt(v) * p, q)

    return step


def outer(m: Any) -> Any:
    """A matrix state: two state axes, one reduced after the other; an output that lacks a parallel axis."""

    def step(S: Any, k: Any, v: Any, q: Any, g: Any) -> Any:
        S = m.sigmoid(g) * S + k * v
        return S, (m.sum(S * q, "k"), m.sum(S, "k v"), g * 2)

    return step


def normalised(m: Any) -> Any:
    """A state whose step reduces over itself: K = 1."""

    def step(h: Any, x: Any) -> Any:
        h = h + x
        return h / (1 + m.sum(h * h, "n"))

    return step


def functions(m: Any) -> Any:
    """Every function, of floats within its domain."""

    def step(h: Any, x: Any) -> Any:
        y = m.exp(x) + m.exp2(x) + m.log(x + 2) + m.log2(x + 2) + m.log1p(x) + m.expm1(x) + m.sqrt(x + 1)
        y = y + m.rsqrt(x + 2) + m.sin(x) + m.cos(x) + m.tanh(x) + m.erf(x) + m.sigmoid(x) * m.silu(x) - m.relu(x)
        y = y + m.logaddexp(x, 2 * x) + abs(x) ** 3 + (x + 1) ** 1.5 + 2 ** (-x) + m.clamp(x, -0.5, 0.25) / (x + 3)
        return 0.5 * h + m.minimum(y, m.softplus(y))

    return step


def casts(m: Any) -> Any:
    """Between kinds and widths; a state that is rounded; integers that wrap; NaN told and left out."""

    def step(h: Any, x: Any, k: Any, ok: Any) -> Any:
        n = m.cast(x * 300, torch.int8) + m.cast(k * 100, torch.uint8) * m.cast(ok, torch.int64)
        bad = m.where(k > 50, m.log(-1 - abs(x)), x)
        h = m.cast(h * 0.5 + n, torch.float16) + m.where(m.isnan(bad), 0.25, bad) + m.cast(ok, torch.float32)
        return h, (n, m.cast(h > 10, torch.bool), abs(-k) - (k ^ 3))

    return step


def counts(m: Any) -> Any:
    """Integers and bools along a state axis."""

    def step(c: Any, x: Any, k: Any) -> Any:
        c = c + m.where(x > 0, k, 0)
        return c, (m.sum(c, "n"), m.max(k * 2, "n"), m.min(c - k, "n"), m.sum(m.cast(x > 0, torch.int64), "n"))

    return step


def dictionary(m: Any) -> Any:
    """Tables and positions that change with time; an input read along another axis."""

    def step(h: Any, table: Any, i: Any, key: Any, other: Any) -> Any:
        h = 0.5 * h + m.take(table, i, "q")
        return h, (m.take(m.exp(table) * h, i, "q"), m.sum(m.rename(key, n="m") * other, "m"))

    return step


def scaled(m: Any) -> Any:
    """Numbers given at the call, and an input that varies over time alone."""

    def step(h: Any, x: Any, tick: Any, g: Any, c: Any) -> Any:
        h = g * h + x * tick
        return h, (h + c, tick * 2)

    return step


HALVES = {torch.bfloat16: 4e-3, torch.float16: 1e-3}
SELECTIVE = "h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]"
CONDITIONS = "h[b d]; x[b d t], ok[b d t], n[b d t]"
CONDITIONED = {"ok": torch.bool, "n": 6}
BEST = "-> hi[{0} t], lo[{0} t], all[{0} t], i[{0} t], at[{0} t], j[t {0}]"
OUTER = "S[b h k v]; k[b h k t], v[b h v t], q[b h k t], g[h t] -> o[b h v t], s[h b t], e[h t]"
TABLES = "h[b n]; table[q n], i[b t], j[b t], x[b t] -> y[b t]"
DICTIONARY = "h[b]; table[q b t], i[b t], key[b n t], other[b m t] -> y[b t], z[b t]"
COUNTS = "c[b n]:int32; x[b n t], k[n t] -> sum[b t], hi[n t], lo[b t], set[b t]"
CASTS = "h[b]; x[b t], k[b t], ok[t] -> n[b t], big[b t], m[b t]"


def sizes(text: str) -> dict[str, int]:
    return {axis: int(size) for axis, _, size in (item.partition("=") for item in text.split())}


CASES = {
    "affine": Case("h[b d]; a[b d t], x[b d t]", affine, {}, "b=2 d=37 t=37"),
    "affine-orders": Case("h[b d]; a[t b d], x[b t d] -> y[t d b]", twice(affine), {}, "b=2 d=37 t=37"),
    "affine-one-row": Case("h[]; a[t], x[t]", affine, {}, "t=37"),
    "affine-eleven-rows": Case("h[b d]; a[b d t], x[b d t]", affine, {}, "b=2 d=11 t=37"),
    "affine-few-rows": Case("h[b d]; a[b d t], x[b d t]", affine, {}, "b=3 d=2 t=37", layout="channels"),
    "affine-many-rows": Case("h[b d]; a[b d t], x[b d t]", affine, {}, "b=1 d=1090 t=11", layout="channels"),
    "affine-shared": Case("h[b d]; a[d], x[b d t]", affine, {}, "b=2 d=21 t=19", init="broadcast"),
    "scaled": Case("h[b]; x[b t], tick[t], g[], c[] -> y[b t], z[t]", scaled, {}, "b=19 t=37"),
    "functions": Case("h[b]; x[b t]", functions, {}, "b=17 t=18"),
    "functions-one-row": Case("h[]; x[t]", functions, {}, "t=18"),
    "casts": Case(CASTS, casts, {"k": torch.int16, "ok": torch.bool}, "b=19 t=37", tolerance=1e-3),
    "casts-one-row": Case(CASTS, casts, {"k": torch.uint8, "ok": torch.bool}, "b=1 t=37", tolerance=1e-3),
    "selective": Case(SELECTIVE, selective, {}, "b=2 d=35 n=3 t=37"),
    "selective-states": Case(SELECTIVE, selective, {}, "b=1 d=3 n=32 t=21"),
    "selective-four-states": Case(SELECTIVE, selective, {}, "b=1 d=3 n=12 t=21"),
    "selective-scalar": Case(SELECTIVE, selective, {}, "b=1 d=3 n=5 t=21"),
    "conditions": Case(CONDITIONS, conditions, CONDITIONED, "b=2 d=40 t=37"),
    "conditions-int8": Case(CONDITIONS, conditions, {"ok": torch.bool, "n": torch.int8}, "b=2 d=40 t=37"),
    "conditions-many-rows": Case(CONDITIONS, conditions, CONDITIONED, "b=2 d=700 t=11", layout="channels"),
    "flags": Case(
        "open[b]:bool, n[b]:int32; x[b t], k[t] -> o[b t], c[b t], y[b t]", flags, {"k": torch.int32}, "b=21 t=40"
    ),
    "flags-one-row": Case("open[]:bool, n[]:int32; x[t], k[t] -> o[t], c[t], y[t]", flags, {"k": torch.int16}, "t=40"),
    "integers": Case("s[b]; x[b t], k[b t] -> y[b t]", integers, {"k": torch.int32}, "b=21 t=40"),
    "counts": Case(COUNTS, counts, {"k": torch.int32}, "b=17 n=3 t=21"),
    "counts-states": Case(COUNTS, counts, {"k": torch.int16}, "b=2 n=16 t=21"),
    "best": Case("h[b d n]; x[b d t], w[n t] " + BEST.format("b d"), best, {}, "b=2 d=19 n=5 t=21"),
    "best-few-rows": Case("h[b n]; x[b t], w[n t] " + BEST.format("b"), best, {}, "b=2 n=16 t=21"),
    "viterbi": Case("s[b n]=-1; e[b n t], P[n k] -> back[b n t], top[b t]", viterbi, {}, "b=18 n=4 k=4 t=21"),
    "viterbi-one-row": Case("s[n]; e[n t], P[n k] -> back[n t], top[t]", viterbi, {}, "n=4 k=4 t=21"),
    "network": Case("h[b d]; W[d e], x[b d t]", network, {}, "b=17 d=4 e=4 t=18"),
    "network-one-row": Case("h[d]; W[d e], x[d t]", network, {}, "d=16 e=16 t=18"),
    "tables": Case(TABLES, tables, {"i": 7, "j": 3}, "b=18 n=3 q=7 t=21"),
    "tables-few-rows": Case(TABLES, tables, {"i": 7, "j": 3}, "b=2 n=3 q=7 t=21"),
    "dictionary": Case(DICTIONARY, dictionary, {"i": 5}, "b=18 q=5 n=3 m=3 t=21"),
    "dictionary-few-rows": Case(DICTIONARY, dictionary, {"i": 5}, "b=2 q=5 n=3 m=3 t=21"),
    "chain": Case("last[b], v[b]=0.5, p[b], q[b]; r[b t] -> old[b t], y[b t], z[b t]", chain, {}, "b=19 t=37"),
    "outer": Case(OUTER, outer, {}, "b=2 h=18 k=3 v=4 t=19"),
    "outer-few-rows": Case(OUTER, outer, {}, "b=1 h=2 k=4 v=8 t=19"),
    "outer-large": Case(OUTER, outer, {}, "b=1 h=16 k=40 v=60 t=3"),
    "normalised": Case("h[b n]; x[b n t]", normalised, {}, "b=18 n=3 t=19"),
    "normalised-one-row": Case("h[n]; x[n t]", normalised, {}, "n=16 t=19"),
}

WRITTEN = tuple(CASES)

CASES |= {
    f"{name}-{layout}": replace(CASES[name], layout=layout)
    for name in ("affine", "selective", "selective-states", "conditions", "best", "outer")
    for layout in ("channels", "sliced")
}
CASES |= {
    f"{name}-reverse": replace(CASES[name], reverse=True, init="given")
    for name in ("affine", "selective", "flags", "chain", "viterbi", "selective-states")
}
CASES |= {
    f"{name}-{str(dtype)[6:]}": replace(CASES[name], real=dtype, tolerance=tolerance)
    for name in ("affine", "selective", "selective-states", "best", "functions")
    for dtype, tolerance in {torch.float64: 1e-13, **HALVES}.items()
}
CASES |= {
    f"{name}-empty-{axis}": replace(CASES[name], sizes=f"{CASES[name].sizes} {axis}=0", init="given")
    for axis, names in {
        "t": ("affine", "selective", "outer", "affine-one-row"),
        "d": ("affine",),
        "b": ("selective",),
    }.items()
    for name in names
}


def first(case: Case, array: Array, sizes: Mapping[str, int], generator: torch.Generator) -> Any:
    """What a state starts at: what the signature says, or a tensor of its own or of fewer dimensions."""
    if case.init is None or array.dtype == "bool":
        return (array.start or 0) if array.dtype != "bool" else bool(array.start)
    axes = array.axes[1:] if case.init == "broadcast" else array.axes
    values = torch.rand([sizes[axis] for axis in axes], generator=generator)
    return (values * 100).to(torch.int32) if array.dtype else values


def recurrence_of(case: Case) -> Any:
    signature = parse_signature(case.signature)
    parameters = ", ".join(array.name for array in (*signature.states, *signature.inputs))
    return sw.recurrence(case.signature)(eval(f"lambda {parameters}: step({parameters})", {"step": case.step(sw)}))


def generator_of(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


@pytest.mark.parametrize("name", CASES)
def test_matches_the_step_in_pytorch(name: str) -> None:
    case, generator = CASES[name], generator_of(name)
    signature, size = parse_signature(case.signature), sizes(case.sizes)
    inputs = case.inputs(size, generator)
    init = [first(case, array, size, generator) for array in signature.states]
    given = None if case.init is None else tuple(init) if len(init) > 1 else init[0]
    with poisoned():
        results = recurrence_of(case)(**inputs, init=given, return_last=True, reverse=case.reverse)
    expected = walk(case, inputs, init, size, case.reverse)
    for got, want, array in zip(flat(results), flat(expected), (*signature.outputs, *signature.states), strict=True):
        compare(array.name, got, want, case.tolerance)


class _Stopped(Exception):
    pass


@pytest.mark.parametrize("name", [*WRITTEN, "selective-bfloat16", "flags-reverse", "outer-sliced"])
def test_every_pass_leaves_what_verifies_and_is_read_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def verified(module: ModuleOp, target: str, options: pipelines.Options) -> None:
        context = context_of_all()
        for stage, passes in pipelines.passes("cpu", options):
            for each in passes:
                each.apply(context, module)
                module.verify()
            assert Parser(context, str(module)).parse_module().is_structurally_equivalent(module), stage
        raise _Stopped

    monkeypatch.setattr(plan, "compile_module", verified)
    case = CASES[name]
    with pytest.raises(_Stopped):
        recurrence_of(case).artifact(**case.inputs(sizes(case.sizes), generator_of(name)), reverse=case.reverse)


def compare(name: str, got: Tensor, want: Tensor, tolerance: float) -> None:
    assert got.shape == want.shape, f"{name}: {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not got.is_floating_point():
        wrong = int((got.long() != want.long()).sum())
        assert not wrong, f"{name}: {wrong} of {got.numel()} differ"
        return
    error = (got.double() - want).norm() / want.norm().clamp(min=1e-30)
    assert error <= tolerance, f"{name}: error {error:.3g} in norm, granted {tolerance:.3g}"


# --- halves --------------------------------------------------------------------------------------------------------


def passed_on(m: Any) -> Any:
    return lambda h, x: (h * 0.5, (x, x))


HALF_OUTPUTS = sw.recurrence("h[b]; x[b t] -> y[b t]:bfloat16, z[b t]:float16")(passed_on(sw))


@pytest.mark.parametrize("rows", [32, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_halves_are_rounded_as_pytorch_rounds_them(dtype: torch.dtype, rows: int) -> None:
    generator = generator_of(f"halves {dtype} {rows}")
    whole = torch.int32 if dtype == torch.float32 else torch.int64
    exponents = torch.randint(-150, 130, (rows, 4096), generator=generator)
    spread_out = (torch.randn((rows, 4096), generator=generator, dtype=torch.float64) * 2.0**exponents).to(dtype)
    halves = torch.arange(rows * 2048, dtype=torch.int32).to(torch.int16).view(rows, 2048)
    exact = torch.cat([halves.view(half).to(dtype) for half in (torch.bfloat16, torch.float16)], 1)
    ties = (exact + exact.roll(1, 1)) / 2
    x = torch.cat([spread_out, exact, ties], 1)
    x = torch.cat([x, (x.view(whole) + 1).view(dtype), (x.view(whole) - 1).view(dtype)], 1)
    for got in HALF_OUTPUTS(x):
        want = x.to(got.dtype)  # float64 by way of float32
        same = (got.view(torch.int16) == want.view(torch.int16)) | (got.isnan() & want.isnan())
        assert same.all(), f"{x[~same][:4]} became {got[~same][:4]}, expected {want[~same][:4]}"


@pytest.mark.parametrize("rows", [32, 1])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_halves_are_read_exactly(half: torch.dtype, rows: int) -> None:
    x = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(-1, 2048)[:rows].view(half)
    identity = sw.recurrence("h[b]; x[b t] -> y[b t]:float32")(lambda h, x: (h * 0.5, x))
    assert torch.equal(identity(x).nan_to_num(nan=1.5), x.float().nan_to_num(nan=1.5))
