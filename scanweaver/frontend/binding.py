"""A call's arguments: which kernel serves them, and what it is launched with.

What follows from shapes, strides, dtypes and devices is worked out once and remembered by them, so that a warm call
only asks each tensor for these and looks them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.autograd import forward_ad

from scanweaver.config import config
from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.arguments import Arguments, Decided, Options
from scanweaver.frontend.dtypes import NUMBER, as_number, kind_of
from scanweaver.frontend.memory import alignment, contiguous_axis, dense_strides
from scanweaver.frontend.parameters import Parameters
from scanweaver.frontend.resolution import Resolution, start_number, torch_dtype
from scanweaver.frontend.signature import Signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.unreadable import UNREADABLE, device_without_address, refuse_dual, refuse_unreadable

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_REMEMBERED = 4096
"""Bindings kept; all are dropped when there are more, as in serving with ever new lengths."""


@dataclass(frozen=True)
class Layout:
    """Where an operand or result is contiguous ("": nowhere), and the bytes that its runs there are aligned to."""

    contiguous: str
    align: int


ANYWHERE = Layout("", 1)
"""Says nothing: any strides, any alignment. A number's layout too."""


@dataclass(eq=False)
class Binding:
    """What shapes, strides, dtypes, devices and options decide.

    `strides` and `layouts` have one entry for each of `specialization.operands`; a stride is 0 where an axis
    broadcasts. `nesting`: the strides of the first input that carries time. `plan` is for whoever runs the call, to
    keep what was made for this binding.

    `order`: the places, among inputs and starts, of what is given: starts first, as the kernel takes them.
    `conversions` make starts of their states' dtypes. `lazy` are the places, among inputs and starts, of tensors whose
    conjugation or negation PyTorch may have put off. `halves`: for each tensor or number given, the bytes from a
    complex one's real to its imaginary part (0 for a number), None for a real one; None where all are real.
    """

    specialization: Specialization
    options: Options
    time: str
    device: torch.device
    sizes: dict[str, int]
    strides: list[dict[str, int]]
    layouts: list[Layout]
    nesting: dict[str, int]
    order: tuple[int, ...]
    conversions: tuple[tuple[int, Callable[[Any], Any]], ...]
    lazy: tuple[int, ...]
    halves: tuple[int | None, ...] | None
    plan: Any = None

    def shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        """The shape of a result with dimensions `axes`."""
        return tuple(self.sizes[axis] for axis in axes)

    def result_strides(self, axes: Sequence[str]) -> tuple[int, ...]:
        """The strides of a result with dimensions `axes`: dense, an output nested as the first input with time."""
        return dense_strides(axes, self.sizes, self.nesting if self.time in axes else {})

    def result_layout(self, axes: Sequence[str], itemsize: int) -> Layout:
        """The layout of such a result, of real numbers, in newly allocated memory."""
        strides = dict(zip(axes, self.result_strides(axes), strict=True))
        return _layout(axes, self.sizes, strides, self.time, itemsize, 0, self.options.reverse)

    def result_parts(self, axes: Sequence[str], dtype: torch.dtype) -> list[tuple[dict[str, int], Layout]]:
        """The strides and layout of such a result, or of its real and its imaginary part."""
        strides = dict(zip(axes, self.result_strides(axes), strict=True))
        return tensor_parts(axes, self.sizes, strides, self.time, dtype, 0, self.options.reverse)

    def results_parts(
        self, results: Sequence[tuple[Sequence[str], torch.dtype]]
    ) -> list[tuple[dict[str, int], Layout]]:
        """The same for all results, outputs and last states, from their dimensions and dtypes."""
        return [part for axes, dtype in results for part in self.result_parts(axes, dtype)]

    def specialized(self, touched: Sequence[str], renamed: Sequence[tuple[str, str]]) -> Specialization:
        """The specialization with the sizes of the axes that the traced step touches.

        Raises SignatureError where two axes that `sw.rename` exchanges have different sizes.
        """
        for source, target in renamed:
            if self.sizes[source] != self.sizes[target]:
                raise SignatureError(
                    f'`sw.rename(x, {source}="{target}")`: expected axes of one size, got {self.sizes[source]} for '
                    f"`{source}` and {self.sizes[target]} for `{target}`"
                )
        return self.specialization.with_sizes({axis: self.sizes[axis] for axis in touched})


class Binder:
    """Binds the arguments of calls to the recurrence `name`; `options` are its decorator's."""

    def __init__(self, name: str, signature: Signature, parameters: Parameters, options: Options | None = None) -> None:
        self.name = name
        self.signature = signature
        self.arguments = Arguments(name, signature, parameters, options or Options())
        self._known: dict[Any, Binding] = {}

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Binding, list[Any], list[int | float]]:
        """The binding of a call; its operands, tensors and numbers, to be kept alive; their addresses and values.

        Raises SignatureError for arguments that do not fit the signature, naming the argument, what was expected and
        what came; UnsupportedError for what is not built yet.
        """
        return self._bound(*self.arguments.arranged(args, kwargs))

    def _bound(self, items: list[Any], decided: Decided) -> tuple[Binding, list[Any], list[int | float]]:
        if torch._C._len_torch_dispatch_stack():  # pyright: ignore[reportPrivateUsage]
            raise UnsupportedError(f"{self.name} is called while PyTorch traces (make_fx, fake tensors): not built yet")
        if forward_ad._current_level >= 0:  # pyright: ignore
            self._refuse_duals(items)
        values: list[Any] = []
        key: list[Any] = [decided, config.target, config.batch_invariant]  # on which plans depend
        for i, item in enumerate(items):
            if type(item) is torch.Tensor or isinstance(item, torch.Tensor):
                if item.requires_grad and torch.is_grad_enabled():
                    self._refuse_grad(i)
                try:
                    values.append(address := item.data_ptr())
                    shape = item.shape
                except UNREADABLE:
                    refuse_unreadable(self._label(i), item)
                # The index alone hashes faster than the device; tensors without memory (meta) have it out.
                device = item.get_device() if address else device_without_address(self._label(i), item)
                key += (shape, item.stride(), item.dtype, device, address & 15)
            else:
                if item is not None and type(item) not in (float, int, bool, complex):
                    items[i] = item = self._number(i, item)
                values.append(item)
                key.append(type(item))
        remembered = tuple(key)
        binding = self._known.get(remembered)
        if binding is None:
            if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]  # where sizes are tensors
                raise UnsupportedError(f"{self.name} is called inside torch.jit.trace: not built yet")
            binding = self._new_binding(items, decided)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[remembered] = binding
        for i in binding.lazy:
            if items[i].is_conj() or items[i].is_neg():
                return self._bound([_resolved(item) for item in items], decided)
        for i, convert in binding.conversions:
            items[i] = item = convert(items[i])
            values[i] = item.data_ptr() if isinstance(item, torch.Tensor) else item
        operands = [items[i] for i in binding.order]
        values = [values[i] for i in binding.order]
        return binding, operands, values if binding.halves is None else _split(values, binding.halves)

    def _new_binding(self, items: list[Any], decided: Decided) -> Binding:
        found = Resolution(self.name, self.signature, items)
        count = len(self.signature.inputs)
        conversions: list[tuple[int, Callable[[Any], Any]]] = []
        operands: list[tuple[Given, Any]] = []
        for i, (given, value) in enumerate(zip(found.given_starts, found.starts, strict=True)):
            if given is not None:
                if (
                    convert := _conversion(f"{found.start_label} `{given.name}` of {self.name}", given, value)
                ) is not None:
                    conversions.append((count + i, convert))
                operands.append((given, convert(value) if convert else value))
        given_values = (value for value in found.inputs if value is not None)
        operands += zip(found.given_inputs, given_values, strict=True)
        time = self.signature.time
        nesting = next(_strides(given, value, found.sizes) for given, value in operands if time in given.axes)
        options = decided.options
        parts = [part for given, value in operands for part in _operand_parts(given, value, found, time, options)]
        halves = tuple(half_of(given, value) for given, value in operands)
        return Binding(
            Specialization(
                tuple(found.given_inputs),
                tuple(found.given_starts),
                found.leading,
                decided.constants,
                options.return_last,
                options.reverse,
            ),
            options,
            time,
            found.device,
            found.sizes,
            [strides for strides, _ in parts],
            [layout for _, layout in parts],
            nesting,
            order_of(items, count),
            tuple(conversions),
            tuple(i for i, item in enumerate(items) if isinstance(item, torch.Tensor) and may_be_lazy(item)),
            halves if any(half is not None for half in halves) else None,
        )

    def _label(self, i: int) -> str:
        count = len(self.signature.inputs)
        if i < count:
            return f"argument `{self.signature.inputs[i]}` of {self.name}"
        return f"init of state `{self.signature.states[i - count]}` of {self.name}"

    def _number(self, i: int, item: Any) -> complex:
        """A NumPy scalar as a Python number."""
        number = as_number(item)
        if number is None:
            kind = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
            hint = ": wrap it by torch.from_numpy" if kind == "numpy.ndarray" else ""
            raise SignatureError(f"{self._label(i)}: expected a tensor or a number, got {kind}{hint}")
        return number

    def _refuse_duals(self, items: Sequence[Any]) -> None:
        for i, item in enumerate(items):
            if isinstance(item, torch.Tensor):
                refuse_dual(self._label(i), item)

    def _refuse_grad(self, i: int) -> NoReturn:
        raise UnsupportedError(
            f"{self._label(i)} requires grad, and gradients are not built yet: call under torch.no_grad(), or detach it"
        )


def _strides(given: Given, value: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    if given.scalar:
        return {}
    dims = zip(given.axes, value.shape, value.stride(), strict=True)
    return {axis: stride if size == sizes[axis] else 0 for axis, size, stride in dims}


def _conversion(label: str, given: Given, value: Any) -> Callable[[Any], Any] | None:
    """What makes a start of its state's dtype; it looks at every number anew."""
    if given.scalar:
        kind = kind_of(given.dtype)
        as_it_is = kind != "int" and type(value) is NUMBER[kind]  # which integers fit is asked at every call
        return None if as_it_is else partial(start_number, label, given.dtype)
    dtype = torch_dtype(given.dtype)
    return None if value.dtype == dtype else partial(torch.Tensor.to, dtype=dtype)


def order_of(items: Sequence[Any], count: int) -> tuple[int, ...]:
    """The places of what is given, as a kernel takes them: what comes after the `count` inputs first."""
    return tuple(i for i in (*range(count, len(items)), *range(count)) if items[i] is not None)


def may_be_lazy(tensor: torch.Tensor) -> bool:
    """Whether a tensor can have a conjugation or negation to be resolved: a complex one, or a part of a complex one,
    whose neighbours are not next to it."""
    if tensor.is_complex():
        return True
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.is_floating_point() and all(size <= 1 or stride % 2 == 0 for size, stride in strides)


def _resolved(item: Any) -> Any:
    """A tensor as its memory says: PyTorch puts off `conj` and the negation of a part; what it put off is a copy."""
    return item.resolve_conj().resolve_neg() if isinstance(item, torch.Tensor) else item


# --- real and imaginary parts -------------------------------------------------------------------------------------


def half_of(given: Given, value: Any) -> int | None:
    if kind_of(given.dtype) != "complex":
        return None
    return 0 if given.scalar else value.element_size() // 2


def _split(values: Sequence[Any], halves: Sequence[int | None]) -> list[int | float]:
    """The addresses and numbers of operands that are real, two for a complex one."""
    split: list[int | float] = []
    for value, half in zip(values, halves, strict=True):
        if half is None:
            split.append(value)
        elif half:
            split += (value, value + half)
        else:
            split += (value.real, value.imag)
    return split


def _operand_parts(
    given: Given, value: Any, found: Resolution, time: str, options: Options
) -> list[tuple[dict[str, int], Layout]]:
    """The strides and layout of an operand, or of its real and imaginary part."""
    if given.scalar:
        return [({}, ANYWHERE) for _ in given.parts]
    strides, dtype = _strides(given, value, found.sizes), torch_dtype(given.dtype)
    return tensor_parts(given.axes, found.sizes, strides, time, dtype, value.data_ptr(), options.reverse)


def tensor_parts(
    axes: Sequence[str],
    sizes: Mapping[str, int],
    strides: Mapping[str, int],
    time: str,
    dtype: torch.dtype,
    address: int,
    reverse: bool,
) -> list[tuple[dict[str, int], Layout]]:
    """The same for a tensor: a complex one holds its parts in turns."""
    count = 2 if dtype.is_complex else 1
    itemsize = dtype.itemsize // count
    spread = {axis: stride * count for axis, stride in strides.items()}
    return [
        (spread, _layout(axes, sizes, spread, time, itemsize, address + part * itemsize, reverse))
        for part in range(count)
    ]


def _layout(
    axes: Sequence[str],
    sizes: Mapping[str, int],
    strides: Mapping[str, int],
    time: str,
    itemsize: int,
    address: int,
    reverse: bool,
) -> Layout:
    contiguous = contiguous_axis(axes, sizes, strides, time)
    if reverse and contiguous == time:
        address += sizes[time] * itemsize  # a walk from the last step begins its runs at the row's end
    return Layout(contiguous, alignment(contiguous, sizes, strides, itemsize, address))


def set_layouts(module: ModuleOp, binding: Binding) -> None:
    """Write into a traced module where the operands and results of `binding` are contiguous and aligned."""
    from xdsl.ir import BlockArgument  # which loaded artifacts do without

    from scanweaver.frontend.trace import iteration_of, result_axes, result_dtypes

    given = iter(binding.layouts)
    layouts = [next(given) if isinstance(init, BlockArgument) else ANYWHERE for init in iteration_of(module).inits]
    layouts += given
    results = list(zip(result_axes(module), map(torch_dtype, result_dtypes(module)), strict=True))
    layouts += [layout for _, layout in binding.results_parts(results)]
    write_layouts(module, layouts)


def write_layouts(module: ModuleOp, layouts: Sequence[Layout]) -> None:
    """Write layouts into a module that holds one recurrence: of each start, input and result."""
    from xdsl.dialects.builtin import ArrayAttr

    from scanweaver.dialects.iteration import LayoutAttr
    from scanweaver.frontend.trace import iteration_of

    iteration_of(module).layouts = ArrayAttr(LayoutAttr(layout.contiguous, layout.align) for layout in layouts)
