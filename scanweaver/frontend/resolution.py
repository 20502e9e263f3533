"""What shapes, dtypes and devices of a call's arguments say: sizes of axes, what `...` stands for, how states start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from scanweaver.errors import SignatureError
from scanweaver.frontend.dtypes import (
    LONG,
    NUMBER,
    SHORT,
    complex_dtype,
    computed_in,
    integers_of,
    kind_of,
    real_dtype,
    told,
)
from scanweaver.frontend.signature import Array, Signature
from scanweaver.frontend.specialization import Given

_SHORT = {getattr(torch, name): short for name, short in SHORT.items()}


def torch_dtype(short: str) -> torch.dtype:
    return getattr(torch, LONG[short])


def start_number(label: str, dtype: str, number: Any) -> Any:
    """A number as a state of a short dtype starts at it; raises SignatureError for one that it cannot start at."""

    def refuse(expected: str, came: str = "") -> NoReturn:
        raise SignatureError(f"{label}: expected {expected}, got {came or repr(number)}")

    kind = kind_of(dtype)
    if kind == "int" and (isinstance(number, complex) or not (isinstance(number, int) or number.is_integer())):
        refuse("an integer")
    if kind == "bool" and number not in (0, 1):
        refuse("True or False")
    if kind == "float" and isinstance(number, complex):
        refuse(LONG[dtype])
    if kind == "int" and int(number) not in integers_of(dtype):
        refuse(told(integers_of(dtype)), _in_bits(int(number)))
    try:
        return NUMBER[kind](number)
    except OverflowError:
        refuse(LONG[dtype], _in_bits(number))


def _in_bits(number: int) -> str:
    """An integer as a message tells it: by its size where its digits would fill the message."""
    return repr(number) if number.bit_length() <= 64 else f"an integer of {number.bit_length()} bits"


@dataclass
class _Source:
    """Where the size of an axis was read."""

    size: int
    label: str


class Resolution:
    """The sizes and operands of one call.

    `items`: the inputs in the signature's order, then one start a state: a tensor, a number or None. `known` says of
    axes whose size is known beforehand what size and from where.

    Raises SignatureError naming the argument, what was expected and what came.
    """

    start_label = "init of state"
    """What a start is called in messages."""

    def __init__(
        self, name: str, signature: Signature, items: Sequence[Any], known: Mapping[str, tuple[int, str]] | None = None
    ) -> None:
        self.name = name
        self.signature = signature
        count = len(signature.inputs)
        self.inputs, self.starts = items[:count], items[count:]
        self.known = {axis: _Source(*source) for axis, source in (known or {}).items()}
        self.device = self._device()
        dtypes = [self._dtype(array, value) for array, value in zip(signature.inputs, self.inputs, strict=True)]
        marks = [SHORT[state.dtype] for state in signature.states if state.dtype]
        self.compute = computed_in((*dtypes, *marks))
        self.leading = self._leading()
        self.given_inputs = [
            self._input(array, value, dtype)
            for array, value, dtype in zip(signature.inputs, self.inputs, dtypes, strict=True)
            if value is not None
        ]
        self.given_starts = [
            None if value is None else self._start(state, value)
            for state, value in zip(signature.states, self.starts, strict=True)
        ]
        self._check_every_axis_has_a_size()
        self.sizes = {axis: source.size for axis, source in self.known.items()}

    # --- kinds and devices ------------------------------------------------------------------------------------

    def _device(self) -> torch.device:
        """The one device of all tensors."""
        labels = [f"argument `{array}`" for array in self.signature.inputs]
        labels += [f"{self.start_label} `{state}`" for state in self.signature.states]
        first: tuple[str, torch.device] | None = None
        for label, value in zip(labels, (*self.inputs, *self.starts), strict=True):
            if not isinstance(value, torch.Tensor):
                continue
            if first is None:
                first = (label, value.device)
            elif value.device != first[1]:
                number = "; a 0-d tensor may be given as a number, by .item()" if value.dim() == 0 else ""
                raise SignatureError(
                    f"{label} of {self.name} is on {value.device}, and {first[0]} is on {first[1]}: expected all "
                    f"inputs and init on one device{number}"
                )
        if first is None:
            raise SignatureError(f"{self.name}: expected at least one tensor among the inputs, got numbers only")
        return first[1]

    def _dtype(self, array: Array, value: Any) -> str:
        """The short dtype of an input; "" for a float or complex number, which takes the step's precision."""
        if value is None:
            return ""
        if not isinstance(value, torch.Tensor):
            if array.axes or array.ellipsis:
                self._refuse(
                    f"argument `{array}`",
                    f"a tensor of {len(array.axes)} dimensions",
                    f"the number {value!r}: only a scalar input, `{array.name}[]`, is given as one",
                )
            return "" if isinstance(value, float | complex) else "i1" if isinstance(value, bool) else "i64"
        short = _SHORT.get(value.dtype)
        if short is None:
            self._refuse(f"argument `{array}`", f"one of {', '.join(SHORT)}", str(value.dtype).removeprefix("torch."))
        return short

    def _refuse(self, label: str, expected: str, came: str) -> NoReturn:
        raise SignatureError(f"{label} of {self.name}: expected {expected}, got {came}")

    # --- inputs -----------------------------------------------------------------------------------------------

    def _leading(self) -> tuple[str, ...]:
        """Names for the axes that `...` stands for, as many as the argument with most of them has."""
        ranks = [
            value.dim() - len(array.axes)
            for arrays, values in ((self.signature.inputs, self.inputs), (self.signature.states, self.starts))
            for array, value in zip(arrays, values, strict=True)
            if array.ellipsis and isinstance(value, torch.Tensor)
        ]
        return tuple(f"_{i}" for i in range(max(ranks, default=0)))

    def _input(self, array: Array, value: Any, dtype: str) -> Given:
        if not isinstance(value, torch.Tensor):
            computed = complex_dtype(self.compute) if isinstance(value, complex) else self.compute
            return Given(array.name, (), dtype or computed, scalar=True)
        shape = tuple(value.shape)
        extra = len(shape) - len(array.axes)
        if extra < 0 or (extra > 0 and not array.ellipsis):
            least = "at least " if array.ellipsis else ""
            dims = f"{least}{len(array.axes)} dimension{'' if len(array.axes) == 1 else 's'}"
            self._refuse(f"argument `{array}`", dims, f"{len(shape)}, of shape {shape}")
        axes = (*self.leading[len(self.leading) - extra :], *array.axes)
        for axis, size in zip(axes, shape, strict=True):
            self._size(axis, size, f"`{array}`, of shape {shape}")
        return Given(array.name, axes, dtype)

    def _size(self, axis: str, size: int, label: str) -> None:
        """Learn that an axis has `size` where `label` says; leading axes of size 1 broadcast."""
        found = self.known.get(axis)
        if found is None or (axis in self.leading and found.size == 1):
            self.known[axis] = _Source(size, label)
        elif size != found.size and not (axis in self.leading and size == 1):
            what = "a leading axis, which `...` stands for," if axis in self.leading else f"axis `{axis}`"
            one = "" if axis in self.leading or 1 not in (size, found.size) else self._no_broadcast(axis)
            raise SignatureError(
                f"{self.name}: {what} has size {found.size} in {found.label}, and size {size} in {label}{one}"
            )

    @staticmethod
    def _no_broadcast(axis: str) -> str:
        return f": a size of 1 does not broadcast, leave `{axis}` out of that array, or expand the tensor"

    # --- starts -----------------------------------------------------------------------------------------------

    def _start(self, state: Array, value: Any) -> Given:
        """A start, in its state's dtype; for a complex state in that of its real part, where the start is real."""
        label = f"{self.start_label} `{state}`"
        dtype = SHORT[state.dtype] if state.dtype else self.compute
        is_complex = value.is_complex() if isinstance(value, torch.Tensor) else isinstance(value, complex)
        if not isinstance(value, torch.Tensor):
            start_number(f"{label} of {self.name}", dtype, value)
            return Given(state.name, (), dtype if is_complex else real_dtype(dtype), scalar=True)
        self._check_start_dtype(label, value.dtype, dtype)
        axes = (*self.leading, *state.axes) if state.ellipsis else state.axes
        shape = tuple(value.shape)
        served = axes[len(axes) - len(shape) :]
        expected = [f"{axis}={self.known[axis].size}" if axis in self.known else axis for axis in axes]
        wanted = f"a shape that broadcasts to [{' '.join(expected)}]"
        if len(shape) > len(axes):
            self._refuse(label, wanted, f"{len(shape)} dimensions, {shape}")
        for axis, size in zip(served, shape, strict=True):
            if axis not in self.known or (axis in self.leading and self.known[axis].size == 1):
                self.known[axis] = _Source(size, f"{label}, of shape {shape}")
            elif size not in (1, self.known[axis].size):
                self._refuse(label, wanted, f"{shape}, whose `{axis}` is {size}")
        return Given(state.name, served, dtype if is_complex else real_dtype(dtype))

    def _check_start_dtype(self, label: str, given: torch.dtype, wanted: str) -> None:
        short = _SHORT.get(given)
        kind, to = kind_of(short) if short else None, kind_of(wanted)
        fits = kind == to or (kind == "int" and to in ("float", "complex")) or (kind == "float" and to == "complex")
        if not fits:
            self._refuse(label, LONG[wanted], str(given).removeprefix("torch."))

    def _check_every_axis_has_a_size(self) -> None:
        for state in self.signature.states:
            for axis in (*(self.leading if state.ellipsis else ()), *state.axes):
                if axis not in self.known:
                    self._refuse_unsized(axis, f"state `{state}`", "by `init=` as a tensor that has it")
        for output in self.signature.outputs:
            for axis in output.axes:
                if axis not in self.known:
                    self._refuse_unsized(axis, f"output `{output}`", "by the optional input that carries it")
        if self.signature.time not in self.known:
            self._refuse_unsized(self.signature.time, "every output", "by an input that carries it")

    def _refuse_unsized(self, axis: str, where: str, how: str) -> NoReturn:
        raise SignatureError(
            f"{self.name}: axis `{axis}` of {where} has no size, for none of the inputs given has it: give it {how}"
        )
