"""Inputs that broke other people's software, with the right values: `ref` names where each was found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from reference import assert_accurate
from seed import SEED

import scanweaver as sw
from scanweaver.errors import DriverError, ToolchainError
from scanweaver.gpu_exec import driver, toolchain

ON_GPU = ("auto", "lanes", "blelloch", "serial")
STRATEGIES = [
    pytest.param(("cpu", "serial"), id="cpu"),
    *(pytest.param(("cuda", s), id=f"cuda-{s}", marks=pytest.mark.gpu) for s in ON_GPU),
]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=STRATEGIES)
def where(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A device, and a strategy for it."""
    return request.param


def close(got: torch.Tensor, want: Any) -> None:
    want = torch.as_tensor(want, dtype=torch.float64)
    torch.testing.assert_close(got.double().cpu(), want, rtol=2**-22, atol=0)


def fresh(*shape: int, low: float, high: float, device: str) -> torch.Tensor:
    print(f"SCANWEAVER_TEST_SEED={SEED}")
    generator = torch.Generator(device).manual_seed(SEED + len(shape))
    return low + (high - low) * torch.rand(shape, generator=generator, device=device)


# --- affine ------------------------------------------------------------------------------------------------------


def affine(where: tuple[str, str], a: Any, b: Any, **options: Any) -> Any:
    device, strategy = where
    a, b = (torch.as_tensor(x, dtype=torch.float32, device=device) for x in (a, b))
    with poisoned():
        return sw.affine_scan(a, b, strategy=strategy, **options)


def test_zero_coefficient(where: tuple[str, str]) -> None:
    """ref: MzeroMiko/mamba-mini 6"""
    close(affine(where, [0.5, 0, 0.5], [1, 1, 1]), [1, 1, 1.5])


def test_long_decay(where: tuple[str, str]) -> None:
    """ref: MzeroMiko/mamba-mini 6"""
    h, last = affine(where, torch.full((200,), 0.5), torch.ones(200), return_last=True)
    assert bool(h.isfinite().all())
    close(last, 2.0)


def test_order_of_operands_in_both_directions(where: tuple[str, str]) -> None:
    """ref: triton-lang/triton 4362"""
    a, b = [1, 1.5, 0.8, 2], [1, -1, 0.5, 2]
    close(affine(where, a, b), [1, 0.5, 0.9, 3.8])
    close(affine(where, a, b, reverse=True), [3.15, 2.15, 2.1, 2])


@pytest.mark.parametrize("device", DEVICES)
def test_the_serial_order_stays_finite_where_a_tree_overflows(device: str) -> None:
    """ref: pytorch/pytorch 194699"""
    h = affine((device, "serial"), [1, 1, 1, 1, 1e30, 1e30, 0, 1], [1e-30, 0, 0, 0, 0, 0, 0, 1])
    close(h, torch.tensor([1e-30] * 4 + [1, 1e30, 0, 1]))


def test_a_state_larger_than_float16(where: tuple[str, str]) -> None:
    """The state is finite in float32; only the stored output saturates. ref: fla-org/flash-linear-attention 1187"""
    device, strategy = where
    ones = torch.ones(1024, dtype=torch.float16, device=device)
    h, last = sw.affine_scan(ones, 1000 * ones, return_last=True, strategy=strategy)
    close(last, 1_024_000.0)
    exact = 1000.0 * torch.arange(1, 1025, dtype=torch.float64)
    assert torch.equal(h.cpu(), exact.half())
    assert int(h.isinf().sum()) == 1024 - 65


def test_coefficients_near_one_over_many_blocks(where: tuple[str, str]) -> None:
    """Small coefficients hide faults of the carry. ref: proger/accelerated-scan PR 15"""
    device, _ = where
    a = fresh(3, 70000, low=0.9999, high=1, device=device) * fresh(3, 1, low=-1, high=1, device=device).sign()
    b = fresh(3, 70000, low=-1, high=1, device=device)
    assert_accurate(affine(where, a, b, return_last=True), reference.affine, a, b)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 31, 33, 1000, 1334, 65535, 65537])
def test_lengths(where: tuple[str, str], steps: int) -> None:
    """ref: proger/accelerated-scan 13; flash-linear-attention 98, 906"""
    device, _ = where
    a, b = (fresh(2, steps, low=low, high=1, device=device) for low in (0.5, -1))
    assert_accurate(affine(where, a, b, init=0.25, return_last=True), reference.affine, a, b, 0.25)


# --- shapes and layouts ------------------------------------------------------------------------------------------


@sw.recurrence("h[b d n]; x[b d t], dt[b d t], A[d n], B[b n t], C[b n t] -> y[b d t]")
def states(h: Any, x: Any, dt: Any, A: Any, B: Any, C: Any) -> Any:
    h = sw.exp(dt * A) * h + dt * B * x
    return h, sw.sum(C * h, "n")


def run_states(where: tuple[str, str], batch: int, channels: int, n: int, steps: int) -> None:
    device, strategy = where
    x = fresh(batch, channels, steps, low=-1, high=1, device=device)
    dt = fresh(batch, channels, steps, low=0.001, high=0.1, device=device)
    A = fresh(channels, n, low=-8, high=0, device=device)
    B, C = fresh(2, batch, n, steps, low=-1, high=1, device=device)
    with poisoned():
        got = states(x, dt, A, B, C, return_last=True, strategy=strategy)
    assert_accurate(got, reference.selective, x, dt, A, B, C)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17, 64, 100, 128, 129, 256])
def test_state_sizes(where: tuple[str, str], n: int) -> None:
    """ref: state-spaces/mamba 120"""
    run_states(where, 2, 3, n, 70)


def test_one_step_whose_axes_of_size_one_have_any_stride(where: tuple[str, str]) -> None:
    """ref: state-spaces/mamba 36, 985"""
    device, strategy = where
    memory = fresh(64, low=-1, high=1, device=device)
    for strides in ((8, 1, 1), (8, 1, 0), (8, 1, 977), (8, 2, 2**40), (0, 1, 3)):
        a = memory.as_strided((2, 5, 1), strides, 3)
        got = sw.affine_scan(a, a, return_last=True, strategy=strategy)
        assert_accurate(got, reference.affine, a, a)
    one = memory.as_strided((1, 1, 5), (2**40, 2**41, 1), 1)
    assert_accurate(sw.affine_scan(one, one, strategy=strategy), reference.affine, one, one)


def test_a_row_pitch_that_leaves_rows_unaligned(where: tuple[str, str]) -> None:
    """ref: triton-lang/triton 1330"""
    device, _ = where
    a, b = (fresh(9, 1185, low=-1, high=1, device=device)[:, :1184] for _ in "ab")
    assert a.data_ptr() % 16 == 0
    assert_accurate(affine(where, a, b), reference.affine, a, b)


@sw.recurrence("h[b d]; x[b t d] -> y[b t d]")
def running(h: Any, x: Any) -> Any:
    h = 0.5 * h + x
    return h, h


@pytest.mark.parametrize("steps_contiguous", [False, True])
def test_a_column_slice_whose_offsets_pass_31_bits(where: tuple[str, str], steps_contiguous: bool) -> None:
    """The parent's rows are 18560 wide; its middle is never touched, so that it takes no memory on a CPU. The last row
    starts 2^31 elements, 2^32 bytes, behind the first. ref: state-spaces/mamba PR 987"""
    device, strategy = where
    parent = torch.empty(2**31 + 5 * 18560, dtype=torch.float16, device=device)
    strides = (2**30, 1, 18560) if steps_contiguous else (2**30, 18560, 1)
    sizes = (3, 128, 4) if steps_contiguous else (3, 4, 128)
    x = parent.as_strided(sizes, strides, 18560 - 128).copy_(fresh(*sizes, low=-1, high=1, device=device))
    y = running(x, strategy=strategy)
    time_last = x.transpose(1, 2)
    assert_accurate(y.transpose(1, 2), reference.affine, torch.full_like(time_last, 0.5), time_last)


@pytest.mark.parametrize("steps", [64, 128, 129, 4000])
def test_a_combine_that_does_not_commute(where: tuple[str, str], steps: int) -> None:
    """Affine pairs, and two coupled states: matrices. ref: triton-lang/triton 2359, 947"""
    device, strategy = where
    a, b = (fresh(5, steps, low=low, high=1, device=device) for low in (-1, 0))
    assert_accurate(affine(where, a, b, return_last=True), reference.affine, a, b)
    m = [[fresh(5, steps, low=-0.7, high=0.7, device=device) * (1 + i - 0.5 * j) for j in range(2)] for i in range(2)]
    x = [a, b]
    got = rotating(m[0][0] / 3, m[0][1] / 3, m[1][0] / 3, m[1][1] / 3, *x, return_last=True, strategy=strategy)
    thirds = [[entry / 3 for entry in row] for row in m]
    assert_accurate(got, reference.coupled, thirds, x, (0.0, 0.0))


@sw.recurrence("p[b], q[b]; a[b t], c[b t], e[b t], f[b t], x[b t], y[b t] -> r[b t], s[b t]", parallel="require")
def rotating(p: Any, q: Any, a: Any, c: Any, e: Any, f: Any, x: Any, y: Any) -> Any:
    p, q = a * p + c * q + x, e * p + f * q + y
    return (p, q), (p, q)


AT_THE_EDGE = '''
import ctypes, mmap, sys, torch
import scanweaver as sw

page = mmap.PAGESIZE
mprotect = ctypes.CDLL(None, use_errno=True).mprotect
mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
kept = []

def fenced(shape, at_end, order):
    """A tensor that ends (or starts) where the pages that may be touched do."""
    count = torch.Size(shape).numel()
    pages = -(-4 * count // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    kept.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (address, address + (pages + 1) * page):
        assert mprotect(fence, page, 0) == 0
    offset = page + (pages * page - 4 * count if at_end else 0)
    x = torch.frombuffer(memory, dtype=torch.float32, count=count, offset=offset)
    return x.view([shape[i] for i in order]).permute([order.index(i) for i in range(3)]).uniform_(-1, 1)

@sw.recurrence("h[b d n]; x[b d t], A[d n], B[b n t] -> y[b d t]")
def states(h, x, A, B):
    h = sw.exp(A) * h + B * x
    return h, sw.sum(h, "n")

if "--past" in sys.argv:
    x = fenced((2, 3, 5), True, [0, 1, 2])
    ctypes.string_at(x.data_ptr() + 4 * x.numel(), 1)
    sys.exit("not fenced")
for order in ([0, 1, 2], [0, 2, 1], [2, 1, 0]):
    for at_end in (True, False):  # forwards to the end, or backwards to the start
        for steps in (1, 65):
            x, B = fenced((2, 17, steps), at_end, order), fenced((2, 3, steps), at_end, order)
            A, h0 = fenced((17, 3, 1), at_end, [0, 1, 2])[..., 0], fenced((2, 17, 3), at_end, [0, 1, 2])
            assert states(x, A, B, init=h0, reverse=not at_end).isfinite().all()
            assert sw.affine_scan(x, x, reverse=not at_end).isfinite().all()
print("all done")
'''


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_nothing_is_read_past_the_end_of_an_allocation() -> None:
    """The tensors end, or start, at pages that may not be touched. ref: fla-org/flash-linear-attention 1142"""
    done = subprocess.run([sys.executable, "-c", AT_THE_EDGE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all done\n"), done.stderr
    done = subprocess.run([sys.executable, "-c", AT_THE_EDGE, "--past"], capture_output=True, text=True, check=False)
    assert done.returncode < 0, "the fence must hold"


@pytest.mark.gpu
@pytest.mark.parametrize("strategy", ["lanes", "serial"])
def test_a_neighbour_of_an_allocation_is_neither_read_nor_written(strategy: str) -> None:
    """T = 65 between NaN on a GPU; what is read past the end is compute-sanitizer's to see.
    ref: fla-org/flash-linear-attention 1142"""
    for steps in (1, 65):
        parent = torch.full((2, 5, steps + 2), torch.nan, device="cuda")
        a = parent[..., 1:-1].uniform_(-1, 1)
        with poisoned():
            got = sw.affine_scan(a, a, return_last=True, strategy=strategy)
        assert_accurate(got, reference.affine, a, a)
        assert bool(parent[..., [0, -1]].isnan().all())


# --- tool chain --------------------------------------------------------------------------------------------------


def without_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    places = toolchain._candidates
    monkeypatch.setattr(toolchain, "_candidates", lambda name: iter(()) if name == "ptxas" else places(name))


def test_no_nvcc_and_no_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PTX is enough: the driver compiles it. ref: state-spaces/mamba 561"""
    without_ptxas(monkeypatch)
    monkeypatch.setattr(sw.config, "cache_dir", tmp_path)
    made = compiled_for("sm_90")
    assert ".target sm_90" in made.stages["ptx"]
    assert "cubin" not in made.binaries


@pytest.mark.gpu
def test_the_driver_compiles_where_there_is_no_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ref: state-spaces/mamba 561"""
    without_ptxas(monkeypatch)
    monkeypatch.setattr(sw.config, "cache_dir", tmp_path)

    @sw.recurrence("h[b]; a[b t] -> y[b t]")
    def scan(h: Any, a: Any) -> Any:
        h = a * h + a
        return h, h

    a = fresh(3, 100, low=-1, high=1, device="cuda")
    assert not scan.artifact(a).binaries
    assert_accurate(scan(a), reference.affine, a, a)


def compiled_for(target: str) -> Any:
    x = torch.rand(2, 3, 8)
    return states.artifact_for(target, x, x, torch.rand(3, 4), torch.rand(2, 4, 8), torch.rand(2, 4, 8))


def test_no_mlir_opt_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sw.config, "mlir_opt", tmp_path / "gone")
    monkeypatch.setattr(sw.config, "cache_dir", tmp_path)
    with pytest.raises(ToolchainError, match=r'(?s)mlir-opt was not found. .*pip install "scanweaver\[mlir\]".*gone'):
        compiled_for("sm_90")


def test_a_missing_package_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """ref: state-spaces/mamba 467"""
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    monkeypatch.setattr(driver, "_api", driver._api.__wrapped__)  # not what was found before  # pyright: ignore
    with pytest.raises(
        DriverError, match=r"the package cuda-bindings, 12\.9 or later: pip install .scanweaver\[cuda\]"
    ):
        driver.device_count()


@pytest.mark.gpu
@pytest.mark.host_tools
def test_a_cpu_tensor_among_gpu_tensors_is_named() -> None:
    """ref: VMamba 107"""
    a = torch.rand(2, 3)
    with pytest.raises(
        sw.SignatureError, match=r"argument `a.*` of affine_scan is on cpu, and argument `b.*` is on cuda"
    ):
        sw.affine_scan(a, a.cuda())
    assert sw.affine_scan(a, a).device.type == "cpu"
    assert sw.affine_scan(a.cuda(), a.cuda()).device.type == "cuda"
