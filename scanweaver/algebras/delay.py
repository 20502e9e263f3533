"""The delay: a state that never reads itself, such as x[t-1].

    element   v            the new state
    combine   (u, v) -> v
    apply     v, h -> v

Whatever the step computes for it from inputs and other states is allowed: no property of the arithmetic is used.
A stretch of no steps has no element here; a lowering hands on the state before it instead.
"""

from __future__ import annotations

from scanweaver.algebras.component import Component, Draft, Lift, Proof, Refused

NAME = "delay"


def prove(component: Component) -> Proof:
    """Raises `Refused` where a new state reads the component's old states."""
    if not component.is_delay:
        raise Refused(None, f"{component.described} read themselves")
    lift = Lift(component)
    element = [lift.free(value) for value in component.new]
    types = [value.type for value in element]
    combine, apply = Draft(types + types), Draft(types + types)
    return Proof(
        lift.finish(element),
        combine.finish(combine.args[len(types) :]),
        apply.finish(apply.args[: len(types)]),
    )
