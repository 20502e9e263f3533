"""Makes one operation, with one rounding, of a product and the sum that it goes into."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, builtin, math
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from scanweaver.dialects import recurrence


def _lone_product(value: SSAValue) -> arith.MulfOp | None:
    """The multiplication that a value comes from, where nothing else reads it."""
    owner = value.owner
    return owner if isinstance(owner, arith.MulfOp) and value.has_one_use() else None


def _replace(op: Operation, product: arith.MulfOp, fused: list[Operation], rewriter: PatternRewriter) -> None:
    for new in fused:
        new.attributes |= op.attributes
    rewriter.replace(op, fused)
    rewriter.erase(product)


class FuseSum(RewritePattern):
    """a·b + c and c + a·b; of two products the first."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.AddfOp, rewriter: PatternRewriter) -> None:
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if (product := _lone_product(value)) is not None:
                _replace(op, product, [math.FmaOp(product.lhs, product.rhs, other)], rewriter)
                return


class FuseDifference(RewritePattern):
    """a·b - c and c - a·b."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.SubfOp, rewriter: PatternRewriter) -> None:
        if (product := _lone_product(op.lhs)) is not None:
            minus = arith.NegfOp(op.rhs)
            _replace(op, product, [minus, math.FmaOp(product.lhs, product.rhs, minus.result)], rewriter)
        elif (product := _lone_product(op.rhs)) is not None:
            minus = arith.NegfOp(product.lhs)
            _replace(op, product, [minus, math.FmaOp(minus.result, product.rhs, op.lhs)], rewriter)


@dataclass(frozen=True)
class FuseMultiplyAddPass(ModulePass):
    """
    rewrite: %p = arith.mulf %a, %b; arith.addf %p, %c  ->  math.fma %a, %b, %c

    In the body of every `recurrence.generic`, where nothing else reads the product; likewise for differences. Done here
    and not left to a compiler further down, the same operations round in every copy of a step: in whole tiles and in
    the rest, on the CPU and on the GPU.
    """

    name = "fuse-multiply-add"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for generic in [inner for inner in op.walk() if isinstance(inner, recurrence.GenericOp)]:
            for pattern in (FuseSum(), FuseDifference()):
                PatternRewriteWalker(pattern, apply_recursively=False).rewrite_region(generic.body)
