"""Upstream MLIR text → LLVM → assembly → shared library, for the machine it runs on.

The text is a `builtin.module` of `func.func`s over func, scf, cf, arith, math, vector, memref and llvm. A kernel
takes `begin: i64, end: i64` and then its parameters, and returns nothing. For each the library exports
`<name>.packed(begin, end, slots, order)`, which reads parameter i from the 8-byte slot `order[i]`: a call from
the host costs the same whatever the number of parameters, and half floats need no C type.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter

from scanweaver.gpu_exec.abi import Recipe
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.toolchain import INPUT, OUTPUT, find, run_tool

_NATIVE = ["-O3", "-mcpu=native"]
if platform.machine() in ("x86_64", "AMD64"):
    # Otherwise LLVM splits 512-bit vectors on CPUs whose early models lost clock speed over them. The instructions that
    # convert to bfloat16 make denormals 0: without them LLVM rounds by integers.
    _NATIVE.append("-mattr=-prefer-256-bit,-avx512bf16,-avxneconvert")

# By default LLVM keeps the order of the source, in which a function such as exp is one long chain after another, and a
# processor looks ahead no further than a few of them. Chains that do not depend on each other are to be interleaved.
_INTERLEAVED = ["-pre-RA-sched=list-ilp", "-enable-misched=false"]

_PASSES = [
    "canonicalize",
    "cse",
    "convert-vector-to-scf",
    "convert-scf-to-cf",
    # Intrinsics first: libm would take a vector's math.fma apart. The rest (erf, log1p, …) are calls, one a lane.
    "convert-math-to-llvm{approximate-log1p=false}",
    "convert-math-to-libm",
    "convert-vector-to-llvm",
    "convert-to-llvm",
    "canonicalize",
    "cse",
    "reconcile-unrealized-casts",
]


@dataclass
class Lowered:
    """Every stage below the upstream text."""

    llvm: str
    asm: str = ""
    library: bytes = b""
    tools: dict[str, str] = field(default_factory=dict[str, str])
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])


def lower(text: str) -> Lowered:
    """All stages of `text`; raises ToolchainError where a tool is missing, fails or complains."""
    tools = {name: find(name) for name in ("mlir-opt", "mlir-translate", "opt", "llc", "cc")}
    milliseconds: dict[str, float] = {}

    def run(name: str, arguments: list[str], source: str | bytes, suffix: str) -> bytes:
        start = perf_counter()
        ran = run_tool(tools[name], arguments, source, suffix=suffix)
        milliseconds[name] = (perf_counter() - start) * 1e3
        return ran.output

    passes = _PASSES if "math.expm1" not in text else _libm_first(_PASSES)
    pipeline = f"--pass-pipeline=builtin.module({','.join(passes)})"
    module = run("mlir-opt", [INPUT, pipeline], text, ".mlir").decode()
    llvm = run("mlir-translate", ["--mlir-to-llvmir", INPUT], module, ".mlir").decode()
    llvm = run("opt", ["-S", *_NATIVE, INPUT, "-o", OUTPUT], _with_packed_entries(llvm), ".ll").decode()
    llc = [*_NATIVE, *_INTERLEAVED, "-relocation-model=pic", INPUT, "-o", OUTPUT]
    with ThreadPoolExecutor(1) as beside:
        # The object comes from llc too, at the same time: the machine's assembler may be older than its instructions.
        asm = beside.submit(run_tool, tools["llc"], llc, llvm, suffix=".ll")
        binary = run("llc", ["-filetype=obj", *llc], llvm, ".ll")
        library = run("cc", ["-shared", INPUT, "-o", OUTPUT, "-lm"], binary, ".o")
    return Lowered(
        llvm,
        asm.result().output.decode(),
        library,
        {name: tool.version() for name, tool in tools.items()},
        milliseconds,
    )


def to_artifact(name: str, stages: Mapping[str, str], recipe: Recipe) -> Artifact:
    """The artifact of a recurrence lowered this far: `stages` ends in "cpu", the text to compile.

    Raises what `lower` raises.
    """
    lowered = lower(stages["cpu"])
    return Artifact(
        name,
        "cpu",
        recipe,
        {**stages, "llvm": lowered.llvm, "asm": lowered.asm},
        {"so": lowered.library},
        tools=lowered.tools,
        milliseconds=lowered.milliseconds,
    )


def to_shared_library(text: str) -> bytes:
    """The module's kernels as the bytes of a shared library."""
    return lower(text).library


def packed(name: str) -> str:
    """The symbol of a kernel's entry that reads its parameters from slots."""
    return f"{name}.packed"


def _libm_first(passes: list[str]) -> list[str]:
    """convert-math-to-llvm makes expm1(x) exp(x) - 1, which has no correct bit near 0; libm's is right."""
    rest = [name for name in passes if name != "convert-math-to-libm"]
    where = passes.index("convert-scf-to-cf") + 1
    return [*rest[:where], "convert-math-to-libm", *rest[where:]]


_KERNEL = re.compile(r"^define void @([\w.$]+)\((i64 %\d+, i64 %\d+.*)\)([^)]*\{)$", re.MULTILINE)


def _with_packed_entries(llvm: str) -> str:
    """`define void @k(i64 %0, i64 %1, ptr %2, …)` becomes internal, below an entry that loads %2, … from slots."""
    entries = [
        _packed_entry(name, [parameter.split()[0] for parameter in parameters.split(", ")])
        for name, parameters, _ in _KERNEL.findall(llvm)
        if not name.startswith("_mlir_ciface_")
    ]
    return _KERNEL.sub(r"define internal void @\1(\2)\3", llvm) + "".join(entries)


def _packed_entry(name: str, types: list[str]) -> str:
    loads = [
        f"  %place{i} = getelementptr i64, ptr %order, i64 {i}\n"
        f"  %index{i} = load i64, ptr %place{i}, align 8\n"
        f"  %slot{i} = getelementptr i64, ptr %slots, i64 %index{i}\n"
        f"  %value{i} = load {type_}, ptr %slot{i}, align 8"
        for i, type_ in enumerate(types[2:])
    ]
    values = ", ".join(["i64 %begin", "i64 %end", *(f"{type_} %value{i}" for i, type_ in enumerate(types[2:]))])
    head = f"\ndefine void @{packed(name)}(i64 %begin, i64 %end, ptr %slots, ptr %order) {{"
    return "\n".join([head, *loads, f"  call void @{name}({values})", "  ret void", "}", ""])
