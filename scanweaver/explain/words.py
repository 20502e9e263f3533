"""An explanation that was made already: it needs no xDSL to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Explanation:
    """`text` is for people; `remarks` are the same facts as JSON values, each with its `kind` and `function`."""

    text: str
    remarks: list[dict[str, Any]]
