"""Element types: the names users write and the short names that the compiler uses."""

from __future__ import annotations

from typing import Literal

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
"""From PyTorch's name to the short one (`u8` is an `i8` in MLIR, extended without sign)."""

LONG: dict[str, str] = {short: name for name, short in SHORT.items()}


def kind_of(short: str) -> Kind:
    """Which kind of number a short dtype name holds."""
    if short == "i1":
        return "bool"
    return {"i": "int", "u": "int", "c": "complex"}.get(short[0], "float")  # type: ignore[return-value]


def short_name(dtype: object) -> str | None:
    """The short name of a dtype given as `torch.bfloat16`, `"bfloat16"`, `"bf16"` or Python's `float`; None if unknown."""
    if dtype in (bool, int, float):
        return {bool: "i1", int: "i64", float: "f32"}[dtype]  # type: ignore[index]
    name = str(dtype).removeprefix("torch.")
    return SHORT.get(name) or (name if name in LONG else None)
