"""Writing arithmetic as operations: what an expansion is written in, and the pattern that puts expansions in place."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import Float32Type, Float64Type, FloatAttr, IntegerAttr, IntegerType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsolatedFromAbove

from scanweaver.dialects.arith import CmpiOp, SelectOp, split_type
from scanweaver.transforms.functions import Functions
from scanweaver.transforms.math_expansions.avx512 import is_register

Expansion: TypeAlias = Callable[..., SSAValue]
"""From an `Emitter` and a math operation's operands to the value that replaces its result."""


@dataclass(frozen=True)
class Format:
    """The binary layout of a float: where its exponent starts, and how its bits are read in Python."""

    bits: int
    mantissa: int
    float_code: str
    int_code: str

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    def bits_of(self, value: float) -> int:
        """The bit pattern of `value`, rounded to this format, as a signed integer."""
        return struct.unpack(self.int_code, struct.pack(self.float_code, value))[0]

    def rounded(self, value: float) -> float:
        return struct.unpack(self.float_code, struct.pack(self.float_code, value))[0]


F32 = Format(32, 23, "<f", "<i")
F64 = Format(64, 52, "<d", "<q")


@dataclass
class Constants:
    """Constants at the top of each function, one per value and type, so that loops hold only arithmetic."""

    known: dict[tuple[Block, Attribute, bytes], SSAValue] = field(
        default_factory=dict[tuple[Block, Attribute, bytes], SSAValue]
    )

    def get(self, builder: Builder, attribute: FloatAttr | IntegerAttr, type: Attribute) -> SSAValue:
        """The constant as a value of `type`, which is the attribute's own type or a vector of it."""
        block = _entry_block(builder.insertion_point.block)
        data = attribute.value.data
        key = (block, type, struct.pack("<d" if isinstance(data, float) else "<q", data))
        if key not in self.known:
            ops: list[Operation] = [arith.ConstantOp(attribute)]
            if split_type(type)[1] is not None:
                # A scalar and a broadcast: xDSL misreads infinities in dense attributes.
                ops.append(vector.BroadcastOp(ops[0], cast("VectorType[Attribute]", type)))
            builder.insert(ops, InsertPoint.at_start(block))
            self.known[key] = ops[-1].results[0]
        return self.known[key]


def _entry_block(block: Block) -> Block:
    """The first block of the innermost function (or other isolated operation) around `block`."""
    region = block.parent_region()
    while region is not None:
        block = region.blocks[0]
        owner = region.parent_op()
        region = None if owner is None or owner.has_trait(IsolatedFromAbove) else owner.parent_region()
    return block


class Emitter:
    """Arithmetic on values of one type: a float (f32 or f64) or a vector of them. No operation may be re-associated.

    `avx512`: the host has these instructions, for vectors that fill a register.
    """

    def __init__(self, type: Attribute, builder: Builder, constants: Constants, *, avx512: bool = False):
        element, self.shape = split_type(type)
        assert isinstance(element, Float32Type | Float64Type)
        self.type = type
        self.element = element
        self.format = F32 if isinstance(element, Float32Type) else F64
        self.integer = IntegerType(self.format.bits)
        self.has_avx512 = avx512 and is_register(self.format.bits, self.shape)
        self._builder = builder
        self._constants = constants

    def like(self, element: Attribute) -> Attribute:
        """`element` in this emitter's shape."""
        return element if self.shape is None else VectorType(element, self.shape)

    def emit(self, op: Operation) -> SSAValue:
        self._builder.insert(op)
        return op.results[0]

    # constants

    def number(self, value: float) -> SSAValue:
        attribute = FloatAttr(self.format.rounded(value), self.element)
        return self._constants.get(self._builder, attribute, self.type)

    def whole(self, value: int) -> SSAValue:
        return self._constants.get(self._builder, IntegerAttr(value, self.integer), self.like(self.integer))

    # floats

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.AddfOp(a, b))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.SubfOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MulfOp(a, b))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.DivfOp(a, b))

    def neg(self, a: SSAValue) -> SSAValue:
        return self.emit(arith.NegfOp(a))

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        return self.emit(math.FmaOp(a, b, c))

    def abs(self, a: SSAValue) -> SSAValue:
        return self.emit(math.AbsFOp(a))

    def copysign(self, magnitude: SSAValue, sign: SSAValue) -> SSAValue:
        return self.emit(math.CopySignOp(magnitude, sign))

    def polynomial(self, x: SSAValue, coefficients: tuple[float, ...]) -> SSAValue:
        """Horner's scheme; coefficients lowest power first."""
        *rest, value = map(self.number, coefficients)
        for coefficient in reversed(rest):
            value = self.fma(value, x, coefficient)
        return value

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller; NaN if either is."""
        return self.emit(arith.MinimumfOp(a, b))

    def clamp(self, x: SSAValue, lo: float, hi: float) -> SSAValue:
        """`x` within [lo, hi]; NaN stays."""
        return self.minimum(self.emit(arith.MaximumfOp(x, self.number(lo))), self.number(hi))

    # bits

    def as_bits(self, a: SSAValue) -> SSAValue:
        return self.bitcast(a, self.like(self.integer))

    def as_float(self, bits: SSAValue) -> SSAValue:
        return self.bitcast(bits, self.type)

    def bitcast(self, a: SSAValue, type: Attribute) -> SSAValue:
        return self.emit(arith.BitcastOp(a, type) if self.shape is None else vector.BitcastOp(a, type))

    def add_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.AddiOp(a, b))

    def sub_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.SubiOp(a, b))

    def and_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.AndIOp(a, b))

    def or_bits(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.OrIOp(a, b))

    def to_exponent(self, a: SSAValue) -> SSAValue:
        """Bits `a` moved up to where the exponent stands; what does not fit is lost."""
        return self.emit(arith.ShLIOp(a, self.whole(self.format.mantissa)))

    def half(self, whole: SSAValue) -> SSAValue:
        """A whole number halved, towards minus infinity."""
        return self.emit(arith.ShRSIOp(whole, self.whole(1)))

    def from_exponent(self, bits: SSAValue) -> SSAValue:
        """The exponent field of `bits` with its sign, as an integer."""
        return self.emit(arith.ShRSIOp(bits, self.whole(self.format.mantissa)))

    def to_float(self, whole: SSAValue) -> SSAValue:
        """A small integer as a float, by way of the low bits of a large one."""
        magic = 1.5 * 2**self.format.mantissa
        shifted = self.as_float(self.add_bits(whole, self.whole(self.format.bits_of(magic))))
        return self.sub(shifted, self.number(magic))

    # choices: conditions are integers whose sign bit says yes

    def all_ones_if_negative(self, bits: SSAValue) -> SSAValue:
        return self.emit(arith.ShRSIOp(bits, self.whole(self.format.bits - 1)))

    def choose(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """`yes` where `condition` is negative, else `no`."""
        return self.emit(SelectOp(self.emit(CmpiOp(condition, self.whole(0), "slt")), yes, no))

    def keep_tiny(self, x: SSAValue, result: SSAValue) -> SSAValue:
        """`x` itself where it is so small that x + x² rounds to x: -0 keeps its sign, a denormal all its bits."""
        tiny = self.format.bits_of(2.0 ** -(self.format.mantissa + 2))
        return self.choose(self.sub_bits(self.as_bits(self.abs(x)), self.whole(tiny)), x, result)


@dataclass
class ExpandMath(RewritePattern):
    """Replaces each operation on f32 or f64 (`vectors`: and on vectors of them) that a table has an expansion for.

    The expansion stands in place of the operation or, with `functions`, in a function that is called there.
    """

    expansions: Mapping[tuple[type[Operation], int], Expansion]
    vectors: bool
    functions: Functions | None = None
    constants: Constants = field(default_factory=Constants)
    avx512: bool = False

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not op.results:
            return
        type = op.results[0].type
        element, shape = split_type(type)
        if not isinstance(element, Float32Type | Float64Type) or (shape is not None and not self.vectors):
            return
        expansion = self.expansions.get((op.__class__, 32 if isinstance(element, Float32Type) else 64))
        if expansion is None:
            return
        if self.functions is None:
            rewriter.replace(op, (), (expansion(Emitter(type, rewriter, self.constants), *op.operands),))
            return

        def body(block: Block) -> list[SSAValue]:
            builder = Builder(InsertPoint.at_end(block))
            return [expansion(Emitter(type, builder, self.constants, avx512=self.avx512), *block.args)]

        name = "_".join([op.name.removeprefix("math."), *(f"{size}x" for size in shape or ()), str(element)])
        rewriter.replace(op, self.functions.call(name.replace("x_", "x"), op.operands, [type], body, inlined=True))
