"""Tracing: a step function is run once with symbols, and what it does to them becomes `recurrence.generic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from scanweaver.dialects.iteration import (
    Direction,
    IterationOp,
    IteratorKind,
    ResultKind,
    iteration_properties,
    map_of,
)
from scanweaver.dialects.recurrence import GenericOp, ReduceOp, RenameOp, TakeOp, YieldOp
from scanweaver.errors import SignatureError
from scanweaver.frontend.dtypes import LONG, SHORT, as_number, kind_of
from scanweaver.frontend.signature import Array, Signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.values import (
    FloatType,
    Tracing,
    Value,
    as_value,
    convert,
    mlir_type,
    number_kind,
    tracing_of,
)

RESULT_DTYPES = "recurrence.result_dtypes"
"""The attribute of a traced function that `result_dtypes` reads."""


def trace_step(
    function: Callable[..., Any],
    signature: Signature,
    specialization: Specialization,
) -> ModuleOp:
    """A module with one function that runs the recurrence whose step is `function`.

    The function's arguments are `specialization.operands`; its results are the outputs, then (with `return_last`, or
    where the signature has no outputs) the last states. Tensor types have the sizes that the specialization fixes.

    Raises TraceError for what a step's value cannot do, SignatureError for a return that does not fit the signature.
    """
    return _Tracer(function, signature, specialization).module()


def iteration_of(module: ModuleOp) -> IterationOp:
    """The recurrence that a module holds, as `recurrence.generic` or already as `scan.generic`."""
    (generic,) = (op for op in module.walk() if isinstance(op, IterationOp))
    return generic


def result_dtypes(module: ModuleOp) -> tuple[str, ...]:
    """The short dtypes of a traced function's results: MLIR's types do not tell `u8` from `i8`."""
    (function,) = (op for op in module.walk() if isinstance(op, func.FuncOp))
    dtypes = cast(ArrayAttr[StringAttr], function.attributes[RESULT_DTYPES])
    return tuple(dtype.data for dtype in dtypes)


def touched_axes(module: ModuleOp) -> tuple[str, ...]:
    """The axes that the step of a traced module reduces, renames or takes from: their sizes are compiled in."""
    return iteration_of(module).axes_of_kind(IteratorKind.STATE)


def renamed_axes(module: ModuleOp) -> tuple[tuple[str, str], ...]:
    """The pairs of axes that the step of a traced module exchanges, which must be of one size."""
    pairs = {(op.source_axis, op.target_axis): None for op in module.walk() if isinstance(op, RenameOp)}
    return tuple(pairs)


class _Tracer:
    def __init__(self, function: Callable[..., Any], signature: Signature, specialization: Specialization) -> None:
        self.function = function
        self.signature = signature
        self.spec = specialization
        self.sizes = dict(specialization.sizes)
        self.compute = compute_dtype(signature, specialization)
        self.state_dtypes = [SHORT[state.dtype] if state.dtype else self.compute for state in signature.states]
        self.axes = self.iteration_axes()

    def module(self) -> ModuleOp:
        body, output_dtypes = self.body()
        entry = Block(arg_types=[self.operand_type(operand) for operand in self.spec.operands])
        for argument, operand in zip(entry.args, self.spec.operands, strict=True):
            argument.name_hint = operand.name
        given = iter(entry.args)
        with ImplicitBuilder(entry):
            inits = [self.start(i) if init is None else next(given) for i, init in enumerate(self.spec.inits)]
            states = [self.full_axes(state) for state in self.signature.states]
            outputs = [self.full_axes(output) for output in self.signature.outputs]
            with_last = self.spec.return_last or self.signature.mode == "last"
            last = range(len(states)) if with_last else range(0)
            results = [*zip(outputs, output_dtypes, strict=True)]
            results += [(states[i], self.state_dtypes[i]) for i in last]
            axes = tuple(self.axes)
            properties = iteration_properties(
                direction=Direction.REVERSE if self.spec.reverse else Direction.FORWARD,
                axes=self.iterators(body),
                states=[
                    (state.name, map_of(axes, of)) for state, of in zip(self.signature.states, states, strict=True)
                ],
                init_maps=[map_of(axes, init.axes if init else ()) for init in self.spec.inits],
                inputs=[(given.name, map_of(axes, given.axes)) for given in self.spec.inputs],
                outputs=[(output.name, ResultKind.STEP) for output in self.signature.outputs],
                last=last,
                result_maps=[map_of(axes, of) for of, _ in results],
            )
            types = [self.tensor_type(of, mlir_type(dtype)) for of, dtype in results]
            generic = GenericOp(inits, list(given), properties, types, Region(body))
            func.ReturnOp(*generic.results)
        name = self.function.__name__
        symbol = name if name.isidentifier() and name.isascii() else "step"
        entry_types = [argument.type for argument in entry.args]
        main = func.FuncOp(symbol, (entry_types, types), Region(entry))
        main.attributes[RESULT_DTYPES] = ArrayAttr(StringAttr(dtype) for _, dtype in results)
        return ModuleOp([main])

    # --- the iteration space ----------------------------------------------------------------------------------

    def full_axes(self, array: Array) -> tuple[str, ...]:
        """The axes of an array with the leading ones that `...` stands for."""
        return (*self.spec.leading, *array.axes) if array.ellipsis else array.axes

    def iteration_axes(self) -> tuple[str, ...]:
        """The axes that the states and the given inputs have, time last."""
        arrays = [self.full_axes(state) for state in self.signature.states]
        arrays += [given.axes for given in self.spec.inputs]
        known = {axis for axes in arrays for axis in axes}
        for output in self.signature.outputs:
            for axis in self.full_axes(output):
                if axis not in known:
                    self.signature.fail(
                        f"axis `{axis}` of output `{output.name}` is in no state and in none of the inputs given",
                        output.span,
                    )
        if self.signature.time not in known:
            raise SignatureError(f"none of the inputs given carries time `{self.signature.time}`")
        return tuple(axis for axis in (*self.spec.leading, *self.signature.axes) if axis in known)

    def iterators(self, body: Block) -> dict[str, IteratorKind]:
        touched: set[str] = set()
        for op in body.ops:
            match op:
                case ReduceOp():
                    touched.update(op.axis_names)
                case RenameOp():
                    touched.update((op.source_axis, op.target_axis))
                case TakeOp():
                    touched.add(op.axis_name)
                case _:
                    pass
        kinds = {axis: IteratorKind.STATE if axis in touched else IteratorKind.PARALLEL for axis in self.axes}
        return kinds | {self.signature.time: IteratorKind.TIME}

    def tensor_type(self, axes: Sequence[str], element: Attribute) -> Attribute:
        return TensorType(element, [self.sizes.get(axis, DYNAMIC_INDEX) for axis in axes])

    def operand_type(self, given: Given) -> Attribute:
        element = mlir_type(given.dtype)
        return element if given.scalar else self.tensor_type(given.axes, element)

    def start(self, i: int) -> SSAValue:
        """The number that a state starts at, where no `init` was given."""
        type = mlir_type(self.state_dtypes[i])
        number = self.signature.states[i].start or 0.0
        attribute = FloatAttr(number, type) if isinstance(type, FloatType) else IntegerAttr(int(number), type)
        return arith.ConstantOp(attribute).result  # pyright: ignore

    # --- the body ---------------------------------------------------------------------------------------------

    def body(self) -> tuple[Block, list[str]]:
        """The step as a block, and the dtypes of its outputs."""
        dtypes = [*self.state_dtypes, *(given.dtype for given in self.spec.inputs)]
        axes = [self.full_axes(state) for state in self.signature.states]
        axes += [given.axes for given in self.spec.inputs]
        names = [array.name for array in (*self.signature.states, *self.spec.inputs)]
        block = Block(arg_types=[mlir_type(dtype) for dtype in dtypes])
        tracing = Tracing(block, self.compute, self.axes, self.signature.time)
        values: dict[str, Value] = {}
        for name, argument, of, dtype in zip(names, block.args, axes, dtypes, strict=True):
            argument.name_hint = name
            values[name] = load(tracing, argument, frozenset(of) - {self.signature.time}, dtype)

        arguments = [values.get(array.name) for array in (*self.signature.states, *self.signature.inputs)]
        tracing.in_user_code = True
        returned = self.function(*arguments, **{name: value for name, _, value in self.spec.constants})
        tracing.in_user_code = False

        new_states, new_outputs = self.split(returned)
        states = [self.state(tracing, i, value) for i, value in enumerate(new_states)]
        outputs = [self.output(tracing, i, value) for i, value in enumerate(new_outputs)]
        block.add_op(YieldOp(states, [store(tracing, value, dtype) for value, dtype in outputs]))
        return block, [dtype for _, dtype in outputs]

    def split(self, returned: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """The new states and the outputs of what the step returned."""
        states, outputs = self.signature.states, self.signature.outputs
        if self.signature.mode != "outputs":
            new = _listed(returned)
            if len(new) != len(states):
                self.fail_return(returned, "the new states alone, since the signature has no outputs")
            return new, new if self.signature.mode == "trajectories" else ()
        pair = _listed(returned)
        if len(pair) != 2:
            flat = " as a pair, not one flat tuple" if len(pair) == len(states) + len(outputs) else ""
            self.fail_return(returned, f"the new states and the outputs{flat}")
        new, out = _listed(pair[0]), _listed(pair[1])
        if len(new) != len(states):
            self.fail_return(returned, f"{_count(len(states), 'new state')}, then the outputs")
        if len(out) != len(outputs):
            self.fail_return(returned, f"the new states, then {_count(len(outputs), 'output')}")
        return new, out

    def fail_return(self, returned: Any, expected: str) -> NoReturn:
        form = _form(self.signature.states)
        if self.signature.mode == "outputs":
            form = f"{form}, {_form(self.signature.outputs)}"
        raise SignatureError(
            f"the step returned {_shape(returned)}: expected {expected}: `return {form}`\n    {self.where}"
        )

    @property
    def where(self) -> str:
        code = self.function.__code__
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}: def {self.function.__name__}"

    def state(self, tracing: Tracing, i: int, value: Any) -> SSAValue:
        state, dtype = self.signature.states[i], self.state_dtypes[i]
        new = self.checked(tracing, value, "state", state)
        if kind_of(dtype) != new.kind and not (kind_of(dtype) == "float" and new.kind == "int"):
            raise SignatureError(
                f"state `{state.name}` is {_kind(kind_of(dtype))}, and the step gives it {_kind(new.kind)}: convert it "
                f"by `sw.cast(x, torch.{LONG[dtype]})`, or mark the state in the signature"
                f"\n    {new.source or self.where}"
            )
        return store(tracing, new, dtype)

    def output(self, tracing: Tracing, i: int, value: Any) -> tuple[Value, str]:
        """A returned output and the dtype to store it in."""
        output = self.signature.outputs[i]
        new = self.checked(tracing, value, "output", output)
        if output.dtype:
            return new, SHORT[output.dtype]
        if new.kind == "float":
            return new, self.float_output_dtype()
        return new, new.dtype or ("i1" if new.kind == "bool" else "i64")

    def float_output_dtype(self) -> str:
        """The dtype of the first floating input that carries time."""
        timed = (given.dtype for given in self.spec.inputs if self.signature.time in given.axes)
        return next((dtype for dtype in timed if kind_of(dtype) == "float"), self.compute)

    def checked(self, tracing: Tracing, value: Any, role: str, array: Array) -> Value:
        """A returned thing as a value that fits the axes of its state or output."""
        if isinstance(value, tuple | list) or value is None:
            raise SignatureError(
                f"{role} `{array.name}`: expected a step's value or a number, got {_shape(value)}\n    {self.where}"
            )
        tracing_of(value)
        if not isinstance(value, Value):
            number = as_number(value)
            assert number is not None
            return as_value(tracing, number, number_kind(number))
        extra = sorted(value.axes - set(self.full_axes(array)))
        if extra:
            axes = " ".join(extra)
            source = f"\n    {value.source}" if value.source else ""
            self.signature.fail(
                f"{role} `{array}` is given a value that also varies over `{axes}`: reduce it, as in "
                f'`sw.sum({array.name}, "{axes}")`{source}',
                array.span,
            )
        return value


def compute_dtype(signature: Signature, specialization: Specialization) -> str:
    """The type that a step computes floats in: float64 where an input (or a state's mark) is, else float32."""
    dtypes = [given.dtype for given in specialization.inputs]
    dtypes += [SHORT[state.dtype] for state in signature.states if state.dtype]
    return "f64" if "f64" in dtypes else "f32"


# --- storage types ----------------------------------------------------------------------------------------------


def load(tracing: Tracing, element: SSAValue, axes: frozenset[str], dtype: str) -> Value:
    """An element as it is stored, converted to the type that the step computes in."""
    kind = kind_of(dtype)
    assert kind != "complex"
    wide = "i64" if kind == "int" else tracing.compute
    raw = Value(tracing, element, axes, kind, dtype if kind == "int" else None)
    if kind == "bool" or dtype == wide:
        return raw
    widen = arith.ExtFOp if kind == "float" else arith.ExtUIOp if dtype.startswith("u") else arith.ExtSIOp
    loaded = tracing.emit(widen(element, mlir_type(wide)), (raw,), kind)  # pyright: ignore[reportArgumentType]
    loaded.dtype = raw.dtype
    return loaded


def store(tracing: Tracing, value: Value, dtype: str) -> SSAValue:
    """A value in the type that it is stored in: rounded, or wrapped to its bits."""
    kind = kind_of(dtype)
    assert kind != "complex"
    value = convert(value, kind)
    wide = "i64" if kind == "int" else tracing.compute
    type: Any = mlir_type(dtype)
    if kind == "bool" or type == mlir_type(wide):
        return value.ssa
    if kind == "int":
        return tracing.emit(arith.TruncIOp(value.ssa, type), (value,), kind).ssa
    op = arith.ExtFOp(value.ssa, type) if dtype == "f64" else arith.TruncFOp(value.ssa, type)
    return tracing.emit(op, (value,), kind).ssa


# --- words ------------------------------------------------------------------------------------------------------


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _form(arrays: Sequence[Array]) -> str:
    names = ", ".join(array.name for array in arrays)
    return names if len(arrays) == 1 else f"({names})"


def _shape(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple | list):
        items = _listed(value)  # pyright: ignore[reportUnknownArgumentType]
        inner = ", ".join("(...)" if isinstance(item, tuple | list) else "one" for item in items)
        nested = f" ({inner})" if "(...)" in inner else ""
        return f"a tuple of {_count(len(items), 'value')}{nested}"
    return "one value"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def _kind(kind: str) -> str:
    return {"bool": "a bool", "int": "an integer", "float": "floating", "complex": "complex"}[kind]
