"""From a traced recurrence to its artifact, from the disk cache or made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.cache import artifact_key, get_or_compile
from scanweaver.transforms.pipelines import Options, stages

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def compile_module(module: ModuleOp, target: str, options: Options) -> Artifact:
    """The artifact of a module that holds one recurrence, for a chip (`sm_90`) or the host (`cpu`).

    Raises NotAssociativeError, ToolchainError, and what the passes raise.
    """
    name = function_name(module)
    key = artifact_key(
        str(module),
        target,
        {"parallel": options.parallel, "strategy": options.strategy, "sizes": options.size_list},
    )

    def make() -> Artifact:
        texts, recipe, milliseconds = stages(module, target, options)
        artifact = _to_artifact(target)(name, texts, recipe)
        artifact.milliseconds = milliseconds | artifact.milliseconds
        return artifact

    return get_or_compile(key, make)


def _to_artifact(target: str) -> Callable[..., Artifact]:
    if target == "cpu":
        from scanweaver.cpu_exec.lower import to_artifact
    else:
        from scanweaver.gpu_exec.lower import to_artifact
    return to_artifact


def function_name(module: ModuleOp) -> str:
    from xdsl.dialects.func import FuncOp

    return next(op.sym_name.data for op in module.walk() if isinstance(op, FuncOp))
