"""The ready-made operations: every form of their arguments against loops in float64, no copies, and the refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from reference import assert_accurate
from seed import SEED

import scanweaver as sw
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.ops import affine_scan, selective_scan_fn

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def rand(device: str) -> Callable[..., torch.Tensor]:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    generator = torch.Generator(device).manual_seed(SEED)

    def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (2 * torch.rand(shape, generator=generator, device=device) - 1).to(dtype)

    return rand


# --- affine_scan -------------------------------------------------------------------------------------------------


def along_last(dim: int, *tensors: torch.Tensor) -> list[torch.Tensor]:
    return [x.movedim(dim, -1) for x in tensors]


@pytest.mark.parametrize(("dim", "reverse"), list(product((0, 1, 2, -1, -2, -3), (False, True))))
def test_affine_along_any_dimension(rand: Any, dim: int, reverse: bool) -> None:
    a, b, init = rand(5, 6, 7), rand(5, 6, 7), rand(5, 6, 7).select(dim, 0)
    with poisoned():
        h, last = sw.affine_scan(a, b, init, dim=dim, reverse=reverse, return_last=True)
    assert h.shape == a.shape
    assert_accurate((h.movedim(dim, -1), last), reference.affine, *along_last(dim, a, b), init, reverse=reverse)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(
    "shapes", [((4, 1, 9), (3, 9)), ((9,), (2, 3, 9)), ((2, 3, 1), (1, 9)), ((), (2, 3, 9)), ((2, 3, 9), (1,))]
)
def test_affine_broadcasts(rand: Any, shapes: tuple[tuple[int, ...], ...], dim: int) -> None:
    a, b = (rand(*shape) for shape in shapes)
    full = torch.broadcast_tensors(a, b)
    h = affine_scan(a, b, dim=dim)
    assert h.shape == full[0].shape
    assert_accurate(h.movedim(dim, -1), reference.affine, *along_last(dim, *full))


@pytest.mark.parametrize(("a_dtype", "b_dtype"), list(product(FLOATS, FLOATS)))
def test_affine_dtypes_promote_as_in_torch(rand: Any, a_dtype: torch.dtype, b_dtype: torch.dtype) -> None:
    a, b = rand(3, 40, dtype=a_dtype), rand(3, 40, dtype=b_dtype)
    h, last = affine_scan(a, b, 0.5, return_last=True)
    assert h.dtype == torch.promote_types(a_dtype, b_dtype)
    assert last.dtype == (torch.float64 if torch.float64 in (a_dtype, b_dtype) else torch.float32)
    assert_accurate((h, last), reference.affine, a, b, 0.5)


@pytest.mark.parametrize("init", [None, 2, -0.5, (), (1,), (4,), (3, 1), (3, 4)])
def test_affine_starts(rand: Any, init: Any) -> None:
    a, b = rand(3, 4, 5), rand(3, 4, 5)
    start = rand(*init) if isinstance(init, tuple) else init
    assert_accurate(affine_scan(a, b, start, return_last=True), reference.affine, a, b, start)


def test_affine_results_lie_as_the_inputs_do(rand: Any) -> None:
    b = rand(2, 9, 6)
    assert affine_scan(rand(2, 9, 6), b, dim=1).stride() == b.stride()
    assert affine_scan(rand(6), b, dim=1).stride() == b.stride(), "a decay that is broadcast says nothing of layout"


def test_affine_leaves_its_arguments_alone(rand: Any) -> None:
    a, b, init = rand(3, 40), rand(3, 40), rand(3)
    before = [x.clone() for x in (a, b, init)]
    affine_scan(a, b, init)
    assert all(torch.equal(x, y) for x, y in zip((a, b, init), before, strict=True))


def test_affine_keeps_nan_and_inf_where_the_loop_has_them(rand: Any) -> None:
    a, b = rand(4, 50), rand(4, 50)
    b[0, 20], a[1, 30], b[2, 10], a[3, 25] = torch.nan, torch.inf, -torch.inf, torch.nan
    exact, _ = reference.affine(a, b, dtype=torch.float32)
    # Products of coefficients may be inf·0 where the loop's are not: of an infinite state it then stays NaN.
    assert torch.equal(affine_scan(a, b).isfinite(), exact.isfinite())
    h = affine_scan(a, b, strategy="serial")
    assert torch.equal(h.isnan(), exact.isnan())
    assert torch.equal(h.isinf(), exact.isinf())
    assert torch.equal(h.sign().nan_to_num(), exact.sign().nan_to_num())


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (sw.SignatureError, "argument `a` of affine_scan: expected a tensor, got float", lambda x: affine_scan(0.5, x)),
        (
            sw.SignatureError,
            "argument `b` of affine_scan: expected a tensor, got NoneType",
            lambda x: affine_scan(x, None),
        ),
        (
            sw.SignatureError,
            "`b` of affine_scan: expected one of .*complex128, got int32",
            lambda x: affine_scan(x, x.int()),
        ),
        (sw.SignatureError, "`a` of affine_scan: expected one of .*, got bool", lambda x: affine_scan(x > 0, x)),
        (sw.SignatureError, r"shapes that broadcast, got \(2, 3\) and \(2, 2\)", lambda x: affine_scan(x, x[:, 1:])),
        (
            sw.SignatureError,
            r"dim of affine_scan: expected -2 to 1 .* \(2, 3\), got 2",
            lambda x: affine_scan(x, x, dim=2),
        ),
        (sw.SignatureError, "got 0-d tensors", lambda x: affine_scan(x[0, 0], x[0, 0])),
        (
            sw.SignatureError,
            r"init of affine_scan: .* broadcasts to \(2,\), .* got \(2, 3\)",
            lambda x: affine_scan(x, x, x),
        ),
        (sw.SignatureError, r"init of state .* of affine_scan: .*got \(3,\)", lambda x: affine_scan(x, x, x[0])),
        (
            sw.SignatureError,
            r"init of affine_scan: .* broadcasts to \(1,\), .* got \(5,\)",
            lambda x: affine_scan(x[:1], x[:1], torch.ones(5)),
        ),
        (sw.SignatureError, "dim of affine_scan: .* got 't'", lambda x: affine_scan(x, x, dim="t")),  # type: ignore[arg-type]
        (
            sw.SignatureError,
            "return_last= of affine_scan: expected True or False",
            lambda x: affine_scan(x, x, return_last=x.numpy()),  # type: ignore[arg-type]
        ),
        (
            sw.SignatureError,
            "argument `b` of affine_scan: expected a dense tensor, got a nested one",
            lambda x: affine_scan(x, torch.nested.nested_tensor([x[0], x[1]])),
        ),
        (sw.SignatureError, "is on meta, and .* on cpu", lambda x: affine_scan(x.to("meta"), x)),
        (
            sw.SignatureError,
            "init of state .* is on meta, and .* on cpu",
            lambda x: affine_scan(x, x, x[:, 0].to("meta")),
        ),
        (sw.UnsupportedError, "cu_seqlens= is not built yet", lambda x: affine_scan(x, x, cu_seqlens=x)),
        (
            sw.UnsupportedError,
            "`b.*` of affine_scan requires grad",
            lambda x: affine_scan(x, x.clone().requires_grad_()),
        ),
        (sw.ScanWeaverError, 'strategy="lanes" is for GPUs', lambda x: affine_scan(x, x, strategy="lanes")),
        (
            sw.ScanWeaverError,
            "strategy='fast': expected one of 'auto', 'lanes', 'serial', 'blelloch'",
            lambda x: affine_scan(x, x, strategy="fast"),
        ),
    ],
)
def test_affine_refuses(error: type[Exception], message: str, call: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(error, match=message):
        call(torch.rand(2, 3))


# --- selective_scan_fn -------------------------------------------------------------------------------------------

B, D, N, T = 2, 8, 4, 37
FORMS = {"constant": (D, N), "shared": (B, N, T), "one group": (B, 1, N, T), "groups": (B, 2, N, T)}


def inputs(rand: Any, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Of decays: where states grow, a few numbers are the norm, and their exponentials' errors are not averaged."""
    over_time = {name: rand(B, D, T, dtype=dtype) for name in ("u", "delta", "z")}
    over_time["delta"] = over_time["delta"].abs()
    rows = {"A": -1 - rand(D, N), "D": rand(D), "delta_bias": rand(D).abs()}
    return over_time | rows | {"B": rand(B, N, T, dtype=dtype), "C": rand(B, N, T, dtype=dtype)}


@pytest.mark.parametrize(("b", "c"), list(product(FORMS, FORMS)))
def test_every_form_of_B_and_C(rand: Any, b: str, c: str) -> None:
    given = inputs(rand) | {"B": rand(*FORMS[b]), "C": rand(*FORMS[c])}
    with poisoned():
        got = selective_scan_fn(**given, delta_softplus=True, return_last_state=True)
    assert got[1].shape == (B, D, N)
    assert_accurate(got, reference.selective, **given, delta_softplus=True)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("left_out", list(product((False, True), repeat=4)), ids=str)
def test_every_choice_of_the_optional(rand: Any, left_out: tuple[bool, ...], grouped: bool) -> None:
    given = inputs(rand)
    if grouped:
        given |= {"B": rand(*FORMS["groups"]), "C": rand(*FORMS["groups"])}
    given["delta"] = given["delta"].abs()
    for out, name in zip(left_out, ("D", "z", "delta_bias"), strict=False):
        if out:
            del given[name]
    softplus = not left_out[3]
    got = selective_scan_fn(**given, delta_softplus=softplus)
    assert_accurate(got, reference.selective, **given, delta_softplus=softplus)


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_have_the_dtype_of_u(rand: Any, dtype: torch.dtype) -> None:
    given = inputs(rand, dtype)
    out, last = selective_scan_fn(**given, delta_softplus=True, return_last_state=True)
    assert out.dtype == dtype
    assert last.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_accurate((out, last), reference.selective, **given, delta_softplus=True)


@pytest.mark.parametrize("grouped", [False, True])
def test_channels_last_in_memory_is_read_in_place(rand: Any, grouped: bool) -> None:
    given = inputs(rand)
    if grouped:
        given |= {"B": rand(*FORMS["groups"]), "C": rand(*FORMS["groups"])}
    for name in ("u", "delta", "z", "B", "C"):
        given[name] = given[name].transpose(-1, -2).contiguous().transpose(-1, -2)
    out = selective_scan_fn(**given)
    assert out.stride() == given["u"].stride()
    assert_accurate(out, reference.selective, **given)


def test_arguments_by_position_as_in_mamba_ssm(rand: Any) -> None:
    given = inputs(rand)
    order = ("u", "delta", "A", "B", "C", "D", "z", "delta_bias")
    out, last = selective_scan_fn(*(given[name] for name in order), True, True)
    assert_accurate((out, last), reference.selective, **given, delta_softplus=True)


def test_padding_comes_after_the_softplus(rand: Any) -> None:
    """A padded step of softplus(0 + bias) would decay the state: the last one tells."""
    given = inputs(rand) | {"delta_bias": torch.full_like(rand(D), 0.5)}
    for steps in (1, 31, 33, T):
        cut = {name: x[..., :steps] if x.shape[-1] == T else x for name, x in given.items()}
        got = selective_scan_fn(**cut, delta_softplus=True, return_last_state=True)
        assert_accurate(got, reference.selective, **cut, delta_softplus=True)


@pytest.mark.parametrize(
    ("error", "message", "changed"),
    [
        (sw.SignatureError, r"axis `t` has size 37 in `u.*, and size 36 in `delta", {"delta": (B, D, T - 1)}),
        (sw.SignatureError, r"axis `d` has size 8 in `u.*, and size 7 in `A", {"A": (D - 1, N)}),
        (sw.SignatureError, r"axis `n` has size 4 in .*, and size 3 in `B", {"B": (B, N - 1, T)}),
        (
            sw.SignatureError,
            r"argument `B` of selective_scan_fn: expected \(d, n\).*, got the shape \(4,\)",
            {"B": (N,)},
        ),
        (sw.SignatureError, r"argument `u` .*: expected dimension 1 to be a multiple of 3,", {"B": (B, 3, N, T)}),
        (sw.SignatureError, r"argument `C` .*: expected 2, the second", {"B": (B, 2, N, T), "C": (B, 4, N, T)}),
        (sw.SignatureError, r"argument `B` .*: expected some groups", {"B": (B, 0, N, T)}),
        (
            sw.SignatureError,
            r"argument `D` .*: expected dimension 0 to be a multiple of 2",
            {"B": (B, 2, N, T), "D": (3,)},
        ),
        (sw.SignatureError, r"argument `A\[d n\]` .*: expected 2 dimensions, got 1", {"A": (D,)}),
    ],
)
def test_selective_refuses(error: type[Exception], message: str, changed: dict[str, tuple[int, ...]]) -> None:
    given = inputs(lambda *shape, dtype=torch.float32: torch.rand(shape, dtype=dtype))
    given |= {name: torch.rand(shape) for name, shape in changed.items()}
    with pytest.raises(error, match=message):
        selective_scan_fn(**given)


@pytest.mark.parametrize("name", ["B", "C"])
def test_a_real_scan_refuses_complex_coefficients(name: str) -> None:
    given = inputs(lambda *shape, dtype=torch.float32: torch.rand(shape, dtype=dtype))
    with pytest.raises(sw.SignatureError, match=rf"argument `{name}` .*expected a real tensor, as A is, got complex64"):
        selective_scan_fn(**given | {name: given[name] + 0j})


# --- both --------------------------------------------------------------------------------------------------------


def test_names_come_without_torch() -> None:
    code = "import sys, scanweaver.ops as ops; dir(ops); assert 'torch' not in sys.modules; ops.selective_scan_fn"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert sw.affine_scan is affine_scan
    with pytest.raises(AttributeError, match=re.escape("module 'scanweaver.ops' has no attribute 'scan'")):
        sw.ops.scan  # noqa: B018  # pyright: ignore


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t] -> y[b d t]")
def selective(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any) -> Any:
    h = sw.exp(dt * A) * h + dt * B * u
    return h, sw.sum(C * h, "n")


@sw.recurrence("h[...]; a[... t], b[... t] -> h[... t]")
def affine(h: Any, a: Any, b: Any) -> Any:
    h = a * h + b
    return h, h


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("strategy", ["lanes", "serial"])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("which", [affine, selective], ids=["affine", "selective"])
def test_lowers_to_ptx_where_there_is_no_gpu(
    which: Recurrence, channels_last: bool, strategy: str, target: str
) -> None:
    x = torch.rand(2, 8, 64, dtype=torch.bfloat16)
    if channels_last:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    args = (x, x) if which is affine else (x, x, torch.rand(8, 4), x[:, :4], x[:, :4])
    made = which.artifact_for(target, *args, strategy=strategy)
    assert f".target {target}" in made.stages["ptx"]
    assert len(made.recipe.kernels) == 1
