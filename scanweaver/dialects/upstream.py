"""What our spelling of upstream dialects shares: nothing passes that mlir-opt would carry along and ignore."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

OUR_PREFIXES = ("gpu.", "nvvm.")


def refuse_unknown_attributes(op: Operation, known: frozenset[str]) -> None:
    """
    Raises `VerifyException` for an attribute that upstream gives no meaning on `op`.

    mlir-opt keeps such an attribute on the operation and drops it while lowering, without a word, so a misspelt name
    would only show as slower or wrong code. Names of other dialects (`scan.note`) pass: they are meant for us.
    """
    for name in op.attributes:
        if name not in known and ("." not in name or name.startswith(OUR_PREFIXES)):
            raise VerifyException(
                f"'{op.name}' has no attribute '{name}'; mlir-opt would drop it in silence"
                + (f" (it has: {', '.join(sorted(known))})" if known else "")
            )


class UpstreamOp(IRDLOperation, ABC):
    """An operation of an upstream dialect. Subclasses with a `verify_` of their own call this one too."""

    def verify_(self) -> None:
        refuse_unknown_attributes(self, frozenset(self.get_irdl_definition().attributes))


ADDRESS_OPS = frozenset(
    {
        "arith.addi",
        "arith.index_cast",
        "builtin.unrealized_conversion_cast",
        "llvm.getelementptr",
        "llvm.inttoptr",
        "memref.cast",
        "memref.collapse_shape",
        "memref.expand_shape",
        "memref.extract_aligned_pointer_as_index",
        "memref.reinterpret_cast",
        "memref.subview",
        "memref.view",
    }
)
"""Operations that make one address from another, as far as kernels do."""


def widest_access(buffer: SSAValue) -> int:
    """The largest alignment in bytes that an access to `buffer` promises, through casts and views; 1 without any."""
    widest = 1
    for use in buffer.uses:
        op = use.operation
        alignment = op.get_attr_or_prop("size" if op.name == "nvvm.cp.async.shared.global" else "alignment")
        if isa(alignment, IntegerAttr):
            widest = max(widest, alignment.value.data)
        if op.name in ADDRESS_OPS:
            widest = max(widest, *map(widest_access, op.results))
    return widest
