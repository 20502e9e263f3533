"""What an artifact was compiled for: all that a call decides, except sizes of rows and time, strides and alignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from scanweaver.artifacts.plain import axes_from, dtype_from, size_from, text_from, to_plain, value_from
from scanweaver.errors import ScanWeaverError, SignatureError
from scanweaver.frontend.arguments import Constants, Options
from scanweaver.frontend.binding import Binding
from scanweaver.frontend.dtypes import LONG, kind_of
from scanweaver.frontend.parameters import Parameters
from scanweaver.frontend.signature import Signature, parse_signature
from scanweaver.frontend.specialization import Given

FRESH, CARRIED = "fresh", "carried"
FORMS = (FRESH, CARRIED)
"""Fresh kernels start the states at the signature's numbers; carried ones read them, and store the last ones."""

_KINDS = ("bool", "int", "float", "complex")
_NUMBERS = {(kind, kind) for kind in _KINDS} | {("int", "float"), ("int", "complex"), ("float", "complex")}
"""The kinds of Python numbers that serve for an input of a kind."""

Result = tuple[tuple[str, ...], str]
"""Dimensions and short dtype of an output."""


@dataclass(frozen=True)
class Contract:
    """`inputs` and `states` are operands as kernels take them: every state as a tensor with all its axes. `required`
    names the states that start only where `init` says; `sizes` are those of the axes that the step reduces, renames or
    takes from."""

    name: str
    target: str
    text: str
    time: str
    batch: str
    defaults: tuple[Any, ...]
    constants: tuple[tuple[str, Any], ...]
    leading: tuple[str, ...]
    inputs: tuple[Given, ...]
    states: tuple[Given, ...]
    required: tuple[str, ...]
    outputs: tuple[Result, ...]
    sizes: tuple[tuple[str, int], ...]
    options: Options

    @cached_property
    def signature(self) -> Signature:
        return parse_signature(self.text, time=self.time, batch=self.batch)

    @property
    def parameters(self) -> Parameters:
        """A call may leave the constants out."""
        return Parameters(self.defaults, dict(self.constants))

    @property
    def axes(self) -> frozenset[str]:
        operands = (*self.inputs, *self.states)
        return frozenset(axis for given in operands for axis in given.axes)

    def operands(self, form: str) -> tuple[Given, ...]:
        """What kernels of a form take, in order."""
        return (*(self.states if form == CARRIED else ()), *self.inputs)

    def stores_last(self, form: str) -> bool:
        return form == CARRIED or self.signature.mode == "last"

    def results(self, form: str) -> tuple[Result, ...]:
        """What kernels of a form store: outputs, then last states."""
        lasts = tuple((state.axes, state.dtype) for state in self.states) if self.stores_last(form) else ()
        return (*self.outputs, *lasts)

    def form(self, binding: Binding) -> str:
        """The form that a call needs."""
        given = any(init is not None for init in binding.specialization.inits)
        last = binding.specialization.return_last and self.signature.mode != "last"
        return CARRIED if given or last else FRESH

    # --- what it was not compiled for -------------------------------------------------------------------------

    def check(self, binding: Binding, constants: Constants) -> None:
        """Raises SignatureError that says what in a call it was not compiled for; `constants` are its own, bound."""
        device = binding.device.type
        if (self.target == "cpu") != (device == "cpu"):
            self._refuse("", f"compiled for {self.target}, the tensors are on {binding.device}")
        self._check_inputs(binding)
        for state, init in zip(self.states, binding.specialization.inits, strict=True):
            if init is None and state.name in self.required:
                self._refuse(f"init of state `{state.name}`", "compiled from a text that takes it, got nothing")
        for (name, *want), (_, *came) in zip(constants, binding.specialization.constants, strict=True):
            if want != came and not all(value != value for _, value in (want, came)):  # NaN is NaN
                self._refuse(f"constant `{name}`", f"compiled for {want[1]!r}, got {came[1]!r}")
        for name in ("reverse", "parallel", "strategy"):
            want, came = getattr(self.options, name), getattr(binding.options, name)
            if want != came:
                self._refuse(f"{name}=", f"compiled for {want!r}, got {came!r}")
        for axis, size in self.sizes:
            if binding.sizes[axis] != size:
                self._refuse(f"axis `{axis}`", f"compiled for size {size}, got {binding.sizes[axis]}")

    def _check_inputs(self, binding: Binding) -> None:
        given = {operand.name: operand for operand in binding.specialization.inputs}
        for want in self.inputs:
            label = f"argument `{want.name}`"
            came = given.pop(want.name, None)
            if came is None:
                self._refuse(label, "compiled with it, got nothing")
            if came.scalar:
                fits = (kind_of(came.dtype), kind_of(want.dtype)) in _NUMBERS
            elif want.scalar:
                self._refuse(label, "compiled for a number, got a tensor: give its .item()")
            else:
                fits = came.dtype == want.dtype
            if not fits:
                self._refuse(label, f"compiled for {LONG[want.dtype]}, got {LONG[came.dtype]}")
            if came.axes != want.axes and not came.scalar:
                counts = [sum(axis.startswith("_") for axis in of.axes) for of in (want, came)]
                self._refuse(label, f"compiled for {counts[0]} leading axes, got {counts[1]}: expand it")
        for name in given:
            self._refuse(f"argument `{name}`", "compiled without it")

    def without_form(self, form: str) -> SignatureError:
        """For a call that no kernel serves."""
        what = "init= and return_last=" if form == CARRIED else "calls that leave init= out"
        return SignatureError(f"{self.name}: this artifact was compiled without {what}")

    def _refuse(self, label: str, what: str) -> NoReturn:
        raise SignatureError(f"{label}{' of ' if label else ''}{self.name}: this artifact was {what}")

    # --- JSON -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values; raises ScanWeaverError for a constant that has none."""
        options = self.options
        return {
            "name": self.name,
            "target": self.target,
            "signature": self.text,
            "time": self.time,
            "batch": self.batch,
            "defaults": [to_plain(default, f"the default of {self.name}") for default in self.defaults],
            "constants": {name: to_plain(value, f"constant `{name}` of {self.name}") for name, value in self.constants},
            "leading": len(self.leading),
            "inputs": [vars(given) for given in self.inputs],
            "states": [vars(given) for given in self.states],
            "required": self.required,
            "outputs": [{"axes": axes, "dtype": dtype} for axes, dtype in self.outputs],
            "sizes": dict(self.sizes),
            "options": vars(options),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Contract:
        """Raises ScanWeaverError, KeyError, TypeError or ValueError for what `to_json` did not write."""
        constants = {text_from(name): value_from(value) for name, value in plain["constants"].items()}
        contract = cls(
            text_from(plain["name"]),
            text_from(plain["target"]),
            text_from(plain["signature"]),
            text_from(plain["time"]),
            text_from(plain["batch"]),
            tuple(map(value_from, plain["defaults"])),
            tuple(constants.items()),
            tuple(f"_{i}" for i in range(size_from(plain["leading"]))),
            tuple(map(_given, plain["inputs"])),
            tuple(map(_given, plain["states"])),
            axes_from(plain["required"]),
            tuple((axes_from(of["axes"]), dtype_from(of["dtype"])) for of in plain["outputs"]),
            tuple((text_from(axis), size_from(size)) for axis, size in plain["sizes"].items()),
            _options(**plain["options"]),
        )
        contract._check_against_signature()
        return contract

    def _check_against_signature(self) -> None:
        signature = self.signature
        names = [array.name for array in signature.inputs]
        arrays = {array.name: array for array in (*signature.inputs, *signature.states)}
        known = {*signature.axes, *self.leading}
        fits = (
            len(self.defaults) == len(names)
            and [given.name for given in self.inputs] == [n for n in names if n in {g.name for g in self.inputs}]
            and [given.name for given in self.states] == [state.name for state in signature.states]
            and len(self.outputs) == (0 if signature.mode == "last" else len(signature.outputs))
            and all(self._has_axes(given.axes, arrays[given.name].axes) for given in (*self.inputs, *self.states))
            and all(set(axes) <= self.axes for axes, _ in self.outputs)
            and {axis for axis, _ in self.sizes} <= self.axes <= known
            and self.time in self.axes
        )
        if not fits:
            raise ScanWeaverError(f"the contract of {self.name!r} does not fit its signature {self.text!r}")

    def _has_axes(self, axes: Sequence[str], named: Sequence[str]) -> bool:
        leading = len(axes) - len(named)
        return leading in (0, len(self.leading)) and (*self.leading[:leading], *named) == tuple(axes)


def _given(plain: Mapping[str, Any]) -> Given:
    scalar = plain["scalar"]
    if type(scalar) is not bool:
        raise TypeError(f"expected true or false, got {scalar!r}")
    return Given(text_from(plain["name"]), axes_from(plain["axes"]), dtype_from(plain["dtype"]), scalar)


def _options(return_last: Any, reverse: Any, parallel: Any, strategy: Any) -> Options:
    if type(return_last) is not bool or type(reverse) is not bool:
        raise TypeError("return_last and reverse are true or false")
    return Options(return_last, reverse, text_from(parallel), None if strategy is None else text_from(strategy))
