"""Compiling and explaining a recurrence without calling it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from scanweaver.artifacts.build import compile_variants, first_variant
from scanweaver.artifacts.compiled import CompiledRecurrence
from scanweaver.artifacts.contract import CARRIED, FRESH
from scanweaver.config import config
from scanweaver.errors import ScanWeaverError, SignatureError, ToolchainError, UnsupportedError
from scanweaver.explain.explanation import explain
from scanweaver.explain.words import Explanation
from scanweaver.frontend.arguments import NOT_BUILT_YET, Options
from scanweaver.frontend.launching import target_of
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.frontend.request import Request, Requested
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.lower import PTX_FEATURE

CHIP = "sm_90"
"""What is explained, beside the CPU, where there is no GPU."""

_REQUEST = ("dtypes", "sizes", "leading")
_DECIDED = ("reverse", "parallel", "strategy")
_STAGES = ("recurrence", "scan", "scheduled", "gpu", "nvvm", "ptx", "cpu", "llvm", "asm")
_BY_TOOLS = ("nvvm", "ptx", "llvm", "asm")
_ON_CPU = ("cpu", "llvm", "asm")


def compile_ahead(
    recurrence: Recurrence,
    target: str | None,
    request: Mapping[str, Any],
    init: bool | None,
    return_last: bool | None,
    decided: Mapping[str, Any],
) -> CompiledRecurrence:
    """See `Recurrence.compile`."""
    for option, value in (("init", init), ("return_last", return_last)):
        if value is not None and not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureError(
                f"{option} of compiling {recurrence.name}: expected True, False or None, got {value!r}"
            )
    target = _checked(target or _default_targets()[-1])
    requested, options = _requested(recurrence, {**request, **decided}, assume=False, return_last=bool(return_last))
    forms = [FRESH] * (init is not True and return_last is not True)
    forms += [CARRIED] * (init is not False or return_last is not False)
    return compile_variants(requested, target, options, forms)


def explained(
    recurrence: Recurrence, target: str | None, request: Mapping[str, Any]
) -> tuple[Explanation, Sequence[Artifact]]:
    """See `Recurrence.explain`; and the artifacts that it is of, one a target."""
    try:
        artifacts = _artifacts(recurrence, target, request, tools=True)
    except ToolchainError:
        # What a kernel takes is then unknown, and the explanation says so; the rest needs no tool.
        artifacts = _artifacts(recurrence, target, request, tools=False)
    return explain(artifacts, recurrence.signature.text), artifacts


def ir(recurrence: Recurrence, stage: str, target: str | None, request: Mapping[str, Any]) -> str:
    """See `Recurrence.ir`."""
    if stage not in _STAGES:
        raise ScanWeaverError(f"{recurrence.name} has the stages {', '.join(_STAGES)}, got {stage!r}")
    last = recurrence.last_plan
    if target is None and (request or last is None or stage not in last.artifact.stages):
        targets = [name for name in _default_targets() if (name == "cpu") == (stage in _ON_CPU)]
        target = targets[0] if targets else "cpu" if stage in _ON_CPU else CHIP
    (artifact,) = _artifacts(recurrence, target, request, tools=stage in _BY_TOOLS)
    if stage not in artifact.stages:
        what = f"{recurrence.name}, for {artifact.target}, has the stages {', '.join(artifact.stages)}"
        raise ScanWeaverError(f"{what}; got {stage!r}: name its target")
    return artifact.stages[stage]


def _artifacts(
    recurrence: Recurrence, target: str | None, request: Mapping[str, Any], *, tools: bool
) -> Sequence[Artifact]:
    if target is None and not request and recurrence.last_plan is not None:
        return [recurrence.last_plan.artifact]
    requested, options = _requested(recurrence, request, assume=True, return_last=False)
    targets = [_checked(target)] if target else _default_targets()
    return [first_variant(requested, each, options, tools=tools) for each in targets]


def _requested(
    recurrence: Recurrence, given: Mapping[str, Any], *, assume: bool, return_last: bool
) -> tuple[Requested, Options]:
    constants = {name: value for name, value in given.items() if name in recurrence.parameters.constants}
    for name in given:
        if name in NOT_BUILT_YET:
            raise UnsupportedError(f"{name}= is not built yet: compile {recurrence.name} without it")
        if name not in constants and name not in (*_REQUEST, *_DECIDED):
            known = [*recurrence.parameters.constants, *_REQUEST, *_DECIDED]
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(known)}"
            raise SignatureError(f"compiling {recurrence.name}: got `{name}`: {hint}")
    of_request = {name: given[name] for name in _REQUEST if given.get(name) is not None}
    request = Request(**of_request, constants=constants, assume=assume)
    decided = {name: given[name] for name in _DECIDED if given.get(name) is not None}
    of_recurrence = {name: getattr(recurrence.options, name) for name in _DECIDED}
    options = Options(return_last=return_last, **(of_recurrence | decided))
    return Requested(recurrence.binder, recurrence.planner, recurrence.parameters, request), options


def _default_targets() -> list[str]:
    """The GPU that is there (or the configured target); else CHIP and the CPU."""
    if config.target is not None:
        return [config.target]
    if torch.cuda.is_available():
        return [target_of(torch.device("cuda", torch.cuda.current_device()))]
    return [CHIP, "cpu"]


def _checked(target: str) -> str:
    if target != "cpu" and target not in PTX_FEATURE:
        raise UnsupportedError(f"target {target!r} is not known; known are cpu, {', '.join(PTX_FEATURE)}")
    return target
