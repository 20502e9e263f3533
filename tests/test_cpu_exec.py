"""From hand-written upstream MLIR to native code that runs over threads; NumPy and math are the oracle."""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from scanweaver.cpu_exec import launch as launching
from scanweaver.cpu_exec import lower
from scanweaver.cpu_exec.launch import CpuExecutable
from scanweaver.errors import ScanWeaverError, SignatureError, ToolchainError
from scanweaver.gpu_exec import toolchain
from scanweaver.gpu_exec.abi import Kernel, Operand, Param, Recipe
from scanweaver.gpu_exec.artifact import Artifact

# y[b, t] = s * x[b, t] for rows b in [begin, end); strides are in elements, T is a size.
SCALE = """
module attributes {scan.recipe = {target = "cpu"}} {
  func.func @scale(%begin: i64, %end: i64, %T: i64, %y: !llvm.ptr, %s: f32, %sy: i64, %x: !llvm.ptr, %sx: i64)
      attributes {llvm.emit_c_interface} {
    %c1 = arith.constant 1 : i64
    %c0 = arith.constant 0 : i64
    scf.for %b = %begin to %end step %c1 : i64 {
      %xb = arith.muli %b, %sx : i64
      %yb = arith.muli %b, %sy : i64
      scf.for %t = %c0 to %T step %c1 : i64 {
        %xi = arith.addi %xb, %t : i64
        %yi = arith.addi %yb, %t : i64
        %xp = llvm.getelementptr %x[%xi] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %yp = llvm.getelementptr %y[%yi] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        %v = llvm.load %xp : !llvm.ptr -> f32
        %w = arith.mulf %v, %s : f32
        llvm.store %w, %yp : f32, !llvm.ptr
      }
    }
    return
  }
}"""
SCALE_RECIPE = Recipe(
    "cpu",
    (
        Operand("x", "input", ("b", "t"), "f32", contiguous="t"),
        Operand("s", "input", (), "f32", scalar=True),
        Operand("y", "output", ("b", "t"), "f32", contiguous="t"),
    ),
    (
        Kernel(
            "scale",
            (
                Param("begin"),
                Param("end"),
                Param("size", axis="t"),
                Param("pointer", 2),
                Param("scalar", 1),
                Param("stride", 2, "b"),
                Param("pointer", 0),
                Param("stride", 0, "b"),
            ),
            rows=("b",),
        ),
    ),
)


def function(body: str, element: str, parameters: str = "") -> str:
    """`f(begin, end, x, y)`: y[i] = body(x[i]) for one i = begin; `%x` is the element, `%r` the result."""
    return f"""
    func.func @f(%begin: i64, %end: i64, %px: !llvm.ptr, %py: !llvm.ptr{parameters}) {{
      %xp = llvm.getelementptr %px[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
      %yp = llvm.getelementptr %py[%begin] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
      %x = llvm.load %xp {{alignment = 4 : i64}} : !llvm.ptr -> {element}
      {body}
      llvm.store %r, %yp {{alignment = 4 : i64}} : {element}, !llvm.ptr
      return
    }}"""


def compiled(text: str, recipe: Recipe) -> CpuExecutable:
    made = lower.to_artifact("test", {"scan": "…", "cpu": text}, recipe)
    assert list(made.stages) == ["scan", "cpu", "llvm", "asm"]
    return CpuExecutable(Artifact.from_bytes(made.to_bytes()))


def unary(text: str, *scalars: Operand) -> CpuExecutable:
    """An executable of `function`'s shape, over one task."""
    operands = (Operand("x", "input", (), "f32"), Operand("y", "output", (), "f32"), *scalars)
    params = [Param("begin"), Param("end"), Param("pointer", 0), Param("pointer", 1)]
    params += [Param("scalar", 2 + i) for i in range(len(scalars))]
    return compiled(text, Recipe("cpu", operands, (Kernel("f", tuple(params), rows=()),)))


@pytest.fixture(scope="module")
def scale() -> CpuExecutable:
    return compiled(SCALE, SCALE_RECIPE)


def scaled(executable: CpuExecutable, x: np.ndarray, s: float, y: np.ndarray | None = None) -> np.ndarray:
    y = np.full(x.shape, np.nan, np.float32) if y is None else y
    strides = [{"b": x.strides[0] // 4, "t": 1}, {}, {"b": y.strides[0] // 4, "t": 1}]
    call = executable.prepare({"b": x.shape[0], "t": x.shape[1]}, strides)
    call([x.ctypes.data, s, y.ctypes.data])
    return y


# --- launching ---


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 0), (0, 7), (1, 100_000), (999, 1000), (65537, 3)], ids=str)
def test_any_shape(scale: CpuExecutable, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    assert np.array_equal(scaled(scale, x, -2.5), x * np.float32(-2.5))


def test_strides_are_read_and_nothing_else_is_written(scale: CpuExecutable) -> None:
    x = np.random.default_rng(0).standard_normal((300, 900), np.float32)
    out = np.full((300, 2000), 7, np.float32)
    scaled(scale, x[::-2, 100:700], 3.0, out[:150, 50:650])
    expected = np.full((300, 2000), 7, np.float32)
    expected[:150, 50:650] = x[::-2, 100:700] * 3
    assert np.array_equal(out, expected)
    repeated = np.broadcast_to(x[:1], (300, 900))
    assert np.array_equal(scaled(scale, repeated, 0.5), repeated * np.float32(0.5))


def test_every_task_runs_once_for_any_number_of_threads(scale: CpuExecutable, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[int, int]] = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setattr(launching, "thread_count", lambda n=threads: n)  # type: ignore[misc]
        for tasks in (1, 2, 7, 31, 32, 33, 1000):
            ran.clear()
            launching._share_out(lambda a, b, *_: ran.append((a, b)), tasks, 0, 0)  # pyright: ignore[reportPrivateUsage]
            assert sorted(i for a, b in ran for i in range(a, b)) == list(range(tasks))


def test_an_error_in_a_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(begin: int, *_: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("lost?")
        done.wait(0.2)

    done = threading.Event()
    monkeypatch.setattr(launching, "thread_count", lambda: 2)
    with pytest.raises(RuntimeError, match=r"lost\?"):
        launching._share_out(fails, 100, 0, 0)  # pyright: ignore[reportPrivateUsage]


def test_a_call_waits_for_no_thread_that_is_busy_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    share_out = launching._share_out  # pyright: ignore[reportPrivateUsage]
    both, release = threading.Barrier(3), threading.Event()

    def blocks(*_: int) -> None:
        if not release.is_set():
            both.wait(10)
            release.wait(10)

    monkeypatch.setattr(launching, "thread_count", lambda: 2)
    monkeypatch.setattr(launching, "_workers", launching._Workers())  # pyright: ignore[reportPrivateUsage]
    other = threading.Thread(target=share_out, args=(blocks, 100, 0, 0))
    other.start()
    both.wait(10)  # the only worker and the other caller
    ran: list[tuple[int, int]] = []
    share_out(lambda a, b, *_: ran.append((a, b)), 100, 0, 0)
    assert sum(b - a for a, b in ran) == 100
    assert not release.is_set()
    release.set()
    other.join(10)
    assert not other.is_alive()


def test_one_launch_serves_several_threads_at_once(scale: CpuExecutable) -> None:
    x = np.random.default_rng(0).standard_normal((64, 2000), np.float32)
    call = scale.prepare({"b": 64, "t": 2000}, [{"b": 2000, "t": 1}, {}, {"b": 2000, "t": 1}])
    wrong: list[int] = []

    def work(k: int) -> None:
        y = np.empty_like(x)
        for _ in range(50):
            call([x.ctypes.data, float(k), y.ctypes.data])
            if not np.array_equal(y, x * np.float32(k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_threads(scale: CpuExecutable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "thread_count", lambda: 2)
    x = np.ones((500, 1000), np.float32)
    assert np.array_equal(scaled(scale, x, 2.0), 2 * x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(scaled(scale, x, 3.0), 3 * x) else 1)
    for _ in range(500):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        threading.Event().wait(0.02)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs: it waits for threads that the fork did not copy")
    assert os.waitstatus_to_exitcode(status) == 0


def test_wrong_values_and_artifacts_are_refused(scale: CpuExecutable) -> None:
    call = scale.prepare({"b": 1, "t": 1}, [{"b": 1, "t": 1}, {}, {"b": 1, "t": 1}])
    with pytest.raises(SignatureError, match="s: expected one f32; 'x' came"):
        call([8, "x", 8])  # type: ignore[list-item]
    with pytest.raises(SignatureError, match="expected 3 values"):
        call([8, 1.0])
    with pytest.raises(ScanWeaverError, match="compiled for 'sm_90', not for the host"):
        CpuExecutable(Artifact("a", "sm_90", SCALE_RECIPE, {}, {"cubin": b""}))
    renamed = Recipe("cpu", SCALE_RECIPE.operands, (Kernel("other", (), ()),))
    with pytest.raises(ScanWeaverError, match="no kernel 'other'"):
        CpuExecutable(Artifact("a", "cpu", renamed, {}, scale.artifact.binaries))


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("f16", 0.1, 0.0999755859375),
        ("bf16", 0.1, 0.10009765625),
        ("f32", 0.1, float(np.float32(0.1))),
        ("f64", 0.1, 0.1),
        ("i1", True, 1.0),
        ("i1", False, 0.0),
        ("i8", -3, -3.0),
        ("i16", -300, -300.0),
        ("i32", -(2**31), -(2.0**31)),
        ("i64", 2**40, 2.0**40),
    ],
)
def test_scalars_arrive_in_their_own_type(dtype: str, value: float, stored: float) -> None:
    if dtype == "f64":
        convert = "%r = arith.addf %g, %zero : f64"
    elif dtype[0] in "fb":
        convert = f"%r = arith.extf %g : {dtype} to f64"
    else:
        convert = f"%r = arith.{'uitofp' if dtype == 'i1' else 'sitofp'} %g : {dtype} to f64"
    body = f"%zero = arith.constant 0.0 : f64\n{convert}"
    executable = unary(function(body, "f64", f", %g: {dtype}"), Operand("g", "input", (), dtype, scalar=True))
    x, y = np.zeros(1), np.zeros(1)
    executable.prepare({}, [{}, {}, {}])([x.ctypes.data, y.ctypes.data, value])
    assert y[0] == stored


# --- lowering ---


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "expm1", "erf", "tanh", "sqrt", "sin", "rsqrt"])
@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.7, 3.0])
def test_scalar_math_is_libms(name: str, x: float) -> None:
    body = f"%f = math.{name} %x : f64\n%r = math.fma %f, %f, %f : f64"
    executable = unary(function(body, "f64"))
    given, y = np.array([x]), np.zeros(1)
    executable.prepare({}, [{}, {}])([given.ctypes.data, y.ctypes.data])
    f = 1 / math.sqrt(x) if name == "rsqrt" else getattr(math, name)(x)
    assert y[0] == pytest.approx(f * f + f, rel=4e-16)


def test_a_vectors_fma_is_one_instruction_of_full_width() -> None:
    body = "%c = math.fma %x, %x, %x : vector<16xf32>\n%r = math.absf %c : vector<16xf32>"
    lowered = lower.lower(function(body, "vector<16xf32>"))
    assert "fmaf" not in lowered.asm
    if "avx512f" in Path("/proc/cpuinfo").read_text():
        (fused,) = [line for line in lowered.asm.splitlines() if re.search(r"\tv?fmadd", line)]
        assert "zmm" in fused


def test_one_entry_a_kernel_and_every_stage_kept() -> None:
    lowered = lower.lower(SCALE)
    assert re.findall(r"^define void @([\w.]+)", lowered.llvm, re.MULTILINE) == ["scale.packed"]
    assert "scale.packed:" in lowered.asm
    assert lowered.library.startswith(b"\x7fELF")
    assert set(lowered.tools) == set(lowered.milliseconds) == {"mlir-opt", "mlir-translate", "opt", "llc", "cc"}


@pytest.mark.parametrize(
    ("wrong", "tool"), [("%r = math.fmaaa %x : f32", "mlir-opt"), ("%r = scan.thing %x : f32", "mlir-opt")]
)
def test_what_the_tools_do_not_know_is_refused(wrong: str, tool: str) -> None:
    with pytest.raises(ToolchainError, match=rf"{tool} exited with 1(.|\n)*To repeat: "):
        lower.to_shared_library(function(wrong, "f32"))


def test_no_c_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert toolchain.look("cc") is None
    with pytest.raises(ToolchainError, match=r"cc was not found\. Install: a C compiler"):
        lower.to_shared_library(SCALE)


def test_two_libraries_live_side_by_side() -> None:
    twice, thrice = (
        unary(function(f"%c = arith.constant {k}.0 : f32\n%r = arith.mulf %x, %c : f32", "f32")) for k in (2, 3)
    )
    x, y = ctypes.c_float(5), ctypes.c_float()
    for executable, expected in ((twice, 10), (thrice, 15), (twice, 10)):
        executable.prepare({}, [{}, {}])([ctypes.addressof(x), ctypes.addressof(y)])
        assert y.value == expected
