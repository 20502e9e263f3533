"""Upstream MLIR text → NVVM → PTX by one `mlir-opt` call, and PTX → cubin by `ptxas`.

The text is a `builtin.module` with one `gpu.module`; a recipe or other attributes of ours on the module are
no hindrance. Kernels may use gpu, nvvm, scf, cf, arith, math, vector, memref (workgroup memory) and llvm.
Dynamic shared memory is an external `llvm.mlir.global` of size 0 in address space 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter

from scanweaver.errors import ToolchainError, UnsupportedError
from scanweaver.gpu_exec.abi import Recipe
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.toolchain import FOLDER, INPUT, OUTPUT, find, find_file, look, run_tool

# The oldest PTX version that knows the chip and has what we emit: older drivers can then still load it.
PTX_FEATURE = {
    "sm_80": "ptx80",
    "sm_86": "ptx80",
    "sm_87": "ptx80",
    "sm_89": "ptx80",
    "sm_90": "ptx83",
    "sm_90a": "ptx83",
    "sm_100": "ptx86",
    "sm_100a": "ptx86",
    "sm_103": "ptx88",
    "sm_103a": "ptx88",
    "sm_120": "ptx87",
    "sm_120a": "ptx87",
}

_LIBDEVICE = (
    "nvvm/libdevice/libdevice.10.bc",
    "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
    "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
    "triton/backends/nvidia/lib/libdevice.10.bc",
)

_IN_THE_DRIVER = {"vprintf", "__assertfail", "malloc", "free"}


@dataclass(frozen=True)
class Resources:
    """What ptxas says one kernel takes."""

    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass
class Lowered:
    """Every stage below the upstream text. `cubin` is None without a ptxas: the driver takes PTX."""

    nvvm: str
    ptx: str
    cubin: bytes | None = None
    resources: dict[str, Resources] = field(default_factory=dict[str, Resources])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    milliseconds: dict[str, float] = field(default_factory=dict[str, float])


def lower(text: str, chip: str) -> Lowered:
    """All stages of `text` for `chip`, the cubin where ptxas is found.

    Raises UnsupportedError for an unknown chip, ToolchainError where a tool is missing, fails or complains.
    """
    start = perf_counter()
    lowered = _mlir_opt(text, chip)
    lowered.milliseconds["mlir-opt"] = (perf_counter() - start) * 1e3
    if look("ptxas") is not None:
        start = perf_counter()
        lowered.cubin, lowered.resources = assemble(lowered.ptx, chip)
        lowered.milliseconds["ptxas"] = (perf_counter() - start) * 1e3
        lowered.tools["ptxas"] = find("ptxas").version()
    return lowered


def to_artifact(name: str, stages: Mapping[str, str], recipe: Recipe) -> Artifact:
    """The artifact of a recurrence lowered this far: `stages` ends in "gpu", the text to compile for `recipe.target`.

    Raises what `lower` raises.
    """
    lowered = lower(stages["gpu"], recipe.target)
    return Artifact(
        name,
        recipe.target,
        recipe,
        {**stages, "nvvm": lowered.nvvm, "ptx": lowered.ptx},
        {} if lowered.cubin is None else {"cubin": lowered.cubin},
        {kernel: asdict(resources) for kernel, resources in lowered.resources.items()},
        lowered.tools,
        lowered.milliseconds,
    )


def to_nvvm(text: str, chip: str) -> str:
    """The module in the llvm and nvvm dialects, as it is handed to LLVM's back end."""
    return _mlir_opt(text, chip).nvvm


def to_ptx(text: str, chip: str) -> str:
    """The module's kernels as PTX."""
    return _mlir_opt(text, chip).ptx


def to_cubin(text: str, chip: str) -> bytes:
    """The module's kernels as a cubin; raises ToolchainError where there is no ptxas."""
    return assemble(_mlir_opt(text, chip).ptx, chip)[0]


def assemble(ptx: str, chip: str) -> tuple[bytes, dict[str, Resources]]:
    """PTX → cubin, with what each kernel takes."""
    arguments = [f"-arch={chip}", "-O3", "-v", INPUT, "-o", OUTPUT]
    ran = run_tool(find("ptxas"), arguments, ptx, suffix=".ptx", loud=False)
    return ran.output, _resources(ran.stderr)


def _mlir_opt(text: str, chip: str) -> Lowered:
    lowered = _mlir_opt_once(text, chip, libdevice=None)
    unlinked = _unlinked(lowered.ptx)
    if unlinked and all(name.startswith("__nv_") for name in unlinked):
        # This build of mlir-opt embeds no libdevice; link the toolkit's.
        libdevice = find_file(*_LIBDEVICE)
        if libdevice is None:
            raise ToolchainError(
                f"mlir-opt left {', '.join(unlinked)} unlinked: its build embeds no libdevice and no "
                f"libdevice.10.bc was found. Install: pip install nvidia-cuda-nvcc, or "
                f'pip install "scanweaver[mlir]" (its mlir-opt embeds one).'
            )
        lowered = _mlir_opt_once(text, chip, libdevice=str(libdevice))
        unlinked = _unlinked(lowered.ptx)
    if unlinked:
        raise ToolchainError(f"the PTX calls what nothing defines: {', '.join(unlinked)}")
    if re.search(r"^\s*\.shared\b.*\b__dynamic_shmem__\d+;", lowered.ptx, re.MULTILINE):
        # To LLVM it is an internal object of size 0: reads and writes may vanish, and it overlaps others.
        raise ToolchainError(
            "gpu.dynamic_shared_memory became a static variable of one byte. Declare the buffer in the "
            "gpu.module as `llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, "
            "alignment = 16 : i64} : !llvm.array<0 x i8>`; take its address with llvm.mlir.addressof."
        )
    return lowered


def _mlir_opt_once(text: str, chip: str, libdevice: str | None) -> Lowered:
    tool = find("mlir-opt")
    arguments = [
        INPUT,
        f"--pass-pipeline={_pipeline(text, chip, libdevice)}",
        # The module just before the back end, in a file: stderr stays for complaints.
        "--mlir-print-ir-before=gpu-module-to-binary",
        f"--mlir-print-ir-tree-dir={FOLDER}/nvvm",
        "-o",
        OUTPUT,
    ]
    ran = run_tool(tool, arguments, text, suffix=".mlir")
    (nvvm,) = ran.files.values()
    return Lowered(nvvm, _assembly(ran.output.decode()), tools={"mlir-opt": tool.version()})


def _pipeline(text: str, chip: str, libdevice: str | None) -> str:
    feature = PTX_FEATURE.get(chip)
    if feature is None:
        raise UnsupportedError(f"target {chip!r} is not known; known are {', '.join(PTX_FEATURE)}")
    kernels = ["canonicalize", "cse", "convert-scf-to-cf"]
    if set(re.findall(r"\bmath\.(\w+)", text)) == {"fma"}:
        # convert-gpu-to-nvvm makes math.fma a call to __nv_fmaf, which only libdevice turns back into fma.rn.
        # This pass does better, but makes other operations intrinsics that convert-gpu-to-nvvm then refuses.
        kernels.append("convert-math-to-llvm")
    kernels += ["convert-gpu-to-nvvm{index-bitwidth=64}", "canonicalize", "cse", "reconcile-unrealized-casts"]
    link = f" l={libdevice}" if libdevice else ""
    passes = [
        f"gpu.module({','.join(kernels)})",
        f"nvvm-attach-target{{chip={chip} features=+{feature} O=3{link}}}",
        "gpu-module-to-binary{format=isa}",
    ]
    return f"builtin.module({','.join(passes)})"


def _assembly(text: str) -> str:
    """The PTX inside the `gpu.binary` that mlir-opt printed."""
    found = re.findall(r'\bassembly = "((?:[^"\\]|\\.)*)"', text)
    if len(found) != 1:
        raise ToolchainError(f"expected one gpu.binary with PTX from mlir-opt, found {len(found)}:\n{text[:1000]}")
    return _unescape(found[0]).rstrip("\0")


def _unescape(literal: str) -> str:
    r"""MLIR's string escapes: `\\`, `\"`, and `\` with two hexadecimal digits for one byte of UTF-8."""
    raw = re.sub(
        rb"\\(\\|\"|[0-9A-Fa-f]{2})",
        lambda m: m[1] if len(m[1]) == 1 else bytes([int(m[1], 16)]),
        literal.encode(),
    )
    return raw.decode()


def _unlinked(ptx: str) -> list[str]:
    """Functions that the PTX leaves to a linker. Dynamic shared memory is `.extern` too, and fine."""
    lines = [line for line in ptx.splitlines() if line.lstrip().startswith(".extern") and ".shared" not in line]
    return sorted({re.findall(r"[\w$]+", line)[-1] for line in lines} - _IN_THE_DRIVER)


def _resources(log: str) -> dict[str, Resources]:
    told: dict[str, Resources] = {}
    parts = re.split(r"Compiling entry function '(\w+)'.*", log)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):

        def number(pattern: str, part: str = part) -> int:
            found = re.search(pattern, part)
            return int(found.group(1)) if found else 0

        told[name] = Resources(
            registers=number(r"Used (\d+) registers"),
            spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
            stack_bytes=number(r"(\d+) bytes stack frame"),
            shared_bytes=number(r"(\d+) bytes smem"),
        )
    return told
