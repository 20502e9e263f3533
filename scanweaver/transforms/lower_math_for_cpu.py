"""`lower-math-for-cpu`: the usual transcendental functions, and what hosts lack of halves, as vector arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

from scanweaver.transforms.functions import Functions
from scanweaver.transforms.math_expansions.emitter import Constants, ExpandMath, Expansion
from scanweaver.transforms.math_expansions.exponential import exp, exp2, expm1
from scanweaver.transforms.math_expansions.hyperbolic import tanh
from scanweaver.transforms.math_expansions.logarithm import log, log1p, log2
from scanweaver.transforms.math_expansions.rounding import ExpandExtension, ExpandRounding

_EXPANSIONS: dict[type[Operation], Expansion] = {
    math.ExpOp: exp,
    math.Exp2Op: exp2,
    math.ExpM1Op: expm1,
    math.LogOp: log,
    math.Log1pOp: log1p,
    math.Log2Op: log2,
    math.TanhOp: tanh,
}


@dataclass(frozen=True)
class LowerMathForCpuPass(ModulePass):
    """
    rewrite: math.{exp, exp2, expm1, log, log2, log1p, tanh} on f32, f64 or vectors of them
             -> func.call of a private function: arith, math.{fma, absf, copysign} and bit operations, within the
                bounds in docs/numerics.md
             arith.{extf, truncf} from and to bf16, and from f64 to f16 -> the same, rounding once, to nearest even

    `avx512=true`: the host has that set (F, DQ and VL), whose instructions multiply exp and exp2 by powers of two.
    The bits of the results are the same.

    Left alone: what is one instruction (sqrt, absf, floor, …) and what is rare (sin, cos, erf, powf: a call to libm a
    lane). Run it before `convert-math-to-llvm`, whose log1p is log(1 + x).
    """

    name = "lower-math-for-cpu"
    avx512: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        table = {(kind, bits): how for kind, how in _EXPANSIONS.items() for bits in (32, 64)}
        functions, constants = Functions(op), Constants()
        expand = GreedyRewritePatternApplier(
            [
                ExpandMath(table, vectors=True, functions=functions, constants=constants, avx512=self.avx512),
                ExpandExtension(functions, constants),
                ExpandRounding(functions, constants),
            ]
        )
        PatternRewriteWalker(expand, apply_recursively=False).rewrite_module(op)
