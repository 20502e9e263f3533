"""What was proved of a recurrence, read from the text of its scan stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.parser import Parser

from scanweaver.algebras import affine, complex_affine, delay
from scanweaver.dialects import context_of_all
from scanweaver.dialects.scan import SEQUENTIAL, ComponentOp, GenericOp

_MEANS = {
    complex_affine.NAME: "new = w · old + b of complex numbers, and w and b do not depend on it",
    affine.NAME: "new = a · old + b, and a and b do not depend on it",
    delay.NAME: "new does not depend on old",
}


@dataclass(frozen=True)
class Proved:
    """One component of the states: its algebra, and what that means or why there is none.

    `element`: the types of the values that stand for a stretch of time; none where there is no proof.
    """

    states: tuple[str, ...]
    algebra: str
    why: str
    element: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return self.algebra == SEQUENTIAL

    def __str__(self) -> str:
        return f"{', '.join(self.states)}: {self.algebra} ({self.why})"


def parsed(text: str) -> GenericOp:
    """The one `scan.generic` of a scan or scheduled stage."""
    module = Parser(context_of_all(), text).parse_module()
    (scan,) = (op for op in module.walk() if isinstance(op, GenericOp))
    return scan


def proved(scan: GenericOp) -> Iterator[Proved]:
    """The components of a scan, in order."""
    for component in scan.component_ops:
        states = tuple(scan.state_names.data[i].data for i in component.state_indices)
        element = () if component.is_sequential else tuple(map(str, component.element_types))
        yield Proved(states, component.algebra.data, _why(component), element)


def proofs(scan_text: str) -> Iterator[Proved]:
    """The components of a scan stage, in order."""
    return proved(parsed(scan_text))


def refusals(scan_text: str) -> list[str]:
    """Why a scan stage's components were not proved; empty where all were."""
    if f'scan.component "{SEQUENTIAL}"' not in scan_text:
        return []  # a proof costs no parse
    return [f"state {', '.join(each.states)}: {each.why}" for each in proofs(scan_text) if each.refused]


def _why(component: ComponentOp) -> str:
    if component.reason is not None:
        return component.reason.data
    return _MEANS.get(component.algebra.data, "")
