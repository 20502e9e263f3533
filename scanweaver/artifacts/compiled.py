"""A recurrence compiled ahead of its calls: called like the recurrence, saved to one file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from scanweaver.artifacts.contract import CARRIED, FRESH, Contract
from scanweaver.artifacts.variants import Variant
from scanweaver.errors import ScanWeaverError
from scanweaver.executables import load
from scanweaver.explain.words import Explanation
from scanweaver.frontend.binding import ANYWHERE, Binder, Binding, Layout
from scanweaver.frontend.launching import Kernel, Plan, arrangement
from scanweaver.frontend.resolution import torch_dtype
from scanweaver.frontend.specialization import Given
from scanweaver.gpu_exec.artifact import write_atomically


class CompiledRecurrence:
    """`y = art(u, a, init=…, return_last=…)`, with the arguments of the recurrence it was compiled from.

    It takes any length of time, any rows, strides and alignment; for what it was not compiled for, a call raises
    SignatureError that says which. `variants`: its kernels, in the order in which a call is offered to them.
    """

    def __init__(self, contract: Contract, variants: Sequence[Variant], explanation: Explanation):
        self.contract = contract
        self.variants = tuple(variants)
        self.explanation = explanation
        self._kernels: dict[tuple[int, torch.device], Kernel] = {}
        self._last: Variant | None = None

    @property
    def target(self) -> str:
        """What it was compiled for: a chip such as `sm_90`, or `cpu`."""
        return self.contract.target

    @cached_property
    def _binder(self) -> Binder:
        contract = self.contract
        return Binder(contract.name, contract.signature, contract.parameters, contract.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # `operands` keeps converted tensors alive until the kernel is enqueued
        binding, operands, values = self._binder.bind(args, kwargs)
        plan = binding.plan
        if plan is None:
            self.contract.check(binding)
            binding.plan = plan = self._plan(binding)
        results = plan(values)
        del operands
        return results

    def _plan(self, binding: Binding) -> Any:
        contract = self.contract
        needed = contract.form(binding)
        forms = (FRESH, CARRIED) if needed == FRESH else (CARRIED,)
        for form in forms:
            operands = [_Bound(given, binding, contract) for given in contract.operands(form)]
            layouts = [operand.layout for operand in operands]
            results = contract.results(form)
            layouts += [binding.result_layout(axes, torch_dtype(dtype).itemsize) for axes, dtype in results]
            for i, variant in enumerate(self.variants):
                if variant.form == form and variant.serves(layouts, binding.sizes):
                    return self._launched(i, binding, operands)
        raise contract.without_form(needed)

    def _launched(self, i: int, binding: Binding, operands: Sequence[_Bound]) -> Any:
        contract, variant = self.contract, self.variants[i]
        key = (i, binding.device)
        if key not in self._kernels:
            self._kernels[key] = Kernel(variant.artifact, load(variant.artifact, binding.device))
        self._last = variant
        results = [(axes, torch_dtype(dtype)) for axes, dtype in contract.results(variant.form)]
        arrange = arrangement(
            contract.signature, binding.specialization.return_last, contract.stores_last(variant.form)
        )
        plan = Plan(binding, [operand.strides for operand in operands], results, self._kernels[key], arrange)
        as_given = [operand.index for operand in operands] == list(range(len(binding.strides)))
        if as_given and not any(operand.is_filled for operand in operands):
            return plan
        return _Filling(plan, operands, binding.device)

    # --- looking ----------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """What was proved, where each value is computed, the schedule, the variants."""
        return self.explanation.text

    def remarks(self) -> list[dict[str, Any]]:
        """The same as JSON values, one remark a fact."""
        return self.explanation.remarks

    def ir(self, stage: str) -> str:
        """The text of a stage ("recurrence", "scan", "scheduled", "gpu" or "cpu", …) of the variant that the last new
        kind of call took; of the first one before any call. Raises ScanWeaverError for a stage that is not there."""
        stages = (self._last or self.variants[0]).artifact.stages
        if stage not in stages:
            what = f"{self.contract.name}, for {self.target}, has the stages {', '.join(stages)}"
            raise ScanWeaverError(f"{what}; got {stage!r}")
        return stages[stage]

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all; `sw.load` gives the same callable back, where no tool is installed.

        Raises ScanWeaverError for a constant that no file can hold.
        """
        from scanweaver.artifacts.swa import to_bytes

        write_atomically(Path(path), to_bytes(self.contract, self.variants, self.explanation))

    def __repr__(self) -> str:
        return f"<{self.contract.name} for {self.target}: {len(self.variants)} variants>"


class _Bound:
    """One operand of a kernel, and what a call gives for it: a tensor, a number, or nothing (a start)."""

    def __init__(self, given: Given, binding: Binding, contract: Contract):
        self.given = given
        calls = binding.specialization.operands
        self.index = next((i for i, operand in enumerate(calls) if operand.name == given.name), None)
        self.is_filled = not given.scalar and (self.index is None or calls[self.index].scalar)
        self.start = 0.0
        if self.index is None:
            self.start = next(s.start for s in contract.signature.states if s.name == given.name) or 0.0
        if self.is_filled or self.index is None:
            self.layout: Layout = ANYWHERE
            self.strides = dict.fromkeys(given.axes, 0)
        else:
            self.layout = binding.layouts[self.index]
            self.strides = {axis: binding.strides[self.index].get(axis, 0) for axis in given.axes}


class _Filling:
    """A plan whose kernel wants tensors where the call gives numbers: each becomes a tensor of one element."""

    def __init__(self, plan: Plan, operands: Sequence[_Bound], device: torch.device):
        self.plan = plan
        self.device = device
        self.operands = [
            (operand.index, operand.start, torch_dtype(operand.given.dtype) if operand.is_filled else None)
            for operand in operands
        ]

    @property
    def artifact(self) -> Any:
        return self.plan.artifact

    def __call__(self, values: list[int | float]) -> Any:
        kept: list[torch.Tensor] = []  # until the kernel is enqueued
        mine: list[int | float] = []
        for index, start, dtype in self.operands:
            value = start if index is None else values[index]
            if dtype is not None:
                kept.append(filled := torch.full((), value, dtype=dtype, device=self.device))
                value = filled.data_ptr()
            mine.append(value)
        return self.plan(mine)
