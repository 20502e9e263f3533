"""Element types: the names that users write and the short names that the compiler uses; and numbers."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any, Literal

Kind = Literal["bool", "int", "float", "complex"]

SHORT: dict[str, str] = {
    "bool": "i1",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
"""From PyTorch's name to the short one. `u8` is an `i8` in MLIR, extended without sign."""

LONG: dict[str, str] = {short: name for name, short in SHORT.items()}

_PYTHON: dict[type, str] = {bool: "i1", int: "i64", float: "f32", complex: "c64"}


NUMBER: dict[Kind, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float, "complex": complex}
"""Python's type for numbers of a kind."""


def kind_of(short: str) -> Kind:
    """Which kind of number a short dtype name holds."""
    if short == "i1":
        return "bool"
    if short.startswith("c"):
        return "complex"
    return "int" if short[0] in "iu" else "float"


def integers_of(short: str) -> range:
    """The integers that an integer dtype holds."""
    bits = int(short[1:])
    return range(1 << bits) if short[0] == "u" else range(-(1 << bits - 1), 1 << bits - 1)


def told(integers: range) -> str:
    """As a message says it: `an integer from -128 to 127`."""
    return f"an integer from {integers[0]} to {integers[-1]}"


LARGEST: dict[str, float] = {"f16": 65504.0, "bf16": (2 - 2**-7) * 2.0**127, "f32": (2 - 2**-23) * 2.0**127}
"""The largest finite number of a floating dtype, where it is less than Python's."""


_REAL = {"c64": "f32", "c128": "f64"}


def real_dtype(short: str) -> str:
    """The dtype of a complex number's real and imaginary part; of anything else, its own."""
    return _REAL.get(short, short)


def complex_dtype(short: str) -> str:
    """The complex dtype whose parts have the precision of a floating dtype, float32 at least."""
    return "c128" if real_dtype(short) == "f64" else "c64"


def computed_in(dtypes: Iterable[str]) -> str:
    """What a step computes floats in: float64 where an input or a state's mark has that precision, else float32."""
    return "f64" if any(real_dtype(dtype) == "f64" for dtype in dtypes) else "f32"


def short_name(dtype: Any) -> str | None:
    """The short name of `torch.bfloat16`, `"bfloat16"`, `"bf16"` or Python's `float`; None if it is no dtype."""
    if isinstance(dtype, type):
        return _PYTHON.get(dtype)
    name = str(dtype).removeprefix("torch.")
    return SHORT.get(name) or (name if name in LONG else None)


def as_number(x: Any) -> complex | None:
    """`x` as a Python bool, int, float or complex, NumPy's scalars and 0-d arrays too; None where it is no number."""
    if type(x) in _PYTHON:
        return x
    of_numpy = type(x).__name__ if type(x).__module__ == "numpy" else ""
    if of_numpy == "ndarray":
        return as_number(x.item()) if x.shape == () else None
    if of_numpy in ("bool", "bool_"):
        return bool(x)
    if isinstance(x, numbers.Integral):
        return int(x)
    if isinstance(x, numbers.Real):  # np.float64, which is a float, too: its operators would ask ours again
        return float(x)
    return complex(x) if isinstance(x, numbers.Complex) else None
