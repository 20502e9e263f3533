"""From a bound call to its plan: traced once a specialization, compiled once for all calls that may share a kernel."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from time import perf_counter
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from scanweaver.compiler import compile_module
from scanweaver.config import config
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.errors import SignatureError
from scanweaver.executables import load
from scanweaver.frontend.binding import Binding, Layout, set_layouts
from scanweaver.frontend.launching import Kernel, Plan, arrangement, target_of
from scanweaver.frontend.resolution import torch_dtype
from scanweaver.frontend.source import Source
from scanweaver.frontend.specialization import Specialization
from scanweaver.frontend.trace import iteration_of, renamed_axes, result_axes, result_dtypes, touched_axes
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.transforms.pipelines import Options

_MANY = 1 << 17
"""Sizes from here on are alike to a schedule."""

_log = logging.getLogger("scanweaver")


@dataclass(frozen=True)
class Traced:
    """A step traced for a specialization: its module (without layouts), and the results' dimensions and dtypes."""

    module: ModuleOp
    parallel: tuple[str, ...]
    results: tuple[tuple[tuple[str, ...], torch.dtype], ...]
    milliseconds: float


class Planner:
    """Makes plans for one recurrence; traces once a specialization, compiles once for all calls that may share."""

    def __init__(self, source: Source):
        self.source = source
        self._touched: dict[Specialization, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = {}
        self._traced: dict[Specialization, Traced] = {}
        self._kernels: dict[Any, Kernel] = {}
        self._remarked = False
        self._lock = RLock()  # a first call traces and compiles; others wait for it

    def plan(self, binding: Binding) -> Plan:
        with self._lock:
            return self._plan(binding)

    def _plan(self, binding: Binding) -> Plan:
        traced = self.traced(binding)
        kernel = self._kernel(binding, traced)
        with_last = binding.specialization.return_last
        arrange = arrangement(self.source.signature, with_last, with_last)
        return Plan(binding, binding.strides, traced.results, kernel, arrange)

    def touched(self, binding: Binding) -> tuple[str, ...]:
        """The axes whose sizes are compiled in: those that the step reduces, renames or takes from."""
        return self._touched_by(binding.specialization)[0]

    def traced(self, binding: Binding) -> Traced:
        for axis, size in self.source.fixed_sizes.items():
            if binding.sizes[axis] != size:
                raise SignatureError(
                    f"{self.source.name}: axis `{axis}` has size {size} in the text, and size {binding.sizes[axis]} "
                    "in this call"
                )
        special = binding.specialized(*self._touched_by(binding.specialization))
        if special not in self._traced:
            start = perf_counter()
            module = self.source.module(special)
            generic = iteration_of(module)
            dtypes = [torch_dtype(dtype) for dtype in result_dtypes(module)]
            axes = result_axes(module)
            parallel = generic.axes_of_kind(IteratorKind.PARALLEL)
            milliseconds = (perf_counter() - start) * 1e3
            self._traced[special] = Traced(module, parallel, tuple(zip(axes, dtypes, strict=True)), milliseconds)
        return self._traced[special]

    def _touched_by(self, general: Specialization) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        if general not in self._touched:
            module = self.source.module(general)
            self._touched[general] = (touched_axes(module), renamed_axes(module))
        return self._touched[general]

    def artifact(self, binding: Binding, target: str) -> Artifact:
        """What would serve a call on another target than its tensors' device, from the disk cache or made."""
        traced = self.traced(binding)
        return self._compile(binding, traced, target, self._compile_options(binding, traced))

    def compiled(self, traced: Traced, module: ModuleOp, target: str, options: Options) -> Artifact:
        """The artifact of a traced module with layouts; remarks, once, on a walk in time order nobody asked for."""
        artifact = compile_module(module, target, options)
        artifact.milliseconds = {"recurrence": traced.milliseconds, **artifact.milliseconds}
        if not self._remarked and options.parallel == "auto" and options.strategy == "auto":
            self._remark(artifact)
        return artifact

    def _remark(self, artifact: Artifact) -> None:
        from scanweaver.explain.proof import refusals

        reasons = refusals(artifact.stages["scheduled"])
        if reasons:
            self._remarked = True
            _log.warning(
                '%s: runs in time order, one fused kernel: %s (parallel="never" asks for this and says nothing)',
                self.source.name,
                "; ".join(reasons),
            )

    def _kernel(self, binding: Binding, traced: Traced) -> Kernel:
        target = target_of(binding.device)
        options = self._compile_options(binding, traced)
        layouts = self._layouts(binding, traced)
        key = (id(traced), layouts, options.parallel, options.strategy, options.size_list, target, binding.device)
        if key not in self._kernels:
            artifact = self._compile(binding, traced, target, options)
            self._kernels[key] = Kernel(artifact, load(artifact, binding.device))
        return self._kernels[key]

    def _compile(self, binding: Binding, traced: Traced, target: str, options: Options) -> Artifact:
        module = traced.module.clone()
        set_layouts(module, binding)
        return self.compiled(traced, module, target, options)

    def _compile_options(self, binding: Binding, traced: Traced) -> Options:
        call = binding.options
        return Options(call.parallel, call.strategy or "auto", self._hints(binding, traced.parallel))

    def _layouts(self, binding: Binding, traced: Traced) -> tuple[Layout, ...]:
        return (*binding.layouts, *(layout for _, layout in binding.results_parts(traced.results)))

    def _hints(self, binding: Binding, parallel: Sequence[str]) -> Mapping[str, int]:
        """Sizes as far as a schedule looks at them: rounded down to powers of two. With `config.batch_invariant` a
        schedule knows nothing of the rows."""
        axes = (binding.time,) if config.batch_invariant else (*parallel, binding.time)
        return {axis: _class_of(binding.sizes[axis]) for axis in axes}


def _class_of(size: int) -> int:
    return min(1 << max(size.bit_length() - 1, 0), _MANY)
