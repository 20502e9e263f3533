"""What GPU and CPU kernels have in common: operands, parameters, recipe, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, llvm
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, ModuleOp, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from scanweaver.dialects import scan
from scanweaver.dialects.iteration import Array, IteratorKind, ResultKind
from scanweaver.gpu_exec.abi import RECIPE, Operand, Param, Role
from scanweaver.transforms.skeleton.memory import Memory, Tensor, byte_size, storage_type
from scanweaver.transforms.skeleton.scopes import Writer


@dataclass(frozen=True)
class KernelOperand:
    """One operand of the kernel, and what the recurrence knows it as."""

    role: Role
    index: int
    array: Array
    contiguous: str
    align: int

    @property
    def record(self) -> Operand:
        return Operand(
            self.array.name,
            self.role,
            self.array.axes,
            type_name(self.array.element_type),
            scalar=self.array.is_scalar,
            contiguous=self.contiguous or None,
            align=self.align,
        )


def type_name(type: Attribute) -> str:
    match type:
        case IntegerType():
            return f"i{type.width.data}"
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "f32"
        case Float64Type():
            return "f64"
        case _:
            raise PassFailedException(f"no kernel holds elements of type {type}")


def kernel_operands(op: scan.GenericOp) -> list[KernelOperand]:
    """Inits that are not constants, slots, inputs, outputs, last states."""
    layouts = [("", 1)] * (op.num_states + len(op.inputs) + len(op.res))
    if op.layouts is not None:
        layouts = [(layout.axis, layout.bytes) for layout in op.layouts]
    layouts[op.num_states : op.num_states] = [("", 1) for _ in op.slot_arrays]
    arrays: list[tuple[Role, int, Array]] = [
        *(("init", i, array) for i, array in enumerate(op.init_arrays)),
        *(("slots", i, array) for i, array in enumerate(op.slot_arrays)),
        *(("input", i, array) for i, array in enumerate(op.input_arrays)),
        *(
            ("output", i, array) if i < op.num_outputs else ("last", i - op.num_outputs, array)
            for i, array in enumerate(op.result_arrays)
        ),
    ]
    return [
        KernelOperand(role, i, array, *layout)
        for (role, i, array), layout in zip(arrays, layouts, strict=True)
        if not (role == "init" and is_constant(op.inits[i]))
    ]


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp)


def kernel_params(op: scan.GenericOp, operands: Sequence[KernelOperand]) -> tuple[Param, ...]:
    """Addresses and numbers, then sizes, then strides."""
    params = [Param("scalar" if o.array.is_scalar else "pointer", n) for n, o in enumerate(operands)]
    state_axes = op.axes_of_kind(IteratorKind.STATE)
    params += [Param("size", axis=axis) for axis in op.axis_names if axis not in state_axes]
    params += [
        Param("stride", n, axis)
        for n, o in enumerate(operands)
        if not o.array.is_scalar
        for axis in o.array.axes
        if axis != o.contiguous
    ]
    return tuple(params)


def param_type(param: Param, operands: Sequence[KernelOperand], pointer: llvm.LLVMPointerType) -> Attribute:
    match param.kind:
        case "pointer":
            return pointer
        case "scalar":
            assert param.operand is not None
            return operands[param.operand].array.element_type
        case _:
            return i64


def check_lowerable(op: scan.GenericOp) -> scan.ScheduleAttr:
    """The schedule; raises PassFailedException for what no kernel does yet."""
    if op.schedule is None:
        raise PassFailedException("scan.generic has no schedule: run schedule-scan first")
    if op.offsets is not None:
        raise PassFailedException("packed sequences (offsets) are not lowered yet")
    for kind, name in zip(op.output_kinds, op.output_names, strict=True):
        if kind.data is not ResultKind.STEP:
            raise PassFailedException(
                f"output '{name.data}' is {kind.data}; only outputs at every step are lowered yet"
            )
    for axis in op.axes_of_kind(IteratorKind.STATE):
        if axis not in op.sizes:
            raise PassFailedException(f"the size of state axis '{axis}' must be static: its states live in registers")
    if not op.schedule.is_serial and op.slots is not None:
        raise PassFailedException("lanes and warps across time have no rows without a slot")
    if not op.schedule.is_serial and not op.is_associative:
        reasons = "; ".join(c.reason.data for c in op.component_ops if c.reason is not None)
        raise PassFailedException(f"lanes and warps across time need a proof: {reasons}")
    return op.schedule


@dataclass(frozen=True)
class Slot:
    """The positions of a row with its slot where pools have one, and whether it has a slot (None: every row has)."""

    rows: Mapping[str, SSAValue]
    taken: SSAValue | None


@dataclass
class KernelArguments:
    """The kernel's arguments by what they are."""

    operands: Sequence[KernelOperand]
    values: Mapping[Param, SSAValue]

    def of(self, role: str) -> list[tuple[int, KernelOperand]]:
        return [(n, operand) for n, operand in enumerate(self.operands) if operand.role == role]

    def size(self, axis: str) -> SSAValue:
        return self.values[Param("size", axis=axis)]

    def stride(self, n: int, axis: str) -> SSAValue | int:
        operand = self.operands[n]
        return 1 if axis == operand.contiguous else self.values[Param("stride", n, axis)]

    def scalar(self, n: int) -> SSAValue:
        return self.values[Param("scalar", n)]

    def inits(self, op: scan.GenericOp, write: Writer, tensors: Mapping[int, Tensor]) -> list[Tensor | SSAValue]:
        """The initial state of every state: a tensor, a number given at the call, or a constant."""
        given = {operand.index: n for n, operand in self.of("init")}
        inits: list[Tensor | SSAValue] = []
        for i, init in enumerate(op.inits):
            if i not in given:
                assert isinstance(init.owner, arith.ConstantOp)
                inits.append(write.at_entry(init.owner.clone()))
            else:
                n = given[i]
                inits.append(tensors[n] if n in tensors else self.scalar(n))
        return inits

    def tensors(
        self, write: Writer, rows: Mapping[str, SSAValue], pool_rows: Mapping[str, SSAValue]
    ) -> dict[int, Tensor]:
        """Every operand's tensor at this row; a pool's at this row's slot."""
        return {
            n: self.tensor(write, n, pool_rows if operand.array.pooled else rows)
            for n, operand in enumerate(self.operands)
            if not operand.array.is_scalar
        }

    def slot(self, write: Writer, rows: Mapping[str, SSAValue]) -> Slot:
        """This row's place in pools."""
        for n, operand in self.of("slots"):
            (axis,) = operand.array.axes
            number = Memory(write).load(self.tensor(write, n, rows), {})
            taken = write.is_less(write.constant(-1, number.type), number)
            return Slot({**rows, axis: write.to_i64(number)}, taken)
        return Slot(rows, None)

    def tensor(self, write: Writer, n: int, rows: Mapping[str, SSAValue]) -> Tensor:
        """An operand's tensor, its pointer moved to this row."""
        array = self.operands[n].array
        strides = {axis: self.stride(n, axis) for axis in array.axes}
        pointer = self.values[Param("pointer", n)]
        tensor = Tensor(array.name, array.axes, array.element_type, pointer, strides, self.operands[n].align)
        parallel = {axis: rows[axis] for axis in array.axes if axis in rows}
        tensor.pointer = Memory(write, None, 1).address(tensor, parallel)
        return tensor


def steps(op: scan.GenericOp, write: Writer, arguments: KernelArguments) -> SSAValue:
    """The number of steps: a constant where the types fix it."""
    fixed = op.sizes.get(op.time_axis)
    return arguments.size(op.time_axis) if fixed is None else write.constant(fixed)


def row_positions(
    write: Writer, row: SSAValue, axes: Sequence[str], size: Mapping[str, SSAValue]
) -> dict[str, SSAValue]:
    """The position along each axis of a row numbered with the last axis innermost."""
    positions: dict[str, SSAValue] = {}
    for i, axis in reversed(list(enumerate(axes))):
        if i == 0:
            positions[axis] = row
        else:
            positions[axis] = write.rem(row, size[axis])
            row = write.div(row, size[axis])
    return positions


def product(write: Writer, values: Sequence[SSAValue]) -> SSAValue:
    total = write.constant(1)
    for n, value in enumerate(values):
        total = value if n == 0 else write.mul(total, value)
    return total


def replace_by_kernel(op: scan.GenericOp, module: ModuleOp) -> str:
    """Takes the function that holds the recurrence out of the module; gives the kernel's name."""
    function = op.parent_op()
    if not isinstance(function, func.FuncOp) or not isinstance(function.parent_op(), ModuleOp):
        raise PassFailedException("scan.generic must stand in a func.func of its own, directly in the module")
    if RECIPE in module.attributes:
        raise PassFailedException("the module holds a kernel already: one recurrence a module is lowered")
    known = (scan.GenericOp, arith.ConstantOp, func.ReturnOp)
    for inner in function.body.block.ops:
        if not isinstance(inner, known):
            raise PassFailedException(f"the function holds {inner.name} beside scan.generic; a kernel is made of one")
    function.detach()
    return function.sym_name.data


def buffer(write: Writer, count: int, element: Attribute) -> SSAValue:
    """A buffer of this lane's own, for `count` elements."""
    size = write.constant(count)
    assert isinstance(size.owner, Operation)
    op = llvm.AllocaOp(size, storage_type(element), alignment=byte_size(element))
    Rewriter.insert_op(op, InsertPoint.after(size.owner))
    return op.res
