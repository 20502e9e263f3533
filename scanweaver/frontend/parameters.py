"""The parameters of a step function, held against its signature when it is decorated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scanweaver.errors import SignatureError
from scanweaver.frontend.signature import Array, Signature

CALL_OPTIONS = ("init", "return_last", "reverse", "parallel", "strategy", "cu_seqlens", "group", "autotune")
"""Keywords of a call, which no input or constant can be called."""

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameters:
    """What a step function says about its inputs and constants.

    `defaults`: one an input: REQUIRED, None (may be left out) or a number (of a scalar input).
    `constants`: the keyword-only parameters with their defaults (or REQUIRED).
    """

    defaults: tuple[Any, ...]
    constants: dict[str, Any]


def read_parameters(function: Callable[..., Any], signature: Signature) -> Parameters:
    """The parameters of `function`, which are the signature's states, then its inputs, by name or as `*args`.

    Raises SignatureError naming the parameter that is not in the signature, or the other way round.
    """
    if not (inspect.isroutine(function) and callable(function) and hasattr(inspect.unwrap(function), "__code__")):
        raise SignatureError(
            f"sw.recurrence decorates a step, a function written in Python, got {type(function).__name__}: "
            "write it as a `def` or `lambda` with the signature's names"
        )
    states = len(signature.states)
    arrays = (*signature.states, *signature.inputs)
    where = f"{function.__name__}{inspect.signature(function)}"
    defaults: list[Any] = []
    constants: dict[str, Any] = {}
    rest = False
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_KEYWORD:
            raise SignatureError(
                f"`**{name}` of {where}: a constant is a keyword-only parameter with a name of its own"
            )
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = True
        elif parameter.kind is parameter.KEYWORD_ONLY:
            _check_constant(name, arrays, where)
            constants[name] = parameter.default
        else:
            _check_position(name, len(defaults), arrays, where)
            defaults.append(parameter.default)
    if rest:
        defaults += [REQUIRED] * (len(arrays) - len(defaults))
    if len(defaults) < len(arrays):
        missing = arrays[len(defaults)]
        signature.fail(f"`{missing.name}` is in the signature and not among the parameters of {where}", missing.span)
    for array, default in zip(arrays, defaults, strict=True):
        _check_default(array, default, array in signature.states, where)
    for array in signature.inputs:
        if array.name in CALL_OPTIONS:
            signature.fail(f"input `{array.name}` is called as an option of every call", array.span)
    return Parameters(tuple(defaults[states:]), constants)


def _check_position(name: str, position: int, arrays: tuple[Array, ...], where: str) -> None:
    names = [array.name for array in arrays]
    if name not in names:
        raise SignatureError(
            f"parameter `{name}` of {where} is not in the signature, whose states and inputs are {', '.join(names)}: "
            "a compile-time constant is keyword-only, after `*`"
        )
    if names[position] != name:
        raise SignatureError(
            f"parameter `{name}` of {where} stands where the signature has `{names[position]}`: the order is "
            f"{', '.join(names)}"
        )


def _check_constant(name: str, arrays: tuple[Array, ...], where: str) -> None:
    if any(array.name == name for array in arrays):
        raise SignatureError(f"`{name}` is in the signature and keyword-only in {where}: write it before the `*`")
    if name in CALL_OPTIONS:
        raise SignatureError(f"constant `{name}` of {where} is called as an option of every call")


def _check_default(array: Array, default: Any, is_state: bool, where: str) -> None:
    if default is REQUIRED:
        return
    if is_state:
        raise SignatureError(
            f"state `{array.name}` has a default in {where}: a state starts at the number of its signature, "
            f"`{array}={default}`, or at `init=`"
        )
    if default is None:
        return
    if not isinstance(default, bool | int | float | complex):
        raise SignatureError(
            f"the default of input `{array.name}` in {where}: expected None or a number, got {default!r}"
        )
    if array.axes or array.ellipsis:
        raise SignatureError(
            f"input `{array}` has the default {default!r} in {where}: only a scalar input, `{array.name}[]`, takes one"
        )
