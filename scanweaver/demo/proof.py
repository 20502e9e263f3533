"""What was proved of a recurrence, read from the text of its scan stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import get_all_dialects as get_upstream_dialects
from xdsl.parser import Parser

from scanweaver.dialects import get_all_dialects
from scanweaver.dialects.scan import GenericOp

_MEANS = {
    "affine": "new = a · old + b, and a and b do not depend on it",
    "delay": "new does not depend on old",
}


@dataclass(frozen=True)
class Proved:
    """One component of the states: its algebra, and what that means or why there is none."""

    states: tuple[str, ...]
    algebra: str
    why: str

    def __str__(self) -> str:
        return f"{', '.join(self.states)}: {self.algebra} ({self.why})"


def proofs(scan_text: str) -> Iterator[Proved]:
    """The components of a scan stage, in order."""
    context = Context()
    for name, factory in (get_upstream_dialects() | get_all_dialects()).items():
        context.register_dialect(name, factory)
    module = Parser(context, scan_text).parse_module()
    (scan,) = (op for op in module.walk() if isinstance(op, GenericOp))
    for component in scan.component_ops:
        states = tuple(scan.state_names.data[i].data for i in component.state_indices)
        algebra = component.algebra.data
        yield Proved(states, algebra, component.reason.data if component.reason else _MEANS.get(algebra, ""))
