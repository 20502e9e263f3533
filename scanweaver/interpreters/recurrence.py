"""`recurrence` on NumPy arrays: the sequential meaning of a step, all lanes at once, time by a Python loop."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.utils.exceptions import InterpretationError

from scanweaver.dialects.recurrence import GenericOp, ReduceKind, ReduceOp, RenameOp, TakeOp, YieldOp
from scanweaver.interpreters.iteration import Space, add_in_order, flattened
from scanweaver.interpreters.lanes import Array, Lanes, align


@register_impls
class RecurrenceFunctions(InterpreterFunctions):
    """Interpreter functions of the `recurrence` dialect."""

    @impl(GenericOp)
    def run_generic(self, interpreter: Interpreter, op: GenericOp, args: PythonValues) -> PythonValues:
        space = Space(op, args)
        axes = op.value_axes()
        outputs = [space.empty(tuple(axes[value]), value.type) for value in op.yield_op.outputs]
        states = space.states
        for t in range(space.steps):
            inputs = [value.at(space.time, t) for value in space.inputs]
            values = interpreter.run_ssacfg_region(op.body, (*states, *inputs))
            states = [space.state(i, value) for i, value in enumerate(values[: op.num_states])]
            for output, value in zip(outputs, values[op.num_states :], strict=True):
                output.data[t] = value.along(output.axes[1:])
        return (*(space.output(i, value) for i, value in enumerate(outputs)), *space.last(states))

    @impl_terminator(YieldOp)
    def run_yield(self, interpreter: Interpreter, op: YieldOp, args: PythonValues):
        return ReturnedValues(args), ()

    @impl(ReduceOp)
    def run_reduce(self, interpreter: Interpreter, op: ReduceOp, args: PythonValues) -> PythonValues:
        (value,) = cast(tuple[Lanes], args)
        if op.value.type == i1:
            raise InterpretationError("recurrence.reduce of i1 has no one meaning: extend it to a wider integer first")
        if op.kind.data is ReduceKind.ADD:
            return (add_in_order(value, op.axis_names, op.value.type),)
        rows, kept = flattened(value, op.axis_names)
        return (Lanes(np.asarray(extreme(op.kind.data, rows)), kept),)

    @impl(RenameOp)
    def run_rename(self, interpreter: Interpreter, op: RenameOp, args: PythonValues) -> PythonValues:
        (value,) = cast(tuple[Lanes], args)
        return (renamed(value, op.source_axis, op.target_axis),)

    @impl(TakeOp)
    def run_take(self, interpreter: Interpreter, op: TakeOp, args: PythonValues) -> PythonValues:
        value, index = cast(tuple[Lanes, Lanes], args)
        taken = f"{op.axis_name}'"  # `index` may itself vary over the axis
        axes, (data, position) = align([renamed(value, op.axis_name, taken), index])
        dim = axes.index(taken)
        shape = np.broadcast_shapes((*data.shape[:dim], 1, *data.shape[dim + 1 :]), position.shape)
        # A position outside may stand where nothing is read of it (behind a select): it takes the nearest one.
        position = np.broadcast_to(np.clip(position, 0, data.shape[dim] - 1), shape).astype(np.int64)
        data = np.broadcast_to(data, (*shape[:dim], data.shape[dim], *shape[dim + 1 :]))
        return (Lanes(np.take_along_axis(data, position, dim), axes).at(taken, 0),)


def renamed(value: Lanes, source: str, target: str) -> Lanes:
    return Lanes(value.data, tuple(target if axis == source else axis for axis in value.axes))


def extreme(kind: ReduceKind, rows: Array) -> Array:
    """max and min (NaN where there is one) or the first position of them, along the first dimension."""
    match kind:
        case ReduceKind.ARGMAX | ReduceKind.ARGMIN if not len(rows):
            return np.zeros(rows.shape[1:], np.int64)
        case ReduceKind.ARGMAX:
            return np.argmax(rows, axis=0)
        case ReduceKind.ARGMIN:
            return np.argmin(rows, axis=0)
        case _:
            limits = np.finfo(rows.dtype) if rows.dtype.kind == "f" else np.iinfo(rows.dtype)
            lowest, highest = (-np.inf, np.inf) if rows.dtype.kind == "f" else (limits.min, limits.max)
            if kind is ReduceKind.MAX:
                return np.maximum.reduce(rows, axis=0, initial=lowest)
            return np.minimum.reduce(rows, axis=0, initial=highest)
