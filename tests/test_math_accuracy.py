"""Scalar functions against higher precision over their whole range, within the bounds that docs/numerics.md states."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, llvm, math, scf, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

import scanweaver as sw
from scanweaver.cpu_exec.host import has_avx512
from scanweaver.cpu_exec.lower import to_shared_library
from scanweaver.dialects.gpu import Gpu
from scanweaver.dialects.recurrence import GenericOp
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import trace_step
from scanweaver.gpu_exec.lower import lower, to_ptx
from scanweaver.transforms.fuse_multiply_add import FuseMultiplyAddPass
from scanweaver.transforms.lower_math_for_cpu import LowerMathForCpuPass
from scanweaver.transforms.lower_math_for_gpu import LowerMathForGpuPass

COLUMNS = [(dtype, device) for dtype in ("float32", "float64") for device in ("CPU", "GPU")]
LONG = np.longdouble
wide_enough = np.finfo(LONG).nmant > np.finfo(np.float64).nmant  # x86's long double has 11 bits more


@dataclass(frozen=True)
class Bound:
    ulps: float
    how: str


def stated_bounds() -> dict[tuple[str, str, str], Bound]:
    """(function, dtype, device) → what the table in docs/numerics.md says."""
    text = (Path(__file__).parents[1] / "docs" / "numerics.md").read_text()
    assert "| function | float32 CPU | float32 GPU | float64 CPU | float64 GPU |" in text
    bounds: dict[tuple[str, str, str], Bound] = {}
    for line in re.findall(r"^\| (\w+ \| \d.*) \|$", text, re.MULTILINE):
        name, *cells = line.split(" | ")
        for column, cell in zip(COLUMNS, cells, strict=True):
            ulps, how = cell.split(" ")
            bounds[name, *column] = Bound(float(ulps), how)
    return bounds


BOUNDS = stated_bounds()
COMPOSED = sorted({name for (name, _, _), bound in BOUNDS.items() if bound.how == "composed"})
FUNCTIONS = sorted({name for name, _, _ in BOUNDS}.difference(COMPOSED))


def test_the_table_is_read() -> None:
    assert len(FUNCTIONS) == 13 and COMPOSED == ["logaddexp", "sigmoid", "silu", "softplus"]
    assert BOUNDS["exp", "float32", "GPU"] == Bound(2, "ex2")


# The oracle


ORACLES: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "erf": special.erf,
    "powf": np.power,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "logaddexp": np.logaddexp,
}


def exact(function: str, *arguments: np.ndarray) -> np.ndarray:
    """The function in a precision that makes its own error vanish beside the bounds."""
    if arguments[0].dtype == np.float32:
        higher = [x.astype(np.float64) for x in arguments]
    elif function == "erf":
        mpmath = pytest.importorskip("mpmath")
        with mpmath.workdps(40):
            return np.array([LONG(mpmath.nstr(mpmath.erf(mpmath.mpf(float(x))), 25)) for x in arguments[0]])
    else:
        higher = [x.astype(LONG) for x in arguments]
    with np.errstate(all="ignore"):
        return ORACLES[function](*higher)


def ulps(got: np.ndarray, want: np.ndarray, beside: np.ndarray | float = 0.0) -> np.ndarray:
    """|got - want| in units in the last place of `want`, or of `beside` if larger; infinite where only one is NaN.

    The power of two beyond the largest number stands for infinity, so that overflow has to come in the right place.
    """
    info = np.finfo(got.dtype)
    limit = LONG(2) ** int(info.maxexp)
    only_one_nan = np.isnan(got) != np.isnan(want)
    got, want = (
        np.clip(np.nan_to_num(x.astype(LONG), nan=0.0, posinf=limit, neginf=-limit), -limit, limit) for x in (got, want)
    )
    unit_of = np.maximum(np.abs(want), np.nan_to_num(np.abs(beside), nan=0.0, posinf=0.0))
    exponent = np.clip(np.frexp(unit_of)[1] - 1, int(info.minexp), int(info.maxexp) - 1)
    error = np.abs(got - want) / np.ldexp(LONG(1), exponent - info.nmant)
    return np.where(only_one_nan, np.inf, error).astype(np.float64)


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        (1.0, 1 + 2.0**-24, 0.5),
        (np.float32(np.inf), 2.0**128 - 2.0**103, 0.5),
        (np.float32(np.inf), 1e300, 0),
        (np.float32(3.4028235e38), 1e300, 1),
        (0.0, 2.0**-149, 1),
        (1.0, np.nan, np.inf),
        (np.nan, 1.0, np.inf),
        (np.nan, np.nan, 0),
        (np.float32(-np.inf), np.inf, 2.0**25),
    ],
)
def test_ulps_are_counted_right(got: float, want: float, error: float) -> None:
    assert ulps(np.array([got], np.float32), np.array([want]))[0] == error


@cache
def samples(dtype: str, count: int) -> np.ndarray:
    """Random bit patterns, denormals and NaNs among them; then where functions bend, saturate and overflow."""
    rng = np.random.default_rng(20)
    real = np.dtype(dtype).type
    info = np.finfo(real)
    whole = np.dtype(f"uint{info.bits}")
    special_values = np.array([0, np.inf, np.nan, 1, info.max, info.tiny, info.smallest_subnormal], dtype)
    powers = np.ldexp(real(1), np.arange(int(info.minexp) - info.nmant, int(info.maxexp)))
    with np.errstate(over="ignore"):
        points = np.concatenate([special_values, powers, np.arange(1, 1200)]).astype(dtype)
        near = np.concatenate([points, np.nextafter(points, real(np.inf)), np.nextafter(points, real(-np.inf))])
    largest = 1.2 * float(np.log(info.max))
    parts = [
        rng.integers(0, np.iinfo(whole).max, count, dtype=whole, endpoint=True).view(dtype),
        rng.uniform(-largest, largest, count),
        rng.uniform(-2, 2, count),
        1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-20, 0, count),
        2.0 ** rng.uniform(-30, 10, count),
        near,
        -near,
    ]
    flat = np.concatenate([part.astype(dtype) for part in parts])
    flat = np.where(np.isnan(flat), np.copysign(real(np.nan), flat), flat)  # quiet ones only
    return np.resize(flat, -(-flat.size // 256) * 256)  # whole vectors and whole blocks


def arguments(function: str, dtype: str, count: int) -> list[np.ndarray]:
    if function == "erf" and dtype == "float64":
        count //= 100  # its oracle is slow
    x = samples(dtype, count)
    if function == "logaddexp":
        return pairs(x)
    if function != "powf":
        return [x]
    rng = np.random.default_rng(21)
    return [
        x,
        np.where(rng.random(x.size) < 0.5, rng.uniform(-40, 40, x.size), rng.integers(-5, 6, x.size)).astype(dtype),
    ]


def pairs(x: np.ndarray) -> list[np.ndarray]:
    """x and what may stand beside it: anything, something near, itself; what cancels; where the larger is near 0."""
    rng = np.random.default_rng(22)
    near = rng.uniform(-40, 0, x.size)
    tiny = rng.choice([-1, 1], x.size) * 2.0 ** rng.uniform(-60, 0, x.size)
    p = rng.uniform(0, 1, x.size)
    largest = np.finfo(x.dtype).max
    ends = np.array([0, -0.0, 1, -1, largest, -largest, np.inf, -np.inf, np.nan])
    columns = [
        (x, rng.permutation(x)),
        (x, x + near),
        (x, x),
        (np.log(p), np.log1p(-p)),
        (tiny, near),
        tuple(np.resize(part, x.size) for part in (np.repeat(ends, ends.size), np.tile(ends, ends.size))),
    ]
    with np.errstate(over="ignore"):
        return [np.stack(column).astype(x.dtype).ravel() for column in zip(*columns, strict=True)]


def check(function: str, dtype: str, device: str, xs: list[np.ndarray], got: np.ndarray) -> None:
    bound = BOUNDS[function, dtype, device]
    want = exact(function, *xs)
    beside = np.maximum(*xs) if function == "logaddexp" else 0.0
    errors = ulps(got, want, beside)
    worst = int(np.argmax(errors))
    told = f"{function}({', '.join(repr(x[worst]) for x in xs)}) = {got[worst]!r}, exactly {want[worst]!r}"
    assert errors[worst] <= bound.ulps, f"{errors[worst]:.3g} ulp, stated are {bound.ulps}: {told}"
    zeros = (want == 0) & (beside == 0)
    if bound.how in ("vector", "ex2", "composed"):
        assert np.array_equal(np.signbit(got[zeros]), np.signbit(want[zeros])), f"{function}: sign of zero"


# The CPU: compiled, over scalars, whole vectors, and a width that no register has


def parse(text: str) -> tuple[Context, ModuleOp]:
    context = Context()
    for dialect in (arith.Arith, builtin.Builtin, func.Func, llvm.LLVM, math.Math, scf.Scf, vector.Vector, Gpu):
        context.load_dialect(dialect)
    return context, Parser(context, text).parse_module()


def cpu_kernel(function: str, dtype: str, width: int) -> str:
    element = dtype.replace("float", "f")
    type_ = element if width == 1 else f"vector<{width}x{element}>"
    inputs = 2 if function == "powf" else 1
    loads = "".join(
        f"""
    %p{k} = llvm.getelementptr %src{k}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    %x{k} = llvm.load %p{k} {{alignment = 4 : i64}} : !llvm.ptr -> {type_}"""
        for k in range(inputs)
    )
    parameters = ", ".join(["%dst: !llvm.ptr", "%n: i64", *(f"%src{k}: !llvm.ptr" for k in range(inputs))])
    return f"""
func.func @{function}_{dtype}_{width}({parameters}) {{
  %zero = arith.constant 0 : i64
  %step = arith.constant {width} : i64
  scf.for %i = %zero to %n step %step : i64 {{{loads}
    %y = math.{function} {", ".join(f"%x{k}" for k in range(inputs))} : {type_}
    %q = llvm.getelementptr %dst[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    llvm.store %y, %q {{alignment = 4 : i64}} : {type_}, !llvm.ptr
  }}
  func.return
}}
"""


CPU_CASES = [
    (function, dtype, width)
    for function in FUNCTIONS
    for dtype, widths in (("float32", (1, 4, 8, 16)), ("float64", (1, 2, 4, 8)))
    for width in widths
]


@cache
def cpu_library(avx512: bool) -> ctypes.CDLL:
    context, module = parse("".join(cpu_kernel(*case) for case in CPU_CASES))
    LowerMathForCpuPass(avx512).apply(context, module)
    module.verify()
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        Path(file.name).write_bytes(to_shared_library(str(module)))
        return ctypes.CDLL(file.name)


def run_on_cpu(function: str, dtype: str, width: int, xs: list[np.ndarray], avx512: bool) -> np.ndarray:
    got = np.empty_like(xs[0])
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in xs]
    entry = getattr(cpu_library(avx512), f"{function}_{dtype}_{width}")
    entry(ctypes.c_void_p(got.ctypes.data), ctypes.c_int64(got.size), *pointers)
    return got


@pytest.mark.parametrize(("function", "dtype", "width"), CPU_CASES)
def test_cpu(function: str, dtype: str, width: int) -> None:
    if dtype == "float64" and not wide_enough:
        pytest.skip("long double is no wider than double here")
    xs = arguments(function, dtype, 50_000)
    check(function, dtype, "CPU", xs, run_on_cpu(function, dtype, width, xs, avx512=False))


@pytest.mark.skipif(not has_avx512(), reason="the host has no AVX-512")
@pytest.mark.parametrize(("dtype", "widths"), [("float32", (4, 8, 16)), ("float64", (2, 4, 8))])
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_instructions_for_powers_of_two_change_no_bit(function: str, dtype: str, widths: tuple[int, ...]) -> None:
    xs = arguments(function, dtype, 50_000)
    scalar = run_on_cpu(function, dtype, 1, xs, avx512=True)
    for width in widths:
        for avx512 in (False, True):
            assert np.array_equal(run_on_cpu(function, dtype, width, xs, avx512), scalar, equal_nan=True)


# What the front end composes of them, in a kernel


def composed(function: str) -> tuple[Callable[..., Any], str]:
    """A step and its signature."""
    names = ("x", "y") if function == "logaddexp" else ("x",)
    inputs = ", ".join(f"{name}[b t]" for name in names)
    return lambda h, *xs: (h, getattr(sw, function)(*xs)), f"h[]; {inputs} -> result[b t]"


def run_composed(function: str, xs: list[np.ndarray], device: str) -> np.ndarray:
    step, text = composed(function)
    result = sw.recurrence(text)(step)(*(torch.from_numpy(x.reshape(-1, 256)).to(device) for x in xs))
    return result.cpu().numpy().ravel()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", COMPOSED)
def test_composed(function: str, dtype: str, device: str) -> None:
    if dtype == "float64" and not wide_enough:
        pytest.skip("long double is no wider than double here")
    xs = arguments(function, dtype, 50_000)
    check(function, dtype, "CPU" if device == "cpu" else "GPU", xs, run_composed(function, xs, device))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("dtype", "unit"), [("float32", 2.0**-24), ("float64", 2.0**-53)])
def test_logsumexp(dtype: str, unit: float, device: str) -> None:
    """What docs/numerics.md says of it."""
    if dtype == "float64" and not wide_enough:
        pytest.skip("long double is no wider than double here")
    rng, n = np.random.default_rng(23), 6
    x = rng.uniform(-1, 1, (256, n, 256)) * 10.0 ** rng.uniform(-3, 3, (256, 1, 256)) - rng.uniform(0, 3, (256, 1, 256))
    x = x.astype(dtype)
    x[0, 0], x[1] = np.inf, -np.inf
    run = sw.recurrence("h[]; x[b n t] -> y[b t]")(lambda h, x: (h, sw.logsumexp(x, "n")))
    got = run(torch.from_numpy(x).to(device)).cpu().numpy()
    assert np.all(got[0] == np.inf) and np.all(got[1] == -np.inf)
    x, got = x[2:].astype(LONG), got[2:]
    top = x.max(1)
    want = top + np.log(np.exp(x - top[:, None]).sum(1))
    scale = np.maximum(1, np.maximum(np.abs(want), np.abs(top)))
    assert np.max(np.abs(got - want) / scale) <= (n + 16) * unit


# The GPU's expansions of float32, executed by NumPy: what the instructions' definitions say, before any GPU has a word


def ftz(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(np.float32)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return (a.astype(LONG) * b.astype(LONG) + c.astype(LONG)).astype(np.float32)


def fma_sat(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.clip(fma(a, b, c), 0, 1), nan=0.0)


def ex2(x: np.ndarray) -> np.ndarray:
    """Right to within 2^-22.5, as the hardware is: errors of both signs stand in for those of its table."""
    error = np.where(x.view(np.uint32) & 1, 2.0**-22.5, -(2.0**-22.5))
    return (np.exp2(x.astype(np.float64)) * (1 + error)).astype(np.float32)


INTRINSICS: dict[str, Callable[..., np.ndarray]] = {
    "llvm.nvvm.fma.rn.sat.f": fma_sat,
    "llvm.nvvm.ex2.approx.ftz.f32": lambda x: ftz(ex2(ftz(x))),
    "llvm.nvvm.ex2.approx.f32": ex2,
    "llvm.fma.f32": fma,
    "llvm.fabs.f32": np.abs,
    "llvm.copysign.f32": np.copysign,
}
ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.select": np.where,
}


FLOAT_COMPARISONS: dict[int, Callable[..., np.ndarray]] = {
    arith.CMPF_COMPARISON_OPERATIONS.index("olt"): np.less,
    arith.CMPF_COMPARISON_OPERATIONS.index("ogt"): np.greater,
}


def evaluate(op: Operation, operands: list[np.ndarray]) -> np.ndarray:
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, builtin.FloatAttr | builtin.IntegerAttr)
        return np.array(op.value.value.data, np.float32 if op.result.type == builtin.f32 else np.int32)
    if isinstance(op, arith.CmpfOp):
        return FLOAT_COMPARISONS[op.predicate.value.data](*operands)
    if isinstance(op, arith.CmpiOp):
        assert arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data] == "slt"
        return np.less(*operands)
    if isinstance(op, arith.BitcastOp):
        return np.asarray(operands[0]).view(np.float32 if op.result.type == builtin.f32 else np.int32)
    if isinstance(op, llvm.CallIntrinsicOp):
        return INTRINSICS[op.intrin.data](*operands)
    return ARITHMETIC[op.name](*operands)


def emulate(function: str, x: np.ndarray, how: LowerMathForGpuPass) -> np.ndarray:
    text = f"func.func @f(%x: f32) -> f32 {{ %y = math.{function} %x : f32 func.return %y : f32 }}"
    context, module = parse(text)
    how.apply(context, module)
    module.verify()
    (function_op,) = module.ops
    body = function_op.regions[0].block
    (result,) = interpret(body.ops, {body.args[0]: x})
    return result


def interpret(ops: Iterable[Operation], values: dict[Any, np.ndarray]) -> list[np.ndarray]:
    """The operands of the terminator."""
    with np.errstate(all="ignore"):
        for op in ops:
            operands = [values[operand] for operand in op.operands]
            if not op.results:
                return operands
            values[op.results[0]] = evaluate(op, operands)
    raise AssertionError("no terminator")


EMULATED = sorted(name for name in FUNCTIONS if BOUNDS[name, "float32", "GPU"].how in ("vector", "ex2"))


@pytest.mark.parametrize("function", EMULATED)
def test_gpu_expansion_emulated(function: str) -> None:
    x = samples("float32", 50_000)
    got = emulate(function, x, LowerMathForGpuPass())
    if BOUNDS[function, "float32", "GPU"].how == "vector":
        check(function, "float32", "GPU", [x], got)
        return
    # What 2^-22.5 makes of a result near the top of its binade, and the reduction's two roundings, of 2^-25 each where
    # r is near 1, where e^r's slope makes 0.7 units of each.
    errors = ulps(got, exact(function, x))
    assert errors.max() <= 2**1.5 + 1.4, x[np.argmax(errors)]


@pytest.mark.parametrize("function", COMPOSED)
def test_composed_for_the_gpu_emulated(function: str) -> None:
    xs = arguments(function, "float32", 50_000)
    step, text = composed(function)
    parsed = parse_signature(text)
    given = Specialization(tuple(Given(array.name, array.axes, "f32") for array in parsed.inputs), (None,))
    module = trace_step(step, parsed, given)
    for module_pass in (FuseMultiplyAddPass(), LowerMathForGpuPass()):
        module_pass.apply(Context(), module)
    (generic,) = (op for op in module.walk() if isinstance(op, GenericOp))
    around, body = generic.parent_block(), generic.body.block
    assert around is not None
    constants = [op for op in around.ops if isinstance(op, arith.ConstantOp)]
    given_values = dict(zip(body.args, [np.zeros(1, np.float32), *xs], strict=True))
    _, got = interpret([*constants, *body.ops], given_values)
    check(function, "float32", "GPU", xs, got)


def check_fast_exp(x: np.ndarray, got: np.ndarray) -> None:
    """What docs/numerics.md says of exp=fast."""
    want = exact("exp", x)
    assert np.array_equal(np.isnan(want), np.isnan(got))
    normal = (want >= np.finfo(np.float32).tiny) & (want < np.finfo(np.float32).max)
    relative = np.abs(got[normal] / want[normal] - 1)
    assert np.all(relative <= (1.25 * np.abs(x[normal].astype(np.float64)) + 4) * 2.0**-24)
    assert np.all(got[want < 0.99 * np.finfo(np.float32).tiny] == 0)
    assert np.all(np.isinf(got[want > 2.0**128 * 1.0001]))
    decay = x <= 0
    assert np.all(np.abs(got[decay] - want[decay]) <= 2.0**-22 + 2.0**-25)


def test_fast_exp_emulated() -> None:
    x = samples("float32", 50_000)
    check_fast_exp(x, emulate("exp", x, LowerMathForGpuPass(exp="fast")))


# The GPU itself


def gpu_module(function: str, dtype: str, how: LowerMathForGpuPass) -> str:
    element = dtype.replace("float", "f")
    inputs = 2 if function == "powf" else 1
    loads = "".join(
        f"""
    %p{k} = llvm.getelementptr %src{k}[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {element}
    %x{k} = llvm.load %p{k} : !llvm.ptr<1> -> {element}"""
        for k in range(inputs)
    )
    text = f"""
gpu.module @kernels {{
  gpu.func @kernel(%dst: !llvm.ptr<1>, {", ".join(f"%src{k}: !llvm.ptr<1>" for k in range(inputs))}) kernel {{
    %size = arith.constant 256 : index
    %block = gpu.block_id x
    %thread = gpu.thread_id x
    %first = arith.muli %block, %size : index
    %i = arith.addi %first, %thread : index
    %j = arith.index_cast %i : index to i64{loads}
    %y = math.{function} {", ".join(f"%x{k}" for k in range(inputs))} : {element}
    %q = llvm.getelementptr %dst[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, {element}
    llvm.store %y, %q : {element}, !llvm.ptr<1>
    gpu.return
  }}
}}
"""
    context, module = parse(text)
    how.apply(context, module)
    module.verify()
    return str(module)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gpu_kernel_calls_nothing(function: str, dtype: str) -> None:
    ptx = to_ptx(gpu_module(function, dtype, LowerMathForGpuPass()), "sm_90")
    assert ".extern" not in ptx
    assert ptx.count("ex2.approx") >= (BOUNDS[function, dtype, "GPU"].how == "ex2")


def run_on_gpu(function: str, dtype: str, xs: list[np.ndarray], how: LowerMathForGpuPass) -> np.ndarray:
    from scanweaver.gpu_exec.driver import check as checked
    from scanweaver.gpu_exec.driver import device

    gpu = device(torch.cuda.current_device())
    lowered = lower(gpu_module(function, dtype, how), f"sm_{''.join(map(str, gpu.capability))}")
    kernel = gpu.function(gpu.load(lowered.cubin or lowered.ptx.encode()), "kernel", 0)
    inputs = [torch.from_numpy(x).cuda() for x in xs]
    output = torch.empty_like(inputs[0])
    pointers = tuple(tensor.data_ptr() for tensor in (output, *inputs))
    stream = torch.cuda.current_stream().cuda_stream
    grid = (xs[0].size // 256, 1, 1)
    packed = (pointers, (ctypes.c_void_p,) * len(pointers))
    with gpu.current():
        checked(gpu.api.cuLaunchKernel(kernel, *grid, 256, 1, 1, 0, stream, packed, 0), "cuLaunchKernel")
    return output.cpu().numpy()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gpu(function: str, dtype: str) -> None:
    if dtype == "float64" and not wide_enough:
        pytest.skip("long double is no wider than double here")
    xs = arguments(function, dtype, 2_000_000 if dtype == "float32" else 200_000)
    check(function, dtype, "GPU", xs, run_on_gpu(function, dtype, xs, LowerMathForGpuPass()))


@pytest.mark.gpu
def test_gpu_fast_exp() -> None:
    x = samples("float32", 2_000_000)
    check_fast_exp(x, run_on_gpu("exp", "float32", [x], LowerMathForGpuPass(exp="fast")))
