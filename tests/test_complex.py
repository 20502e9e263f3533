"""Complex recurrences on each device and schedule, against loops in complex128; complex functions against PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from poison import poisoned
from seed import SEED
from torch import Tensor

import scanweaver as sw
from scanweaver.errors import SignatureError, TraceError
from scanweaver.explain.proof import proofs
from scanweaver.frontend.recurrence import Recurrence

CPU = pytest.param(("cpu", "serial"), id="cpu")
ON_GPU = [
    pytest.param(("cuda", strategy), id=f"cuda-{strategy}", marks=pytest.mark.gpu)
    for strategy in ("serial", "lanes", "blelloch")
]
EVERYWHERE = pytest.mark.parametrize("where", [CPU, *ON_GPU])
IN_ORDER = pytest.mark.parametrize("where", [CPU, ON_GPU[0]])
BOTH_WAYS = pytest.mark.parametrize("reverse", [False, True])
LENGTHS = pytest.mark.parametrize("steps", [0, 1, 33, 517])

Where = tuple[str, str]


def fresh(where: Where, *shape: int, salt: int = 0, dtype: torch.dtype = torch.complex64) -> Tensor:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    generator = torch.Generator(where[0]).manual_seed(SEED + salt)
    return torch.randn(shape, generator=generator, device=where[0], dtype=dtype)


def decays(where: Where, *shape: int, rest: float = 0.1, salt: int = 0) -> Tensor:
    """Complex numbers of absolute value 1 - rest to 1 and of any angle."""
    uniform = fresh(where, 2, *shape, salt=salt, dtype=torch.float32).sigmoid()
    return torch.polar(1 - rest * uniform[0], 2 * math.pi * uniform[1])


# --- how closely ---------------------------------------------------------------------------------------------------

Loop = Callable[..., tuple[Tensor, ...]]


def assert_accurate(got: Any, loop: Loop, *args: Any, **kw: Any) -> None:
    """As `reference.assert_accurate`, with complex numbers as pairs."""
    exact = loop(*args, **kw, dtype=torch.complex128)
    single = loop(*args, **kw, dtype=torch.complex64)
    results = list(reference.flat(got))
    assert results, "nothing was returned"
    for i, (result, want, rounded) in enumerate(zip(results, exact, single, strict=False)):
        assert result.shape == want.shape, f"result {i}: {tuple(result.shape)}, expected {tuple(want.shape)}"
        assert result.is_complex() == want.is_complex(), f"result {i} is {result.dtype}"
        pairs = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in (result, want, rounded)]
        limit = reference.bound(pairs[0].dtype, reference.error(pairs[2], pairs[1]))
        found = reference.error(pairs[0], pairs[1])
        assert found <= limit, f"result {i} ({result.dtype}): error {found:.3g} in norm, granted {limit:.3g}"


def start(init: Any, like: Tensor) -> Tensor:
    value = init.to(like.dtype) if isinstance(init, Tensor) else torch.tensor(init, dtype=like.dtype)
    return value.to(like.device).expand(like.shape).clone()


def diagonal(w: Tensor, x: Tensor, init: Any = 0.0, *, reverse: bool = False, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """h = w h + x; x (b n t), w of any shape that broadcasts to it."""
    w, x = torch.broadcast_tensors(w.to(dtype), x.to(dtype))
    h = start(init, x[..., 0] if x.shape[-1] else x.new_zeros(x.shape[:-1]))
    y, h = reference.walk(w.movedim(-1, 0), x.movedim(-1, 0).contiguous(), h, reverse)
    return y.movedim(0, -1), h


# --- diagonal state space models -----------------------------------------------------------------------------------


@sw.recurrence("h[b n]:complex64; x[b n t], w[n] -> h[b n t]", parallel="require")
def lru(h: Any, x: Any, w: Any) -> Any:
    """Orvieto et al., Resurrecting recurrent neural networks for long sequences, 2023: the recurrence alone."""
    h = w * h + x
    return h, h


@sw.recurrence(
    "h[b n]:complex64; x[b d t], log_dt[n], A[n], B[n d], C[d n], D[d] -> y[b d t]",
    parallel="require",
)
def s5(h: Any, x: Any, log_dt: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    """Smith, Warrington, Linderman, Simplified state space layers for sequence modeling, 2022: half of the states."""
    dt = sw.exp(log_dt)
    h = sw.exp(dt * A) * h + sw.expm1(dt * A) / A * sw.sum(B * x, "d")
    return h, 2 * sw.real(sw.sum(C * h, "n")) + D * x


def s5_loop(
    x: Tensor, log_dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, *, reverse: bool = False, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    real = torch.empty(0, dtype=dtype).real.dtype
    A, B, C = (value.to(dtype) for value in (A, B, C))
    dt, x, D = log_dt.to(real).exp(), x.to(real), D.to(real)
    w = torch.exp(dt * A)
    driven = torch.einsum("nd,bdt->bnt", (w - 1)[:, None] / A[:, None] * B, x.to(dtype))
    h, last = diagonal(w[:, None], driven, reverse=reverse, dtype=dtype)
    return 2 * torch.einsum("dn,bnt->bdt", C, h).real + D[:, None] * x, last


@EVERYWHERE
@BOTH_WAYS
@LENGTHS
def test_lru(where: Where, reverse: bool, steps: int) -> None:
    x, w = fresh(where, 3, 5, steps), decays(where, 5, salt=1)
    with poisoned():
        got = lru(x, w, reverse=reverse, return_last=True, strategy=where[1])
    assert got[0].dtype == got[1].dtype == torch.complex64
    assert_accurate(got, diagonal, w[:, None], x, reverse=reverse)


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("rest", [1e-3, 1e-6])
def test_a_long_memory(where: Where, reverse: bool, rest: float) -> None:
    """Near the unit circle, where roundings of a fold's products would add up."""
    x, w = fresh(where, 2, 4, 4000), decays(where, 4, rest=rest, salt=1)
    w[0] = 1 - rest  # real, and at right angles, as well
    w[1] = 1j * (1 - rest)
    assert_accurate(lru(x, w, reverse=reverse, strategy=where[1]), diagonal, w[:, None], x, reverse=reverse)


@EVERYWHERE
@BOTH_WAYS
@pytest.mark.parametrize("channels_last", [False, True])
def test_s5(where: Where, reverse: bool, channels_last: bool) -> None:
    x = fresh(where, 2, 3, 200, dtype=torch.float32)
    if channels_last:
        x = x.mT.contiguous().mT
    A = torch.complex(-fresh(where, 8, dtype=torch.float32).abs(), 3 * fresh(where, 8, salt=1, dtype=torch.float32))
    log_dt = fresh(where, 8, salt=2, dtype=torch.float32) - 3
    B, C = fresh(where, 8, 3, salt=3), fresh(where, 3, 8, salt=4)
    D = fresh(where, 3, salt=5, dtype=torch.float32)
    with poisoned():
        got = s5(x, log_dt, A, B, C, D, reverse=reverse, return_last=True, strategy=where[1])
    assert got[0].dtype == torch.float32 and got[0].stride() == x.stride()
    assert_accurate(got, s5_loop, x, log_dt, A, B, C, D, reverse=reverse)


@IN_ORDER
def test_complex128(where: Where) -> None:
    wide = sw.recurrence("h[b n]:complex128; x[b n t], w[n] -> h[b n t]")(lambda h, x, w: ((h := w * h + x), h))
    x, w = fresh(where, 2, 3, 300, dtype=torch.complex128), decays(where, 3).to(torch.complex128)
    y, last = wide(x, w, return_last=True, strategy=where[1])
    want, want_last = diagonal(w[:, None], x, dtype=torch.complex128)
    torch.testing.assert_close(y, want, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(last, want_last, rtol=1e-13, atol=1e-13)


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["lanes", "blelloch"])
@pytest.mark.parametrize("steps", [33, 4000])
def test_complex128_across_time(strategy: str, steps: int) -> None:
    where = ("cuda", strategy)
    x, w = fresh(where, 2, 3, steps, dtype=torch.complex128), decays(where, 3, rest=1e-3).to(torch.complex128)
    y = sw.affine_scan(w[:, None].expand(3, steps), x, strategy=strategy)
    torch.testing.assert_close(y, diagonal(w[:, None], x, dtype=torch.complex128)[0], rtol=1e-12, atol=1e-12)


# --- layouts -------------------------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "channels": lambda x: x.mT.contiguous().mT,
    "batch": lambda x: x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
    "sliced": lambda x: torch.stack((x, x * math.nan), -1).flatten(-2)[..., ::2],
    "offset": lambda x: torch.cat((x.new_full((1,), math.nan), x.flatten()))[1:].view(x.shape),
    "expanded": lambda x: x[:1].expand_as(x),
    "conjugate": lambda x: x.conj(),
    "conjugate of channels": lambda x: x.mT.contiguous().mT.conj(),
    "negative": lambda x: torch._neg_view(x),
}


@EVERYWHERE
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_read_where_they_lie(where: Where, layout: str) -> None:
    x, w = LAYOUTS[layout](fresh(where, 3, 5, 70)), decays(where, 5, salt=1)
    before = x.clone()
    with poisoned():
        got = lru(x, w.conj(), strategy=where[1])
    assert_accurate(got, diagonal, w.conj().resolve_conj()[:, None], before)
    assert torch.equal(x, before)


def test_a_part_that_pytorch_has_not_negated_yet() -> None:
    """`x.conj().imag` is real, a view, and negative only when it is read."""
    count = sw.recurrence("h[b]; x[b t], g[] -> y[b t]")(lambda h, x, g: ((h := h + g * x), h))
    z = fresh(("cpu", ""), 3, 40)
    for part in (z.conj().imag, z.imag, z.real, z.mT.conj().imag.mT):
        torch.testing.assert_close(count(part, 1.0), part.clone().cumsum(-1))
    g = torch.tensor(2j).conj().imag
    torch.testing.assert_close(count(z.real, g), -2 * z.real.cumsum(-1))


def test_a_conjugate_among_equal_tensors() -> None:
    """Its shape, strides and address are those of the tensor that it is the conjugate of."""
    x, w = fresh(("cpu", ""), 2, 3, 9), decays(("cpu", ""), 3)
    plain, conjugate, again = lru(x, w), lru(x.conj(), w), lru(x, w)
    assert torch.equal(plain, again) and not torch.equal(plain, conjugate)
    assert_accurate(conjugate, diagonal, w[:, None], x.conj().resolve_conj())


# --- starts --------------------------------------------------------------------------------------------------------


@EVERYWHERE
@pytest.mark.parametrize("init", [None, 2, 0.5, 1 - 2j, np.complex64(3j), "full", "row", "real", "whole", "conjugate"])
def test_starts(where: Where, init: Any) -> None:
    x, w = fresh(where, 2, 5, 40), decays(where, 5, salt=1)
    given = {
        "full": lambda: fresh(where, 2, 5, salt=2),
        "row": lambda: fresh(where, 5, salt=2),
        "real": lambda: fresh(where, 2, 5, salt=2, dtype=torch.float64),
        "whole": lambda: torch.arange(5, device=where[0]),
        "conjugate": lambda: fresh(where, 5, 2, salt=2).mH,
    }
    value = given[init]() if isinstance(init, str) else init
    got = lru(x, w, init=value, return_last=True, strategy=where[1])
    if isinstance(value, np.generic):
        value = value.item()
    assert_accurate(got, diagonal, w[:, None], x, 0.0 if value is None else value)


def test_a_start_in_the_signature() -> None:
    given = sw.recurrence("h[b]:complex64=2; x[b t]")(lambda h, x: 1j * h + x)
    x = fresh(("cpu", ""), 3, 20)
    assert_accurate(given(x), diagonal, torch.tensor(1j), x, 2.0)


def test_a_new_number_compiles_nothing() -> None:
    f = sw.recurrence("h[b]:complex64; x[b t], g[]")(lambda h, x, g=1j: g * h + x)
    x = fresh(("cpu", ""), 3, 20)
    one = f.artifact(x)
    assert f.artifact(x, 0.5) is one and f.artifact(x, 2 + 1j) is one and f.artifact(x, 1) is one
    for g in (0.5, 2 + 1j, 1, 1j):
        assert_accurate(f(x, g), diagonal, torch.tensor(complex(g)), x)
    assert_accurate(f(x, torch.tensor(0.5 - 0.5j)), diagonal, torch.tensor(0.5 - 0.5j), x)


# --- resets, coupled states ----------------------------------------------------------------------------------------


@sw.recurrence("h[b]:complex64; x[b t], w[b t], keep[b t]", parallel="require")
def segments(h: Any, x: Any, w: Any, keep: Any) -> Any:
    return sw.where(keep, w * h + x, x)


@EVERYWHERE
@BOTH_WAYS
@LENGTHS
def test_nothing_crosses_a_reset(where: Where, reverse: bool, steps: int) -> None:
    x, w = fresh(where, 4, steps), decays(where, 4, steps, salt=1)
    keep = fresh(where, 4, steps, salt=2, dtype=torch.float32) > -1
    if steps > 2:
        first, reset = (-1, -2) if reverse else (0, 1)
        x[:, first] = torch.tensor([math.nan, math.inf, complex(0, math.nan), complex(-math.inf, 1)], device=x.device)
        keep[:, reset] = False
    got = segments(x, w, keep, reverse=reverse, return_last=True, strategy=where[1])

    def loop(dtype: torch.dtype) -> tuple[Tensor, ...]:
        def step(h: Sequence[Tensor], x: Tensor, w: Tensor, keep: Tensor) -> Any:
            new = torch.where(keep, w * h[0] + x, x)
            return (new,), (new,)

        nothing = torch.zeros(4, dtype=dtype, device=x.device)
        return reference.loop(step, [nothing], [x.to(dtype), w.to(dtype), keep], reverse)

    if steps > 2:
        after = slice(0, -1) if reverse else slice(1, None)
        got = (got[0][:, after], got[1])
        assert_accurate(got, lambda *, dtype: (loop(dtype)[0][:, after], loop(dtype)[1]))
    else:
        assert_accurate(got, loop)


@sw.recurrence("g[b]:complex64, h[b]:complex64; m[b i j t], x[b t] -> g[b t], h[b t]", parallel="require")
def coupled(g: Any, h: Any, m: Any, x: Any) -> Any:
    def entry(i: int, j: int) -> Any:
        return sw.take(sw.take(m, i, "i"), j, "j")

    g, h = entry(0, 0) * g + entry(0, 1) * h + x, entry(1, 0) * g + entry(1, 1) * h - 1j * x
    return (g, h), (g, h)


@EVERYWHERE
@BOTH_WAYS
def test_two_coupled_complex_states(where: Where, reverse: bool) -> None:
    m, x = 0.35 * fresh(where, 3, 2, 2, 120), fresh(where, 3, 120, salt=1)
    init = (1j, fresh(where, 3, salt=2))
    got = coupled(m, x, init=init, reverse=reverse, return_last=True, strategy=where[1])

    def loop(dtype: torch.dtype) -> tuple[Tensor, ...]:
        rows = [[m[:, i, j] for j in range(2)] for i in range(2)]
        return reference.coupled(rows, [x, -1j * x.to(dtype)], init, reverse=reverse, dtype=dtype)

    assert_accurate(got, loop)


@sw.recurrence("u[b d], v[b d]; x[b d t], angle[b t], decay[b t] -> y[b d t]", parallel="require")
def rotation(u: Any, v: Any, x: Any, angle: Any, decay: Any) -> Any:
    """A complex state written out in reals, as in Mamba-3."""
    c, s = decay * sw.cos(angle), decay * sw.sin(angle)
    u, v = c * u - s * v + x, s * u + c * v
    return (u, v), u


@EVERYWHERE
@BOTH_WAYS
def test_a_rotation_of_two_real_states_is_a_complex_number(where: Where, reverse: bool) -> None:
    x = fresh(where, 2, 3, 200, dtype=torch.float32)
    angle, decay = (fresh(where, 2, 200, salt=i, dtype=torch.float32) for i in (1, 2))
    decay = 1 - 0.01 * decay.sigmoid()
    got = rotation(x, angle, decay, reverse=reverse, strategy=where[1])
    w = torch.polar(decay.double(), angle.double())[:, None]
    assert_accurate(got, lambda *, dtype: (diagonal(w, x, reverse=reverse, dtype=dtype)[0].real,))
    assert [p.algebra for p in proofs(rotation.artifact(x, angle, decay).stages["scan"])] == ["complex_affine"]


@IN_ORDER
def test_what_no_algebra_takes_runs_in_order(where: Where) -> None:
    julia = sw.recurrence("z[b]:complex64; c[b t]", parallel="never")(lambda z, c: z * z + c)
    c = fresh(where, 4, 50)
    c = 0.2 * c / c.abs()  # below 1/4 the iteration stays bounded

    def loop(dtype: torch.dtype) -> tuple[Tensor, ...]:
        def step(z: Sequence[Tensor], c: Tensor) -> Any:
            new = z[0] * z[0] + c
            return (new,), (new,)

        return reference.loop(step, [torch.zeros(4, dtype=dtype, device=c.device)], [c.to(dtype)])

    assert_accurate(julia(c, return_last=True), loop)


@pytest.mark.parametrize(
    ("signature", "step", "algebras"),
    [
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: w * h + x, ["complex_affine"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: h / w - x, ["complex_affine"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: sw.real(w) * h + x, ["affine", "affine"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: w * sw.conj(h) + x, ["affine"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: sw.complex(sw.real(h), 0.0) * w, ["affine", "delay"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: w, ["delay", "delay"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: sw.where(x == 0, x, w * h), ["complex_affine"]),
        ("h[b]:complex64; w[b t], x[b t]", lambda h, w, x: w * abs(h), ["sequential"]),
    ],
)
def test_what_is_proved(signature: str, step: Callable[..., Any], algebras: list[str]) -> None:
    w, x = decays(("cpu", ""), 2, 9), fresh(("cpu", ""), 2, 9)
    found = list(proofs(sw.recurrence(signature)(step).artifact(w, x, parallel="auto").stages["scan"]))
    assert [proof.algebra for proof in found] == algebras


# --- operators and functions ---------------------------------------------------------------------------------------

PARTS = (0.0, -0.0, 1e-3, -0.4, 1.0, -2.5, 40.0)
GRID = torch.tensor([complex(re, im) for re, im in itertools.product(PARTS, PARTS)])
Z, W = (part.contiguous() for part in torch.cartesian_prod(GRID[::2], GRID[1::2]).unbind(1))


def per_element(function: Callable[..., Any], *inputs: Tensor, device: str = "cpu") -> Tensor:
    names = ("x", "y", "z")[: len(inputs)]

    def step(h: Any, *values: Any) -> Any:
        return h, function(*values)

    f = sw.recurrence(f"h[]; {', '.join(f'{name}[t]' for name in names)} -> o[t]")(step)
    return f(*(x.to(device) for x in inputs)).cpu()


def assert_near(got: Tensor, want: Tensor, rtol: float = 2e-6) -> None:
    """Each number within `rtol` of its absolute value; what is not finite, not finite."""
    finite = want.isfinite() & (want.abs() < 1e37)
    assert bool((got[~want.isfinite()].isfinite() == False).all())  # noqa: E712
    off, size = (got - want)[finite].abs(), want[finite].abs()
    assert bool((off <= rtol * size + 1e-37).all()), (off - rtol * size).max()


ON_DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@ON_DEVICES
@pytest.mark.parametrize(
    "name", ["exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "silu"]
)
def test_functions(device: str, name: str) -> None:
    theirs = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    x = GRID[GRID.abs() < 30] if name in ("sigmoid", "silu") else GRID
    assert_near(per_element(getattr(sw, name), x, device=device), theirs(x.to(torch.complex128)).to(torch.complex64))


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt", "tanh"])
def test_functions_of_large_and_small_numbers(name: str) -> None:
    sizes = (1e-30, 1e-20, 1e20, 3e38)
    x = torch.tensor([complex(a * r, b * r) for r in sizes for a, b in ((1, 1), (-1, 0.5), (0.25, -1), (0, 1))])
    assert_near(per_element(getattr(sw, name), x), getattr(torch, name)(x.to(torch.complex128)).to(torch.complex64))


BOTH: list[Callable[..., Any]] = [
    *(lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: -x, lambda x, y: +x),
    *(lambda x, y: x / (y + 3j), lambda x, y: 2 / (x + 3j), lambda x, y: (1 - 2j) / (x + 3j)),
    *(lambda x, y: x / 2, lambda x, y: x / (1 - 2j), lambda x, y: x / 2j, lambda x, y: x * 1j, lambda x, y: 1j - x),
    *(lambda x, y: x**2, lambda x, y: x**3, lambda x, y: (x + 3j) ** -2, lambda x, y: x**0, lambda x, y: x**1),
    *(lambda x, y: abs(x), lambda x, y: abs(x - 1e20) * y),
]
OURS_AND_THEIRS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    *((both, both) for both in BOTH),
    (lambda x, y: sw.real(x) * y, lambda x, y: x.real * y),
    (lambda x, y: sw.real(x) + y, lambda x, y: x.real + y),
    (lambda x, y: y - sw.imag(x), lambda x, y: y - x.imag),
    (lambda x, y: y / (sw.real(x) + 50), lambda x, y: y / (x.real + 50)),
    (lambda x, y: sw.conj(x) * x, lambda x, y: x.conj() * x),
    (lambda x, y: sw.complex(sw.imag(x), 2), lambda x, y: torch.complex(x.imag, torch.full_like(x.imag, 2))),
    (lambda x, y: sw.complex(0, sw.real(y)), lambda x, y: 1j * y.real),
    (lambda x, y: sw.where(sw.real(x) > 0, x, y), lambda x, y: torch.where(x.real > 0, x, y)),
    (lambda x, y: sw.where(sw.real(x) > 0, x, 2), lambda x, y: torch.where(x.real > 0, x, 2 + 0j)),
    (lambda x, y: sw.where(x == y, 1j, sw.real(x)), lambda x, y: torch.where(x == y, 1j, x.real + 0j)),
    (lambda x, y: sw.where(x != y, x, 1j), lambda x, y: torch.where(x != y, x, 1j)),
    (lambda x, y: sw.where(x == 1, 1.0, 0.0), lambda x, y: torch.where(x == 1, 1.0, 0.0).double()),
    (lambda x, y: sw.cast(sw.real(x), torch.complex64) + y, lambda x, y: x.real + y),
    (lambda x, y: np.complex64(2j) * x, lambda x, y: 2j * x),
    (lambda x, y: sw.exp(sw.real(x) * 1j / 9), lambda x, y: torch.exp(x.real * 1j / 9)),
]


@ON_DEVICES
@pytest.mark.parametrize(("ours", "theirs"), OURS_AND_THEIRS)
def test_arithmetic(device: str, ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    got, want = per_element(ours, Z, W, device=device), theirs(Z.to(torch.complex128), W.to(torch.complex128))
    assert got.is_complex() == want.is_complex() and got.element_size() * 2 == want.element_size()
    assert_near(got, want)


@ON_DEVICES
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.7, -0.3, 20, 0.25 - 1j])
def test_powers(device: str, exponent: complex) -> None:
    x = GRID[GRID != 0]
    got = per_element(lambda x: x**exponent, x, device=device)
    # |log x| times the exponent carries the relative error of one rounding into the result
    assert_near(got, torch.pow(x.to(torch.complex128), exponent), rtol=2e-6 * (1 + 4 * abs(exponent)))
    base = 2.0 if isinstance(exponent, complex) else -2.0
    y = torch.tensor([1j, 0.5, -1 + 2j])
    want = torch.pow(torch.tensor(base, dtype=torch.complex128), y.to(torch.complex128))
    assert_near(per_element(lambda y: base**y, y, device=device), want, rtol=4e-6)
    assert per_element(lambda x: x ** (1 + 1j), torch.zeros(1, dtype=torch.complex64), device=device).tolist() == [0]


def test_overflow_is_avoided_on_the_way() -> None:
    x = torch.tensor([1e38 + 1e38j, 1e-38 - 1e-38j, 3e38j])
    assert_near(per_element(lambda x: x / x, x), torch.ones(3, dtype=torch.complex128))
    assert_near(per_element(lambda x: abs(x * 0.5), x), (x.to(torch.complex128) * 0.5).abs())


def test_infinities_and_nan() -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([complex(inf, 0), complex(0, -inf), complex(nan, 0), complex(1, nan), 1 + 1j])
    assert per_element(sw.isnan, x).tolist() == [False, False, True, True, False]
    assert per_element(abs, x).tolist()[:2] == [inf, inf]
    assert per_element(lambda x: 1 / x, x).tolist()[:2] == [0, 0]
    assert per_element(lambda x: x == x, x).tolist() == [True, True, False, False, True]
    assert per_element(lambda x: x != x, x).tolist() == [False, False, True, True, False]
    # a real factor scales both parts
    assert per_element(lambda r: r * (1 + 1j), torch.tensor([inf])).tolist() == [complex(inf, inf)]


def test_numbers_alone_give_numbers() -> None:
    assert sw.exp(1j * math.pi) == pytest.approx(-1) and sw.sqrt(-1 + 0j) == 1j and sw.complex(1, 2) == 1 + 2j
    assert sw.real(1 + 2j) == 1 and sw.imag(1 + 2j) == 2 and sw.conj(1 + 2j) == 1 - 2j
    assert sw.real(3) == 3 and sw.imag(3.5) == 0 and sw.cast(2, torch.complex64) == 2 and sw.isnan(complex(0, math.nan))


@ON_DEVICES
def test_over_axes(device: str) -> None:
    x = fresh((device, ""), 2, 3, 4, 5)
    f = sw.recurrence("h[]; x[b d n t], c[n], k[b t] -> y[b d t], z[t], w[b d n t], v[b d t], u[b d t]")

    def step(h: Any, x: Any, c: Any, k: Any) -> Any:
        # of (1 + i c) the real part has no axis to sum over
        parts = sw.sum(sw.sum(sw.complex(1.0, c) * sw.complex(sw.real(k), 2.0), "n") * sw.real(k), "b")
        return h, (
            sw.sum(c * x, "n"),
            parts,
            sw.conj(sw.conj(x)),
            sw.take(x, 1, "n"),
            sw.take(x, sw.argmax(abs(x), "n"), "n"),
        )

    c, k = fresh((device, ""), 4, dtype=torch.float32), fresh((device, ""), 2, 5)
    y, z, w, v, u = f(step)(x, c, k)
    torch.testing.assert_close(y, torch.einsum("n,bdnt->bdt", c + 0j, x), rtol=1e-5, atol=1e-5)
    spread = ((1 + 1j * c).sum() * (k.real + 2j) * k.real).sum(0)
    torch.testing.assert_close(z, spread, rtol=1e-5, atol=1e-5)
    assert torch.equal(w, x) and torch.equal(v, x[:, :, 1])
    assert torch.equal(u, x.gather(2, x.abs().argmax(2, keepdim=True))[:, :, 0])


@IN_ORDER
def test_a_state_that_mixes_with_itself(where: Where) -> None:
    f = sw.recurrence("h[b d]:complex64; W[d e], x[b d t]", parallel="never")
    mixed = f(lambda h, W, x: sw.sum(W * sw.rename(h, d="e"), "e") + x)
    W, x = fresh(where, 4, 4) / 4, fresh(where, 3, 4, 30, salt=1)

    def loop(dtype: torch.dtype) -> tuple[Tensor, ...]:
        def step(h: Sequence[Tensor], x: Tensor) -> Any:
            new = h[0] @ W.to(dtype).T + x
            return (new,), (new,)

        return reference.loop(step, [torch.zeros(3, 4, dtype=dtype, device=x.device)], [x.to(dtype)])

    assert_accurate(mixed(W, x, return_last=True), loop)


# --- dtypes --------------------------------------------------------------------------------------------------------


def dtypes_of(signature: str, step: Callable[..., Any], *tensors: Any) -> list[torch.dtype]:
    return [result.dtype for result in reference.flat(sw.recurrence(signature)(step)(*tensors, return_last=True))]


def test_what_results_are_stored_in() -> None:
    z64, z128 = (fresh(("cpu", ""), 2, 5).to(dtype) for dtype in (torch.complex64, torch.complex128))
    r16, r32, r64 = (torch.zeros(2, 5, dtype=dtype) for dtype in (torch.bfloat16, torch.float32, torch.float64))

    def both(h: Any, x: Any, y: Any) -> Any:
        return h, (x * y, sw.real(x * y))

    text = "h[b]:complex64; x[b t], y[b t] -> z[b t], r[b t]"
    c64, c128, f16, f32, f64 = (x.dtype for x in (z64, z128, r16, r32, r64))
    assert dtypes_of(text, both, z64, r32) == [c64, f32, c64]
    assert dtypes_of(text, both, r32, z64) == [c64, f32, c64]
    assert dtypes_of(text, both, z64, z128) == [c64, f32, c64]
    assert dtypes_of(text, both, z128, z64) == [c128, f64, c64]
    assert dtypes_of(text, both, r64, z64) == [c128, f64, c64]
    assert dtypes_of(text, both, r16, z64) == [c64, f16, c64]
    assert dtypes_of(text.replace("z[b t]", "z[b t]:complex128"), both, z64, r32) == [c128, f32, c64]
    assert dtypes_of(text.replace("r[b t]", "r[b t]:complex64"), both, z64, r32) == [c64, c64, c64]


def test_a_state_rounds_to_its_mark() -> None:
    """complex64 among complex128 inputs: the step computes in float64, the state is stored in float32."""
    f = sw.recurrence("h[b]:complex64; x[b t] -> y[b t]")(lambda h, x: ((h := h + x), h))
    x = fresh(("cpu", ""), 2, 50, dtype=torch.complex128)
    y, last = f(x, return_last=True)
    h = torch.zeros(2, dtype=torch.complex64)
    for t in range(50):
        wide = h + x[:, t]
        assert torch.equal(y[:, t], wide)
        h = wide.to(torch.complex64)
    assert torch.equal(last, h)


def test_names_stay_distinct() -> None:
    f = sw.recurrence("h[b]:complex64, h_re[b]; u[b t], u_im[b t] -> y[b t], y_re[b t]")

    def step(h: Any, h_re: Any, u: Any, u_im: Any) -> Any:
        h, h_re = 0.5 * h + u, h_re + u_im
        return (h, h_re), (h, h_re)

    u, r = fresh(("cpu", ""), 2, 30), torch.rand(2, 30)
    y, y_re = f(step)(u, r)
    assert_accurate(y, diagonal, torch.tensor(0.5), u)
    torch.testing.assert_close(y_re, r.cumsum(-1))
    operands = f(step).artifact(u, r).recipe.operands
    assert len({(operand.role, operand.name) for operand in operands}) == len(operands)


# --- ready-made ----------------------------------------------------------------------------------------------------


@EVERYWHERE
@BOTH_WAYS
def test_affine_scan(where: Where, reverse: bool) -> None:
    a, b = decays(where, 3, 1, 70), fresh(where, 3, 4, 70, salt=1)
    for coefficient in (a, a.real):
        got = sw.affine_scan(coefficient, b, 1j, reverse=reverse, return_last=True, strategy=where[1])
        assert got[0].dtype == got[1].dtype == torch.complex64
        assert_accurate(got, diagonal, coefficient, b, 1j, reverse=reverse)
    got = sw.affine_scan(a, b.real.double(), dim=1, reverse=reverse, strategy=where[1])
    assert got.dtype == torch.complex128
    want = diagonal(a.mT, b.real.mT, reverse=reverse, dtype=torch.complex128)[0].mT
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def selective(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, z: Tensor, bias: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Mamba's selective scan with complex states: twice the real part stands for conjugate pairs."""
    real = torch.empty(0, dtype=dtype).real.dtype
    u, z, D = (x.to(real) for x in (u, z, D))
    A, B, C = (x.to(dtype) for x in (A, B, C))
    dt = torch.nn.functional.softplus(delta.to(real) + bias.to(real)[:, None])
    steps = u.shape[-1]

    def full(x: Tensor) -> Tensor:
        if x.dim() == 2:
            return x[None, :, :, None].expand(u.shape[0], -1, -1, steps)
        x = x if x.dim() == 4 else x[:, None]
        return x.repeat_interleave(u.shape[1] // x.shape[1], 1)

    B, C = full(B), full(C)
    h = torch.zeros(*u.shape[:2], A.shape[1], dtype=dtype, device=u.device)
    rows: list[Tensor] = []
    for t in range(steps):
        h = torch.exp(dt[..., t, None] * A) * h + (dt[..., t] * u[..., t])[..., None] * B[..., t]
        rows.append(2 * (C[..., t] * h).sum(-1).real)
    return (torch.stack(rows, -1) + D[:, None] * u) * torch.nn.functional.silu(z), h


@ON_DEVICES
@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("interleaved", [False, True])
def test_selective_scan_fn(device: str, groups: int, interleaved: bool) -> None:
    where = (device, "")
    u, delta, z = (fresh(where, 2, 4, 30, salt=i, dtype=torch.float32) for i in range(3))
    A = torch.complex(-fresh(where, 4, 3, dtype=torch.float32).abs(), fresh(where, 4, 3, salt=1, dtype=torch.float32))
    B, C = (
        fresh(where, *((4, 3) if groups == 0 else (2, 3, 30) if groups == 1 else (2, 2, 3, 30)), salt=i) for i in (3, 4)
    )
    D, bias = (fresh(where, 4, salt=i, dtype=torch.float32) for i in (5, 6))
    given = [torch.view_as_real(x).flatten(-2) if interleaved and groups else x for x in (B, C)]
    out, last = sw.ops.selective_scan_fn(
        u, delta, A, *given, D, z=z, delta_bias=bias, delta_softplus=True, return_last_state=True
    )
    assert out.dtype == torch.float32 and last.dtype == torch.complex64
    assert_accurate((out, last), selective, u, delta, A, B, C, D, z, bias)


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (lambda h, x: sw.maximum(x, 0), "a complex value in `sw.maximum`, which is for real ones: take `abs(x)`"),
        (lambda h, x: sw.minimum(h, x), "a complex value in `sw.minimum`"),
        (lambda h, x: sw.maximum(h, 1j), "a complex value in `sw.maximum`"),
        (lambda h, x: sw.relu(x), "`sw.real(x)` or `sw.imag(x)`"),
        (lambda h, x: sw.clamp(x, 0, 1), "a complex value in `sw."),
        (lambda h, x: sw.where(x < 1, h, 0), "a complex value in `<`"),
        (lambda h, x: sw.where(h >= 1j, h, 0), "a complex value in `>=`"),
        (lambda h, x: sw.erf(x), "a complex value in `sw.erf`"),
        (lambda h, x: sw.softplus(x), "a complex value in `sw.softplus`"),
        (lambda h, x: sw.logaddexp(x, x), "a complex value in `sw.logaddexp`"),
        (lambda h, x: sw.max(x, "b"), "a complex value in `sw.max`"),
        (lambda h, x: sw.argmin(x, "b"), "a complex value in `sw.argmin`"),
        (lambda h, x: sw.logsumexp(x, "b"), "a complex value in `sw.logsumexp`"),
        (lambda h, x: x & 1, "a complex value in `&`"),
        (lambda h, x: ~x, "a complex value in `~`"),
        (lambda h, x: sw.complex(x, 1), "a complex value in `sw.complex`"),
        (lambda h, x: sw.complex(h, 1j), "a complex value in `sw.complex`"),
        (lambda h, x: sw.cast(x, torch.float32), "a complex value in `sw.cast(x, torch.float32)`"),
        (lambda h, x: sw.cast(x, torch.int32), "a complex value in `sw.cast(x, torch.int32)`"),
        (lambda h, x: sw.cast(x, torch.complex128), "a step computes in float64 where one of its inputs is"),
        (lambda h, x: (x == 0) * x, "a bool in `*`"),
        (lambda h, x: sw.real(x == 0), "a bool in `sw.real`"),
        (lambda h, x: sw.where(x == 0, x == 1, x), "`where` of a bool and a number"),
        (lambda h, x: sw.sum(sw.where(x, 1, 0), "b"), "the condition of `sw.where` is a bool, got a complex value"),
        (lambda h, x: complex(x), "`complex()` on a step's value"),
        (lambda h, x: sw.maximum(1j, 2) * x, "a complex value in `sw.maximum`"),
    ],
)
def test_misuse_names_what_to_write(step: Callable[..., Any], wanted: str) -> None:
    f = sw.recurrence("h[b]:complex64; x[b t]")(step)
    with pytest.raises(TraceError) as caught:
        f(torch.zeros(2, 3, dtype=torch.complex64))
    assert wanted in str(caught.value)
    assert str(caught.value).splitlines()[-1].strip().startswith("test_complex.py:")


@pytest.mark.parametrize(
    ("signature", "step", "wanted"),
    [
        ("h[b]; x[b t]", lambda h, x: h + x, "state `h` is real, and the step gives it a complex value"),
        ("h[b]; x[b t]", lambda h, x: h + x, "mark it in the signature, as in `h[b]:complex64`"),
        ("h[b]:int32; x[b t]", lambda h, x: x, "state `h` is marked int32"),
        ("h[b]; x[b t] -> y[b t]:float32", lambda h, x: (h, x), "output `y` is marked float32"),
        ("h[b]; x[b t] -> y[b t]:float32", lambda h, x: (h, x), "take `sw.real(x)`, `sw.imag(x)` or `abs(x)`"),
        ("h[b]; x[b t] -> y[b t]:bool", lambda h, x: (h, x), "output `y` is marked bool"),
        ("h[b]:complex64; x[b t]", lambda h, x: x == 0, "state `h` is complex, and the step gives it a bool"),
    ],
)
def test_a_complex_value_does_not_become_real_by_itself(signature: str, step: Callable[..., Any], wanted: str) -> None:
    with pytest.raises(SignatureError) as caught:
        sw.recurrence(signature)(step)(torch.zeros(2, 3, dtype=torch.complex64))
    assert wanted in str(caught.value)


@pytest.mark.parametrize("init", [1j, torch.zeros(2, dtype=torch.complex64)])
def test_a_real_state_does_not_start_at_a_complex_number(init: Any) -> None:
    f = sw.recurrence("h[b]; x[b t]")(lambda h, x: h + x)
    with pytest.raises(SignatureError, match=r"init of state `h\[b\]` .*: expected float32, got (1j|complex64)"):
        f(torch.zeros(2, 3), init=init)


def test_compiled_for_other_chips() -> None:
    x, w = torch.zeros(2, 5, 64, dtype=torch.complex64), torch.zeros(5, dtype=torch.complex64)
    functions: list[tuple[Recurrence, tuple[Tensor, ...]]] = [
        (lru, (x, w)),
        (coupled, (torch.zeros(3, 2, 2, 64, dtype=torch.complex64), x[0, :3])),
        (segments, (x[0], x[0], x[0].real > 0)),
    ]
    for f, args in functions:
        for target, strategy in itertools.product(("sm_80", "sm_90", "sm_100"), ("serial", "lanes", "blelloch")):
            assert f".target {target}" in f.artifact_for(target, *args, strategy=strategy).stages["ptx"]


# --- compiled ahead of calls ---------------------------------------------------------------------------------------


def test_an_artifact(tmp_path: Path) -> None:
    f = sw.recurrence("h[b n]:complex64=1, g[b]; x[b n t], w[n], c[], r[b t] -> y[b t], h[b n t]")

    def step(h: Any, g: Any, x: Any, w: Any, r: Any, c: Any = 1j) -> Any:
        h = w * h + c * x
        return (h, g + r), (sw.real(sw.sum(h, "n")) + g, h)

    def ordered(h: Any, g: Any, x: Any, w: Any, c: Any, r: Any) -> Any:
        return step(h, g, x, w, r, c)

    f = f(ordered)
    dtypes = {"x": torch.complex64, "w": torch.complex64, "c": complex, "r": torch.float32}
    f.compile("cpu", dtypes=dtypes, sizes={"n": 4}).save(tmp_path / "f.swa")
    art = sw.load(tmp_path / "f.swa")
    where = ("cpu", "")
    w, c = decays(where, 4), 0.5 - 1j
    for steps, rows in ((30, 3), (1, 1), (70, 40)):
        x, r = fresh(where, rows, 4, steps), fresh(where, rows, steps, dtype=torch.float32)
        for init in (None, (1j, None), (fresh(where, 4), 2.0), (fresh(where, rows, 4).real, None), (3, torch.ones(1))):
            for x_ in (x, x.mT.contiguous().mT, x.conj()):
                want = f(x_, w, c, r, init=init, return_last=True)
                got = art(x_, w, c, r, init=init, return_last=True)
                for ours, theirs in zip(reference.flat(got), reference.flat(want), strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    with pytest.raises(SignatureError, match=r"argument `x` of .*compiled for complex64, got float32"):
        art(x.real, w, c, r)


def test_an_artifact_of_complex_numbers_alone() -> None:
    art = lru.compile("cpu", dtypes=torch.complex64)
    x, w = fresh(("cpu", ""), 3, 5, 40), decays(("cpu", ""), 5)
    assert torch.equal(art(x, w), lru(x, w)) and torch.equal(art(x.mT.mT.conj(), w), lru(x.conj(), w))
    assert "complex_affine" in art.explain()
