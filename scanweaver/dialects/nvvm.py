"""
The operations of MLIR 22's `nvvm` dialect that our kernels use, spelt as mlir-opt 22.1.8 prints and parses them.

xDSL has no `nvvm` dialect. Source: MLIR's NVVMOps.td, release 22.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Mapping, Sequence
from enum import auto
from typing import Literal, TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    I32,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    f32,
    i1,
    i32,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from scanweaver.dialects.upstream import UpstreamOp

Kind: TypeAlias = Literal["bfly", "up", "down", "idx"]
Cache: TypeAlias = Literal["ca", "cg"]


class ShflKind(StrEnum):
    Bfly = auto()
    Up = auto()
    Down = auto()
    Idx = auto()


class LoadCacheModifier(StrEnum):
    Ca = auto()
    Cg = auto()


@irdl_attr_definition
class ShflKindAttr(EnumAttribute[ShflKind], SpacedOpaqueSyntaxAttribute):
    """`#nvvm<shfl_kind up>`"""

    name = "nvvm.shfl_kind"


@irdl_attr_definition
class LoadCacheModifierAttr(EnumAttribute[LoadCacheModifier], SpacedOpaqueSyntaxAttribute):
    """`#nvvm<load_cache_modifier cg>`"""

    name = "nvvm.load_cache_modifier"


# The target of a gpu.module

TARGET_DEFAULTS: Mapping[str, Attribute] = {
    "O": IntegerAttr(2, 64),
    "triple": StringAttr("nvptx64-nvidia-cuda"),
    "chip": StringAttr("sm_50"),
    "features": StringAttr(""),
    "flags": DictionaryAttr({}),
    "link": ArrayAttr([]),
}
"""The parameters of `#nvvm.target` in the order of their printing; mlir-opt prints only what differs from these."""


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """`#nvvm.target<chip = "sm_90", features = "+ptx83">`; holds what differs from the defaults."""

    name = "nvvm.target"

    options: DictionaryAttr

    def __init__(self, chip: str, features: str = "", **options: Attribute):
        """`TargetAttr("sm_90", "+ptx83")`; others by their names in MLIR: `O`, `flags`, `link`, `triple`."""
        given = {"chip": StringAttr(chip), "features": StringAttr(features), **options}
        super().__init__(_without_defaults(given))

    def verify(self) -> None:
        for name, value in self.options.data.items():
            if name not in TARGET_DEFAULTS or not isinstance(value, type(TARGET_DEFAULTS[name])):
                raise VerifyException(f"#nvvm.target has no parameter '{name} = {value}'")
        chip, features = self.options.data.get("chip"), self.options.data.get("features")
        # mlir-opt takes any chip and feature, warns, and compiles for another.
        if isinstance(chip, StringAttr) and not re.fullmatch(r"sm_\d+[af]?", chip.data):
            raise VerifyException(f"#nvvm.target: chip is such as sm_90, got {chip.data}")
        if isinstance(features, StringAttr) and not re.fullmatch(r"\+ptx\d\d", features.data):
            raise VerifyException(f"#nvvm.target: features is a PTX version such as +ptx83, got {features.data}")

    def print_parameters(self, printer: Printer) -> None:
        if not self.options.data:
            return
        with printer.in_angle_brackets():
            printer.print_list(
                [name for name in TARGET_DEFAULTS if name in self.options.data],
                lambda name: self._print_option(printer, name, self.options.data[name]),
            )

    @staticmethod
    def _print_option(printer: Printer, name: str, value: Attribute) -> None:
        printer.print_string(f"{name} = ")
        if isa(value, IntegerAttr):
            value.print_without_type(printer)
        else:
            printer.print_attribute(value)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        given: dict[str, Attribute] = {}
        if parser.parse_optional_punctuation("<") and not parser.parse_optional_punctuation(">"):
            while True:
                name = parser.parse_identifier()
                parser.parse_punctuation("=")
                given[name] = parser.parse_attribute()
                if not parser.parse_optional_punctuation(","):
                    break
            parser.parse_punctuation(">")
        return [_without_defaults(given)]


def _without_defaults(options: Mapping[str, Attribute]) -> DictionaryAttr:
    return DictionaryAttr({name: value for name, value in options.items() if value != TARGET_DEFAULTS.get(name)})


# Plain attributes of a gpu.func

FUNCTION_ATTRIBUTES = frozenset({"nvvm.minctasm", "nvvm.maxnreg", "nvvm.maxntid", "nvvm.reqntid"})
"""Of a kernel: least blocks a multiprocessor, most registers a thread, most and exact threads a block."""


def verify_function_attribute(name: str, value: Attribute) -> None:
    """Raises `VerifyException` where `value` is not what upstream reads under `name`; other names pass."""
    sizes = isa(value, DenseArrayBase[IntegerType]) and value.elt_type == i32 and 1 <= len(value) <= 3
    if name in ("nvvm.maxntid", "nvvm.reqntid") and not sizes:
        raise VerifyException(f"{name} is an array<i32: …> of one to three sizes, got {value}")
    number = isa(value, IntegerAttr) and value.type == i32 and value.value.data > 0
    if name in ("nvvm.minctasm", "nvvm.maxnreg") and not number:
        raise VerifyException(f"{name} is a positive i32, got {value}")


# Special registers


class _SpecialRegisterOp(UpstreamOp, ABC):
    result = result_def(i32)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self):
        super().__init__(result_types=[i32])


@irdl_op_definition
class ReadTidXOp(_SpecialRegisterOp):
    """Position of the thread in its block along x, as i32."""

    name = "nvvm.read.ptx.sreg.tid.x"


@irdl_op_definition
class ReadNtidXOp(_SpecialRegisterOp):
    """Threads of the block along x, as i32."""

    name = "nvvm.read.ptx.sreg.ntid.x"


@irdl_op_definition
class ReadCtaidXOp(_SpecialRegisterOp):
    """Position of the block in the grid along x, as i32."""

    name = "nvvm.read.ptx.sreg.ctaid.x"


@irdl_op_definition
class ReadLaneIdOp(_SpecialRegisterOp):
    """Position of the thread in its warp, as i32."""

    name = "nvvm.read.ptx.sreg.laneid"


# Synchronisation and exchange. None of these is Pure.


@irdl_op_definition
class BarWarpSyncOp(UpstreamOp):
    """The lanes of the i32 `mask` wait for each other. `BarWarpSyncOp(mask)`"""

    name = "nvvm.bar.warp.sync"

    mask = operand_def(i32)

    assembly_format = "$mask attr-dict `:` type($mask)"

    def __init__(self, mask: SSAValue | Operation):
        super().__init__(operands=[mask])


@irdl_op_definition
class Barrier0Op(UpstreamOp):
    """All threads of the block wait for each other. `Barrier0Op()`"""

    name = "nvvm.barrier0"

    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


@irdl_op_definition
class BarrierOp(UpstreamOp):
    """
    Threads of the block wait at the named barrier `barrier_id` (i32, 0 to 15; 0 if left out), `number_of_threads` (i32,
    a multiple of 32; all if left out) of them. `BarrierOp()`, `BarrierOp(barrier_id, number_of_threads)`
    """

    name = "nvvm.barrier"

    barrier_id = opt_operand_def(i32)
    number_of_threads = opt_operand_def(i32)
    # Upstream's third segment belongs to barriers that reduce, which no kernel of ours uses.
    reduction_predicate = opt_operand_def(i32)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        barrier_id: SSAValue | Operation | None = None,
        number_of_threads: SSAValue | Operation | None = None,
    ):
        super().__init__(operands=[barrier_id, number_of_threads, None])

    def verify_(self) -> None:
        super().verify_()
        if self.number_of_threads is not None and self.barrier_id is None:
            raise VerifyException("'nvvm.barrier' with a number of threads needs a barrier id")
        if self.reduction_predicate is not None:
            raise VerifyException("'nvvm.barrier' with a reduction is not part of this dialect")

    def print(self, printer: Printer) -> None:
        for name, operand in (("id", self.barrier_id), ("number_of_threads", self.number_of_threads)):
            if operand is not None:
                printer.print_string(f" {name} = ")
                printer.print_ssa_value(operand)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> BarrierOp:
        operands: list[SSAValue | None] = []
        for name in ("id", "number_of_threads"):
            operand = None
            if parser.parse_optional_keyword(name):
                parser.parse_punctuation("=")
                operand = parser.resolve_operand(parser.parse_unresolved_operand(), i32)
            operands.append(operand)
        op = cls(*operands)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class ShflSyncOp(UpstreamOp):
    """
    Reads `val` (i32 or f32) from another lane of `thread_mask`. `ShflSyncOp(mask, val, offset, clamp, "up")`

    `clamp` packs the last lane and the segment mask as PTX's `shfl.sync` does: 31, but 0 for "up". With
    `return_valid` the result is `!llvm.struct<(type, i1)>`.
    """

    name = "nvvm.shfl.sync"

    thread_mask = operand_def(i32)
    val = operand_def()
    offset = operand_def(i32)
    mask_and_clamp = operand_def(i32)
    kind = prop_def(ShflKindAttr)
    return_value_and_is_valid = opt_prop_def(UnitAttr)
    res = result_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind $thread_mask `,` $val `,` $offset `,` $mask_and_clamp attr-dict `:` type($val) `->` type($res)"
    )

    def __init__(
        self,
        thread_mask: SSAValue | Operation,
        val: SSAValue | Operation,
        offset: SSAValue | Operation,
        mask_and_clamp: SSAValue | Operation,
        kind: Kind,
        return_valid: bool = False,
    ):
        value_type = SSAValue.get(val).type
        super().__init__(
            operands=[thread_mask, val, offset, mask_and_clamp],
            properties={
                "kind": ShflKindAttr(ShflKind(kind)),
                "return_value_and_is_valid": UnitAttr() if return_valid else None,
            },
            result_types=[llvm.LLVMStructType.from_type_list([value_type, i1]) if return_valid else value_type],
        )

    def verify_(self) -> None:
        super().verify_()
        if self.val.type not in (i32, f32):
            raise VerifyException(f"'nvvm.shfl.sync' moves i32 or f32, got {self.val.type}")
        expected = (
            self.val.type
            if self.return_value_and_is_valid is None
            else llvm.LLVMStructType.from_type_list([self.val.type, i1])
        )
        if self.res.type != expected:
            raise VerifyException(f"'nvvm.shfl.sync' gives {expected}, got {self.res.type}")


# Asynchronous copies, global to shared memory


@irdl_op_definition
class CpAsyncOp(UpstreamOp):
    """
    Copies `size` bytes (4, 8 or 16) from `src` (global) to `dst` (shared) in the background. `CpAsyncOp(dst, src, 16)`

    `cache`: "cg" goes past the L1 cache and takes 16 bytes, "ca" any size. `cp_size` (i32): bytes to read, fewer than
    `size`; the rest is filled with zeros.
    """

    name = "nvvm.cp.async.shared.global"

    dst = operand_def(llvm.LLVMPointerType)
    src = operand_def(llvm.LLVMPointerType)
    size = prop_def(IntegerAttr[I32])
    modifier = prop_def(LoadCacheModifierAttr)
    cp_size = opt_operand_def(i32)

    assembly_format = "$dst `,` $src `,` $size `,` `cache` `=` $modifier (`,` $cp_size^)? attr-dict `:` type(operands)"

    def __init__(
        self,
        dst: SSAValue | Operation,
        src: SSAValue | Operation,
        size: int,
        cache: Cache = "cg",
        cp_size: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[dst, src, cp_size],
            properties={
                "size": IntegerAttr(size, i32),
                "modifier": LoadCacheModifierAttr(LoadCacheModifier(cache)),
            },
        )

    def verify_(self) -> None:
        super().verify_()
        for operand, space in ((self.dst, 3), (self.src, 1)):
            if operand.type != llvm.LLVMPointerType(IntAttr(space)):
                raise VerifyException(f"'{self.name}' copies !llvm.ptr<1> to !llvm.ptr<3>, got {operand.type}")
        size, cache = self.size.value.data, self.modifier.data
        if size not in (4, 8, 16) or (cache is LoadCacheModifier.Cg and size != 16):
            raise VerifyException(f"'{self.name}' copies 4, 8 or 16 bytes, with cg 16, got {size} with {cache}")


@irdl_op_definition
class CpAsyncCommitGroupOp(UpstreamOp):
    """Closes a group: the thread's copies begun since the last one. `CpAsyncCommitGroupOp()`"""

    name = "nvvm.cp.async.commit.group"

    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


@irdl_op_definition
class CpAsyncWaitGroupOp(UpstreamOp):
    """Waits until at most the `n` newest groups of the thread are under way. `CpAsyncWaitGroupOp(0)`"""

    name = "nvvm.cp.async.wait.group"

    n = prop_def(IntegerAttr[I32])

    assembly_format = "$n attr-dict"

    def __init__(self, n: int):
        super().__init__(properties={"n": IntegerAttr(n, i32)})

    def verify_(self) -> None:
        super().verify_()
        if self.n.value.data < 0:
            raise VerifyException(f"'{self.name}' takes a number of groups, got {self.n.value.data}")


Nvvm = Dialect(
    "nvvm",
    [
        BarWarpSyncOp,
        Barrier0Op,
        BarrierOp,
        CpAsyncCommitGroupOp,
        CpAsyncOp,
        CpAsyncWaitGroupOp,
        ReadCtaidXOp,
        ReadLaneIdOp,
        ReadNtidXOp,
        ReadTidXOp,
        ShflSyncOp,
    ],
    [LoadCacheModifierAttr, ShflKindAttr, TargetAttr],
)
