"""
The operations of MLIR 22's `gpu` dialect that our kernels use, spelt as mlir-opt 22.1.8 prints and parses them.

It replaces xDSL's own `gpu` dialect in our tools: that one prints `kernel` and `known_block_size` where mlir-opt does
not look for them, and lacks shuffles, dynamic shared memory and address spaces. Source: MLIR's GPUOps.td, release 22.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from enum import auto
from typing import ClassVar, Literal, TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FixedBitwidthType,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute, print_func_argument
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Dialect,
    Operation,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    AnyAttr,
    ParsePropInAttrDict,
    VarConstraint,
    attr_def,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    Pure,
    ReturnLike,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from scanweaver.dialects import nvvm
from scanweaver.dialects.upstream import UpstreamOp, refuse_unknown_attributes, widest_access

Dim: TypeAlias = Literal["x", "y", "z"]
Mode: TypeAlias = Literal["xor", "up", "down", "idx"]


class AddressSpace(StrEnum):
    Global = auto()
    Workgroup = auto()
    Private = auto()


class Dimension(StrEnum):
    X = auto()
    Y = auto()
    Z = auto()


class ShuffleMode(StrEnum):
    Xor = auto()
    Down = auto()
    Up = auto()
    Idx = auto()


@irdl_attr_definition
class AddressSpaceAttr(EnumAttribute[AddressSpace]):
    """`#gpu.address_space<workgroup>`, the memory space of a memref."""

    name = "gpu.address_space"

    # Written out, unlike `#gpu<dim x>`, with angle brackets that belong to the parameters.
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AddressSpace:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)


@irdl_attr_definition
class DimensionAttr(EnumAttribute[Dimension], SpacedOpaqueSyntaxAttribute):
    """`#gpu<dim x>`"""

    name = "gpu.dim"


@irdl_attr_definition
class ShuffleModeAttr(EnumAttribute[ShuffleMode], SpacedOpaqueSyntaxAttribute):
    """`#gpu<shuffle_mode up>`"""

    name = "gpu.shuffle_mode"


WORKGROUP = AddressSpaceAttr(AddressSpace.Workgroup)
PRIVATE = AddressSpaceAttr(AddressSpace.Private)


def workgroup_memref(shape: Sequence[int], element: Attribute) -> MemRefType:
    """The type of a buffer in shared memory: `memref<…, #gpu.address_space<workgroup>>`."""
    return MemRefType(element, shape, memory_space=WORKGROUP)


DYNAMIC_SHARED = "dynamic_shared"


def dynamic_shared_global(align: int = 16) -> llvm.GlobalOp:
    """
    The shared memory whose size is given at the launch; stands in the `gpu.module`, beside the functions.

    A function takes its address by `llvm.AddressOfOp(DYNAMIC_SHARED, llvm.LLVMPointerType(IntAttr(3)))`.
    """
    return llvm.GlobalOp(llvm.LLVMArrayType(0, i8), DYNAMIC_SHARED, "external", addr_space=3, alignment=align)


# Ids


class _DimensionOp(UpstreamOp, ABC):
    dimension = prop_def(DimensionAttr)
    upper_bound = opt_prop_def(IntegerAttr[IndexType])
    result = result_def(IndexType)

    traits = traits_def(Pure())
    assembly_format = "$dimension (`upper_bound` $upper_bound^)? attr-dict"

    def __init__(self, dimension: Dim, upper_bound: int | None = None):
        """`dimension`: "x", "y" or "z". `upper_bound`: exclusive, a promise that LLVM may use."""
        bound = None if upper_bound is None else IntegerAttr.from_index_int_value(upper_bound)
        super().__init__(
            properties={"dimension": DimensionAttr(Dimension(dimension)), "upper_bound": bound},
            result_types=[IndexType()],
        )


@irdl_op_definition
class ThreadIdOp(_DimensionOp):
    """Position of the thread in its block. `ThreadIdOp("x")`"""

    name = "gpu.thread_id"


@irdl_op_definition
class BlockIdOp(_DimensionOp):
    """Position of the block in the grid. `BlockIdOp("x")`"""

    name = "gpu.block_id"


@irdl_op_definition
class BlockDimOp(_DimensionOp):
    """Threads in a block. `BlockDimOp("x")`"""

    name = "gpu.block_dim"


@irdl_op_definition
class GridDimOp(_DimensionOp):
    """Blocks in the grid. `GridDimOp("x")`"""

    name = "gpu.grid_dim"


@irdl_op_definition
class LaneIdOp(UpstreamOp):
    """
    Position of the thread in its warp. `LaneIdOp()`

    Of `gpu.subgroup_id`, the warp's own position, nothing in mlir-opt 22 makes code for NVIDIA GPUs: a kernel divides
    the thread's by 32.
    """

    name = "gpu.lane_id"

    upper_bound = opt_prop_def(IntegerAttr[IndexType])
    result = result_def(IndexType)

    traits = traits_def(Pure())
    assembly_format = "(`upper_bound` $upper_bound^)? attr-dict"

    def __init__(self, upper_bound: int | None = None):
        bound = None if upper_bound is None else IntegerAttr.from_index_int_value(upper_bound)
        super().__init__(properties={"upper_bound": bound}, result_types=[IndexType()])


# Exchange between threads. None of these is Pure: their place among other operations means something.


@irdl_op_definition
class BarrierOp(UpstreamOp):
    """All threads of the block wait for each other; writes before it are seen after it. `BarrierOp()`"""

    name = "gpu.barrier"

    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


@irdl_op_definition
class ShuffleOp(UpstreamOp):
    """
    Reads `value` from another lane of the warp. `ShuffleOp(value, offset, width, "up")`

    `value` is i32, i64, f32 or f64; `offset` and `width` are i32. Results: `shuffle_result`, of the value's type, and
    `valid`, i1, false where the lane read from lies outside (the result is then the lane's own value).

    `width` lanes take part, from lane 0 on, and the others must not come here: a whole warp says 32. For segments of a
    warp there is `nvvm.ShflSyncOp`.
    """

    name = "gpu.shuffle"

    T: ClassVar = VarConstraint("T", AnyAttr())

    value = operand_def(T)
    offset = operand_def(i32)
    width = operand_def(i32)
    mode = prop_def(ShuffleModeAttr)
    shuffle_result = result_def(T)
    valid = result_def(i1)

    assembly_format = "$mode $value `,` $offset `,` $width attr-dict `:` type($value)"

    def __init__(
        self,
        value: SSAValue | Operation,
        offset: SSAValue | Operation,
        width: SSAValue | Operation,
        mode: Mode,
    ):
        super().__init__(
            operands=[value, offset, width],
            properties={"mode": ShuffleModeAttr(ShuffleMode(mode))},
            result_types=[SSAValue.get(value).type, i1],
        )

    def verify_(self) -> None:
        super().verify_()
        # Upstream verifies any number or vector, and lowers these alone.
        if self.value.type not in (i32, i64, f32, f64):
            raise VerifyException(f"'gpu.shuffle' moves i32, i64, f32 or f64, got {self.value.type}")


@irdl_op_definition
class DynamicSharedMemoryOp(UpstreamOp):
    """
    The shared memory whose size is given at the launch, as bytes. `DynamicSharedMemoryOp()`

    Kernels take `dynamic_shared_global` instead: mlir-opt 22 makes of this operation a variable without a size that
    LLVM takes for its own, and `gpu_exec.lower` refuses the result.
    """

    name = "gpu.dynamic_shared_memory"

    TYPE: ClassVar = MemRefType(i8, [DYNAMIC_INDEX], memory_space=WORKGROUP)

    result = result_def(TYPE)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self):
        super().__init__(result_types=[self.TYPE])


# Functions and modules


@irdl_op_definition
class ModuleOp(UpstreamOp):
    """
    Device code. `ModuleOp("kernels", [func, …], targets=[nvvm.TargetAttr("sm_90", "+ptx83")])`

    `targets` may be left out: `nvvm-attach-target` sets it later.
    """

    name = "gpu.module"

    sym_name = prop_def(SymbolNameConstraint())
    targets = opt_prop_def(ArrayAttr[nvvm.TargetAttr])
    body = region_def("single_block")

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    def __init__(self, name: str, ops: Sequence[Operation] | Region = (), targets: Sequence[nvvm.TargetAttr] = ()):
        super().__init__(
            properties={"sym_name": StringAttr(name), "targets": ArrayAttr(targets) if targets else None},
            regions=[ops if isinstance(ops, Region) else Region(Block(ops))],
        )

    def verify_(self) -> None:
        super().verify_()
        if self.targets is not None and not self.targets.data:
            raise VerifyException("'gpu.module' has an empty list of targets; leave the list out")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        if self.targets is not None:
            printer.print_string(" ")
            printer.print_attribute(self.targets)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> ModuleOp:
        name = parser.parse_symbol_name()
        targets = parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        op = ModuleOp(name.data, body)
        if targets is not None:
            op.properties["targets"] = ArrayAttr(targets)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


@irdl_op_definition
class FuncOp(UpstreamOp):
    """
    A function on the device. `FuncOp("k", (llvm.LLVMPointerType(…), i64), kernel=True, known_block_size=(128, 1, 1),
    workgroup=[workgroup_memref([1024], f32)])`

    The entry block's arguments are the inputs, then the workgroup buffers (shared memory), then the private ones; see
    `arguments`, `workgroup`, `private`. `kernel`, the name and the number of workgroup buffers are attributes, the rest
    are properties: mlir-opt looks for each in its own place.
    """

    name = "gpu.func"

    sym_name = attr_def(SymbolNameConstraint())
    kernel = opt_attr_def(UnitAttr, attr_name="gpu.kernel")
    workgroup_attributions = attr_def(IntegerAttr[IntegerType])

    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    workgroup_attrib_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    private_attrib_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    known_block_size = opt_prop_def()  # array<i32: x, y, z>; verified below, where the message can name it
    known_grid_size = opt_prop_def()

    body = region_def()

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(HasParent(ModuleOp), IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        inputs: Sequence[Attribute],
        region: Region | None = None,
        *,
        outputs: Sequence[Attribute] = (),
        kernel: bool = True,
        known_block_size: Sequence[int] | None = None,
        workgroup: Sequence[MemRefType] = (),
        workgroup_align: int = 16,
        private: Sequence[MemRefType] = (),
        arg_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        """
        `region`: its entry block has `[*inputs, *workgroup, *private]` as arguments; left out, an empty block is made.
        `known_block_size`: threads of a block along x, y, z. `workgroup_align`: bytes, for each workgroup buffer.
        `arg_attrs`: one mapping per input. `attributes`: such as `{"nvvm.minctasm": IntegerAttr(2, i32)}`.
        """
        align = DictionaryAttr({"llvm.align": IntegerAttr(workgroup_align, i64)})
        super().__init__(
            attributes={
                **(attributes or {}),
                "sym_name": StringAttr(name),
                "gpu.kernel": UnitAttr() if kernel else None,
                "workgroup_attributions": IntegerAttr(len(workgroup), i64),
            },
            properties={
                "function_type": FunctionType.from_lists(inputs, outputs),
                "arg_attrs": None if arg_attrs is None else ArrayAttr(DictionaryAttr(a) for a in arg_attrs),
                "workgroup_attrib_attrs": ArrayAttr([align] * len(workgroup)) if workgroup else None,
                "known_block_size": None
                if known_block_size is None
                else DenseArrayBase.from_list(i32, known_block_size),
            },
            regions=[region or Region(Block(arg_types=[*inputs, *workgroup, *private]))],
        )

    @property
    def arguments(self) -> tuple[BlockArgument, ...]:
        return self.body.blocks[0].args[: len(self.function_type.inputs)]

    @property
    def workgroup(self) -> tuple[BlockArgument, ...]:
        first = len(self.function_type.inputs)
        return self.body.blocks[0].args[first : first + self.workgroup_attributions.value.data]

    @property
    def private(self) -> tuple[BlockArgument, ...]:
        first = len(self.function_type.inputs) + self.workgroup_attributions.value.data
        return self.body.blocks[0].args[first:]

    def verify_(self) -> None:
        for name, value in self.attributes.items():
            nvvm.verify_function_attribute(name, value)
        refuse_unknown_attributes(self, FUNC_ATTRIBUTES)
        if not self.body.blocks:
            raise VerifyException(f"@{self.sym_name.data} needs a body")
        inputs = self.function_type.inputs.data
        if tuple(arg.type for arg in self.arguments) != inputs:
            raise VerifyException(
                f"@{self.sym_name.data}: the entry block starts with "
                f"{_types([arg.type for arg in self.arguments])}, the function type has {_types(inputs)}"
            )
        if self.kernel is not None and self.function_type.outputs.data:
            raise VerifyException(f"kernel @{self.sym_name.data} returns nothing; write to a pointer instead")
        for name in ("known_block_size", "known_grid_size"):
            sizes = self.properties.get(name)
            if sizes is not None and not _three_sizes(sizes):
                raise VerifyException(f"{name} is array<i32: x, y, z> of positive sizes, got {sizes}")
        self._verify_attributions(self.workgroup, self.workgroup_attrib_attrs, WORKGROUP)
        self._verify_attributions(self.private, self.private_attrib_attrs, PRIVATE)

    def _verify_attributions(
        self, buffers: Sequence[BlockArgument], attrs: ArrayAttr[DictionaryAttr] | None, space: AddressSpaceAttr
    ) -> None:
        if attrs is not None and len(attrs) != len(buffers):
            raise VerifyException(f"{len(attrs)} attribute dictionaries for {len(buffers)} {space.data} buffers")
        for index, buffer in enumerate(buffers):
            if not isa(buffer.type, MemRefType) or buffer.type.memory_space != space:
                raise VerifyException(f"a {space.data} buffer is a memref in {space}, got {buffer.type}")
            if not buffer.type.has_static_shape():
                raise VerifyException(f"a {space.data} buffer has a static shape, got {buffer.type}")
            declared = _alignment(buffer.type, attrs.data[index] if attrs else None)
            if (needed := widest_access(buffer)) > declared:
                raise VerifyException(
                    f"{space.data} buffer {index} of @{self.sym_name.data} is aligned to {declared} bytes and accessed "
                    f"{needed} bytes wide: give it {{llvm.align = {needed} : i64}}"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        _print_arguments(printer, self.arguments, self.arg_attrs)
        if outputs := self.function_type.outputs.data:
            printer.print_string(" -> ")
            if len(outputs) == 1:
                printer.print_attribute(outputs[0])
            else:
                with printer.in_parens():
                    printer.print_list(outputs, printer.print_attribute)
        if self.workgroup:
            printer.print_string(" workgroup")
            _print_arguments(printer, self.workgroup, self.workgroup_attrib_attrs)
        if self.private:
            printer.print_string(" private")
            _print_arguments(printer, self.private, self.private_attrib_attrs)
        if self.kernel is not None:
            printer.print_string(" kernel")
        printer.print_op_attributes(
            {**self.properties, **self.attributes}, reserved_attr_names=FUNC_SYNTAX, print_keyword=True
        )
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name().data
        inputs, arg_attrs = _parse_arguments(parser)
        outputs: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            outputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type) or [
                parser.parse_type()
            ]
        workgroup, workgroup_attrs = (
            _parse_arguments(parser) if parser.parse_optional_keyword("workgroup") else ([], None)
        )
        private, private_attrs = _parse_arguments(parser) if parser.parse_optional_keyword("private") else ([], None)
        kernel = parser.parse_optional_keyword("kernel") is not None
        extra = parser.parse_optional_attr_dict_with_keyword(FUNC_SYNTAX)
        attributes = {} if extra is None else dict(extra.data)
        properties: dict[str, Attribute | None] = {
            "function_type": FunctionType.from_lists([arg.type for arg in inputs], outputs),
            "arg_attrs": arg_attrs,
            "workgroup_attrib_attrs": workgroup_attrs,
            "private_attrib_attrs": private_attrs,
            **{size: attributes.pop(size, None) for size in ("known_block_size", "known_grid_size")},
        }
        return cls.build(
            attributes={
                **attributes,
                "sym_name": StringAttr(name),
                "gpu.kernel": UnitAttr() if kernel else None,
                "workgroup_attributions": IntegerAttr(len(workgroup), i64),
            },
            properties=properties,
            regions=[parser.parse_region([*inputs, *workgroup, *private])],
        )


FUNC_ATTRIBUTES = frozenset({"sym_name", "gpu.kernel", "workgroup_attributions", *nvvm.FUNCTION_ATTRIBUTES})
"""Attributes that a `gpu.func` may carry beside its properties."""

FUNC_SYNTAX = (
    "sym_name",
    "gpu.kernel",
    "workgroup_attributions",
    "function_type",
    "arg_attrs",
    "workgroup_attrib_attrs",
    "private_attrib_attrs",
)
"""What the custom syntax of `gpu.func` says in words."""


def _three_sizes(sizes: Attribute) -> bool:
    # mlir-opt refuses a wrong number of them and drops a list or another width in silence.
    return (
        isa(sizes, DenseArrayBase[IntegerType])
        and sizes.elt_type == i32
        and len(sizes) == 3
        and min(sizes.get_values()) > 0
    )


def _alignment(buffer: MemRefType, attrs: DictionaryAttr | None) -> int:
    """The bytes a buffer is aligned to: its `llvm.align`, otherwise its element's size, as LLVM lays it out."""
    align = attrs.data.get("llvm.align") if attrs else None
    if isa(align, IntegerAttr):
        return align.value.data
    return buffer.element_type.size if isinstance(buffer.element_type, FixedBitwidthType) else 1


def _print_arguments(
    printer: Printer, arguments: Sequence[BlockArgument], attrs: ArrayAttr[DictionaryAttr] | None
) -> None:
    pairs = zip(arguments, attrs.data if attrs else [None] * len(arguments), strict=True)
    with printer.in_parens():
        printer.print_list(pairs, lambda pair: print_func_argument(printer, *pair))


def _parse_arguments(parser: Parser) -> tuple[list[Parser.Argument], ArrayAttr[DictionaryAttr] | None]:
    """`(%a: type {attributes}, …)`; no attributes at all gives None, as in upstream."""
    pairs = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: (parser.parse_argument(), parser.parse_optional_dictionary_attr_dict())
    )
    attrs = ArrayAttr(DictionaryAttr(attrs) for _, attrs in pairs) if any(attrs for _, attrs in pairs) else None
    return [argument for argument, _ in pairs], attrs


def _types(types: Iterable[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class ReturnOp(UpstreamOp):
    """Leaves a `gpu.func`. `ReturnOp()`, `ReturnOp(value, …)`"""

    name = "gpu.return"

    arguments = var_operand_def()

    traits = traits_def(HasParent(FuncOp), IsTerminator(), Pure(), ReturnLike())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"

    def __init__(self, *arguments: SSAValue | Operation):
        super().__init__(operands=[arguments])

    def verify_(self) -> None:
        super().verify_()
        function = self.parent_op()
        if isinstance(function, FuncOp) and tuple(self.arguments.types) != function.function_type.outputs.data:
            raise VerifyException(
                f"'gpu.return' gives {_types(self.arguments.types)}, @{function.sym_name.data} returns "
                f"{_types(function.function_type.outputs)}"
            )


Gpu = Dialect(
    "gpu",
    [
        BarrierOp,
        BlockDimOp,
        BlockIdOp,
        DynamicSharedMemoryOp,
        FuncOp,
        GridDimOp,
        LaneIdOp,
        ModuleOp,
        ReturnOp,
        ShuffleOp,
        ThreadIdOp,
    ],
    [AddressSpaceAttr, DimensionAttr, ShuffleModeAttr],
)
"""Takes the place of xDSL's `gpu` dialect."""
