"""Ready-made recurrences, each a few lines in the language that users write. Imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scanweaver.ops.affine_scan import affine_scan
    from scanweaver.ops.selective_scan import selective_scan_fn

_HOME = {
    "affine_scan": "scanweaver.ops.affine_scan",
    "selective_scan_fn": "scanweaver.ops.selective_scan",
}

__all__ = ["affine_scan", "selective_scan_fn"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'scanweaver.ops' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # the function takes the place of the module of its name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
