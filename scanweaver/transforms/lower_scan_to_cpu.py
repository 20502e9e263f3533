"""Writes a scheduled scan as one function for the host, and the recipe to call it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import builtin, func, llvm
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from scanweaver.dialects import scan
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.dialects.recurrence import Axes
from scanweaver.gpu_exec.abi import RECIPE, Kernel, Param, Recipe
from scanweaver.transforms.functions import Functions
from scanweaver.transforms.skeleton import kernel as kernels
from scanweaver.transforms.skeleton.carry import Carry, slots
from scanweaver.transforms.skeleton.evaluate import Evaluator, Tile
from scanweaver.transforms.skeleton.lanes import LaneMoves
from scanweaver.transforms.skeleton.memory import Memory, Steps, Tensor, byte_size
from scanweaver.transforms.skeleton.phases import reads_other_positions
from scanweaver.transforms.skeleton.placement import keep_untimed
from scanweaver.transforms.skeleton.scopes import LoopBody, Writer
from scanweaver.transforms.skeleton.tile import TileWriter, clear_outputs, start_states, store_last

HOST = llvm.LLVMPointerType()
STACK_BYTES = 64 * 1024
"""The largest buffer on a thread's stack."""
LINE_BYTES = 64
"""A cache line, and the widest vector."""
KEPT_BYTES = 16 * 1024
"""The most that a value is kept for instead of computed again: half of a first-level cache."""


class _Buffers:
    """A kernel's own memory: on the stack, or from the heap where it is large."""

    def __init__(self, write: Writer, functions: Functions):
        self.write = write
        self.functions = functions
        self._heap: list[SSAValue] = []

    def buffer(self, count: int, element: Attribute) -> SSAValue:
        bytes = count * byte_size(element)
        if bytes <= STACK_BYTES:
            return kernels.buffer(self.write, count, element)
        with self.write.at(self.write.root):
            size = self.write.constant(-(-bytes // LINE_BYTES) * LINE_BYTES)
            call = self.functions.extern("aligned_alloc", [self.write.constant(LINE_BYTES), size], [HOST])
            self._heap.append(self.write.value(call))
        return self._heap[-1]

    def free(self) -> None:
        for buffer in self._heap:
            self.write.insert(self.functions.extern("free", [buffer], []))


class _RowsWriter:
    """Writes the walk of one row, or of `width` neighbouring rows in the lanes of vectors, in tiles of `steps`."""

    def __init__(
        self,
        op: scan.GenericOp,
        buffers: _Buffers,
        functions: Functions,
        arguments: kernels.KernelArguments,
        axis: str | None,
        width: int,
        steps: int,
    ):
        self.op = op
        self.write = write = buffers.write
        self.buffers = buffers
        self.arguments = arguments
        self.axis = axis if width > 1 else None
        self.width = width
        self.memory = Memory(write, self.axis, width, LaneMoves(functions, width))
        self.steps = steps
        self.carries = self._carries()
        self.next = self._carries() if reads_other_positions(op) else None

    def rows(self, rows: Mapping[str, SSAValue]) -> None:
        write, op, arguments = self.write, self.op, self.arguments
        with write.rebinding(dict(rows)):
            slot = arguments.slot(write, rows)
            tensors = arguments.tensors(write, rows, slot.rows)

            def given(role: str) -> list[Tensor | SSAValue]:
                return [tensors[n] if n in tensors else arguments.scalar(n) for n, _ in arguments.of(role)]

            def results(role: str) -> list[Tensor]:
                return [tensors[n] for n, _ in arguments.of(role)]

            evaluator = Evaluator(op, write, self.memory, given("input"), self.carries, None)
            outputs, lasts = results("output"), results("last")
            stores = [self._stores(rows, t.axes) for t in outputs]
            tiles = TileWriter(evaluator, outputs, stores, self.next)
            keep_untimed(evaluator, self._kept)

            def walk() -> None:
                start_states(evaluator, arguments.inits(op, write, tensors))
                self._walk(tiles)
                store_last(evaluator, lasts, [self._stores(rows, t.axes) for t in lasts])

            time = kernels.steps(op, write, arguments)
            write.when(slot.taken, walk, lambda: clear_outputs(evaluator, outputs, stores, time))

    def _stores(self, rows: Mapping[str, SSAValue], axes: Sequence[str]) -> SSAValue | None:
        """Whether a row stores a tensor: of the rows that share an element, the first does."""
        condition: SSAValue | None = None
        for axis, position in rows.items():
            if axis not in axes:
                first = self.write.is_equal(position, self.write.constant(0))
                condition = self.write.both(condition, first)
        return condition

    def _carries(self) -> list[Carry]:
        return [self._carry(state.type, state.axes) for state in self.op.states]

    def _carry(self, type: Attribute, axes: Collection[str]) -> Carry:
        sizes = self._sizes(axes)
        element = self.memory.lanes(type, tuple(axes))
        buffer = self.buffers.buffer(slots(sizes, self.axis, self.width), element)
        return Carry(buffer, element, sizes, vector_axis=self.axis, width=self.width)

    def _kept(self, value: SSAValue, axes: Axes) -> Carry | None:
        lanes = self.width if self.axis in axes and self.axis not in self._sizes(axes) else 1
        if prod(self._sizes(axes).values()) * lanes * byte_size(value.type) > KEPT_BYTES:
            return None
        return self._carry(value.type, axes)

    def _sizes(self, axes: Collection[str]) -> dict[str, int]:
        return {axis: self.op.sizes[axis] for axis in self.op.axes_of_kind(IteratorKind.STATE) if axis in axes}

    def _walk(self, tiles: TileWriter) -> None:
        """Whole tiles of K steps, then the steps that are left one by one."""
        write = self.write
        time = kernels.steps(self.op, write, self.arguments)
        size = write.constant(self.steps)
        whole = write.div(time, size)

        def tile(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tiles.tile(self._tile(write.mul(index, size), self.steps, time))
            return ()

        def step(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tiles.tile(self._tile(index, 1, time))
            return ()

        write.loop(write.constant(0), whole, write.constant(1), (), tile)
        if self.steps > 1:
            write.loop(write.mul(whole, size), time, write.constant(1), (), step)

    def _tile(self, begin: SSAValue, count: int, time: SSAValue) -> Tile:
        write = self.write
        at = [write.add(begin, write.constant(k)) if k else begin for k in range(count)]
        if self.op.is_reverse:
            last = write.sub(time, write.constant(1))
            at = [write.sub(last, step) for step in at]
        first = at[-1] if self.op.is_reverse else at[0]
        return Tile(Steps(tuple(at), first, self.op.is_reverse, whole=True), None, None)


def lower_generic(op: scan.GenericOp, module: builtin.ModuleOp) -> None:
    schedule = kernels.check_lowerable(op)
    name = kernels.replace_by_kernel(op, module)
    operands = kernels.kernel_operands(op)
    params = (Param("begin"), Param("end"), *kernels.kernel_params(op, operands))
    types = [kernels.param_type(param, operands, HOST) for param in params]
    function = func.FuncOp(name, FunctionType.from_lists(types, []), Region(Block(arg_types=types)))
    entry = function.body.block
    arguments = kernels.KernelArguments(operands, dict(zip(params, entry.args, strict=True)))
    for param, value in arguments.values.items():
        value.name_hint = str(param).replace(" ", "_")

    tasks = _TasksWriter(op, schedule, Writer(entry), Functions(module), arguments)
    tasks.write_tasks()

    module.body.block.add_op(function)
    tiled = tasks.axis if tasks.across_rows else None
    kernel = Kernel(name, params, schedule.order_axes, tiled, schedule.row_lanes.data if tiled else 1)
    recipe = Recipe("cpu", tuple(operand.record for operand in operands), (kernel,))
    module.attributes[RECIPE] = recipe.to_attribute()


class _TasksWriter:
    """Writes the loop over a range of tasks; a task is a row, or as many neighbouring rows as a vector has lanes."""

    def __init__(
        self,
        op: scan.GenericOp,
        schedule: scan.ScheduleAttr,
        write: Writer,
        functions: Functions,
        arguments: kernels.KernelArguments,
    ):
        self.op = op
        self.write = write
        self.functions = functions
        self.buffers = _Buffers(write, functions)
        self.arguments = arguments
        self.order = schedule.order_axes
        self.axis = schedule.vector.data or None
        self.width = schedule.row_lanes.data
        self.steps = schedule.steps.data
        self.across_rows = self.axis is not None and op.kinds[self.axis] is IteratorKind.PARALLEL

    def write_tasks(self) -> None:
        write = self.write
        begin, end = (self.arguments.values[Param(kind)] for kind in ("begin", "end"))
        body = self._neighbouring_rows() if self.across_rows else self._one_row()
        write.loop(begin, end, write.constant(1), (), body)
        self.buffers.free()
        write.insert(func.ReturnOp())

    def _rows_writer(self, axis: str | None, width: int, steps: int) -> _RowsWriter:
        return _RowsWriter(self.op, self.buffers, self.functions, self.arguments, axis, width, steps)

    def _positions(self, row: SSAValue) -> dict[str, SSAValue]:
        sizes = {axis: self.arguments.size(axis) for axis in self.order}
        return kernels.row_positions(self.write, row, self.order, sizes)

    def _one_row(self) -> LoopBody:
        rows = self._rows_writer(self.axis, self.width, self.steps)

        def task(number: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            rows.rows(self._positions(number))
            return ()

        return task

    def _neighbouring_rows(self) -> LoopBody:
        """Where the last rows of an axis do not fill a vector, it takes rows of the task before them as well: both
        compute the same. They are walked one by one where states are advanced in place, which is done once, and where
        the axis is shorter than a vector."""
        write, axis = self.write, self.axis
        assert axis is not None
        wide, narrow = self._rows_writer(axis, self.width, self.steps), self._rows_writer(None, 1, 1)
        lanes, size = write.constant(self.width), self.arguments.size(axis)

        def task(number: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            tiles = write.div(write.add(size, write.constant(self.width - 1)), lanes)
            others = self._positions(write.div(number, tiles))
            first = write.mul(write.rem(number, tiles), lanes)
            last = write.sub(size, lanes)
            in_place = self.op.is_in_place
            begin = first if in_place else write.smaller(first, last)

            def row(position: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
                narrow.rows(others | {axis: position})
                return ()

            def one_by_one() -> None:
                write.loop(first, size, write.constant(1), (), row)

            too_few = write.is_less(last, first if in_place else write.constant(0))
            write.when(too_few, one_by_one, lambda: wide.rows(others | {axis: begin}))
            return ()

        return task


@dataclass(frozen=True)
class LowerScanToCpuPass(ModulePass):
    """
    rewrite: func.func { scan.generic … schedule … }  ->  func.func(begin, end, …), scan.recipe

    The function walks the rows of its range of tasks in time order. Where the schedule names a vector axis, a task is
    as many neighbouring rows as a vector has lanes, or the vectors run along a state axis of one row.
    """

    name = "lower-scan-to-cpu"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for generic in [inner for inner in op.walk() if isinstance(inner, scan.GenericOp)]:
            lower_generic(generic, op)
