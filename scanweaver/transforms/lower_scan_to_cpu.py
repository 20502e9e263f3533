"""Writes a scheduled scan as one function for the host, and the recipe to call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, llvm
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from scanweaver.dialects import scan
from scanweaver.dialects.iteration import IteratorKind
from scanweaver.gpu_exec.abi import RECIPE, Kernel, Param, Recipe
from scanweaver.transforms.skeleton import kernel as kernels
from scanweaver.transforms.skeleton.carry import Carry, slots
from scanweaver.transforms.skeleton.evaluate import Evaluator, Tile
from scanweaver.transforms.skeleton.memory import Memory, Steps, Tensor
from scanweaver.transforms.skeleton.phases import reads_other_positions
from scanweaver.transforms.skeleton.scopes import Writer
from scanweaver.transforms.skeleton.tile import TileWriter, start_states, store_last

HOST = llvm.LLVMPointerType()


class _RowsWriter:
    """Writes the walk of one row, or of `width` neighbouring rows in the lanes of vectors."""

    def __init__(
        self, op: scan.GenericOp, write: Writer, arguments: kernels.KernelArguments, axis: str | None, width: int
    ):
        self.op = op
        self.write = write
        self.arguments = arguments
        self.axis = axis if width > 1 else None
        self.width = width
        self.steps = self._tile_steps()
        self.carries = self._carries()
        self.next = self._carries() if reads_other_positions(op) else None

    def rows(self, rows: Mapping[str, SSAValue]) -> None:
        write, op, arguments = self.write, self.op, self.arguments
        with write.rebinding(dict(rows)):
            memory = Memory(write, self.axis, self.width)
            tensors = {
                n: arguments.tensor(write, n, rows) for n, o in enumerate(arguments.operands) if not o.array.is_scalar
            }

            def given(role: str) -> list[Tensor | SSAValue]:
                return [tensors[n] if n in tensors else arguments.scalar(n) for n, _ in arguments.of(role)]

            def results(role: str) -> list[Tensor]:
                return [tensors[n] for n, _ in arguments.of(role)]

            evaluator = Evaluator(op, write, memory, given("input"), self.carries, None)
            outputs, lasts = results("output"), results("last")
            tiles = TileWriter(evaluator, outputs, [self._stores(rows, t.axes) for t in outputs], self.next)
            start_states(evaluator, arguments.inits(op, write, tensors))
            self._walk(tiles)
            store_last(evaluator, lasts, [self._stores(rows, t.axes) for t in lasts])

    def _tile_steps(self) -> int:
        assert self.op.schedule is not None
        return self.op.schedule.steps.data

    def _stores(self, rows: Mapping[str, SSAValue], axes: Sequence[str]) -> SSAValue | None:
        """Whether a row stores a tensor: of the rows that share an element, the first does."""
        condition: SSAValue | None = None
        for axis, position in rows.items():
            if axis not in axes:
                first = self.write.is_equal(position, self.write.constant(0))
                condition = self.write.both(condition, first)
        return condition

    def _carries(self) -> list[Carry]:
        memory = Memory(self.write, self.axis, self.width)
        carries: list[Carry] = []
        for state in self.op.states:
            sizes = {a: self.op.sizes[a] for a in self.op.axes_of_kind(IteratorKind.STATE) if a in state.axes}
            element = memory.lanes(state.type, state.axes)
            buffer = kernels.buffer(self.write, slots(sizes, self.axis, self.width), element)
            carries.append(Carry(buffer, element, sizes, vector_axis=self.axis, width=self.width))
        return carries

    def _walk(self, tiles: TileWriter) -> None:
        """Whole tiles of K steps, then the steps that are left one by one."""
        write = self.write
        time = self.arguments.size(self.op.time_axis)
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

    write = Writer(entry)
    width, axis = schedule.row_lanes.data, schedule.vector.data or None
    order = schedule.order_axes
    across_rows = axis is not None and op.kinds[axis] is IteratorKind.PARALLEL
    _write_tasks(op, write, arguments, order, axis, width, across_rows)
    write.insert(func.ReturnOp())

    module.body.block.add_op(function)
    tiled = axis if across_rows else None
    kernel = Kernel(name, params, order, tiled, width if across_rows else 1)
    recipe = Recipe("cpu", tuple(operand.record for operand in operands), (kernel,))
    module.attributes[RECIPE] = recipe.to_attribute()


def _write_tasks(
    op: scan.GenericOp,
    write: Writer,
    arguments: kernels.KernelArguments,
    order: tuple[str, ...],
    axis: str | None,
    width: int,
    across_rows: bool,
) -> None:
    """A loop over the tasks of the range; a task is a row, or `width` neighbouring rows."""
    one = write.constant(1)
    sizes = {a: arguments.size(a) for a in (*order, *((axis,) if across_rows and axis else ()))}
    wide = _RowsWriter(op, write, arguments, axis, width)

    def row_task(task: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        wide.rows(kernels.row_positions(write, task, order, sizes))
        return ()

    def tile_task(task: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        assert axis is not None
        lanes = write.constant(width)
        tiles = write.div(write.add(sizes[axis], write.constant(width - 1)), lanes)
        rows = kernels.row_positions(write, write.div(task, tiles), order, sizes)
        begin = write.mul(write.rem(task, tiles), lanes)
        end = write.add(begin, lanes)

        def one_by_one() -> None:
            def row(position: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
                narrow.rows(rows | {axis: position})
                return ()

            write.loop(begin, sizes[axis], one, (), row)

        fits = write.value(arith.CmpiOp(end, sizes[axis], "sle"))
        write.when(fits, lambda: wide.rows(rows | {axis: begin}), one_by_one)
        return ()

    values = arguments.values
    if across_rows:
        narrow = _RowsWriter(op, write, arguments, None, 1)
    write.loop(values[Param("begin")], values[Param("end")], one, (), tile_task if across_rows else row_task)


@dataclass(frozen=True)
class LowerScanToCpuPass(ModulePass):
    """
    rewrite: func.func { scan.generic … schedule … }  ->  func.func(begin, end, …), scan.recipe

    The function walks the rows of its range of tasks in time order. Where the schedule names a vector axis, a task is
    as many neighbouring rows as a vector has lanes (the last ones of an axis one by one), or the vectors run along a
    state axis.
    """

    name = "lower-scan-to-cpu"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        for generic in [inner for inner in op.walk() if isinstance(inner, scan.GenericOp)]:
            lower_generic(generic, op)
