"""How a bound call runs: results allocated, the kernel launched, results arranged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from scanweaver.compiler import compile_module, load
from scanweaver.config import config
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.recurrence import GenericOp
from scanweaver.errors import SignatureError
from scanweaver.frontend.binding import Binding, Layout, set_layouts
from scanweaver.frontend.resolution import torch_dtype
from scanweaver.frontend.signature import Signature
from scanweaver.frontend.specialization import Specialization
from scanweaver.frontend.trace import renamed_axes, result_dtypes, touched_axes, trace_step
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.transforms.pipelines import Options

_MANY = 1 << 17
"""Sizes from here on are alike to a schedule."""


@dataclass(frozen=True)
class Traced:
    """A step traced for a specialization: its module (without layouts), and the results' dimensions and dtypes."""

    module: ModuleOp
    parallel: tuple[str, ...]
    results: tuple[tuple[tuple[str, ...], torch.dtype], ...]
    milliseconds: float


@dataclass(frozen=True)
class Kernel:
    """What was compiled, and what runs it on one device."""

    artifact: Artifact
    executable: Any


class Plan:
    """A call's launch: all that its binding decides is worked out here, once."""

    def __init__(self, binding: Binding, traced: Traced, kernel: Kernel, arrange: Callable[[list[Any]], Any]):
        self.artifact = kernel.artifact
        self.arrange = arrange
        self.device = binding.device
        self.results = [(binding.shape(axes), binding.result_strides(axes), dtype) for axes, dtype in traced.results]
        strides = binding.strides + [
            dict(zip(axes, result[1], strict=True))
            for (axes, _), result in zip(traced.results, self.results, strict=True)
        ]
        self.launch = kernel.executable.prepare(binding.sizes, strides)
        self.index = binding.device.index if binding.device.type == "cuda" else None

    def __call__(self, values: list[int | float]) -> Any:
        device = self.device
        results = [
            torch.empty_strided(shape, strides, dtype=dtype, device=device) for shape, strides, dtype in self.results
        ]
        values += [result.data_ptr() for result in results]
        if self.index is None:
            self.launch(values)
        else:
            self.launch(values, torch._C._cuda_getCurrentRawStream(self.index))  # pyright: ignore
        return self.arrange(results)


class Planner:
    """Makes plans for one recurrence; traces once a specialization, compiles once for all calls that may share."""

    def __init__(self, function: Callable[..., Any], signature: Signature):
        self.function = function
        self.signature = signature
        self._touched: dict[Specialization, tuple[tuple[str, ...], tuple[tuple[str, str], ...]]] = {}
        self._traced: dict[Specialization, Traced] = {}
        self._kernels: dict[Any, Kernel] = {}

    def plan(self, binding: Binding) -> Plan:
        traced = self._trace(binding)
        kernel = self._kernel(binding, traced)
        return Plan(binding, traced, kernel, self._arrangement(binding.specialization.return_last))

    def _trace(self, binding: Binding) -> Traced:
        general = binding.specialization
        if general not in self._touched:
            module = trace_step(self.function, self.signature, general)
            self._touched[general] = (touched_axes(module), renamed_axes(module))
        special = binding.specialized(*self._touched[general])
        if special not in self._traced:
            start = perf_counter()
            module = trace_step(self.function, self.signature, special)
            generic = next(op for op in module.walk() if isinstance(op, GenericOp))
            dtypes = [torch_dtype(dtype) for dtype in result_dtypes(module)]
            axes = [array.axes for array in generic.result_arrays]
            parallel = generic.axes_of_kind(IteratorKind.PARALLEL)
            milliseconds = (perf_counter() - start) * 1e3
            self._traced[special] = Traced(module, parallel, tuple(zip(axes, dtypes, strict=True)), milliseconds)
        return self._traced[special]

    def artifact(self, binding: Binding, target: str) -> Artifact:
        """What would serve a call on another target than its tensors' device, from the disk cache or made."""
        traced = self._trace(binding)
        return self._compile(binding, traced, target, self._compile_options(binding, traced))

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
        artifact = compile_module(module, target, options)
        artifact.milliseconds = {"recurrence": traced.milliseconds, **artifact.milliseconds}
        return artifact

    def _compile_options(self, binding: Binding, traced: Traced) -> Options:
        call = binding.options
        return Options(call.parallel, call.strategy or "auto", self._hints(binding, traced.parallel))

    def _layouts(self, binding: Binding, traced: Traced) -> tuple[Layout, ...]:
        results = (binding.result_layout(axes, dtype.itemsize) for axes, dtype in traced.results)
        return (*binding.layouts, *results)

    def _hints(self, binding: Binding, parallel: Sequence[str]) -> Mapping[str, int]:
        """Sizes as far as a schedule looks at them: rounded down to powers of two, rows as one product."""
        return {axis: _class_of(binding.sizes[axis]) for axis in (*parallel, binding.time)}

    def _arrangement(self, return_last: bool) -> Callable[[list[Any]], Any]:
        outputs = 0 if self.signature.mode == "last" else len(self.signature.outputs)

        def one_or_all(results: list[Any]) -> Any:
            return results[0] if len(results) == 1 else tuple(results)

        if not outputs or not return_last:
            return one_or_all
        return lambda results: (one_or_all(results[:outputs]), one_or_all(results[outputs:]))


def _class_of(size: int) -> int:
    return min(1 << max(size.bit_length() - 1, 0), _MANY)


def target_of(device: torch.device) -> str:
    """What to compile for: the host, or the device's chip."""
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise SignatureError(f"expected tensors on the CPU or a CUDA device, got device {device}")
    return config.target or _chip(device.index)


@cache
def _chip(index: int) -> str:
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"
