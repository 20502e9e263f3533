"""A recurrence compiled ahead of its calls: called like the recurrence, saved to one file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from scanweaver.artifacts.contract import CARRIED, FRESH, Contract
from scanweaver.artifacts.operands import Filling, Part, bound_parts
from scanweaver.artifacts.variants import Guard, Variant
from scanweaver.config import config
from scanweaver.errors import ScanWeaverError, SignatureError
from scanweaver.executables import load
from scanweaver.explain.words import Explanation
from scanweaver.frontend.binding import Binder, Binding
from scanweaver.frontend.launching import Kernel, Plan, Results, arrangement
from scanweaver.frontend.resolution import torch_dtype
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
            self.contract.check(binding, self._binder.arguments.plain.constants)
            binding.plan = plan = self._plan(binding)
        results = plan(values)
        del operands
        return results

    def _plan(self, binding: Binding) -> Any:
        contract = self.contract
        needed = contract.form(binding)
        for form in (FRESH, CARRIED) if needed == FRESH else (CARRIED,):
            parts = [part for given in contract.operands(form) for part in bound_parts(given, binding, contract)]
            results = [(axes, torch_dtype(dtype)) for axes, dtype in contract.results(form)]
            layouts = [part.layout for part in parts]
            layouts += [layout for _, layout in binding.results_parts(results)]
            for i, variant in enumerate(self.variants):
                if config.batch_invariant and variant.guard != Guard():
                    continue  # which rows there are decides nothing
                if variant.form == form and variant.serves(layouts, binding.sizes):
                    return self._launched(i, binding, parts, results)
        raise contract.without_form(needed)

    def _launched(self, i: int, binding: Binding, parts: Sequence[Part], results: Results) -> Any:
        contract, variant = self.contract, self.variants[i]
        key = (i, binding.device)
        if key not in self._kernels:
            self._kernels[key] = Kernel(variant.artifact, load(variant.artifact, binding.device))
        self._last = variant
        with_last = binding.specialization.return_last
        arrange = arrangement(contract.signature, with_last, contract.stores_last(variant.form))
        plan = Plan(binding, [part.strides for part in parts], results, self._kernels[key], arrange)
        as_given = [part.index for part in parts] == list(range(len(binding.strides)))
        if as_given and not any(part.filled for part in parts):
            return plan
        return Filling(plan, parts, binding.device)

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

        Raises ScanWeaverError for a constant that no file can hold, and where `path` is no file's in a folder.
        """
        from scanweaver.artifacts.swa import to_bytes

        if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureError(f"saving {self.contract.name}: expected a path, got {type(path).__name__}")
        if Path(path).is_dir() or not Path(path).parent.is_dir():
            raise ScanWeaverError(f"saving {self.contract.name}: expected a file in a folder that is there, got {path}")
        write_atomically(Path(path), to_bytes(self.contract, self.variants, self.explanation))

    def __repr__(self) -> str:
        return f"<{self.contract.name} for {self.target}: {len(self.variants)} variants>"
