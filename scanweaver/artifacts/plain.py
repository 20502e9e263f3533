"""JSON values and what they stand for; reading refuses what writing did not write.

A constant's type counts, and a float keeps every bit: a value is written as {type: its text}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scanweaver.errors import ScanWeaverError
from scanweaver.frontend.dtypes import LONG
from scanweaver.frontend.parameters import REQUIRED

_SIZES = 1 << 63


def to_plain(value: Any, label: str) -> Any:
    """A constant or a default as JSON values; raises ScanWeaverError, naming `label`, for one that has none."""
    match value:
        case _ if value is REQUIRED:
            return {"required": ""}
        case None:
            return {"none": ""}
        case bool():
            return {"bool": str(value)}
        case int() if type(value) is int:
            return {"int": str(value)}
        case float() if type(value) is float:
            return {"float": value.hex()}
        case complex() if type(value) is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        case str() if type(value) is str:
            return {"str": value}
        case tuple() if type(value) is tuple:  # pyright: ignore[reportUnknownArgumentType]
            return {"tuple": [to_plain(item, label) for item in _items(value)]}
        case _:
            raise ScanWeaverError(
                f"{label}: a saved artifact holds None, bools, numbers, strings and tuples of them, got {value!r}"
            )


def value_from(plain: Any) -> Any:
    """The inverse; raises KeyError, TypeError or ValueError for anything else, as do the functions below."""
    ((kind, text),) = plain.items()
    match kind:
        case "required":
            return REQUIRED
        case "none":
            return None
        case "bool":
            return {"True": True, "False": False}[text]
        case "int":
            return int(text_from(text))
        case "float":
            return float.fromhex(text_from(text))
        case "complex":
            re, im = (float.fromhex(text_from(part)) for part in text)
            return complex(re, im)
        case "str":
            return text_from(text)
        case "tuple":
            return tuple(map(value_from, text))
        case _:
            raise ValueError(f"{kind!r} is no kind of value")


def text_from(plain: Any) -> str:
    if type(plain) is not str:
        raise TypeError(f"expected text, got {plain!r}")
    return plain


def size_from(plain: Any) -> int:
    if type(plain) is not int or not 0 <= plain < _SIZES:
        raise TypeError(f"expected a size, got {plain!r}")
    return plain


def axes_from(plain: Any) -> tuple[str, ...]:
    return tuple(map(text_from, plain))


def dtype_from(plain: Any) -> str:
    if plain not in LONG:
        raise ValueError(f"{plain!r} is no dtype")
    return plain


def _items(value: Any) -> Iterator[Any]:
    yield from value
