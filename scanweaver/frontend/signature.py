"""The signature: `states ; inputs [-> [outputs]]`, scanned by hand so that every refusal points at its place.

signature = states ";" inputs ["->" [outputs]]
array     = name "[" [axis {" " axis}] "]"      state = array [":" dtype] ["=" number]      output = array [":" dtype]
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from keyword import iskeyword
from math import isfinite
from typing import Literal, NoReturn

from scanweaver.errors import SignatureError
from scanweaver.frontend.dtypes import LARGEST, SHORT, integers_of, kind_of, real_dtype, told

Mode = Literal["outputs", "trajectories", "last"]
Role = Literal["state", "input", "output"]
Span = tuple[int, int]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])")
_TOKEN = re.compile(r"->|\.\.\.|\w+|\S")


@dataclass(frozen=True)
class Array:
    """One array of a signature: its name and axes in the tensor's dimension order, leading `...` apart.

    `dtype` is PyTorch's name where marked; `start` is the number that a state starts at.
    """

    name: str
    axes: tuple[str, ...]
    ellipsis: bool = False
    dtype: str | None = None
    start: float | int | None = None
    span: Span = field(default=(0, 0), compare=False)
    axis_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}[{' '.join((('...',) if self.ellipsis else ()) + self.axes)}]"


@dataclass(frozen=True)
class Signature:
    """A parsed signature.

    `mode` tells where the outputs come from: `outputs` (written after `->`), `trajectories` (no `->`: every state,
    time last) or `last` (`->` and nothing: only the last states; `outputs` is empty).
    """

    text: str
    states: tuple[Array, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    mode: Mode
    time: str = "t"
    batch: str = "b"

    @property
    def axes(self) -> tuple[str, ...]:
        """Every named axis, in order of appearance, time last."""
        seen = dict.fromkeys(axis for array in (*self.states, *self.inputs, *self.outputs) for axis in array.axes)
        seen.pop(self.time, None)
        return (*seen, self.time)

    def fail(self, message: str, span: Span) -> NoReturn:
        """Raise `message` with the signature's line and a caret under `span`."""
        raise _error(self.text, message, span)


def parse_signature(text: str, *, time: str = "t", batch: str = "b") -> Signature:
    """Parse `text`; `time` and `batch` name the axes that are called `t` and `b` by default.

    Raises SignatureError, with a caret under the place, for text that is not a signature or says something impossible.
    """
    for option, axis in (("time", time), ("batch", batch)):
        if not isinstance(axis, str) or not _is_name(axis):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureError(f"{option}={axis!r}: expected an axis name, such as {option}={option[0]!r}")
    scanner = _Scanner(text)
    states = scanner.arrays("state")
    if not scanner.take(";"):
        _fail_missing_semicolon(scanner, states, time)
    inputs = scanner.arrays("input")
    outputs: tuple[Array, ...] = ()
    mode: Mode = "trajectories"
    if scanner.take("->"):
        mode = "last" if scanner.done else "outputs"
        outputs = () if scanner.done else scanner.arrays("output")
    if not scanner.done:
        after = "`,`" if mode == "outputs" else "`,` or `->`"
        scanner.fail(f"expected {after} or the end of the signature, got {scanner.came()}")
    signature = Signature(text, states, inputs, outputs, mode, time, batch)
    _check_names(signature)
    _check_time(signature)
    _check_axes(signature)
    return replace(signature, outputs=_trajectories(signature)) if mode == "trajectories" else signature


class _Scanner:
    """A place in the text, and what may stand there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.skip()

    @property
    def done(self) -> bool:
        return self.at == len(self.text)

    def skip(self) -> None:
        while not self.done and self.text[self.at].isspace():
            self.at += 1

    def take(self, token: str) -> bool:
        """Step over `token` if it stands here."""
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        self.skip()
        return True

    def came(self) -> str:
        """What stands here, for messages."""
        token = _TOKEN.match(self.text, self.at)
        return f"`{token.group()}`" if token else "the end of the signature"

    def fail(self, message: str, span: Span | None = None) -> NoReturn:
        token = _TOKEN.match(self.text, self.at)
        raise _error(self.text, message, span or (self.at, token.end() if token else self.at + 1))

    def name(self, what: str) -> tuple[str, Span]:
        """A name that can also be a Python parameter."""
        word = _WORD.match(self.text, self.at)
        if word is None or not _is_name(word.group()):
            self.fail(f"expected {what}, got {self.came()}" + (", a Python keyword" if word else ""))
        self.at = word.end()
        self.skip()
        return word.group(), word.span()

    def arrays(self, role: Role) -> tuple[Array, ...]:
        """A comma-separated list, of at least one array."""
        arrays = [self.array(role)]
        while self.take(","):
            arrays.append(self.array(role))
        return tuple(arrays)

    def array(self, role: Role) -> Array:
        example = {"state": "h[b d]", "input": "x[b d t]", "output": "y[b d t]"}[role]
        name, (begin, _) = self.name(f"{_a(role)}, such as `{example}`")
        if not self.take("["):
            self.fail(f"expected `[` and the axes of {role} `{name}`, such as `{name}[b d]`, got {self.came()}")
        ellipsis, axes, spans = self.axes(name)
        end = self.at
        dtype = self.dtype(role, name)
        start = self.start(role, name, dtype)
        return Array(name, axes, ellipsis, dtype, start, (begin, end), spans)

    def axes(self, array: str) -> tuple[bool, tuple[str, ...], tuple[Span, ...]]:
        ellipsis = self.take("...")
        axes: dict[str, Span] = {}
        while not self.take("]"):
            if self.done or self.text[self.at] in ";[=:":
                self.fail(f"expected `]` after the axes of `{array}`, got {self.came()}")
            if self.text[self.at] == ",":
                self.fail(
                    f"the axes of `{array}` are separated by spaces, not by commas: expected an axis or `]`, got `,`"
                )
            if self.text.startswith("...", self.at):
                self.fail(f"`...` stands once, before all named axes: write `{array}[... b]`")
            axis, span = self.name(f"an axis of `{array}` or `]`")
            if axis in axes:
                self.fail(_twice(array, tuple(axes), axis, self.text), span)
            axes[axis] = span
        return ellipsis, tuple(axes), tuple(axes.values())

    def dtype(self, role: Role, name: str) -> str | None:
        if not self.take(":"):
            return None
        if role == "input":
            self.fail(
                f"input `{name}` has its dtype from the tensor given at the call: only states and outputs are marked"
            )
        dtype, span = self.name("a dtype, such as `float32`")
        if dtype not in SHORT:
            near = difflib.get_close_matches(dtype, SHORT, 1, 0.5)
            hint = f": did you mean `{near[0]}`?" if near else f"; a dtype is one of {', '.join(SHORT)}"
            self.fail(f"unknown dtype `{dtype}` of {role} `{name}`{hint}", span)
        return dtype

    def start(self, role: Role, name: str, dtype: str | None) -> float | int | None:
        if self.text.startswith("=>", self.at):
            self.fail("expected `->` before the outputs, got `=>`", (self.at, self.at + 2))
        if not self.take("="):
            return None
        if role != "state":
            default = " (the default of an input is written in the step's parameters)" if role == "input" else ""
            self.fail(f"{role} `{name}` has no start value: only states start at a number{default}")
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            self.fail(f"expected the number that state `{name}` starts at, such as `0.5` or `-inf`, got {self.came()}")
        start, wanted = _start(number.group(), SHORT[dtype] if dtype else None)
        if wanted:
            marked = f"is marked {dtype}" if dtype else "has no mark"
            self.fail(f"state `{name}` {marked}: expected {wanted} to start at, got `{number.group()}`", number.span())
        self.at = number.end()
        self.skip()
        return start


def _start(text: str, dtype: str | None) -> tuple[float | int, str]:
    """The number that a state of a short dtype starts at, and, where it cannot, what is expected."""
    start, kind = float(text), kind_of(dtype) if dtype else "float"
    if kind == "bool":
        return start, "" if start in (0, 1) else "0 or 1"
    if kind == "int":
        assert dtype is not None
        integers = integers_of(dtype)
        exact = Fraction(text) if isfinite(start) else None  # a float holds no integer beyond 2^53 exactly
        fits = exact is not None and exact.denominator == 1 and int(exact) in integers
        return (int(exact), "") if exact is not None and fits else (start, told(integers))
    largest = LARGEST.get(real_dtype(dtype), sys.float_info.max) if dtype else sys.float_info.max
    overflows = "inf" not in text and abs(start) > largest
    return start, f"at most {largest:.6g} in size" if overflows else ""


def _error(text: str, message: str, span: Span) -> SignatureError:
    begin = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", begin) % (len(text) + 1)
    width = max(1, min(span[1], end) - span[0])
    return SignatureError(f"{message}\n    {text[begin:end]}\n    {' ' * (span[0] - begin)}{'^' * width}")


def _is_name(word: str) -> bool:
    return _WORD.fullmatch(word) is not None and not iskeyword(word)


def _twice(array: str, axes: tuple[str, ...], axis: str, text: str) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = letters.index(axis) + 1 if axis in letters else 0
    used = set(_WORD.findall(text))
    other = next((c for c in letters[first:] + letters[:first] if c not in used and len(axis) == 1), axis + "2")
    return (
        f"axis `{axis}` stands twice in `{array}`, and an axis stands once in an array: give the second a name of "
        f"its own, `{array}[{' '.join((*axes, other))}]`, and read a value along it with "
        f'`sw.rename(x, {axis}="{other}")`'
    )


def _fail_missing_semicolon(scanner: _Scanner, states: tuple[Array, ...], time: str) -> NoReturn:
    timed = next((state for state in states[1:] if time in state.axes), None)
    where = f": put it before `{timed}`, the first array that carries time" if timed else ""
    scanner.fail(f"expected `;` between the states and the inputs, got {scanner.came()}{where}")


def _check_names(signature: Signature) -> None:
    roles: dict[str, str] = {}
    for role, arrays in (("state", signature.states), ("input", signature.inputs)):
        for array in arrays:
            if array.name in roles:
                signature.fail(f"`{array.name}` names two arrays, {_a(roles[array.name])} and {_a(role)}", array.span)
            roles[array.name] = role
    outputs: set[str] = set()
    for output in signature.outputs:
        if output.name in outputs:
            signature.fail(f"`{output.name}` names two outputs", output.span)
        if roles.get(output.name) == "input":
            signature.fail(f"`{output.name}` names two arrays, an input and an output", output.span)
        outputs.add(output.name)


def _check_time(signature: Signature) -> None:
    time = signature.time
    for state in signature.states:
        if time in state.axes:
            signature.fail(
                f"state `{state.name}` carries time `{time}`: a state is one moment's value, write it without `{time}`",
                state.axis_spans[state.axes.index(time)],
            )
    if not any(time in array.axes for array in signature.inputs):
        _fail_no_time(signature, signature.inputs, "no input carries time")
    for output in signature.outputs:
        if time not in output.axes:
            _fail_no_time(signature, (output,), f"output `{output.name}` does not carry time")
    if signature.batch != "b" and signature.batch not in signature.axes:
        raise SignatureError(f"batch={signature.batch!r}: no array of the signature has that axis: {signature.text}")


def _fail_no_time(signature: Signature, arrays: tuple[Array, ...], problem: str) -> NoReturn:
    time = signature.time
    for array in arrays:
        for axis, span in zip(array.axes, array.axis_spans, strict=True):
            if axis.lower() == time.lower():
                rename = (
                    f"the time axis is called `{time}`: write `{time}` for `{axis}`, or call it so by time={axis!r}"
                )
                signature.fail(f"{problem} `{time}`; {rename}", span)
    rule = f"at least one input and every output have the axis `{time}`"
    signature.fail(f"{problem} `{time}`: {rule} (another name is given by `time=`)", arrays[0].span)


def _check_axes(signature: Signature) -> None:
    sources = (*signature.states, *signature.inputs)
    known = {axis for array in sources for axis in array.axes}
    for output in signature.outputs:
        for axis, span in zip(output.axes, output.axis_spans, strict=True):
            if axis not in known:
                signature.fail(f"axis `{axis}` of output `{output.name}` is in no state and no input", span)
        if output.ellipsis and not any(array.ellipsis for array in sources):
            signature.fail(f"output `{output.name}` has `...`, and no state or input has", output.span)


def _trajectories(signature: Signature) -> tuple[Array, ...]:
    """The outputs that stand for a missing `->`: each state, time last."""
    time = signature.time
    for array in signature.inputs:
        if time in array.axes[:-1]:
            before = set(array.axes[: array.axes.index(time)])
            written = ", ".join(str(_with_time_after(state, before, time)) for state in signature.states)
            signature.fail(
                f"without `->` the outputs are the states with `{time}` last, and input `{array.name}` has `{time}` "
                f"elsewhere: say where it stands, write `-> {written}`",
                array.axis_spans[array.axes.index(time)],
            )
    return tuple(
        Array(state.name, (*state.axes, time), state.ellipsis, state.dtype, None, state.span)
        for state in signature.states
    )


def _with_time_after(state: Array, before: Iterable[str], time: str) -> Array:
    leading = [axis for axis in state.axes if axis in set(before)]
    return replace(state, axes=(*leading, time, *(axis for axis in state.axes if axis not in leading)))


def _a(role: str) -> str:
    return f"a {role}" if role == "state" else f"an {role}"
