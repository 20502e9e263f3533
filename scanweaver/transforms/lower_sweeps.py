"""Writes Blelloch's sweeps as loops over the levels of a tree in workgroup memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, builtin
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from scanweaver.dialects import gpu
from scanweaver.dialects.block_scan import DownSweepOp, UpSweepOp, padding, sweep_slots
from scanweaver.dialects.scan_regions import inlined
from scanweaver.transforms.skeleton.memory import Memory, byte_size
from scanweaver.transforms.skeleton.scopes import Writer

Buffers = Sequence[tuple[SSAValue, Attribute]]
"""Pointers to workgroup memory, and what each holds."""


class _Sweep:
    """One sweep, written before the operation that it replaces."""

    def __init__(self, op: UpSweepOp | DownSweepOp, write: Writer):
        self.op = op
        self.write = write
        self.memory = Memory(write, None, 1)
        self.participants = op.participants.data
        self.by_row = None if op.by_row is None else op.by_row.data
        self.participant, self.row = (write.value(arith.ExtUIOp(value, i64)) for value in op.position)

    def load(self, buffers: Buffers, at: SSAValue) -> list[SSAValue]:
        types = (type for _, type in buffers)
        return [self.memory.load_element(a, type) for a, type in zip(self._addresses(buffers, at), types, strict=True)]

    def store(self, buffers: Buffers, at: SSAValue, values: Sequence[SSAValue]) -> None:
        for address, value in zip(self._addresses(buffers, at), values, strict=True):
            self.memory.store_element(address, value)

    def _addresses(self, buffers: Buffers, at: SSAValue) -> list[SSAValue]:
        """Where each buffer holds participant `at` of this row; buffers of one element size have one slot."""
        slots = {bytes: self._slot(at, bytes) for bytes in dict.fromkeys(byte_size(type) for _, type in buffers)}
        return [self.memory.advanced(buffer, slots[byte_size(type)], type) for buffer, type in buffers]

    def _slot(self, at: SSAValue, bytes: int) -> SSAValue:
        """Rows side by side where lanes are rows, else with pads between."""
        write = self.write
        if self.by_row is not None:
            return write.add(write.mul(at, write.constant(self.by_row)), self.row)
        every, pad = padding(bytes)
        pads = write.div(at, write.constant(every))
        padded = write.add(at, pads if pad == 1 else write.mul(pads, write.constant(pad)))
        row_slots = write.constant(sweep_slots(self.participants, 1, by_row=False, bytes=bytes))
        return write.add(write.mul(self.row, row_slots), padded)

    def barrier(self) -> None:
        self.write.insert(gpu.BarrierOp())

    def levels(self, first: int, last: int, step: int, body: Callable[[SSAValue, SSAValue], None]) -> None:
        """For levels l = first, first + step, … last, each followed by a barrier, in the participants p < P / 2d with
        d = 2^l: `body(i, i - d)` at i = 2d·(p + 1) - 1."""
        write = self.write
        count = (last - first) // step + 1
        if count <= 0:
            return

        def level(position: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            scaled = write.mul(position, write.constant(step))
            shift = write.add(scaled, write.constant(first))
            distance = write.value(arith.ShLIOp(write.constant(1), shift))
            span = write.add(distance, distance)
            later = write.sub(write.mul(write.add(self.participant, write.constant(1)), span), write.constant(1))
            earlier = write.sub(later, distance)
            inside = write.is_less(later, write.constant(self.participants))
            write.when(inside, lambda: body(later, earlier))
            self.barrier()
            return ()

        write.loop(write.constant(0), write.constant(count), write.constant(1), (), level)

    def inline(self, region: Region, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        return inlined(region, arguments, lambda op, values: self.write.insert(op.clone(values)).results)


def _write_up(op: UpSweepOp, write: Writer) -> None:
    sweep = _Sweep(op, write)
    buffers = list(zip(op.buffers, (value.type for value in op.elements), strict=True))
    sweep.store(buffers, sweep.participant, op.elements)
    sweep.barrier()

    def combine(later: SSAValue, earlier: SSAValue) -> None:
        arguments = [*sweep.load(buffers, earlier), *sweep.load(buffers, later)]
        sweep.store(buffers, later, sweep.inline(op.combine, arguments))

    depth = sweep.participants.bit_length() - 1
    sweep.levels(0, depth - 2, 1, combine)


def _write_down(op: DownSweepOp, write: Writer) -> Sequence[SSAValue]:
    sweep = _Sweep(op, write)
    elements = op.apply.block.arg_types[: len(op.buffers)]
    buffers = list(zip(op.buffers, elements, strict=True))
    states = list(zip(op.states, (value.type for value in op.carry), strict=True))
    root = write.constant(sweep.participants - 1)
    write.when(write.is_equal(sweep.participant, root), lambda: sweep.store(states, root, op.carry))
    sweep.barrier()

    def hand_down(later: SSAValue, earlier: SSAValue) -> None:
        before = sweep.load(states, later)
        after = sweep.inline(op.apply, [*sweep.load(buffers, earlier), *before])
        sweep.store(states, earlier, before)
        sweep.store(states, later, after)

    depth = sweep.participants.bit_length() - 1
    sweep.levels(depth - 1, 0, -1, hand_down)
    incoming = sweep.load(states, sweep.participant)
    sweep.barrier()  # the buffers are free again
    return incoming


class LowerUpSweep(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: UpSweepOp, rewriter: PatternRewriter) -> None:
        _write_up(op, Writer.before(op))
        rewriter.erase(op)


class LowerDownSweep(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DownSweepOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, [], _write_down(op, Writer.before(op)))


@dataclass(frozen=True)
class LowerSweepsPass(ModulePass):
    """
    rewrite: scan.up_sweep  ->  stores to workgroup memory; scf.for over levels { combine in the first P/2d
    participants; gpu.barrier }

    rewrite: %h = scan.down_sweep  ->  scf.for over levels, from the root { states to both children; gpu.barrier }
    """

    name = "lower-sweeps"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for pattern in (LowerUpSweep(), LowerDownSweep()):
            PatternRewriteWalker(pattern, apply_recursively=False).rewrite_module(op)
