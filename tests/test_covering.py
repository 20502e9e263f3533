"""Every pair of values of two factors, on each device: lengths, rows, states, schedules, layouts, starts, dtypes.

A greedy covering design, new in every run; SCANWEAVER_TEST_SEED repeats one. Results are allocated full of NaN between
guards, and each is compared in full with a loop in float64.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from seed import SEED

import scanweaver as sw

FACTORS: dict[str, tuple[Any, ...]] = {
    "T": (0, 1, 2, 3, 31, 33, 1000, 1334, 4096, 65537),
    "rows": (0, 1, 7, 300, 2050 * 32),
    "N": ("affine", 1, 2, 3, 5, 16, 17, 64, 100, 128, 256),  # states a row; "affine": one, through sw.affine_scan
    "layout": ("steps", "channels", "sliced", "batch", "expanded", "offset", "pitch"),
    "init": ("none", "number", "full", "broadcast"),
    "reverse": (False, True),
    "return_last": (False, True),
    "dtype": (torch.float32, torch.float64, torch.float16, torch.bfloat16),
}
ROWS = {0: (2, 0), 1: (1, 1), 7: (7, 1), 300: (3, 100), 2050 * 32: (32, 2050)}
STRATEGIES = {"cpu": ("auto", "serial"), "cuda": ("auto", "lanes", "blelloch", "serial")}
STATE_STEPS = {"cpu": 2 * 10**7, "cuda": 4 * 10**8}
"""The most that one case walks."""

Case = dict[str, Any]


def _size(case: Mapping[str, Any]) -> int:
    """State-steps of a case, at least; a factor that is not chosen yet counts as its smallest."""
    states = case.get("N", 1)
    return case.get("T", 1) * case.get("rows", 1) * (1 if states == "affine" else states)


def _pairs(case: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    """The pairs that a case tests. One without steps or rows walks nothing, so it speaks for that factor alone."""
    empty = [name for name in ("T", "rows") if case.get(name) == 0]
    return {
        (f, case[f], g, case[g])
        for f, g in itertools.combinations(sorted(case), 2)
        if not empty or f in empty or g in empty
    }


def covering(factors: Mapping[str, tuple[Any, ...]], limit: int, rng: random.Random) -> list[Case]:
    """Cases of at most `limit` state-steps in which every pair of values occurs that such a case can have."""
    left = set[tuple[Any, ...]]()
    for f, g in itertools.combinations(sorted(factors), 2):
        pairs = itertools.product(factors[f], factors[g])
        left |= {(f, x, g, y) for x, y in pairs if _size({f: x, g: y}) <= limit}
    cases: list[Case] = []
    while left:
        f, x, g, y = rng.choice(sorted(left, key=str))
        case: Case = {f: x, g: y}
        for name in rng.sample(sorted(set(factors) - set(case)), len(factors) - 2):
            values = [
                v for v in factors[name] if _size(case | {name: v}) <= limit and (name not in ("T", "rows") or v != 0)
            ]
            values = rng.sample(values, len(values))
            case[name] = max(values, key=lambda v: len(_pairs(case | {name: v}) & left))
        left -= _pairs(case)
        cases.append(case)
    return cases


def _cases(device: str) -> Iterable[Any]:
    rng = random.Random(f"{SEED} {device}")
    for case in covering(FACTORS | {"strategy": STRATEGIES[device]}, STATE_STEPS[device], rng):
        named = [str(case[name]).removeprefix("torch.") for name in FACTORS if not isinstance(case[name], bool)]
        flags = [name for name in ("reverse", "return_last") if case[name]]
        marks = pytest.mark.gpu if device == "cuda" else ()
        yield pytest.param(device, case, id="-".join([device, *named, *flags, case["strategy"]]), marks=marks)


# --- inputs ------------------------------------------------------------------------------------------------------


def lay(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of `x`, (b, d, t), somewhere in memory; what lies between them is NaN."""

    def parent(*shape: int) -> torch.Tensor:
        return x.new_full(shape, math.nan)

    batch, channels, steps = x.shape
    if layout == "channels":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "batch":
        return x.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    if layout == "expanded":
        return x[:1].expand(batch, -1, -1)
    if layout == "sliced":
        return parent(batch, channels, 2 * steps + 3)[..., 3 : 3 + 2 * steps : 2].copy_(x)
    if layout == "offset":
        return parent(x.numel() + 1)[1:].view(x.shape).copy_(x)
    if layout == "pitch":
        return parent(batch, channels, steps + 2 - steps % 2 + 1)[..., 1 : 1 + steps].copy_(x)
    return x.contiguous()


class Inputs:
    """Random tensors of one case, from its own seed."""

    def __init__(self, case: Case, device: str):
        self.generator = torch.Generator(device).manual_seed(random.Random(f"{SEED} {case}").getrandbits(40))
        self.device = device
        self.case = case

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        x = torch.rand(shape, generator=self.generator, device=self.device)
        return low + (high - low) * x

    def sometimes(self, x: torch.Tensor, *values: float) -> torch.Tensor:
        """`x` with one element in sixteen for each of the values in its place."""
        kind = torch.randint(0, 16, x.shape, generator=self.generator, device=self.device)
        for i, value in enumerate(values):
            x = x.masked_fill(kind == i, value)
        return x

    def over_time(self, x: torch.Tensor) -> torch.Tensor:
        return lay(x.to(self.case["dtype"]), self.case["layout"])

    def init(self, *shape: int) -> Any:
        kind = self.case["init"]
        if kind in ("none", "number"):
            return None if kind == "none" else -0.75
        return self.uniform(*shape) if kind == "full" else self.uniform(*shape[1:-1], 1)


@sw.recurrence("h[b d n]; x[b d t], dt[b d t], A[d n], B[b n t], C[b n t] -> y[b d t]")
def states(h: Any, x: Any, dt: Any, A: Any, B: Any, C: Any) -> Any:
    h = sw.exp(dt * A) * h + dt * B * x
    return h, sw.sum(C * h, "n")


@pytest.mark.parametrize(("device", "case"), [*_cases("cpu"), *_cases("cuda")])
def test_every_pair(device: str, case: Case) -> None:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    draw = Inputs(case, device)
    (batch, channels), steps, n = ROWS[case["rows"]], case["T"], case["N"]
    options = {name: case[name] for name in ("reverse", "return_last", "strategy")}
    if n == "affine":
        a = draw.over_time(draw.sometimes(draw.uniform(batch, channels, steps), 0, 1, -1, 1e-6, 1e-38))
        b = draw.over_time(draw.sometimes(draw.uniform(batch, channels, steps), 0, 4))
        init = draw.init(batch, channels)
        with poisoned():
            got = sw.affine_scan(a, b, init, **options)
        reference.assert_accurate(got, reference.affine, a, b, init, reverse=case["reverse"])
    else:
        x = draw.over_time(draw.sometimes(draw.uniform(batch, channels, steps), 0, 3))
        dt = draw.over_time(draw.sometimes(draw.uniform(batch, channels, steps, low=1e-3, high=0.1), 0, 1))
        A = draw.sometimes(-draw.uniform(channels, n, low=0.01, high=8), 0, -1e-6, -1e30)
        B, C = (draw.over_time(draw.sometimes(draw.uniform(batch, n, steps), 0, 1)) for _ in "BC")
        init = draw.init(batch, channels, n)
        with poisoned():
            got = states(x, dt, A, B, C, init=init, **options)
        reference.assert_accurate(got, reference.selective, x, dt, A, B, C, init=init, reverse=case["reverse"])
    assert len(list(reference.flat(got))) == 1 + case["return_last"]


# --- the design itself -------------------------------------------------------------------------------------------


def test_the_design_covers_every_pair() -> None:
    cases = covering(FACTORS | {"strategy": STRATEGIES["cuda"]}, STATE_STEPS["cuda"], random.Random(SEED))
    met = set[tuple[Any, ...]]().union(*map(_pairs, cases))
    assert len(cases) < 300
    assert all(_size(case) <= STATE_STEPS["cuda"] for case in cases)
    for f, g in itertools.combinations(sorted(FACTORS), 2):
        missing = {(x, y) for x in FACTORS[f] for y in FACTORS[g] if (f, x, g, y) not in met}
        assert all(_size({f: x, g: y}) > STATE_STEPS["cuda"] for x, y in missing), (f, g, missing)


@pytest.mark.parametrize("layout", FACTORS["layout"])
def test_a_layout_keeps_the_values(layout: str) -> None:
    x = torch.rand(3, 4, 5)
    laid = lay(x, layout)
    assert torch.equal(laid, x[:1].expand(3, -1, -1) if layout == "expanded" else x)


@pytest.mark.parametrize("at", [-1, 6])
def test_a_write_outside_a_result_is_seen(at: int) -> None:
    with pytest.raises(AssertionError, match="outside its result"), poisoned():
        x = torch.empty_strided((2, 3), (3, 1), dtype=torch.float32, device=torch.device("cpu"))
        assert bool(x.isnan().all()), "what is not written stays NaN"
        x.as_strided((), (), x.storage_offset() + at).fill_(0)


def test_the_contract_refuses_what_is_off_and_what_is_missing() -> None:
    a, b = torch.rand(3, 50), torch.rand(3, 50)
    right = reference.affine(a, b, dtype=torch.float64)[0].float()
    reference.assert_accurate(right, reference.affine, a, b)
    for wrong in (right * (1 + 1e-5), right.masked_fill(right == right[1, 7], torch.nan), right[:, :-1]):
        with pytest.raises(AssertionError):
            reference.assert_accurate(wrong, reference.affine, a, b)


# --- the longest with the most rows ------------------------------------------------------------------------------


@pytest.mark.gpu
def test_longest_with_most_rows() -> None:
    """Compared stretch by stretch: neither the float64 trajectory nor a second result is ever whole.

    One test for every strategy: two at a time would not fit a GPU's memory.
    """
    rows, steps = max(FACTORS["rows"]), max(FACTORS["T"])
    if torch.cuda.mem_get_info()[0] < 4 * rows * steps * 4:
        pytest.skip(f"needs {4 * rows * steps * 4 >> 30} GiB of free GPU memory")
    generator = torch.Generator("cuda").manual_seed(SEED)
    a = torch.empty(rows, steps, device="cuda").uniform_(0.5, 1, generator=generator)
    b = torch.empty(rows, steps, device="cuda").uniform_(-1, 1, generator=generator)
    for strategy in STRATEGIES["cuda"]:
        check_in_stretches(a, b, strategy)


def check_in_stretches(a: torch.Tensor, b: torch.Tensor, strategy: str) -> None:
    rows, steps = a.shape
    y, last = sw.affine_scan(a, b, return_last=True, strategy=strategy)
    exact = torch.zeros(rows, dtype=torch.float64, device="cuda")
    single = torch.zeros(rows, device="cuda")
    off, loop_off, norm = (torch.zeros((), dtype=torch.float64, device="cuda") for _ in range(3))
    for begin in range(0, steps, 256):  # a stretch of steps at a time, each step's rows next to each other
        a_single, b_single, found = (x[:, begin : begin + 256].t().contiguous() for x in (a, b, y))
        a_exact, b_exact = a_single.double(), b_single.double()
        walked, walked_single = torch.empty_like(a_exact), torch.empty_like(a_single)
        for t in range(len(walked)):
            exact = torch.addcmul(b_exact[t], a_exact[t], exact, out=walked[t])
            single = torch.add(a_single[t] * single, b_single[t], out=walked_single[t])
        off += (found.double() - walked).square().sum()
        loop_off += (walked_single.double() - walked).square().sum()
        norm += walked.square().sum()
    error, of_loop = ((x / norm).sqrt().item() for x in (off, loop_off))
    limit = reference.bound(torch.float32, of_loop)
    assert error <= limit, f"{strategy}: {error:.3g}, granted {limit:.3g}"
    assert torch.equal(last, y[:, -1]), strategy
