"""Conversions of bfloat16 and float16 that hosts lack: LLVM would take vectors apart, or call a library that not every
compiler brings."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, bf16, f32, i16, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from scanweaver.dialects.arith import CmpfOp, ExtUIOp, SelectOp, TruncIOp, like, split_type
from scanweaver.transforms.functions import Functions
from scanweaver.transforms.math_expansions.emitter import Constants, Emitter


def to_bfloat16(e: Emitter, x: SSAValue) -> SSAValue:
    """A float32 to the nearest bfloat16, of two the even one: its upper half after adding almost half a unit."""
    bits = e.as_bits(x)
    is_odd = e.and_bits(e.emit(arith.ShRUIOp(bits, e.whole(16))), e.whole(1))
    rounded = e.add_bits(e.add_bits(bits, e.whole(0x7FFF)), is_odd)
    quiet = e.or_bits(bits, e.whole(0x400000))  # NaN, whatever its lower half held
    is_nan = e.emit(CmpfOp(x, x, "uno"))
    upper = e.emit(arith.ShRUIOp(e.emit(SelectOp(is_nan, quiet, rounded)), e.whole(16)))
    half = e.emit(TruncIOp.create(operands=[upper], result_types=[e.like(i16)]))
    return e.bitcast(half, e.like(bf16))


def from_bfloat16(e: Emitter, x: SSAValue) -> SSAValue:
    """A bfloat16 as the float32 that it is the upper half of."""
    half = e.bitcast(x, e.like(i16))
    bits = e.emit(ExtUIOp.create(operands=[half], result_types=[e.like(i32)]))
    return e.as_float(e.emit(arith.ShLIOp(bits, e.whole(16))))


def to_odd_float32(e: Emitter, x: SSAValue, single: Emitter) -> SSAValue:
    """A float64 as a float32 that rounding once more does not round twice: towards zero, the last bit set if inexact.

    Source: Boldo, Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd",
    IEEE Transactions on Computers 57(4), 2008. `single` writes float32.
    """
    nearest = e.emit(arith.TruncFOp(x, e.like(f32)))
    back = e.emit(arith.ExtFOp(nearest, e.type))
    bits, one = single.as_bits(nearest), single.whole(1)
    is_beyond = e.emit(CmpfOp(e.abs(back), e.abs(x), "ogt"))
    towards_zero = e.emit(SelectOp(is_beyond, single.sub_bits(bits, one), bits))
    is_inexact = e.emit(CmpfOp(back, x, "une"))
    odd = e.emit(SelectOp(is_inexact, single.or_bits(towards_zero, one), bits))
    return single.as_float(odd)


@dataclass
class ExpandExtension(RewritePattern):
    """Replaces `arith.extf` from bf16 by calls of functions."""

    functions: Functions
    constants: Constants

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.ExtFOp, rewriter: PatternRewriter) -> None:
        source, shape = split_type(op.input.type)
        target = split_type(op.result.type)[0]
        if not isinstance(source, BFloat16Type):
            return
        result = op.result.type

        def body(block: Block) -> list[SSAValue]:
            e = Emitter(like(result, f32), Builder(InsertPoint.at_end(block)), self.constants)
            single = from_bfloat16(e, block.args[0])
            return [single if target == f32 else e.emit(arith.ExtFOp(single, result))]

        rewriter.replace(
            op, self.functions.call(_name("extf", shape, source, target), op.operands, [result], body, inlined=True)
        )


@dataclass
class ExpandRounding(RewritePattern):
    """Replaces `arith.truncf` to bf16, and from f64 to f16, by calls of functions."""

    functions: Functions
    constants: Constants

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.TruncFOp, rewriter: PatternRewriter) -> None:
        source, shape = split_type(op.input.type)
        target = split_type(op.result.type)[0]
        from_double = isinstance(source, Float64Type)
        to_half = isinstance(target, Float16Type)
        if not isinstance(target, BFloat16Type) and not (from_double and to_half):
            return
        assert isinstance(source, Float32Type | Float64Type)

        def body(block: Block) -> list[SSAValue]:
            builder = Builder(InsertPoint.at_end(block))
            (x,) = block.args
            wide = Emitter(op.input.type, builder, self.constants)
            single = Emitter(wide.like(f32), builder, self.constants)
            if from_double:
                x = to_odd_float32(wide, x, single)
            return [single.emit(arith.TruncFOp(x, op.result.type)) if to_half else to_bfloat16(single, x)]

        name = _name("truncf", shape, source, target)
        rewriter.replace(op, self.functions.call(name, op.operands, [op.result.type], body, inlined=True))


def _name(cast: str, shape: tuple[int, ...] | None, source: Attribute, target: Attribute) -> str:
    return f"{cast}_{''.join(f'{size}x' for size in shape or ())}{source}_{target}"
