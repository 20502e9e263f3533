"""`lower-math-for-gpu`: scalar functions as the instructions that PTX has for them, within stated bounds."""

from __future__ import annotations

import math as python_math
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import llvm, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker

from scanweaver.transforms.math_expansions import exponential, hyperbolic, logarithm
from scanweaver.transforms.math_expansions.emitter import Emitter, ExpandMath, Expansion

_LOG2E = 1 / python_math.log(2)


def _instruction(intrinsic: str) -> Expansion:
    """The operation is one intrinsic, which reaches PTX as one instruction."""

    def expand(e: Emitter, *operands: SSAValue) -> SSAValue:
        return e.emit(llvm.CallIntrinsicOp(intrinsic.format(e.format.bits), operands, (e.type,)))

    return expand


_ex2 = _instruction("llvm.nvvm.ex2.approx.f32")
_ex2_ftz = _instruction("llvm.nvvm.ex2.approx.ftz.f32")
_fma_sat = _instruction("llvm.nvvm.fma.rn.sat.f")


def _exp(e: Emitter, x: SSAValue) -> SSAValue:
    """2^n·2^r with r = x·log2(e) - n between 0 and 1, all in eight instructions.

    Not the nearest n: ex2 cuts off what an argument has after some 24 binary places, and for x just below 0, where
    decays lie, that makes results low by half a unit of the last place. There r is just below 1, rounded to nearest.

    Only n is kept within [-126, 127], by the hardware's clamp to [0, 1]; r is not, so that past these ends it grows
    until ex2 itself gives 0 or infinity, and denormals are rounded by the last multiplication.
    """
    fraction = _fma_sat(e, x, e.number(_LOG2E / 253), e.number(125.5 / 253))
    shifted = e.fma(fraction, e.number(253), e.number(1.5 * 2**23 + 1))  # n + 127 in the low bits
    minus_n = e.sub(e.number(1.5 * 2**23 + 127), shifted)
    hi = e.format.rounded(_LOG2E)
    r = e.fma(x, e.number(_LOG2E - hi), e.fma(x, e.number(hi), minus_n))  # both factors positive: inf stays inf
    scale = e.as_float(e.to_exponent(e.as_bits(shifted)))
    return e.mul(_ex2_ftz(e, r), scale)


def _exp_fast(e: Emitter, x: SSAValue) -> SSAValue:
    return _ex2_ftz(e, e.mul(x, e.number(_LOG2E)))


# Instructions of both widths. Through libdevice they would become the same, where there is a libdevice to link.
_EITHER: dict[type[Operation], str] = {
    math.FmaOp: "llvm.fma.f{}",
    math.AbsFOp: "llvm.fabs.f{}",
    math.CopySignOp: "llvm.copysign.f{}",
    math.FloorOp: "llvm.floor.f{}",
    math.RoundEvenOp: "llvm.roundeven.f{}",
    math.SqrtOp: "llvm.sqrt.f{}",
}

_SINGLE: dict[type[Operation], Expansion] = {
    math.ExpOp: _exp,
    math.Exp2Op: _ex2,
    math.ExpM1Op: exponential.expm1,
    math.LogOp: logarithm.log,
    math.Log1pOp: logarithm.log1p,
    math.Log2Op: logarithm.log2,
    math.RsqrtOp: _instruction("llvm.nvvm.rsqrt.approx.f"),
    math.TanhOp: hyperbolic.tanh,
}

_FAST: dict[type[Operation], Expansion] = {math.ExpOp: _exp_fast, math.Exp2Op: _ex2_ftz}


@dataclass(frozen=True)
class LowerMathForGpuPass(ModulePass):
    """
    rewrite: math.{exp, exp2, expm1, log, log2, log1p, tanh, rsqrt} on f32 -> arith and llvm.call_intrinsic
             math.{fma, absf, copysign, floor, roundeven, sqrt} on f32 or f64 -> one llvm.call_intrinsic
    within the bounds in docs/numerics.md.

    Left alone for `convert-gpu-to-nvvm` and libdevice: sin, cos, erf, powf, and all other functions on f64.

    `exp=fast` makes exp a multiplication and `ex2.approx.ftz`, and exp2 that instruction alone: the relative error
    grows as |x|·2^-24 and results below 2^-126 are 0. That is for decays (x ≤ 0), where |x|·e^x stays below 0.37.
    """

    name = "lower-math-for-gpu"
    exp: Literal["accurate", "fast"] = "accurate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        table: dict[tuple[type[Operation], int], Expansion] = {
            (kind, bits): _instruction(name) for kind, name in _EITHER.items() for bits in (32, 64)
        }
        single = _SINGLE | _FAST if self.exp == "fast" else _SINGLE
        table |= {(kind, 32): how for kind, how in single.items()}
        PatternRewriteWalker(ExpandMath(table, vectors=False)).rewrite_module(op)
