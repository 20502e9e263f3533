"""A recurrence compiled for a chip that is not there: from the text that a call on the CPU traced."""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.parser import Parser

from scanweaver.compiler import compile_module
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.transforms.pipelines import Options
from scanweaver.universe import SCANWEAVER_UNIVERSE


def compiled(recurrence: Recurrence, *args: Any, target: str, strategy: str = "auto", **kwargs: Any) -> Artifact:
    """What a call with these arguments would run on `target`."""
    context = Context()
    for name, dialect in (get_all_dialects() | SCANWEAVER_UNIVERSE.all_dialects).items():
        context.register_dialect(name, dialect)
    module = Parser(context, recurrence.artifact(*args, **kwargs).stages["recurrence"]).parse_module()
    return compile_module(module, target, Options(strategy=strategy))
