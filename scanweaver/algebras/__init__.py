"""The algebras that a component of states is proved in, one file each, tried in this order.

An algebra is a function `prove(component) -> Proof` that raises `Refused` naming the operation in the way.
"""

from __future__ import annotations

from collections.abc import Callable

from scanweaver.algebras import affine, complex_affine, delay
from scanweaver.algebras.component import Component, Proof, Refused

ALGEBRAS: dict[str, Callable[[Component], Proof]] = {
    delay.NAME: delay.prove,
    complex_affine.NAME: complex_affine.prove,
    affine.NAME: affine.prove,
}


def prove(component: Component) -> tuple[str, Proof]:
    """The first algebra that proves the component, and its proof; raises the last one's `Refused`."""
    refusal: Refused | None = None
    for name, attempt in ALGEBRAS.items():
        try:
            return name, attempt(component)
        except Refused as refused:
            refusal = refused
    assert refusal is not None
    raise refusal
