"""Expands `scan.block_scan` into exchanges between lanes and, where warps share a row, workgroup memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, builtin, llvm, scf
from xdsl.dialects.builtin import (
    I32,
    BFloat16Type,
    DenseArrayBase,
    FixedBitwidthType,
    Float16Type,
    IntegerAttr,
    IntegerType,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from scanweaver.dialects import block_scan, gpu, scan
from scanweaver.dialects.scan_regions import inlined
from scanweaver.dialects.schedule import ALGORITHMS, BLELLOCH, SHUFFLE
from scanweaver.transforms.skeleton.memory import byte_size, storage_type

WARP = 32


def _bits(type: Attribute) -> int:
    assert isinstance(type, FixedBitwidthType)
    return type.bitwidth


def _rows_of_block(op: scan.BlockScanOp) -> int:
    """Rows that share the scratch buffers: a block's warps across rows times a warp's lanes across rows."""
    function = op.parent_op()
    while function is not None and not isinstance(function, gpu.FuncOp):
        function = function.parent_op()
    if function is None or function.known_block_size is None:
        raise PassFailedException("scan.block_scan over several warps stands in a gpu.func of known block size")
    assert isa(function.known_block_size, DenseArrayBase[I32])
    threads = function.known_block_size.get_values()[0]
    return threads // (op.lanes.data * op.warps.data)


class _Shuffles:
    """Writes one scan: rounds of doubling distance within a warp, then the warps' totals in order."""

    def __init__(self, op: scan.BlockScanOp, rewriter: PatternRewriter):
        self.op = op
        self.rewriter = rewriter
        self.lane, self.warp, self.row = op.position

    def incoming(self) -> list[SSAValue]:
        """The states before this participant's stretch."""
        op = self.op
        folded = self._folded_in_warp(list(op.elements))
        before_warp = list(op.carry)
        if op.warps.data > 1:
            before_warp = self._before_warp(folded, before_warp)
        if op.lanes.data == 1:
            return before_warp
        after = self._inline(op.apply, [*folded, *before_warp])
        first = self._insert(arith.CmpiOp(self.lane, self._i32(0), "eq"))
        return [
            self._select(first, before, self._from_below(value, 1))
            for before, value in zip(before_warp, after, strict=True)
        ]

    def _folded_in_warp(self, element: list[SSAValue]) -> list[SSAValue]:
        """Each lane's element combined with those of all lanes before it."""
        if self._takes_later():
            return element
        distance = 1
        while distance < self.op.lanes.data:
            earlier = [self._from_below(value, distance) for value in element]
            combined = self._inline(self.op.combine, [*earlier, *element])
            reaches = self._insert(arith.CmpiOp(self.lane, self._i32(distance), "sge"))
            element = [self._select(reaches, new, old) for new, old in zip(combined, element, strict=True)]
            distance *= 2
        return element

    def _takes_later(self) -> bool:
        """Whether combine forgets the earlier element: the fold of any stretch is its last element."""
        block = self.op.combine.block
        later = block.args[len(self.op.elements) :]
        return scan.yielded(self.op.combine) == tuple(later)

    def _before_warp(self, folded: Sequence[SSAValue], carry: list[SSAValue]) -> list[SSAValue]:
        """The states before this warp's stretch: the carry, then the totals of the warps before it, in order."""
        op = self.op
        pitch = _rows_of_block(op)
        stores: list[Operation] = []
        for buffer, value in zip(op.scratch, folded, strict=True):
            stored = self._insert(arith.ExtUIOp(value, i8)) if value.type == i1 else value
            address = self._slot(buffer, self.warp, pitch, value.type)
            stores.append(llvm.StoreOp(stored, address, alignment=byte_size(value.type)))
        is_last = self._insert(arith.CmpiOp(self.lane, self._i32(op.lanes.data - 1), "eq"))
        self.rewriter.insert(scf.IfOp(is_last, [], Region(Block([*stores, scf.YieldOp()]))))
        self._barrier()
        states = carry
        for warp in range(op.warps.data - 1):
            total = [
                self._load(buffer, self._i32(warp), pitch, value.type)
                for buffer, value in zip(op.scratch, folded, strict=True)
            ]
            after = self._inline(op.apply, [*total, *states])
            before = self._insert(arith.CmpiOp(self.warp, self._i32(warp), "sgt"))
            states = [self._select(before, new, old) for new, old in zip(after, states, strict=True)]
        self._barrier()
        return states

    def _slot(self, buffer: SSAValue, warp: SSAValue, pitch: int, type: Attribute) -> SSAValue:
        """The address of this row's value of a warp."""
        slot = self._insert(arith.AddiOp(self._insert(arith.MuliOp(warp, self._i32(pitch))), self.row))
        slot = self._insert(arith.ExtUIOp(slot, i64))
        assert isinstance(buffer.type, llvm.LLVMPointerType)
        stored = storage_type(type)
        return self._insert(llvm.GEPOp(buffer, [llvm.GEP_USE_SSA_VAL], stored, [slot], result_type=buffer.type))

    def _load(self, buffer: SSAValue, warp: SSAValue, pitch: int, type: Attribute) -> SSAValue:
        address = self._slot(buffer, warp, pitch, type)
        value = self._insert(llvm.LoadOp(address, storage_type(type), alignment=byte_size(type)))
        return self._to_bool(value) if type == i1 else value

    # --- exchange between lanes -------------------------------------------------------------------------------

    def _from_below(self, value: SSAValue, distance: int) -> SSAValue:
        """The value of the lane `distance` before this one in time (of lanes without one: anything)."""
        offset = self._i32(distance * self.op.row_lanes.data)
        carried = self._as_words(value)
        shuffled = self.rewriter.insert(gpu.ShuffleOp(carried, offset, self._i32(WARP), "up")).results[0]
        return self._from_words(shuffled, value.type)

    def _as_words(self, value: SSAValue) -> SSAValue:
        """A value as lanes exchange it: of at least 32 bits."""
        if isinstance(value.type, Float16Type | BFloat16Type):
            value = self._insert(arith.BitcastOp(value, i16))
        if _bits(value.type) < 32:
            return self._insert(arith.ExtUIOp(value, i32))
        return value

    def _from_words(self, word: SSAValue, type: Attribute) -> SSAValue:
        if word.type == type:
            return word
        if type == i1:
            return self._to_bool(word)
        if isinstance(type, Float16Type | BFloat16Type):
            return self._insert(arith.BitcastOp(self._insert(arith.TruncIOp(word, i16)), type))
        return self._insert(arith.TruncIOp(word, IntegerType(_bits(type))))

    # --- small things -----------------------------------------------------------------------------------------

    def _insert(self, op: Operation) -> SSAValue:
        return self.rewriter.insert(op).results[0]

    def _i32(self, value: int) -> SSAValue:
        return self._insert(arith.ConstantOp(IntegerAttr(value, i32)))

    def _select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._insert(arith.SelectOp(condition, a, b))

    def _to_bool(self, value: SSAValue) -> SSAValue:
        zero = self._insert(arith.ConstantOp(IntegerAttr(0, IntegerType(_bits(value.type)))))
        return self._insert(arith.CmpiOp(value, zero, "ne"))

    def _barrier(self) -> None:
        self.rewriter.insert(gpu.BarrierOp())

    def _inline(self, region: Region, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        return inlined(region, arguments, lambda op, values: self.rewriter.insert(op.clone(values)).results)


def _as_sweeps(op: scan.BlockScanOp, rewriter: PatternRewriter) -> Sequence[SSAValue]:
    """Blelloch's two sweeps over all participants of a row."""
    lane, warp, row = op.position
    lanes, warps = op.lanes.data, op.warps.data
    constant = rewriter.insert(arith.ConstantOp(IntegerAttr(lanes, i32)))
    participant = rewriter.insert(arith.AddiOp(rewriter.insert(arith.MuliOp(warp, constant.result)).result, lane))
    position = [participant.result, row]
    by_row = _rows_of_block(op) if lanes == 1 else None
    buffers, states = op.scratch[: len(op.elements)], op.scratch[len(op.elements) :]
    rewriter.insert(
        block_scan.UpSweepOp(
            op.elements, position, buffers, op.combine.clone(), participants=lanes * warps, by_row=by_row
        )
    )
    down = block_scan.DownSweepOp(
        op.carry, position, buffers, states, op.apply.clone(), participants=lanes * warps, by_row=by_row
    )
    return rewriter.insert(down).res


class LowerBlockScan(RewritePattern):
    def __init__(self, algorithm: str):
        self.algorithm = algorithm

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scan.BlockScanOp, rewriter: PatternRewriter) -> None:
        if self.algorithm and self.algorithm != op.algorithm.data:
            raise PassFailedException(
                f"scan.block_scan has workgroup buffers for {op.algorithm.data}, not for {self.algorithm}: "
                f"schedule it so, by schedule-scan{{strategy={'lanes' if self.algorithm == SHUFFLE else BLELLOCH}}}"
            )
        if op.algorithm.data == BLELLOCH:
            rewriter.replace(op, [], _as_sweeps(op, rewriter))
        else:
            rewriter.replace(op, [], _Shuffles(op, rewriter).incoming())


@dataclass(frozen=True)
class LowerBlockScanPass(ModulePass):
    """
    rewrite: %h = scan.block_scan elements(%e) carry(%c)  ->  log2(lanes) gpu.shuffle rounds; per warp one total in
    workgroup memory, folded in order after a barrier

    rewrite: %h = scan.block_scan blelloch elements(%e) carry(%c)  ->  scan.up_sweep; %h = scan.down_sweep carry(%c)

    In a round of distance d a lane combines the element of the lane d before it with its own (Hillis and Steele, CACM
    29(12), 1986); then the fold acts on the carry, and the states move up by one lane. The sweeps are Blelloch's
    (Prefix Sums and Their Applications, CMU-CS-90-190, 1990).

    `algorithm`: the schedule's where it is left out; `shuffle` or `blelloch` hold the schedule to it.
    """

    name = "lower-block-scan"
    algorithm: str = ""

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        if self.algorithm and self.algorithm not in ALGORITHMS:
            raise PassFailedException(f"algorithm is one of {', '.join(ALGORITHMS)}, got {self.algorithm}")
        PatternRewriteWalker(LowerBlockScan(self.algorithm), apply_recursively=False).rewrite_module(op)
