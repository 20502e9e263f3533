"""A step's arguments: which kernel serves them, where the states live, which slots its rows use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import torch

from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.arguments import Decided, Options
from scanweaver.frontend.binding import ANYWHERE, Binder, Binding, Layout, half_of, may_be_lazy, order_of, tensor_parts
from scanweaver.frontend.dtypes import LONG, SHORT, kind_of
from scanweaver.frontend.memory import dense_strides, may_overlap
from scanweaver.frontend.parameters import CALL_OPTIONS, Parameters
from scanweaver.frontend.resolution import Resolution, torch_dtype
from scanweaver.frontend.signature import Array, Signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.unreadable import UNREADABLE, check_readable

SLOTS = "slots"
_IN_ORDER = Options(parallel="never")
_LOW_PRECISION = ("f32", "bf16", "f16")
"""What a floating state may be kept in, beside its own dtype."""


@dataclass(eq=False)
class StepBinding(Binding):
    """A step's binding: beside the operands the slots, none or one, and where the parts of the pools are."""

    slot_strides: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    pool_parts: list[tuple[dict[str, int], Layout]] = field(default_factory=list[tuple[dict[str, int], Layout]])

    @property
    def operand_strides(self) -> list[dict[str, int]]:
        """Those of the kernel's operands that a call gives: starts, slots, inputs."""
        count = len(self.pool_parts)
        return [*self.strides[:count], *self.slot_strides, *self.strides[count:]]

    def results_parts(
        self, results: Sequence[tuple[Sequence[str], torch.dtype]]
    ) -> list[tuple[dict[str, int], Layout]]:
        outputs = len(results) - len(self.specialization.inits)
        return [*super().results_parts(results[:outputs]), *self.pool_parts]

    def specialized(self, touched: Sequence[str], renamed: Sequence[tuple[str, str]]) -> Specialization:
        special = super().specialized(touched, renamed)
        return special.with_sizes({**dict(special.sizes), self.time: 1})

    def copying(self, states: Sequence[int]) -> StepBinding:
        """The same with the starts of some states read from dense copies by row."""
        starts: list[tuple[dict[str, int], Layout]] = []
        for i, given in enumerate(self.specialization.inits):
            assert given is not None
            dense = dict(zip(given.axes, dense_strides(given.axes, self.sizes, {}), strict=True))
            copy = tensor_parts(given.axes, self.sizes, dense, self.time, torch_dtype(given.dtype), 0, False)
            starts += copy if i in states else self.pool_parts[len(starts) : len(starts) + len(copy)]
        return replace(
            self,
            specialization=replace(self.specialization, copied=tuple(states)),
            strides=[*(strides for strides, _ in starts), *self.strides[len(starts) :]],
            layouts=[*(layout for _, layout in starts), *self.layouts[len(starts) :]],
        )


class StepBinder(Binder):
    """Binds the arguments of steps: inputs without time, states, slots."""

    def __init__(self, name: str, signature: Signature, parameters: Parameters):
        super().__init__(f"{name}.step", _without_time(signature), parameters, _IN_ORDER)
        self.whole = signature

    def bind_step(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], state: Any, slots: Any
    ) -> tuple[StepBinding, list[Any], list[Any]]:
        """As `bind`; operands are the states, the slots, the inputs."""
        for option in CALL_OPTIONS if kwargs else ():
            if option in kwargs:
                raise SignatureError(
                    f"{self.name} takes no `{option}`: it takes inputs, constants, `state` and `slots`"
                )
        items, decided = self.arguments.arranged(args, kwargs)
        if slots is not None and not isinstance(slots, torch.Tensor):
            self._refuse(SLOTS, self._expected_slots, type(slots).__name__)
        items[len(self.signature.inputs) :] = [*self._states(state), slots]
        binding, operands, values = self._bound(items, decided)
        assert isinstance(binding, StepBinding)
        if slots is not None and slots.device.type == "cpu" and len(slots):
            self._check_in_pool(int(slots.max()), items[len(self.signature.inputs) : -1])
        return binding, operands, values

    def _states(self, state: Any) -> Sequence[torch.Tensor]:
        states = self.signature.states
        several = isinstance(state, tuple | list)
        given = cast(Sequence[Any], state) if several else (state,)
        if len(given) != len(states) or not all(isinstance(each, torch.Tensor) for each in given):
            many = f"a tuple of {len(states)} tensors, one for each state"
            came = "nothing" if state is None else type(state).__name__
            if several:
                came = f"({', '.join(type(each).__name__ for each in given)})"
            self._refuse(
                "state",
                f"{many if len(states) > 1 else 'a tensor'} ({', '.join(map(str, states))}), to be advanced in place",
                came,
            )
        try:
            lazy = any(each.is_conj() or each.is_neg() for each in given)
            addresses = [each.data_ptr() for each in given if each.numel()] if len(given) > 1 else []
        except UNREADABLE:
            for i, each in enumerate(given):
                check_readable(self._label(len(self.signature.inputs) + i), each)
            raise
        if lazy:
            self._refuse("state", "memory that holds the state", "a conjugated or negated view of it: resolve it first")
        if len(set(addresses)) < len(addresses):
            self._refuse("state", "a tensor of its own for every state", "two in the same memory")
        return given

    def _new_binding(self, items: list[Any], decided: Decided) -> StepBinding:
        *operands, slots = items
        signature, time = self.signature, self.whole.time
        known = {time: (1, "one step")}
        if slots is not None:
            self._check_slots(slots)
            known[signature.batch] = (len(slots), f"`slots`, of shape {tuple(slots.shape)}")
        found = _StepResolution(self.name, signature, operands, known, signature.batch if slots is not None else None)
        if slots is not None and slots.device != found.device:
            self._refuse(SLOTS, f"a tensor on {found.device}, where the inputs are", f"one on {slots.device}")
        timed = {array.name: array.axes for array in self.whole.inputs if time in array.axes}
        inputs = [
            (_with_time(given, timed.get(given.name)), value)
            for given, value in zip(found.given_inputs, (v for v in found.inputs if v is not None), strict=True)
        ]
        starts = [(given, value) for given, value in zip(found.given_starts, found.starts, strict=True) if given]

        def parts(given: Given, value: Any, sizes: Mapping[str, int]) -> list[tuple[dict[str, int], Layout]]:
            if given.scalar:
                return [({}, ANYWHERE) for _ in given.parts]
            strides = _strides(given.axes, value, sizes, time)
            return tensor_parts(given.axes, sizes, strides, time, value.dtype, value.data_ptr(), False)

        pools = [  # which has slots where there are rows
            part
            for given, value in starts
            for part in parts(given, value, found.sizes | dict(zip(given.axes, value.shape, strict=True)))
        ]
        of_inputs = [part for given, value in inputs for part in parts(given, value, found.sizes)]
        strided = (_strides(given.axes, value, found.sizes, time) for given, value in inputs if time in given.axes)
        halves = [half_of(given, value) for given, value in starts]
        halves += [None for _ in (slots,) if slots is not None]
        halves += [half_of(given, value) for given, value in inputs]
        return StepBinding(
            Specialization(
                tuple(given for given, _ in inputs),
                tuple(given for given, _ in starts),
                found.leading,
                decided.constants,
                return_last=True,
                slots=None if slots is None else Given(SLOTS, (signature.batch,), _short(slots.dtype)),
            ),
            decided.options,
            time,
            found.device,
            found.sizes,
            [strides for strides, _ in (*pools, *of_inputs)],
            [layout for _, layout in (*pools, *of_inputs)],
            next(strided, dict[str, int]()),
            order_of(items, len(signature.inputs)),
            (),
            tuple(i for i, item in enumerate(found.inputs) if isinstance(item, torch.Tensor) and may_be_lazy(item)),
            tuple(halves) if any(half is not None for half in halves) else None,
            slot_strides=[] if slots is None else [{signature.batch: slots.stride(0)}],
            pool_parts=pools,
        )

    @property
    def _expected_slots(self) -> str:
        return f"a tensor of int32 or int64 with one slot for each row of `{self.signature.batch}`"

    def _check_slots(self, slots: torch.Tensor) -> None:
        batch = self.signature.batch
        if slots.dtype not in (torch.int32, torch.int64):
            self._refuse(SLOTS, self._expected_slots, f"one of {_long(slots.dtype)}")
        if slots.dim() != 1:
            self._refuse(SLOTS, self._expected_slots, f"{slots.dim()} dimensions, {tuple(slots.shape)}")
        for role, arrays in (("state", self.signature.states), ("output", self.signature.outputs)):
            for array in arrays:
                if batch not in array.axes:
                    raise SignatureError(
                        f"slots= of {self.name}: {role} `{array}` has no axis `{batch}`, whose rows the slots are of; "
                        "`batch=` on the decorator names another axis"
                    )

    def _check_in_pool(self, largest: int, pools: Sequence[torch.Tensor]) -> None:
        """Where the host may read slots, it looks that they lie in every pool."""
        for array, pool in zip(self.signature.states, pools, strict=True):
            rows = pool.shape[array.axes.index(self.signature.batch)]
            if largest >= rows:
                self._refuse(SLOTS, f"slots below {rows}, the rows of the pool of state `{array}`", str(largest))

    def _refuse(self, label: str, expected: str, came: str) -> NoReturn:
        raise SignatureError(f"{label}= of {self.name}: expected {expected}, got {came}")

    def _label(self, i: int) -> str:
        count = len(self.signature.inputs)
        if i < count:
            return super()._label(i)
        states = self.signature.states
        return f"state `{states[i - count]}` of {self.name}" if i < count + len(states) else f"slots= of {self.name}"

    def _refuse_grad(self, i: int) -> NoReturn:
        raise UnsupportedError(
            f"{self._label(i)} requires grad, and a step has no gradients: call under torch.no_grad(), or detach it"
        )


class _StepResolution(Resolution):
    """Sizes and operands of a step; along the axis `pooled` (None: none) states have slots, as many as they like."""

    start_label = "state"

    def __init__(
        self,
        name: str,
        signature: Signature,
        items: Sequence[Any],
        known: Mapping[str, tuple[int, str]],
        pooled: str | None,
    ):
        self.pooled = pooled
        super().__init__(name, signature, items, known)

    def _start(self, state: Array, value: Any) -> Given:
        """A state as it lies in memory: nothing of it broadcasts, for it is written."""
        label = f"state `{state}`"
        own = SHORT[state.dtype] if state.dtype else self.compute
        allowed = dict.fromkeys((own, *_LOW_PRECISION) if kind_of(own) == "float" else (own,))
        dtype = _short(value.dtype)
        if dtype not in allowed:
            self._refuse(label, " or ".join(LONG[short] for short in allowed), _long(value.dtype))
        axes = (*self.leading, *state.axes) if state.ellipsis else state.axes
        shape = tuple(value.shape)
        sizes = [
            f"{axis}={self.known[axis].size}" if axis in self.known and axis != self.pooled else axis for axis in axes
        ]
        wanted = f"the shape [{' '.join(sizes)}]"
        if len(shape) != len(axes):
            self._refuse(label, wanted, f"{len(shape)} dimensions, {shape}")
        for axis, size in zip(axes, shape, strict=True):
            if axis == self.pooled:
                continue
            if axis not in self.known:
                self._size(axis, size, f"{label}, of shape {shape}")
            elif size != self.known[axis].size:
                self._refuse(label, wanted, f"{shape}, whose `{axis}` is {size}")
        if may_overlap(shape, value.stride()):
            self._refuse(
                label, "memory of its own for every element", f"strides {value.stride()} for {shape}: clone it first"
            )
        return Given(state.name, axes, dtype)


def _without_time(signature: Signature) -> Signature:
    """The signature of one step."""

    def stepped(array: Array) -> Array:
        return replace(array, axes=tuple(axis for axis in array.axes if axis != signature.time))

    return replace(
        signature, inputs=tuple(map(stepped, signature.inputs)), outputs=tuple(map(stepped, signature.outputs))
    )


def _with_time(given: Given, axes: tuple[str, ...] | None) -> Given:
    """A step's input as the recurrence knows it; `axes` are those that its signature gives it, with time."""
    if axes is None:
        return given
    return replace(given, axes=(*given.axes[: len(given.axes) - len(axes) + 1], *axes))


def _strides(axes: Sequence[str], value: torch.Tensor, sizes: Mapping[str, int], time: str) -> dict[str, int]:
    """Strides by axis; 0 along time, of which there is one step, and where an axis broadcasts."""
    dims = zip((axis for axis in axes if axis != time), value.shape, value.stride(), strict=True)
    found = {axis: stride if size == sizes[axis] else 0 for axis, size, stride in dims}
    return {axis: found.get(axis, 0) for axis in axes}


def _short(dtype: torch.dtype) -> str:
    return SHORT.get(_long(dtype), "")


def _long(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
