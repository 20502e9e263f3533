"""Passes that a Python file defines, for `scanweaver-opt --load-pass-plugin FILE.py`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from xdsl.passes import ModulePass


def passes_of(path: Path) -> dict[str, type[ModulePass]]:
    """Runs a Python file and gives the passes that it defines, by name.

    Raises ValueError for a file that is not there, is no Python or defines no pass.
    """
    name = f"scanweaver_plugin_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"expected a Python file (.py), got {path}")
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up the types of a pass's options
    spec.loader.exec_module(module)
    passes = {
        value.name: value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ModulePass) and value.__module__ == name
    }
    if not passes:
        raise ValueError(f"{path} defines no pass: expected a subclass of xdsl.passes.ModulePass with a `name`")
    return passes
