"""Hand-written kernels on a real GPU, through the driver, over PyTorch's tensors."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from scanweaver.errors import DriverError, ScanWeaverError, SignatureError
from scanweaver.gpu_exec import driver, lower
from scanweaver.gpu_exec.abi import Kernel, Operand, Param, Recipe
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.launch import GpuExecutable

if TYPE_CHECKING:
    import torch
else:
    torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


def kernel(name: str, parameters: str, body: str, block: int = 128, globals_: str = "") -> str:
    """A module with one kernel; `%tx` is the thread and `%i` the thread over all blocks, both i64."""
    return f"""
    module {{ gpu.module @kernels {{
      {globals_}
      gpu.func @{name}({parameters}) kernel attributes {{known_block_size = array<i32: {block}, 1, 1>}} {{
        %thread = gpu.thread_id x
        %block = gpu.block_id x
        %tx = arith.index_cast %thread : index to i64
        %bx = arith.index_cast %block : index to i64
        %width = arith.constant {block} : i64
        %first = arith.muli %bx, %width : i64
        %i = arith.addi %first, %tx : i64
        {body}
        gpu.return
      }} }} }}"""


# y[i] = a * x[i * sx] + y[i] for i < t
SAXPY = kernel(
    "saxpy",
    "%a: f32, %y: !llvm.ptr<1>, %t: i64, %x: !llvm.ptr<1>, %sx: i64",
    """
    %inside = arith.cmpi slt, %i, %t : i64
    scf.if %inside {
      %xi = arith.muli %i, %sx : i64
      %px = llvm.getelementptr %x[%xi] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %py = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %u = llvm.load %px : !llvm.ptr<1> -> f32
      %v = llvm.load %py : !llvm.ptr<1> -> f32
      %r = math.fma %a, %u, %v : f32
      llvm.store %r, %py : f32, !llvm.ptr<1>
    }""",
)
SAXPY_OPERANDS = (
    Operand("a", "input", (), "f32", scalar=True),
    Operand("x", "input", ("t",), "f32"),
    Operand("y", "output", ("t",), "f32", contiguous="t"),
)
SAXPY_PARAMS = (
    Param("scalar", 0),
    Param("pointer", 2),
    Param("size", axis="t"),
    Param("pointer", 1),
    Param("stride", 1, "t"),
)


def chip(index: int = 0) -> str:
    return "sm_{}{}".format(*torch.cuda.get_device_capability(index))


def artifact(text: str, recipe: Recipe, *, cubin: bool = True) -> Artifact:
    made = Artifact.from_bytes(lower.to_artifact("test", {"gpu": text}, recipe).to_bytes())
    if not cubin:
        made.binaries.clear()
    return made


def saxpy(target: str | None = None, *, cubin: bool = True) -> Artifact:
    saxpy_kernel = Kernel("saxpy", SAXPY_PARAMS, rows=(), tiled="t", tile=128, block=128)
    return artifact(SAXPY, Recipe(target or chip(), SAXPY_OPERANDS, (saxpy_kernel,)), cubin=cubin)


def one_kernel(text: str, name: str, dtype: str, *, block: int = 128, shared: int = 0) -> GpuExecutable:
    """`name(x, y)` over one block."""
    operands = (Operand("x", "input", ("t",), dtype), Operand("y", "output", ("t",), dtype))
    params = (Param("pointer", 0), Param("pointer", 1))
    recipe = Recipe(chip(), operands, (Kernel(name, params, rows=(), block=block, shared_bytes=shared),))
    return GpuExecutable(artifact(text, recipe), 0)


def run_saxpy(executable: GpuExecutable, a: float, x: torch.Tensor, y: torch.Tensor, stream: int = 0) -> None:
    call = executable.prepare({"t": x.numel()}, [{}, {"t": x.stride(0)}, {"t": 1}])
    call([a, x.data_ptr(), y.data_ptr()], stream or torch.cuda.current_stream(x.device).cuda_stream)


@pytest.mark.parametrize("cubin", [True, False], ids=["cubin", "ptx"])
@pytest.mark.parametrize("t", [0, 1, 127, 128, 129, 1_000_003])
def test_saxpy(t: int, cubin: bool) -> None:
    x, y = torch.randn(t, device="cuda"), torch.randn(t, device="cuda")
    expected = torch.addcmul(y.double(), x.double(), torch.tensor(0.3, device="cuda").double()).float()
    run_saxpy(GpuExecutable(saxpy(cubin=cubin), 0), 0.3, x, y)
    assert torch.equal(y, expected)  # one fma rounds as float64 rounded once does, but for double rounding


def test_strides_and_offsets() -> None:
    whole = torch.randn(3001, device="cuda")
    executable = GpuExecutable(saxpy(), 0)
    for x in (whole[1::3], whole[5:6].expand(900)):
        y = torch.zeros(x.shape, device="cuda")
        run_saxpy(executable, 2.0, x, y)
        assert torch.equal(y, 2 * x)


def test_ptx_for_an_older_chip_runs_on_a_newer_one() -> None:
    if torch.cuda.get_device_capability(0)[0] <= 8:
        pytest.skip("this GPU is of the oldest chip that we compile for")
    x, y = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    run_saxpy(GpuExecutable(saxpy("sm_80"), 0), 2.0, x, y)
    assert torch.equal(y, 2 * x)


def test_another_chips_artifact_is_refused() -> None:
    other = "sm_90a" if chip() != "sm_90" else "sm_100a"
    recipe = Recipe(other, SAXPY_OPERANDS, ())
    with pytest.raises(DriverError, match=rf"compiled for {other}; cuda:0 \(.*\) is {chip()}"):
        GpuExecutable(Artifact("a", other, recipe, {"ptx": ""}), 0)
    with pytest.raises(ScanWeaverError, match="'cpu', which is no GPU"):
        GpuExecutable(Artifact("a", "cpu", recipe, {}), 0)


def test_a_warp_shuffle() -> None:
    body = """
    %px = llvm.getelementptr %x[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %py = llvm.getelementptr %y[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %s0 = llvm.load %px : !llvm.ptr<1> -> f32
    %c32 = arith.constant 32 : i32
    """
    for k in range(5):
        body += f"""
        %o{k} = arith.constant {1 << k} : i32
        %u{k}, %ok{k} = gpu.shuffle up %s{k}, %o{k}, %c32 : f32
        %a{k} = arith.addf %s{k}, %u{k} : f32
        %s{k + 1} = arith.select %ok{k}, %a{k}, %s{k} : f32"""
    body += "\nllvm.store %s5, %py : f32, !llvm.ptr<1>"
    x = torch.randint(-50, 50, (128,), device="cuda").float()
    y = torch.empty_like(x)
    executable = one_kernel(kernel("scan", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>", body), "scan", "f32")
    executable.prepare({"t": 128}, [{}, {}])([x.data_ptr(), y.data_ptr()])
    torch.cuda.synchronize()
    assert torch.equal(y.view(4, 32), x.view(4, 32).cumsum(1))


def test_float64_exp_from_libdevice() -> None:
    body = """
    %px = llvm.getelementptr %x[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
    %py = llvm.getelementptr %y[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
    %u = llvm.load %px : !llvm.ptr<1> -> f64
    %e = math.exp %u : f64
    llvm.store %e, %py : f64, !llvm.ptr<1>"""
    x = torch.linspace(-745, 710, 128, dtype=torch.float64, device="cuda")
    y = torch.empty_like(x)
    executable = one_kernel(kernel("exp", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>", body), "exp", "f64")
    executable.prepare({"t": 128}, [{}, {}])([x.data_ptr(), y.data_ptr()])
    torch.cuda.synchronize()
    assert torch.allclose(y.cpu(), x.cpu().exp(), rtol=4e-16, atol=5e-324)


def reverses(shared: int) -> GpuExecutable:
    """y = x backwards over 128 elements at the end of `shared` bytes of dynamic shared memory."""
    body = f"""
    %buffer = llvm.mlir.addressof @buffer : !llvm.ptr<3>
    %tail = llvm.getelementptr %buffer[{shared // 4 * 4 - 512}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
    %last = arith.constant 127 : i64
    %back = arith.subi %last, %tx : i64
    %px = llvm.getelementptr %x[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %py = llvm.getelementptr %y[%tx] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %to = llvm.getelementptr %tail[%tx] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
    %from = llvm.getelementptr %tail[%back] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
    %u = llvm.load %px : !llvm.ptr<1> -> f32
    llvm.store %u, %to : f32, !llvm.ptr<3>
    gpu.barrier
    %v = llvm.load %from : !llvm.ptr<3> -> f32
    llvm.store %v, %py : f32, !llvm.ptr<1>"""
    buffer = "llvm.mlir.global external @buffer() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>"
    text = kernel("reverse", "%x: !llvm.ptr<1>, %y: !llvm.ptr<1>", body, globals_=buffer)
    return one_kernel(text, "reverse", "f32", shared=shared)


@pytest.mark.parametrize("shared", [512, 49151, 49152, 49153, "limit", "above"])
def test_shared_memory_up_to_the_devices_limit(shared: int | str) -> None:
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    if shared == "above":
        with pytest.raises(DriverError, match=f"reverse: a block needs {limit + 1} bytes .* has {limit}"):
            reverses(limit + 1)
        return
    x = torch.randn(128, device="cuda")
    y = torch.empty_like(x)
    launch = reverses(limit if shared == "limit" else int(shared)).prepare({"t": 128}, [{}, {}])
    launch([x.data_ptr(), y.data_ptr()], torch.cuda.current_stream().cuda_stream)
    assert torch.equal(y, x.flip(0))


def test_a_grid_past_the_limit_is_refused() -> None:
    executable = GpuExecutable(saxpy(), 0)
    with pytest.raises(DriverError, match=r"saxpy: .* need a grid of 2147483648 blocks; .* takes 2147483647"):
        executable.prepare({"t": 2**38}, [{}, {"t": 1}, {"t": 1}])
    executable.prepare({"t": 2**38 - 128}, [{}, {"t": 1}, {"t": 1}])


def test_a_side_stream_keeps_its_order() -> None:
    executable = GpuExecutable(saxpy(), 0)
    n = 1 << 20
    x, y = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
    call = executable.prepare({"t": n}, [{}, {"t": 1}, {"t": 1}])
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    wrong = 0
    for k in range(200):
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000)  # the input is written late, on this stream
            x.fill_(k)
            y.zero_()
            call([1.0, x.data_ptr(), y.data_ptr()], side.cuda_stream)
            wrong += int((y != k).sum())
    assert wrong == 0


def test_another_current_device_and_none() -> None:
    """A thread that never touched CUDA has no current context; the launch brings its own and leaves none."""
    executable = GpuExecutable(saxpy(), 0)
    x, y = torch.randn(500, device="cuda"), torch.zeros(500, device="cuda")
    call = executable.prepare({"t": 500}, [{}, {"t": 1}, {"t": 1}])
    stream = torch.cuda.current_stream().cuda_stream
    left: list[Any] = []

    def work() -> None:
        call([2.0, x.data_ptr(), y.data_ptr()], stream)
        left.append(int(driver.check(executable.device.api.cuCtxGetCurrent(), "cuCtxGetCurrent()")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert left == [0]
    assert torch.equal(y, 2 * x)


def test_a_second_device_while_the_first_is_current() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    made = saxpy()
    executables = [GpuExecutable(made, index) for index in (0, 1)]
    with torch.cuda.device(0):
        for index in (1, 0, 1):
            x = torch.randn(1000, device=f"cuda:{index}")
            y = torch.zeros(1000, device=f"cuda:{index}")
            run_saxpy(executables[index], 3.0, x, y)
            assert torch.equal(y, 3 * x)
            assert torch.cuda.current_device() == 0


def test_one_launch_from_several_threads() -> None:
    executable = GpuExecutable(saxpy(), 0)
    x = torch.randn(10_000, device="cuda")
    call = executable.prepare({"t": 10_000}, [{}, {"t": 1}, {"t": 1}])
    ys = [torch.zeros(10_000, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()

    def work(k: int) -> None:
        stream = torch.cuda.Stream()
        for _ in range(500):
            call([float(k), x.data_ptr(), ys[k].data_ptr()], stream.cuda_stream)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    for k, y in enumerate(ys):
        assert torch.allclose(y, 500 * k * x, rtol=1e-4, atol=1e-4)


def test_a_captured_graph_outlives_the_executable() -> None:
    x, y = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    executable = GpuExecutable(saxpy(), 0)
    run_saxpy(executable, 1.0, x, y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run_saxpy(executable, 2.0, x, y)
    del executable
    y.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.allclose(y, 6 * x)


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("f16", 0.1, 0.0999755859375),
        ("bf16", 0.1, 0.10009765625),
        ("f32", 0.1, 0.10000000149011612),
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
        convert = "%zero = arith.constant 0.0 : f64\n%r = arith.addf %g, %zero : f64"
    elif dtype[0] in "fb":
        convert = f"%r = arith.extf %g : {dtype} to f64"
    else:
        convert = f"%r = arith.{'uitofp' if dtype == 'i1' else 'sitofp'} %g : {dtype} to f64"
    text = kernel("put", f"%g: {dtype}, %y: !llvm.ptr<1>", f"{convert}\nllvm.store %r, %y : f64, !llvm.ptr<1>", 1)
    operands = (Operand("g", "input", (), dtype, scalar=True), Operand("y", "output", (), "f64"))
    recipe = Recipe(chip(), operands, (Kernel("put", (Param("scalar", 0), Param("pointer", 1)), ()),))
    y = torch.zeros((), dtype=torch.float64, device="cuda")
    GpuExecutable(artifact(text, recipe), 0).prepare({}, [{}, {}])([value, y.data_ptr()])
    torch.cuda.synchronize()
    assert y.item() == stored


def test_the_drivers_words_are_passed_on() -> None:
    device = driver.device(0)
    with pytest.raises(DriverError, match=r"cuModuleLoadDataEx\((.|\n)*CUDA_ERROR_INVALID_PTX \(218\): "):
        device.load(b".version 8.0\n.target sm_80\n.address_size 64\nnonsense")
    module = device.load(saxpy().stages["ptx"].encode())
    with pytest.raises(DriverError, match=r"cuModuleGetFunction\(gone\): CUDA_ERROR_NOT_FOUND \(500\): "):
        device.function(module, "gone", 0)
    with pytest.raises(DriverError, match=re.escape("cuDeviceGet(99): CUDA_ERROR_INVALID_DEVICE (101): ")):
        driver.device(99)
    too_wide = Kernel("saxpy", SAXPY_PARAMS, rows=(), tiled="t", tile=128, block=2048)
    wide = saxpy()
    wide.recipe = Recipe(wide.target, SAXPY_OPERANDS, (too_wide,))
    y = torch.zeros(1, device="cuda")
    with pytest.raises(DriverError, match=r"cuLaunchKernel\(saxpy, 1 blocks of 2048\) on cuda:0"):
        run_saxpy(GpuExecutable(wide, 0), 1.0, y, y)


def test_wrong_values_are_named() -> None:
    call = GpuExecutable(saxpy(), 0).prepare({"t": 1}, [{}, {"t": 1}, {"t": 1}])
    with pytest.raises(SignatureError, match="a: expected one f32; 'x' came"):
        call(["x", 8, 8])  # type: ignore[list-item]


def test_a_launch_is_quick() -> None:
    from time import perf_counter

    x, y = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda")
    call = GpuExecutable(saxpy(), 0).prepare({"t": 1}, [{}, {"t": 1}, {"t": 1}])
    values, stream = [1.0, x.data_ptr(), y.data_ptr()], torch.cuda.current_stream().cuda_stream
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(200):
            call(values, stream)
        best = min(best, (perf_counter() - start) / 200)
    print(f"launch: {best * 1e6:.2f} µs")
    assert best < 12e-6  # 6 µs is the aim; a busy machine is no failure
