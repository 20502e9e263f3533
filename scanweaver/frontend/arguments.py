"""A call's arguments by name: inputs, starts, constants and options, before any of them is looked into."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from math import copysign
from typing import Any, NoReturn, cast

from torch import Tensor

from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.misuse import is_tensor
from scanweaver.frontend.parameters import CALL_OPTIONS, REQUIRED, Parameters
from scanweaver.frontend.signature import Signature

PARALLEL = ("auto", "require", "never", "newton")
STRATEGIES = ("auto", "lanes", "serial", "blelloch")
NOT_BUILT_YET = ("cu_seqlens", "group", "autotune")

Constants = tuple[tuple[str, type[Any], Any], ...]


def _is_one_of(names: tuple[str, ...], value: Any) -> bool:
    return isinstance(value, str) and value in names


@dataclass(frozen=True)
class Options:
    """The keywords of a call that are neither inputs nor constants nor `init`.

    Raises SignatureError for a `parallel` or `strategy` that there is not.
    """

    return_last: bool = False
    reverse: bool = False
    parallel: str = "auto"
    strategy: str | None = None

    def __post_init__(self) -> None:
        if not _is_one_of(PARALLEL, self.parallel):
            raise SignatureError(f"parallel={self.parallel!r}: expected one of {', '.join(map(repr, PARALLEL))}")
        if self.strategy is not None and not _is_one_of(STRATEGIES, self.strategy):
            raise SignatureError(f"strategy={self.strategy!r}: expected one of {', '.join(map(repr, STRATEGIES))}")


@dataclass(frozen=True, eq=False)
class Decided:
    """What a call decides whatever its tensors are: constants as (name, type, value), and options.

    There is one object for each, so that it is compared and hashed by identity.
    """

    constants: Constants
    options: Options


class _NegativeZero:
    """Stands for the type of -0.0, which equals 0.0 and is another constant."""


def _distinct(value: Any) -> type[Any]:
    """The type of a constant, as far as equal values of it compile to the same kernel."""
    negative_zero = isinstance(value, float) and not value and copysign(1, value) < 0
    return _NegativeZero if negative_zero else cast(type[Any], type(value))


class Arguments:
    """Puts the arguments of calls to `name` in order; `options` are its decorator's."""

    def __init__(self, name: str, signature: Signature, parameters: Parameters, options: Options) -> None:
        self.name = name
        self.signature = signature
        self.defaults = parameters.defaults
        self.constants = parameters.constants
        self.options = options
        self.places = {array.name: i for i, array in enumerate(signature.inputs)}
        self.no_starts: list[Any] = [None] * len(signature.states)
        self._known: dict[tuple[Constants, Options], Decided] = {}
        self.plain = self._decided(parameters.constants, options)

    def arranged(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], Decided]:
        """The inputs in the signature's order, then one start a state, None where not given; and what is decided.

        Raises SignatureError naming the argument that is missing, unknown, given twice or of the wrong kind.
        """
        if len(args) > len(self.places):
            expected = f"{len(self.places)} inputs ({', '.join(self.places)})"
            raise SignatureError(f"{self.name} takes {expected}, got {len(args)} arguments")
        inputs = [*args, *self.defaults[len(args) :]]
        starts: list[Any] = self.no_starts
        constants = self.constants
        options: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in self.places:
                if self.places[key] < len(args):
                    raise SignatureError(f"{self.name} got input `{key}` twice, by position and by name")
                inputs[self.places[key]] = value
            elif key in constants:
                constants = constants | {key: self._constant(key, value)}
            elif key == "init":
                starts = self._starts(value)
            elif key in CALL_OPTIONS:
                options[key] = value
            else:
                self._refuse_unknown(key)
        for i, value in enumerate(inputs):
            if type(value) is not Tensor:  # of tensors nothing is asked yet: a warm call has hardly anything else
                inputs[i] = self._without_tensor(i, value)
        for key, value in constants.items():
            if value is REQUIRED:
                raise SignatureError(f"{self.name}: expected a value for the constant `{key}`, by name, got nothing")
        plain = constants is self.constants and not options
        return [*inputs, *starts], self.plain if plain else self._decided(constants, self._options(options))

    def _without_tensor(self, i: int, value: Any) -> Any:
        """What a call gives for input `i`, as a number of its default's type: a new number compiles nothing."""
        default = self.defaults[i]
        if value is REQUIRED or (value is None and default is not None):
            came = "nothing" if value is REQUIRED else "None"
            raise SignatureError(f"{self.name}: expected a value for input `{self.signature.inputs[i]}`, got {came}")
        if type(value) is int and isinstance(default, float):
            return self._float(i, value)
        if isinstance(default, complex) and (type(value) is int or type(value) is float):
            return complex(self._float(i, value))
        return value

    def _float(self, i: int, number: float) -> float:
        try:
            return float(number)
        except OverflowError:
            raise SignatureError(
                f"argument `{self.signature.inputs[i]}` of {self.name}: expected a float, got an integer of "
                f"{int(number).bit_length()} bits"
            ) from None

    def _decided(self, constants: Mapping[str, Any], options: Options) -> Decided:
        typed: Constants = tuple((key, _distinct(value), value) for key, value in constants.items())
        return self._known.setdefault((typed, options), Decided(typed, options))

    def _constant(self, key: str, value: Any) -> Any:
        if is_tensor(value):
            raise SignatureError(f"constant `{key}` of {self.name} is a tensor: make it an input of the signature")
        try:
            hash(value)
        except TypeError:
            raise SignatureError(
                f"constant `{key}` of {self.name}: expected something hashable, got {type(value).__name__}"
            ) from None
        return value

    def _starts(self, init: Any) -> list[Any]:
        states = self.signature.states
        if init is None:
            return self.no_starts
        if isinstance(init, tuple | list):
            if len(init) != len(states):  # pyright: ignore[reportUnknownArgumentType]
                kind = "a list" if isinstance(init, list) else "a tuple"
                self._refuse_starts(f"{kind} of {len(init)}")  # pyright: ignore[reportUnknownArgumentType]
            return list(init)  # pyright: ignore[reportUnknownArgumentType]
        if len(states) > 1:
            self._refuse_starts("one tensor" if is_tensor(init) else repr(init))
        return [init]

    def _refuse_starts(self, came: str) -> NoReturn:
        names = ", ".join(map(str, self.signature.states))
        one = len(self.signature.states) == 1
        expected = "a tensor or a number" if one else f"a tuple of {len(self.signature.states)}, one for each state"
        raise SignatureError(f"init of {self.name}: expected {expected} ({names}), got {came}")

    def _refuse_unknown(self, key: str) -> NoReturn:
        every = [*self.places, *self.constants, *CALL_OPTIONS]
        near = difflib.get_close_matches(key, every, 1, 0.5)
        hint = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(every)}"
        raise SignatureError(f"{self.name} has no argument `{key}`: {hint}")

    def _options(self, given: dict[str, Any]) -> Options:
        for key, value in given.items():
            if key in NOT_BUILT_YET and value is not None and value is not False:
                raise UnsupportedError(f"{key}= is not built yet: call {self.name} without it")
        for key in ("return_last", "reverse"):
            if not isinstance(given.get(key, False), bool):
                raise SignatureError(f"{key}= of {self.name}: expected True or False, got {given[key]!r}")
        parallel = given.get("parallel", self.options.parallel)
        if isinstance(parallel, str) and parallel == "newton":
            raise UnsupportedError(f'parallel="newton" is not built yet: call {self.name} with "auto" or "never"')
        strategy = given.get("strategy", self.options.strategy)
        return_last = given.get("return_last", self.options.return_last)
        return Options(return_last, given.get("reverse", self.options.reverse), parallel, strategy)
