"""Writes a scheduled scan as one GPU kernel, and the recipe to launch it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import builtin, llvm
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i8, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from scanweaver.dialects import gpu, nvvm, scan
from scanweaver.dialects.block_scan import WORKGROUP, sweep_slots
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.schedule import BLELLOCH
from scanweaver.gpu_exec.abi import RECIPE, Kernel, Recipe
from scanweaver.transforms.skeleton import kernel as kernels
from scanweaver.transforms.skeleton.carry import Carry
from scanweaver.transforms.skeleton.evaluate import Evaluator, Lanes, Tile
from scanweaver.transforms.skeleton.memory import Memory, Steps, Tensor, byte_size
from scanweaver.transforms.skeleton.phases import reads_other_positions
from scanweaver.transforms.skeleton.scopes import Writer
from scanweaver.transforms.skeleton.tile import TileWriter, clear_outputs, start_states, store_last

WARP = 32
RESIDENT_THREADS = 640
SMALL_ELEMENT = 8
"""Words of a lane's element up to which its registers may be bounded."""
GLOBAL = llvm.LLVMPointerType(IntAttr(1))


class _Workgroup:
    """Hands out the block's workgroup memory, which the launch gives the size of."""

    def __init__(self, write: Writer):
        self.write = write
        self.bytes = 0
        self._base: SSAValue | None = None

    def buffer(self, count: int, element: Attribute) -> SSAValue:
        if self._base is None:
            self._base = self.write.at_entry(llvm.AddressOfOp(gpu.DYNAMIC_SHARED, WORKGROUP))
        begin, self.bytes = self.bytes, self.bytes + -(-count * byte_size(element) // 16) * 16
        memory = Memory(self.write, None, 1)
        return memory.advanced(self._base, self.write.constant(begin), i8) if begin else self._base


class _KernelWriter:
    """Writes one kernel's body."""

    def __init__(
        self, op: scan.GenericOp, schedule: scan.ScheduleAttr, arguments: kernels.KernelArguments, entry: Block
    ):
        self.op = op
        self.schedule = schedule
        self.arguments = arguments
        self.write = Writer(entry)
        self.shared = _Workgroup(self.write)
        self.steps = schedule.steps.data
        self.rows_per_block = schedule.rows_per_block

    def body(self) -> None:
        write, op, arguments = self.write, self.op, self.arguments
        self._place()
        row = write.smaller(self.row, write.sub(self.num_rows, write.constant(1)))
        sizes = {axis: arguments.size(axis) for axis in self.schedule.order_axes}
        rows = kernels.row_positions(write, row, self.schedule.order_axes, sizes)
        with write.rebinding(rows):
            slot = arguments.slot(write, rows)
            tensors = arguments.tensors(write, rows, slot.rows)
            evaluator = self._evaluator(tensors)
            outputs, lasts = ([tensors[n] for n, _ in arguments.of(role)] for role in ("output", "last"))
            in_range = write.is_less(self.row, self.num_rows)
            stores = [self._stores(in_range, rows, t.axes) for t in outputs]
            next = self._carries() if reads_other_positions(op) else None
            tiles = TileWriter(evaluator, outputs, stores, next, self._order_warp)

            def walk() -> None:
                self._by_one_lane(lambda: start_states(evaluator, arguments.inits(op, write, tensors)))
                self._sync()
                self._walk(tiles)
                last_stores = [self._stores(in_range, rows, t.axes) for t in lasts]
                self._by_one_lane(lambda: store_last(evaluator, lasts, last_stores))

            write.when(slot.taken, walk, lambda: clear_outputs(evaluator, outputs, stores, self.time))
        write.insert(gpu.ReturnOp())

    # --- this thread's place ----------------------------------------------------------------------------------

    def _place(self) -> None:
        write, schedule = self.write, self.schedule
        thread = write.to_i64(write.value(gpu.ThreadIdOp("x")))
        block = write.to_i64(write.value(gpu.BlockIdOp("x")))
        warp, in_warp = write.div(thread, write.constant(WARP)), write.rem(thread, write.constant(WARP))
        row_lanes, warps = write.constant(schedule.row_lanes.data), write.constant(schedule.warps.data)
        self.lane, row_lane = write.div(in_warp, row_lanes), write.rem(in_warp, row_lanes)
        row_warp, self.warp = write.div(warp, warps), write.rem(warp, warps)
        self.row_in_block = write.add(write.mul(row_warp, row_lanes), row_lane)
        self.row = write.add(write.mul(block, write.constant(self.rows_per_block)), self.row_in_block)
        self.participant = write.add(write.mul(self.warp, write.constant(schedule.lanes.data)), self.lane)
        self.num_rows = kernels.product(write, [self.arguments.size(axis) for axis in schedule.order_axes])
        self.time = kernels.steps(self.op, write, self.arguments)

    def _stores(self, in_range: SSAValue, rows: dict[str, SSAValue], axes: Sequence[str]) -> SSAValue:
        """Whether this row stores a tensor: of the rows that share an element, the first does."""
        condition = in_range
        for axis, position in rows.items():
            if axis not in axes:
                first = self.write.is_equal(position, self.write.constant(0))
                condition = self.write.both(condition, first) or condition
        return condition

    def _by_one_lane(self, body: Callable[[], None]) -> None:
        """What one of the lanes that share a row does."""
        serial = self.schedule.is_serial
        self.write.when(None if serial else self.write.is_equal(self.participant, self.write.constant(0)), body)

    def _order_warp(self) -> None:
        """Orders accesses within a warp; where the block scan has barriers, they have done so."""
        if not self.schedule.is_serial and self.schedule.warps.data == 1:
            self.write.insert(nvvm.BarWarpSyncOp(self.write.constant(-1, i32)))

    def _sync(self) -> None:
        """Orders the carries' accesses among the lanes that share a row."""
        if self.schedule.warps.data > 1:
            self.write.insert(gpu.BarrierOp())
        else:
            self._order_warp()

    # --- operands and states ----------------------------------------------------------------------------------

    def _evaluator(self, tensors: Mapping[int, Tensor]) -> Evaluator:
        write, arguments = self.write, self.arguments
        inputs = [tensors[n] if n in tensors else arguments.scalar(n) for n, _ in arguments.of("input")]
        lanes = None
        if not self.schedule.is_serial:
            lane, warp, row = (write.to_i32(value) for value in (self.lane, self.warp, self.row_in_block))
            lanes = Lanes(lane, warp, row, self._scratch())
        return Evaluator(self.op, write, Memory(write, None, 1), inputs, self._carries(), lanes)

    def _carries(self) -> list[Carry]:
        carries: list[Carry] = []
        for state in self.op.states:
            sizes = {a: self.op.sizes[a] for a in self.op.axes_of_kind(IteratorKind.STATE) if a in state.axes}
            count = prod(sizes.values())
            if self.schedule.is_serial:
                carries.append(Carry(kernels.buffer(self.write, count, state.type), state.type, sizes))
            else:
                shared = self.shared.buffer(count * self.rows_per_block, state.type)
                carries.append(Carry(shared, state.type, sizes, self.rows_per_block, self.row_in_block))
        return carries

    def _scratch(self) -> dict[int, list[SSAValue]]:
        """Workgroup buffers of each component's block scan: an element's values, for sweeps its states too."""
        schedule = self.schedule
        participants = schedule.lanes.data * schedule.warps.data
        sweeps = schedule.algorithm.data == BLELLOCH
        if not sweeps and schedule.warps.data == 1:
            return {}

        def count(type: Attribute) -> int:
            if sweeps:
                return sweep_slots(participants, self.rows_per_block, schedule.lanes.data == 1, byte_size(type))
            return schedule.warps.data * self.rows_per_block

        scratch: dict[int, list[SSAValue]] = {}
        for c, component in enumerate(self.op.component_ops):
            states = [self.op.states[i].type for i in component.state_indices] if sweeps else []
            scratch[c] = [self.shared.buffer(count(type), type) for type in (*component.element_types, *states)]
        return scratch

    # --- time -------------------------------------------------------------------------------------------------

    def _walk(self, tiles: TileWriter) -> None:
        """Whole tiles, then the steps that are left: one by one in time order, or as a tile with a mask."""
        write = self.write
        size = write.constant(self.schedule.tile)
        whole = write.div(self.time, size)
        zero, one = write.constant(0), write.constant(1)

        def tile(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tiles.tile(self._tile(write.mul(index, size), self.steps, masked=False))
            self._sync()
            return ()

        def step(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tiles.tile(self._tile(index, 1, masked=False))
            return ()

        write.loop(zero, whole, one, (), tile)
        done = write.mul(whole, size)
        if self.schedule.tile == 1:
            return
        if self.schedule.is_serial:
            write.loop(done, self.time, one, (), step)
            return

        def rest() -> None:
            tiles.tile(self._tile(done, self.steps, masked=True))
            self._sync()

        write.when(write.is_less(done, self.time), rest)

    def _tile(self, start: SSAValue, count: int, *, masked: bool) -> Tile:
        """This lane's steps of the tile that begins at step `start`."""
        write = self.write
        begin = write.add(start, write.mul(self.participant, write.constant(count)))
        at = [write.add(begin, write.constant(k)) if k else begin for k in range(count)]
        valid = None
        owner = None
        last_step = write.sub(self.time, write.constant(1))
        if masked:
            valid = [write.is_less(step, self.time) for step in at]
            at = [write.smaller(step, last_step) for step in at]
            end = write.add(begin, write.constant(count))
            owns = write.both(valid[0], write.is_less(last_step, end))
            owner = owns
        elif not self.schedule.is_serial:
            owner = write.is_equal(
                self.participant, write.constant(self.schedule.lanes.data * self.schedule.warps.data - 1)
            )
        if self.op.is_reverse:
            at = [write.sub(last_step, step) for step in at]
        first = at[-1] if self.op.is_reverse else at[0]
        return Tile(Steps(tuple(at), first, self.op.is_reverse, not masked), valid, owner)


def _resident_blocks(op: scan.GenericOp, schedule: scan.ScheduleAttr) -> dict[str, Attribute]:
    """Asks for as many blocks on a multiprocessor as hide latency, which bounds a lane's registers to about 100.

    Left alone, ptxas gives a selective scan 128 to 164, and 16 or 8 warps: 15 and 50 % slower on an H200. Elements of
    many words (matrices, float64) would spill.
    """
    if schedule.is_serial or not op.axes_of_kind(IteratorKind.STATE):
        return {}  # a serial scan has components without elements
    words = sum(max(byte_size(t) // 4, 1) for component in op.component_ops for t in component.element_types)
    if words > SMALL_ELEMENT:
        return {}
    return {"nvvm.minctasm": IntegerAttr(max(RESIDENT_THREADS // schedule.threads, 1), i32)}


def lower_generic(op: scan.GenericOp, module: builtin.ModuleOp) -> None:
    schedule = kernels.check_lowerable(op)
    name = kernels.replace_by_kernel(op, module)
    operands = kernels.kernel_operands(op)
    params = kernels.kernel_params(op, operands)
    types = [kernels.param_type(param, operands, GLOBAL) for param in params]
    function = gpu.FuncOp(
        name,
        types,
        Region(Block(arg_types=types)),
        known_block_size=(schedule.threads, 1, 1),
        attributes=_resident_blocks(op, schedule),
    )
    entry = function.body.block
    arguments = kernels.KernelArguments(operands, dict(zip(params, entry.args, strict=True)))
    for param, value in arguments.values.items():
        value.name_hint = str(param).replace(" ", "_")
    writer = _KernelWriter(op, schedule, arguments, entry)
    writer.body()

    shared = [gpu.dynamic_shared_global()] if writer.shared.bytes else []
    module.body.block.add_op(gpu.ModuleOp("kernels", [*shared, function]))
    recipe = Recipe(
        schedule.target.data,
        tuple(operand.record for operand in operands),
        (
            Kernel(
                name,
                params,
                schedule.order_axes,
                per_block=schedule.rows_per_block,
                block=schedule.threads,
                shared_bytes=writer.shared.bytes,
            ),
        ),
    )
    module.attributes[RECIPE] = recipe.to_attribute()


@dataclass(frozen=True)
class LowerScanToGpuPass(ModulePass):
    """
    rewrite: func.func { scan.generic … schedule … }  ->  gpu.module { gpu.func … }, scan.recipe

    One kernel. A thread has a place across rows and across time; per tile of time it folds the elements of its K
    steps, leaves a `scan.block_scan` for the states before them, and walks `step`. Serial schedules walk alone.
    Steps past the end read the last one's inputs and store nothing; rows past the end likewise.
    """

    name = "lower-scan-to-gpu"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for generic in [inner for inner in op.walk() if isinstance(inner, scan.GenericOp)]:
            lower_generic(generic, op)
