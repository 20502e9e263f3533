"""The passes from a recurrence to a kernel, by name and in order, and their run as a table of stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from scanweaver.dialects.scan import GenericOp
from scanweaver.errors import NotAssociativeError, ScanWeaverError
from scanweaver.gpu_exec.abi import RECIPE, Recipe, recipe_of
from scanweaver.recursion import deep_recursion
from scanweaver.transforms.convert_recurrence_to_scan import ConvertRecurrenceToScanPass
from scanweaver.transforms.fuse_multiply_add import FuseMultiplyAddPass
from scanweaver.transforms.regroup_products import RegroupProductsPass
from scanweaver.transforms.schedule_scan import ScheduleScanPass


@dataclass(frozen=True)
class Options:
    """What a compilation decides beside the recurrence itself; `sizes` are hints for the schedule."""

    parallel: str = "auto"
    strategy: str = "auto"
    sizes: Mapping[str, int] | None = None

    @property
    def size_list(self) -> str:
        return ",".join(f"{axis}={size}" for axis, size in (self.sizes or {}).items())


def passes(target: str, options: Options) -> Iterator[tuple[str, tuple[ModulePass, ...]]]:
    """Stage after stage: its name, and the passes that lead to it. `target`: a chip such as `sm_90`, or `cpu`."""
    yield "scan", (RegroupProductsPass(), FuseMultiplyAddPass(), ConvertRecurrenceToScanPass(options.parallel))
    yield "scheduled", (ScheduleScanPass(target, options.strategy, options.size_list),)
    if target == "cpu":
        from scanweaver.cpu_exec import host
        from scanweaver.transforms.lower_math_for_cpu import LowerMathForCpuPass
        from scanweaver.transforms.lower_scan_to_cpu import LowerScanToCpuPass

        yield "cpu", (LowerScanToCpuPass(), LowerMathForCpuPass(host.has_avx512()))
    else:
        from scanweaver.transforms.lower_block_scan import LowerBlockScanPass
        from scanweaver.transforms.lower_math_for_gpu import LowerMathForGpuPass
        from scanweaver.transforms.lower_scan_to_gpu import LowerScanToGpuPass
        from scanweaver.transforms.lower_sweeps import LowerSweepsPass

        yield "gpu", (LowerScanToGpuPass(), LowerBlockScanPass(), LowerSweepsPass(), LowerMathForGpuPass())


def stages(module: ModuleOp, target: str, options: Options) -> tuple[dict[str, str], Recipe, dict[str, float]]:
    """The text of every stage down to upstream MLIR, the recipe, and each stage's milliseconds. `module` stays as is.

    Raises NotAssociativeError for a refused step under `parallel="require"` or `strategy="lanes"`,
    PassFailedException for what no kernel does yet.
    """
    context = Context()
    texts = {stage_of(module): str(module)}
    milliseconds: dict[str, float] = {}
    module = module.clone()
    recipe: Recipe | None = None
    for stage, sequence in _remaining(module, target, options):
        start = perf_counter()
        with deep_recursion():
            for module_pass in sequence:
                module_pass.apply(context, module)
        if RECIPE in module.attributes:
            recipe = recipe_of(module)
            del module.attributes[RECIPE]  # the host's, not mlir-opt's
        texts[stage] = str(module)
        milliseconds[stage] = (perf_counter() - start) * 1e3
    assert recipe is not None
    return texts, recipe, milliseconds


def stage_of(module: ModuleOp) -> str:
    """Where a module that holds a recurrence stands: at `recurrence`, `scan` or `scheduled`."""
    generics = [op for op in module.walk() if isinstance(op, GenericOp)]
    return "scheduled" if any(op.schedule for op in generics) else "scan" if generics else "recurrence"


def before_schedule(module: ModuleOp, target: str, options: Options) -> GenericOp:
    """The scan that `schedule-scan` chooses for, in a copy of the module; with a schedule where the module has one."""
    module = module.clone()
    for stage, sequence in _remaining(module, target, options):
        if stage == "scan":
            for module_pass in sequence:
                module_pass.apply(Context(), module)
    return next(op for op in module.walk() if isinstance(op, GenericOp))


def _remaining(module: ModuleOp, target: str, options: Options) -> list[tuple[str, tuple[ModulePass, ...]]]:
    """The stages that a module has before it. A proof or a schedule that it brings along is taken as it is."""
    stage = stage_of(module)
    if stage == "recurrence":
        return list(passes(target, options))
    (scan,) = (op for op in module.walk() if isinstance(op, GenericOp))
    if options.parallel == "require" and not scan.is_associative:
        reasons = "; ".join(c.reason.data for c in scan.component_ops if c.reason is not None)
        raise NotAssociativeError(f"not proved associative: {reasons}")
    if options.parallel == "never":
        options = replace(options, strategy="serial")
    if scan.schedule is not None and (scan.schedule.target.data != target or options.strategy != "auto"):
        raise ScanWeaverError(
            f"the text has a schedule for {scan.schedule.target.data}, which is taken as it is: compile it for that, "
            f"without strategy= or parallel=, got target {target}, strategy {options.strategy}"
        )
    names = ["scan", "scheduled"]
    return [
        (name, sequence) for name, sequence in passes(target, options) if name not in names[: names.index(stage) + 1]
    ]
