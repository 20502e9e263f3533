"""What the interpreters of `recurrence.generic` and `scan.generic` share: operands in, results out.

Values that vary over time are held in *walking order*: position 0 is the step that is taken first, T-1 of a reverse
recurrence. Results are put back into memory order, so nothing else knows of the direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.interpreter import PythonValues
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import InterpretationError

from scanweaver.dialects.iteration import Array as Operand
from scanweaver.dialects.iteration import IterationOp, ResultKind
from scanweaver.dialects.recurrence import RenameOp
from scanweaver.errors import UnsupportedError
from scanweaver.interpreters.lanes import Array, Lanes
from scanweaver.interpreters.pool import Pool
from scanweaver.interpreters.scalars import dtype_of, rounded


class Space:
    """One run of an iteration space: the sizes of its axes, its initial states, its inputs in walking order."""

    def __init__(self, op: IterationOp, args: PythonValues):
        if op.offsets is not None:
            raise UnsupportedError(f"{op.name} with offsets: packed sequences are not interpreted yet")
        self.op = op
        self.time = op.time_axis
        count = len(args) - len(op.destinations)
        self.destinations = args[count:]
        self.pool = Pool(op.slot_arrays[0].axes[0], args[count - 1]) if op.slot_arrays else None
        arrays = (*op.init_arrays, *op.input_arrays)
        lanes = [self._named(operand, value) for operand, value in zip(arrays, args, strict=False)]
        self.sizes = self._sizes(arrays, lanes)
        self.steps = self.sizes[self.time]
        self.states = [
            self.state(i, Lanes(rounded(value.data, op.state_types[i]), value.axes))
            for i, value in enumerate(lanes[: op.num_states])
        ]
        self.inputs = [self._turned(value) for value in lanes[op.num_states :]]

    # --- operands ---------------------------------------------------------------------------------------------

    def _named(self, operand: Operand, value: Any) -> Lanes:
        data: Array = value.data if isinstance(value, Lanes) else np.asarray(value)
        if data.ndim != len(operand.axes):
            raise InterpretationError(
                f"'{operand.name}' has axes {list(operand.axes)}, got an array of shape {data.shape}"
            )
        named = Lanes(data, operand.axes)
        return self.pool.read(named) if self.pool is not None and operand.pooled else named

    def _sizes(self, operands: Sequence[Operand], lanes: Sequence[Lanes]) -> dict[str, int]:
        """Sizes of all axes, in their order: from the arrays, or where none has the axis from the results' types."""
        found: dict[str, int] = {} if self.pool is None else {self.pool.axis: len(self.pool.slots)}
        for operand, value in zip(operands, lanes, strict=True):
            for axis, size in zip(value.axes, value.data.shape, strict=True):
                if found.setdefault(axis, size) != size:
                    raise InterpretationError(f"axis '{axis}' has size {found[axis]}, and {size} in '{operand.name}'")
        found = self.op.sizes | found
        unknown = set(self.op.axis_names) - set(found)
        if unknown:
            raise InterpretationError(f"no operand and no static type gives axis '{min(unknown)}' its size")
        for rename in self.op.walk():
            if isinstance(rename, RenameOp) and found[rename.source_axis] != found[rename.target_axis]:
                raise InterpretationError(
                    f"rename [{rename.source_axis} to {rename.target_axis}]: the axes have sizes "
                    f"{found[rename.source_axis]} and {found[rename.target_axis]}"
                )
        return {axis: found[axis] for axis in self.op.axis_names}

    def state(self, i: int, value: Lanes) -> Lanes:
        """A value of state `i`, over all axes of that state."""
        return value.spread({axis: self.sizes[axis] for axis in self.op.states[i].axes})

    def trajectory(self, i: int, value: Lanes) -> Lanes:
        """Values of state `i` at every step, over all axes of that state and, first, time."""
        return value.spread({axis: self.sizes[axis] for axis in (self.time, *self.op.states[i].axes)})

    def empty(self, axes: Sequence[str], type: Attribute) -> Lanes:
        """Room for a value at every step: time first, then `axes`."""
        axes = (self.time, *(axis for axis in self.op.axis_names if axis in axes and axis != self.time))
        return Lanes(np.zeros([self.sizes[axis] for axis in axes], dtype_of(type)), axes)

    def _turned(self, value: Lanes) -> Lanes:
        return value.flipped(self.time) if self.op.is_reverse else value

    # --- results ----------------------------------------------------------------------------------------------

    def output(self, i: int, value: Lanes) -> Array:
        """Result `i` from the value yielded for it at every step.

        per step: the value of step t at t. Sampled by K: that of steps 0, K, 2K, … of memory at 0, 1, 2, ….
        Reduced: each lane adds its steps as it walks, then lanes are added in index order, axes in the order that the
        operation lists them; types below f32 are added in f32 and rounded once. A row without a slot gives 0.
        """
        result = self.op.result_arrays[i]
        type = result.element_type
        if self.pool is not None:
            value = self.pool.cleared(value)
        if self.op.output_kinds.data[i].data is ResultKind.REDUCED:
            wide = f32 if isinstance(type, BFloat16Type | Float16Type) else type
            value = value.spread({self.time: self.steps} | dict(zip(value.axes, value.data.shape, strict=True)))
            if self.time not in result.axes:
                value = add_in_order(value, [self.time], wide)
            rest = [axis for axis in self.op.axis_names if axis in value.axes and axis not in result.axes]
            value = add_in_order(value, rest, wide)
        value = self._turned(value).spread({axis: self.sizes[axis] for axis in result.axes})
        value = value.at(self.time, slice(None, None, self.op.sample_step(i)))
        return rounded(value.data, type).copy()

    def last(self, states: Sequence[Lanes]) -> tuple[Array, ...]:
        """The results that are last states, from all last states."""
        results = self.op.result_arrays[self.op.num_outputs :]
        values = [
            rounded(self.state(i, states[i]).along(result.axes), result.element_type).copy()
            for i, result in zip(self.op.last_states, results, strict=True)
        ]
        if self.pool is None:
            return tuple(values)
        pools = [
            Lanes(rounded(np.asarray(into), result.element_type).copy(), result.axes)
            for into, result in zip(self.destinations, results, strict=True)
        ]
        return tuple(self.pool.written(into, value) for into, value in zip(pools, values, strict=True))


def add_in_order(value: Lanes, over: Sequence[str], type: Attribute) -> Lanes:
    """The sum over axes, one element after the other, the first axis outermost; 0 where there is none."""
    if not over:
        return value
    rows, kept = flattened(value, over)
    dtype = dtype_of(type)
    total = np.zeros(rows.shape[1:], dtype)
    if isinstance(type, BFloat16Type):
        for row in rows:
            total = rounded(total + row, type)
    elif len(rows):
        total = np.add.accumulate(rows, axis=0, dtype=dtype)[-1]
    return Lanes(total, kept)


def flattened(value: Lanes, over: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """`value` with the axes `over` as one first dimension, and the axes that are left."""
    kept = tuple(axis for axis in value.axes if axis not in over)
    data = value.along((*over, *kept))
    length = int(np.prod(data.shape[: len(over)]))
    return data.reshape(length, *data.shape[len(over) :]), kept


def unstated(value: SSAValue) -> Lanes:
    """A stand-in for a value that is not known yet and that nothing read depends on."""
    return Lanes(np.zeros((), dtype_of(value.type)), ())
