"""The recipe: what a host must know to launch a module's kernels, and how their parameters are packed.

A lowering writes it into the module as the attribute `scan.recipe`; an artifact carries it as JSON. Both
spellings hold the same plain values, so that one conversion serves the two.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, cast

from scanweaver.errors import ScanWeaverError, SignatureError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
    from xdsl.ir import Attribute

RECIPE = "scan.recipe"

Role = Literal["init", "slots", "input", "output", "last"]
ParamKind = Literal["pointer", "scalar", "size", "stride", "begin", "end"]

# One 8-byte slot per parameter, little endian; bf16 has no struct code and goes as its bits.
SLOT_BYTES = 8
_SLOT_CODES = {
    "f16": "e6x", "bf16": "H6x", "f32": "f4x", "f64": "d",
    "i1": "?7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q",
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """One value of a call: a tensor given by its address, or a number (`scalar`).

    `axes` are the tensor's dimensions in order; `dtype` is MLIR's name (`f32`, `bf16`, `i64`, `i1`, …);
    `contiguous` names the axis whose stride is 1 and has no parameter; `align` is the alignment in bytes that
    the kernel relies on.
    """

    name: str
    role: Role
    axes: tuple[str, ...]
    dtype: str
    scalar: bool = False
    contiguous: str | None = None
    align: int = 1


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel. `operand` is a position in `Recipe.operands`; a stride counts elements."""

    kind: ParamKind
    operand: int | None = None
    axis: str | None = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.kind, self.operand, self.axis) if part is not None)

    @classmethod
    def parse(cls, text: str) -> Param:
        """`pointer 0`, `scalar 3`, `size t`, `stride 0 t`, `begin` or `end`; anything else is refused."""
        match text.split():
            case ["pointer" | "scalar" as kind, operand]:
                return cls(kind, int(operand))
            case ["size", axis]:
                return cls("size", axis=axis)
            case ["stride", operand, axis]:
                return cls("stride", int(operand), axis)
            case ["begin" | "end" as kind]:
                return cls(kind)
            case _:
                raise ScanWeaverError(f"{RECIPE}: {text!r} is no kernel parameter")


@dataclass(frozen=True)
class Kernel:
    """One kernel and its grid: `rows` and the tiles of axis `tiled` are dealt out `per_block` to a block.

    `block` is the number of threads (1 on the host), `shared_bytes` the dynamic shared memory.
    """

    name: str
    params: tuple[Param, ...]
    rows: tuple[str, ...]
    tiled: str | None = None
    tile: int = 1
    per_block: int = 1
    block: int = 1
    shared_bytes: int = 0

    def grid(self, sizes: Mapping[str, int]) -> int:
        """Number of blocks (host: tasks) for these axis sizes; 0 where an axis of the grid is empty."""
        tiles = 1 if self.tiled is None else _ceil_div(sizes[self.tiled], self.tile)
        return _ceil_div(prod(sizes[axis] for axis in self.rows) * tiles, self.per_block)


@dataclass(frozen=True)
class Recipe:
    """The operands in calling order (inits, inputs, outputs, lasts) and the kernels in launching order."""

    target: str
    operands: tuple[Operand, ...]
    kernels: tuple[Kernel, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values: strings, numbers, bools, sequences and dictionaries; what is None is left out."""
        return {
            "target": self.target,
            "operands": [_fields(operand) for operand in self.operands],
            "kernels": [
                _fields(kernel) | {"params": [str(param) for param in kernel.params]} for kernel in self.kernels
            ],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Recipe:
        """The inverse of `to_json`; raises ScanWeaverError where a part is missing or unknown."""
        try:
            operands = tuple(Operand(**o | {"axes": tuple(o["axes"])}) for o in plain["operands"])
            kernels = tuple(
                Kernel(**k | {"rows": tuple(k["rows"]), "params": tuple(map(Param.parse, k["params"]))})
                for k in plain["kernels"]
            )
            recipe = cls(plain["target"], operands, kernels)
            recipe.check()
            return recipe
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScanWeaverError(f"{RECIPE} is malformed: {error!r}") from error

    def check(self) -> None:
        """Raises ScanWeaverError where a launch could not follow it: it may come from a file that others wrote."""
        for operand in self.operands:
            if operand.dtype not in _SLOT_CODES or not all(type(axis) is str for axis in operand.axes):
                raise ScanWeaverError(f"{RECIPE} is malformed: {operand!r} is no operand")
        for kernel in self.kernels:
            counts = (kernel.tile, kernel.per_block, kernel.block)
            if not all(type(count) is int and count >= 1 for count in counts):
                raise ScanWeaverError(
                    f"{RECIPE} is malformed: kernel {kernel.name!r} has tile, per_block, block {counts}"
                )
            if type(kernel.shared_bytes) is not int or kernel.shared_bytes < 0:
                raise ScanWeaverError(
                    f"{RECIPE} is malformed: kernel {kernel.name!r} takes {kernel.shared_bytes!r} bytes"
                )
            for param in kernel.params:
                n = param.operand
                known = n is None or (
                    0 <= n < len(self.operands) and (param.axis is None or param.axis in self.operands[n].axes)
                )
                if not known:
                    raise ScanWeaverError(f"{RECIPE} is malformed: no operand has {str(param)!r}")

    def to_attribute(self) -> DictionaryAttr:
        return cast("DictionaryAttr", _to_attribute(self.to_json()))

    @classmethod
    def from_attribute(cls, attribute: Attribute) -> Recipe:
        return cls.from_json(_to_plain(attribute))


def recipe_of(module: ModuleOp) -> Recipe:
    """The recipe that a lowering left in `module`; raises ScanWeaverError where there is none."""
    attribute = module.attributes.get(RECIPE)
    if attribute is None:
        raise ScanWeaverError(f"the module has no attribute {RECIPE}: lower it to gpu or cpu first")
    return Recipe.from_attribute(attribute)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _fields(record: Operand | Kernel) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if value is not None}


def _to_attribute(plain: Any) -> Attribute:
    from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DictionaryAttr, IntegerAttr, StringAttr, i64

    match plain:
        case bool():
            return BoolAttr.from_bool(plain)
        case int():
            return IntegerAttr(plain, i64)
        case str():
            return StringAttr(plain)
        case list() | tuple():
            return ArrayAttr(_to_attribute(item) for item in cast("list[Any]", plain))
        case dict():
            items = cast("dict[str, Any]", plain).items()
            return DictionaryAttr({key: _to_attribute(value) for key, value in items})
        case _:
            raise TypeError(f"{plain!r} has no attribute")


def _to_plain(attribute: Attribute) -> Any:
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, IntegerType, StringAttr

    match attribute:
        case StringAttr():
            return attribute.data
        case IntegerAttr(type=IntegerType(width=width)) if width.data == 1:
            return bool(attribute.value.data)
        case IntegerAttr():
            return attribute.value.data
        case ArrayAttr():
            return [_to_plain(item) for item in attribute]
        case DictionaryAttr():
            return {key: _to_plain(value) for key, value in attribute.data.items()}
        case _:
            raise ScanWeaverError(f"{RECIPE} is malformed: unexpected {attribute}")


class Packing:
    """Where each kernel parameter lies in a buffer of 8-byte slots.

    One slot per operand comes first, then one per size and stride that any kernel reads: a warm call
    rewrites the first part in one `struct` call, whatever order the kernels want their parameters in.
    """

    def __init__(self, recipe: Recipe, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]):
        self.operands = recipe.operands
        self._codes = [_SLOT_CODES[o.dtype] if o.scalar else "Q" for o in recipe.operands]
        self._values = struct.Struct("<" + "".join(self._codes))
        self._bf16 = [i for i, o in enumerate(recipe.operands) if o.scalar and o.dtype == "bf16"]
        constants: dict[Param, int] = {}
        for kernel in recipe.kernels:
            for param in kernel.params:
                if param.kind == "size":
                    constants[param] = sizes[cast(str, param.axis)]
                elif param.kind == "stride":
                    constants[param] = strides[cast(int, param.operand)][cast(str, param.axis)]
        self._slots = {param: len(self.operands) + i for i, param in enumerate(constants)}
        self.template = bytes(self._values.size) + struct.pack(f"<{len(constants)}q", *constants.values())

    def slot(self, param: Param) -> int:
        """The slot that holds `param`; not for `begin` and `end`, which differ from thread to thread."""
        return cast(int, param.operand) if param.kind in ("pointer", "scalar") else self._slots[param]

    def write(self, buffer: Any, values: Sequence[int | float]) -> None:
        """Writes a call's addresses and numbers into `buffer` (a writable copy of `template`).

        A float too large for its type becomes infinite, as in a PyTorch conversion. Raises SignatureError for
        an integer out of range, a number of the wrong kind, or a wrong count of values.
        """
        try:
            self._values.pack_into(buffer, 0, *(self._with_bf16_bits(values) if self._bf16 else values))
        except (struct.error, OverflowError, TypeError):
            self._write_one_by_one(buffer, values)

    def _with_bf16_bits(self, values: Sequence[int | float]) -> list[int | float]:
        return [_bf16_bits(value) if i in self._bf16 else value for i, value in enumerate(values)]

    def _write_one_by_one(self, buffer: Any, values: Sequence[int | float]) -> None:
        """After an error: says which value is wrong, or lets a float that is too large become infinite."""
        if len(values) != len(self.operands):
            raise SignatureError(f"expected {len(self.operands)} values, one an operand; {len(values)} came")
        for i, (operand, code, value) in enumerate(zip(self.operands, self._codes, values, strict=True)):
            floating = operand.scalar and code[0] in "efd"
            try:
                packed = _bf16_bits(value) if operand.scalar and operand.dtype == "bf16" else value
                struct.pack_into("<" + code, buffer, i * SLOT_BYTES, packed)
            except (struct.error, OverflowError, TypeError) as error:
                if not (floating and isinstance(error, OverflowError)):
                    expected = operand.dtype if operand.scalar else "address"
                    raise SignatureError(
                        f"{operand.name}: expected one {expected}; {value!r} came ({error})"
                    ) from error
                infinite = float("inf") if value > 0 else float("-inf")
                struct.pack_into("<" + code, buffer, i * SLOT_BYTES, infinite)


def _bf16_bits(value: int | float) -> int:
    """`value` rounded to bfloat16, to nearest even, as its 16 bits."""
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return 0x7F80 if value > 0 else 0xFF80
    if value != value:
        return 0x7FC0
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
