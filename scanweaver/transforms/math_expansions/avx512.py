"""What AVX-512 has instructions for and other hosts write out: products with powers of two, limits on a magnitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue

if TYPE_CHECKING:
    from scanweaver.transforms.math_expansions.emitter import Emitter

_MIN_MAGNITUDE = 2
"""VRANGE: of two operands the one of smaller magnitude, with the first one's sign; a number where the other is NaN."""
_CURRENT_ROUNDING = 4


def is_register(bits: int, shape: tuple[int, ...] | None) -> bool:
    """Whether a vector of floats of `bits` each fills a register."""
    return shape is not None and len(shape) == 1 and shape[0] * bits in (128, 256, 512)


def scale(e: Emitter, x: SSAValue, k: SSAValue) -> SSAValue:
    """x·2^k for an integer k of any size, rounded once; infinite and NaN as the product is."""
    return _masked(e, "scalef", x, k)


def limit(e: Emitter, x: SSAValue, bound: float) -> SSAValue:
    """`x` within [-bound, bound]; -bound or bound for NaN."""
    return _masked(e, "range", x, e.number(bound), _MIN_MAGNITUDE)


def _masked(e: Emitter, name: str, a: SSAValue, b: SSAValue, immediate: int | None = None) -> SSAValue:
    """An intrinsic that takes a mask, here of all lanes, and in its widest form a rounding mode."""
    assert e.shape is not None
    lanes, bits = e.shape[0], e.format.bits

    def constant(value: int, width: int) -> SSAValue:
        return e.emit(arith.ConstantOp(IntegerAttr(value, IntegerType(width))))

    operands = [a, b]
    if immediate is not None:
        operands.append(constant(immediate, 32))
    operands += [a, constant(-1, max(8, lanes))]
    if lanes * bits == 512:
        operands.append(constant(_CURRENT_ROUNDING, 32))
    intrinsic = f"llvm.x86.avx512.mask.{name}.p{'s' if bits == 32 else 'd'}.{lanes * bits}"
    return e.emit(llvm.CallIntrinsicOp(intrinsic, operands, (e.type,)))
