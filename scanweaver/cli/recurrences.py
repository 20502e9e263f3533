"""What `compile` and `explain` are given: a recurrence by file or by name, and options as text."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from scanweaver.errors import ScanWeaverError
from scanweaver.frontend.dtypes import short_name

if TYPE_CHECKING:
    from scanweaver.frontend.recurrence import Recurrence

_WORDS = {"true": True, "false": False, "none": None}
_OPTIONS = ("self", "target", "dtypes", "sizes", "leading", "reverse", "parallel", "strategy")
_NUMBERS = {"float": float, "int": int, "bool": bool}


def find(what: str, entry: str | None) -> Recurrence:
    """The recurrence in a file of MLIR (`entry` names its function), or at `module:function`.

    Modules are found from the current folder on. Raises ScanWeaverError where there is none.
    """
    if what.endswith(".mlir"):
        from scanweaver.frontend.from_mlir import from_mlir

        if not Path(what).is_file():
            raise ScanWeaverError(f"{what}: no such file")
        return from_mlir(Path(what), entry)
    module, _, name = what.partition(":")
    if not name or not all(part.isidentifier() for part in module.split(".")):
        raise ScanWeaverError(f"{what!r}: expected FILE.mlir or module:function")
    if entry is not None:
        raise ScanWeaverError(f"--entry names a function of a FILE.mlir, got {what}")
    return _named(_imported(module), name)


def _imported(module: str) -> ModuleType:
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and misses another one
        raise ScanWeaverError(f"module {module!r} was not found from {Path.cwd()}") from error
    finally:
        sys.path.remove("")


def _named(module: ModuleType, name: str) -> Recurrence:
    from scanweaver.frontend.recurrence import Recurrence

    found = getattr(module, name, None)
    if isinstance(found, Recurrence):
        return found
    there = sorted(key for key, value in vars(module).items() if isinstance(value, Recurrence))
    what = "no recurrence" if found is not None else "not there"
    raise ScanWeaverError(
        f"{module.__name__}:{name} is {what}; the recurrences of {module.__name__} are {', '.join(there) or 'none'}"
    )


def request(dtypes: Sequence[str], sizes: Sequence[str], constants: Sequence[str], **options: Any) -> dict[str, Any]:
    """The keywords of `Recurrence.compile`: from `u=bfloat16` (or `float32` for all), `n=16`, `softplus=true`."""
    found = {name: value for name, value in options.items() if value is not None}
    by_name = dict(_pair("--dtype", each) for each in dtypes if "=" in each)
    for_all = [each for each in dtypes if "=" not in each]
    if for_all and (by_name or len(for_all) > 1):
        raise ScanWeaverError(f"--dtype: expected one for all inputs, or name=dtype for each, got {', '.join(dtypes)}")
    if for_all:
        found["dtypes"] = _dtype(for_all[0])
    elif by_name:
        found["dtypes"] = {name: _dtype(dtype) for name, dtype in by_name.items()}
    if sizes:
        found["sizes"] = {axis: _size(axis, size) for axis, size in (_pair("--size", each) for each in sizes)}
    for name, value in (_pair("--set", each) for each in constants):
        if name in _OPTIONS:
            raise ScanWeaverError(f"--set: expected a keyword-only constant of the step, got {name}, an option")
        found[name] = _constant(value)
    return found


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ScanWeaverError(f"{option}: expected name=value, got {text!r}")
    return name, value


def _dtype(text: str) -> Any:
    """`float`, `int` and `bool` are Python's: a scalar input that is given as a number."""
    if text in _NUMBERS:
        return _NUMBERS[text]
    if short_name(text) is None:
        raise ScanWeaverError(f"--dtype: {text!r} is no dtype, such as float32, bfloat16, int64")
    return text


def _size(axis: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ScanWeaverError(f"--size: expected a number for axis {axis}, got {text!r}")
    return int(text)


def _constant(text: str) -> Any:
    """true, false, none, a number, or the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
