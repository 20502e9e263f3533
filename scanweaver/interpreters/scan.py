"""`scan` on NumPy arrays: the algebra that was proved, evaluated as a parallel machine would.

The states of a proved component never come from `step`: elements are lifted for all steps, scanned by `combine`, and
applied to the initial states; `step` then gives the outputs from the states that enter it. A wrong lift, combine or
apply shows as a difference from `recurrence.generic`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    impl,
    impl_terminator,
    register_impls,
)

from scanweaver.dialects.scan import ComponentOp, GenericOp, ScanYieldOp
from scanweaver.interpreters.iteration import Space, unstated
from scanweaver.interpreters.lanes import Lanes

Order = Literal["fold", "tree"]
Element = tuple[Lanes, ...]
"""An element at every step: each of its values has time as its first axis."""
Combine = Callable[[Element, Element], Element]


@register_impls
class ScanFunctions(InterpreterFunctions):
    """Interpreter functions of `scan.generic`.

    `order`: "fold" combines each prefix from the left, one step after the other; "tree" combines pairs of pairs.
    Both are the same where `combine` is associative.
    """

    def __init__(self, order: Order = "tree"):
        self.order: Order = order

    @impl(GenericOp)
    def run_generic(self, interpreter: Interpreter, op: GenericOp, args: PythonValues) -> PythonValues:
        space = Space(op, args)
        prelude = interpreter.run_ssacfg_region(op.prelude, tuple(space.inputs))
        before: dict[int, Lanes] = {}
        after: dict[int, Lanes] = {}
        for component in op.component_ops:
            if component.is_sequential:
                new = self._walk(interpreter, space, op, component, before, prelude)
            else:
                earlier = op.lift_states(component)
                lift_args = (*(before[i] for i in earlier), *(after[i] for i in earlier), *prelude)
                new = self._scan(interpreter, space, component, lift_args)
            for i, values in zip(component.state_indices, new, strict=True):
                after[i] = space.trajectory(i, values)
                before[i] = delayed(space.states[i], after[i])

        entering = [before[i] for i in range(op.num_states)]
        outputs = interpreter.run_ssacfg_region(op.step, (*entering, *prelude))[op.num_states :]
        last = [after[i].at(space.time, -1) if space.steps else space.states[i] for i in range(op.num_states)]
        return (*(space.output(i, value) for i, value in enumerate(outputs)), *space.last(last))

    @impl_terminator(ScanYieldOp)
    def run_yield(self, interpreter: Interpreter, op: ScanYieldOp, args: PythonValues):
        return ReturnedValues(args), ()

    def _scan(
        self, interpreter: Interpreter, space: Space, component: ComponentOp, lift_args: PythonValues
    ) -> PythonValues:
        """A proved component's states after every step."""
        states = [space.states[i] for i in component.state_indices]
        lifted: PythonValues = interpreter.run_ssacfg_region(component.lift, lift_args)
        # All values of an element over the same axes, so that combining takes nothing from outside a prefix.
        axes = {axis for value in (*lifted, *states) for axis in value.axes} - {space.time}
        sizes = {axis: space.sizes[axis] for axis in (space.time, *sorted(axes))}
        elements = tuple(value.spread(sizes) for value in lifted)

        def combine(earlier: Element, later: Element) -> Element:
            return interpreter.run_ssacfg_region(component.combine, (*earlier, *later))

        scanned = (scan_tree if self.order == "tree" else scan_fold)(combine, elements, space.time)
        return interpreter.run_ssacfg_region(component.apply, (*scanned, *states))

    def _walk(
        self,
        interpreter: Interpreter,
        space: Space,
        op: GenericOp,
        component: ComponentOp,
        before: dict[int, Lanes],
        prelude: PythonValues,
    ) -> PythonValues:
        """A refused component's states after every step, by `step` in time order."""
        own = component.state_indices
        current = {i: space.states[i] for i in own}
        after = [space.empty(op.states[i].axes, op.state_types[i]) for i in own]
        for t in range(space.steps):
            earlier = {i: values.at(space.time, t) for i, values in before.items()}
            known = earlier | current
            # States of later components: a component depends on none of them.
            states = [known.get(i) or unstated(op.step.block.args[i]) for i in range(op.num_states)]
            values = interpreter.run_ssacfg_region(op.step, (*states, *(v.at(space.time, t) for v in prelude)))
            current = {i: space.state(i, values[i]) for i in own}
            for room, i in zip(after, own, strict=True):
                room.data[t] = current[i].along(room.axes[1:])
        return tuple(after)


def delayed(start: Lanes, after: Lanes) -> Lanes:
    """The states before every step, from those after it, time first."""
    first = start.along(after.axes[1:])[np.newaxis]
    return Lanes(np.concatenate([first, after.data])[:-1], after.axes)


def part(element: Element, time: str, where: slice) -> Element:
    return tuple(value.at(time, where) for value in element)


def joined(time: str, *elements: Element) -> Element:
    axes = elements[0][0].axes
    return tuple(Lanes(np.concatenate([v.along(axes) for v in values]), axes) for values in zip(*elements, strict=True))


def scan_fold(combine: Combine, element: Element, time: str) -> Element:
    """Every prefix combined from the left."""
    steps = len(element[0].data)
    prefixes = [part(element, time, slice(0, 1))]
    for t in range(1, steps):
        prefixes.append(combine(prefixes[-1], part(element, time, slice(t, t + 1))))
    return joined(time, *prefixes)


def scan_tree(combine: Combine, element: Element, time: str) -> Element:
    """Every prefix by a balanced tree: pairs first, their prefixes by the same, then the steps between."""
    steps = len(element[0].data)
    if steps < 2:
        return element
    even, odd = part(element, time, slice(0, None, 2)), part(element, time, slice(1, None, 2))
    pairs = combine(part(even, time, slice(0, steps // 2)), odd)
    through_odd = scan_tree(combine, pairs, time)
    through_even = combine(part(through_odd, time, slice(0, (steps - 1) // 2)), part(even, time, slice(1, None)))
    through_even = joined(time, part(even, time, slice(0, 1)), through_even)
    return tuple(interleaved(a, b) for a, b in zip(through_even, through_odd, strict=True))


def interleaved(even: Lanes, odd: Lanes) -> Lanes:
    data = np.empty((len(even.data) + len(odd.data), *even.data.shape[1:]), even.data.dtype)
    data[0::2], data[1::2] = even.data, odd.along(even.axes)
    return Lanes(data, even.axes)
