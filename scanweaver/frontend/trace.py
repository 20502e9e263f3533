"""Tracing: a step function is run once with symbols, and what it does to them becomes `recurrence.generic`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from scanweaver.frontend import complexes
from scanweaver.frontend.dtypes import LONG, SHORT, Kind, as_number, complex_dtype, computed_in, kind_of, real_dtype
from scanweaver.frontend.signature import Array, Signature
from scanweaver.frontend.specialization import PARTS, Given, Specialization
from scanweaver.frontend.values import (
    FloatType,
    Tracing,
    Value,
    as_value,
    convert,
    mlir_type,
    narrowed,
    number_kind,
    refuse_leaked,
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
    where the signature has no outputs) the last states. Whatever is complex is two real arrays, one after the other.
    Tensor types have the sizes that the specialization fixes.

    Raises TraceError for what a step's value cannot do, SignatureError for a return that does not fit the signature.
    """
    return _Tracer(function, signature, specialization).module()


def iteration_of(module: ModuleOp) -> IterationOp:
    """The recurrence that a module holds, as `recurrence.generic` or already as `scan.generic`."""
    (generic,) = (op for op in module.walk() if isinstance(op, IterationOp))
    return generic


def result_dtypes(module: ModuleOp) -> tuple[str, ...]:
    """The short dtypes of what a traced function computes: MLIR's types do not tell `u8` from `i8`.

    Two results of the function, the real and the imaginary part, are one that is complex.
    """
    (function,) = (op for op in module.walk() if isinstance(op, func.FuncOp))
    dtypes = cast(ArrayAttr[StringAttr], function.attributes[RESULT_DTYPES])
    return tuple(dtype.data for dtype in dtypes)


def result_axes(module: ModuleOp) -> tuple[tuple[str, ...], ...]:
    """The dimensions of each of them."""
    arrays = iter(iteration_of(module).result_arrays)
    found: list[tuple[str, ...]] = []
    for dtype in result_dtypes(module):
        found += {array.axes for array in [next(arrays) for _ in parts_of(dtype)]}
    return tuple(found)


def touched_axes(module: ModuleOp) -> tuple[str, ...]:
    """The axes that the step of a traced module reduces, renames or takes from: their sizes are compiled in."""
    return iteration_of(module).axes_of_kind(IteratorKind.STATE)


def renamed_axes(module: ModuleOp) -> tuple[tuple[str, str], ...]:
    """The pairs of axes that the step of a traced module exchanges, which must be of one size."""
    pairs = {(op.source_axis, op.target_axis): None for op in module.walk() if isinstance(op, RenameOp)}
    return tuple(pairs)


@dataclass(frozen=True)
class _Part:
    """One array of the recurrence, which is real: an array of the signature, or a part of a complex one."""

    name: str
    axes: tuple[str, ...]
    dtype: str


class _Tracer:
    def __init__(self, function: Callable[..., Any], signature: Signature, specialization: Specialization) -> None:
        self.function = function
        self.signature = signature
        self.spec = specialization
        self.sizes = dict(specialization.sizes)
        marks = [SHORT[state.dtype] for state in signature.states if state.dtype]
        self.compute = computed_in((*(given.dtype for given in specialization.inputs), *marks))
        self.state_dtypes = [SHORT[state.dtype] if state.dtype else self.compute for state in signature.states]
        self.axes = self.iteration_axes()

    def module(self) -> ModuleOp:
        body, output_dtypes = self.body()
        entry = Block(arg_types=[self.operand_type(operand) for operand in self.spec.operands])
        for argument, operand in zip(entry.args, self.spec.operands, strict=True):
            argument.name_hint = operand.name
        given = iter(entry.args)
        with ImplicitBuilder(entry):
            starts = [start for i, init in enumerate(self.spec.inits) for start in self.starts(i, init, given)]
            states = self.state_parts()
            outputs = [
                part
                for output, dtype in zip(self.signature.outputs, output_dtypes, strict=True)
                for part in self.parts(output.name, self.full_axes(output), dtype)
            ]
            with_last = self.spec.return_last or self.signature.mode == "last"
            last = states if with_last else []
            axes = tuple(self.axes)
            properties = iteration_properties(
                direction=Direction.REVERSE if self.spec.reverse else Direction.FORWARD,
                axes=self.iterators(body),
                states=[(state.name, map_of(axes, state.axes)) for state in states],
                init_maps=[map_of(axes, of) for _, of in starts],
                inputs=[(part.name, map_of(axes, part.axes)) for part in self.input_parts()],
                outputs=[(output.name, ResultKind.STEP) for output in outputs],
                last=range(len(last)),
                result_maps=[map_of(axes, result.axes) for result in (*outputs, *last)],
            )
            types = [self.tensor_type(result.axes, mlir_type(result.dtype)) for result in (*outputs, *last)]
            generic = GenericOp([start for start, _ in starts], list(given), properties, types, Region(body))
            func.ReturnOp(*generic.results)
        name = self.function.__name__
        symbol = name if name.isidentifier() and name.isascii() else "step"
        entry_types = [argument.type for argument in entry.args]
        main = func.FuncOp(symbol, (entry_types, types), Region(entry))
        dtypes = [*output_dtypes, *(self.state_dtypes if with_last else ())]
        main.attributes[RESULT_DTYPES] = ArrayAttr(StringAttr(dtype) for dtype in dtypes)
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

    def parts(self, name: str, axes: tuple[str, ...], dtype: str) -> list[_Part]:
        """The arrays of the recurrence that an array of the signature is."""
        if kind_of(dtype) != "complex":
            return [_Part(name, axes, dtype)]
        return [_Part(self.distinct(f"{name}_{part}"), axes, real_dtype(dtype)) for part in PARTS]

    def distinct(self, name: str) -> str:
        """A name that no array of the signature has."""
        signature = self.signature
        while any(array.name == name for array in (*signature.states, *signature.inputs, *signature.outputs)):
            name += "_"
        return name

    def state_parts(self) -> list[_Part]:
        dtyped = zip(self.signature.states, self.state_dtypes, strict=True)
        return [part for state, dtype in dtyped for part in self.parts(state.name, self.full_axes(state), dtype)]

    def input_parts(self) -> list[_Part]:
        return [part for given in self.spec.inputs for part in self.parts(given.name, given.axes, given.dtype)]

    def starts(
        self, i: int, init: Given | None, given: Iterator[SSAValue]
    ) -> Iterator[tuple[SSAValue, tuple[str, ...]]]:
        """What the parts of a state start at, and its axes: `init` where given, its signature's number, else 0."""
        number = self.signature.states[i].start or 0.0
        for k, part in enumerate(parts_of(self.state_dtypes[i])):
            if init is not None and k < len(init.parts):
                yield next(given), init.axes
            else:
                type = mlir_type(part)
                value = number if init is None and k == 0 else 0
                attribute = (
                    FloatAttr(float(value), type) if isinstance(type, FloatType) else IntegerAttr(int(value), type)
                )
                yield arith.ConstantOp(attribute).result, ()

    # --- the body ---------------------------------------------------------------------------------------------

    def body(self) -> tuple[Block, list[str]]:
        """The step as a block, and the dtypes of its outputs."""
        dtypes = [*self.state_dtypes, *(given.dtype for given in self.spec.inputs)]
        names = [array.name for array in (*self.signature.states, *self.spec.inputs)]
        parts = [*self.state_parts(), *self.input_parts()]
        block = Block(arg_types=[mlir_type(part.dtype) for part in parts])
        tracing = Tracing(block, self.compute, self.axes, self.signature.time, self.sizes)
        elements: list[Value] = []
        for argument, part in zip(block.args, parts, strict=True):
            argument.name_hint = part.name
            elements.append(load(tracing, argument, frozenset(part.axes) - {self.signature.time}, part.dtype))
        values: dict[str, Value] = {}
        element = iter(elements)
        for name, dtype in zip(names, dtypes, strict=True):
            first = next(element)
            values[name] = complexes.pair(tracing, first, next(element)) if kind_of(dtype) == "complex" else first

        arguments = [values.get(array.name) for array in (*self.signature.states, *self.signature.inputs)]
        tracing.in_user_code = True
        returned = self.function(*arguments, **{name: value for name, _, value in self.spec.constants})
        tracing.in_user_code = False

        new_states, new_outputs = self.split(returned)
        states = [part for i, value in enumerate(new_states) for part in self.state(tracing, i, value)]
        outputs = [self.output(tracing, i, value) for i, value in enumerate(new_outputs)]
        block.add_op(YieldOp(states, [part for value, dtype in outputs for part in store(tracing, value, dtype)]))
        tracing.closed = True
        _erase_unused(block)
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
        code = inspect.unwrap(self.function).__code__
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}: def {self.function.__name__}"

    def state(self, tracing: Tracing, i: int, value: Any) -> Sequence[SSAValue]:
        state, dtype = self.signature.states[i], self.state_dtypes[i]
        new = self.checked(tracing, value, "state", state)
        if new.kind == "complex":
            self.check_complex(new, "state", state, dtype)
        elif kind_of(dtype) != new.kind and not _widens(new.kind, kind_of(dtype)):
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
            if new.kind == "complex":
                self.check_complex(new, "output", output, SHORT[output.dtype])
            return new, SHORT[output.dtype]
        if self.signature.mode == "trajectories":
            new = convert(new, kind_of(self.state_dtypes[i]))  # a state's values, whatever the step gave for them
        if new.kind == "float":
            return new, real_dtype(self.output_precision())
        if new.kind == "complex":
            return new, complex_dtype(self.output_precision())
        return new, new.dtype or ("i1" if new.kind == "bool" else "i64")

    def output_precision(self) -> str:
        """The dtype of the first floating or complex input that carries time."""
        timed = (given.dtype for given in self.spec.inputs if self.signature.time in given.axes)
        return next((dtype for dtype in timed if kind_of(dtype) in ("float", "complex")), self.compute)

    def check_complex(self, value: Value, role: str, array: Array, dtype: str) -> None:
        if kind_of(dtype) != "complex":
            is_real = f"is marked {array.dtype}" if array.dtype else "is real"
            raise SignatureError(
                f"{role} `{array.name}` {is_real}, and the step gives it a complex value: take `sw.real(x)`, "
                f"`sw.imag(x)` or `abs(x)`, or mark it in the signature, as in "
                f"`{array}:{LONG[complex_dtype(self.compute)]}`\n    {value.source or self.where}"
            )

    def checked(self, tracing: Tracing, value: Any, role: str, array: Array) -> Value:
        """A returned thing as a value that fits the axes of its state or output."""
        if isinstance(value, tuple | list) or value is None:
            raise SignatureError(
                f"{role} `{array.name}`: expected a step's value or a number, got {_shape(value)}\n    {self.where}"
            )
        if tracing_of(value) not in (tracing, None):
            refuse_leaked()
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
                f'`sw.sum(…, "{axes}")`{source}',
                array.span,
            )
        return value


def _widens(kind: Kind, to: Kind) -> bool:
    """Whether a value may become a state of another kind without a word."""
    return (kind == "int" and to in ("float", "complex")) or (kind == "float" and to == "complex")


def _erase_unused(block: Block) -> None:
    """Erase what nothing reads, such as the imaginary part of a value of which the real one is asked for."""
    for op in reversed(tuple(block.ops)):
        if op.results and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()


# --- storage types ----------------------------------------------------------------------------------------------


def parts_of(dtype: str) -> tuple[str, ...]:
    """The dtypes of the arrays that one of a short dtype is."""
    return (real_dtype(dtype),) * (len(PARTS) if kind_of(dtype) == "complex" else 1)


def load(tracing: Tracing, element: SSAValue, axes: frozenset[str], dtype: str) -> Value:
    """A real element as it is stored, converted to the type that the step computes in."""
    kind = kind_of(dtype)
    wide = "i64" if kind == "int" else tracing.compute
    raw = Value(tracing, element, axes, kind, dtype if kind == "int" else None)
    if kind == "bool" or dtype == wide:
        return raw
    widen = arith.ExtFOp if kind == "float" else arith.ExtUIOp if dtype.startswith("u") else arith.ExtSIOp
    loaded = tracing.emit(widen(element, mlir_type(wide)), (raw,), kind)  # pyright: ignore[reportArgumentType]
    loaded.dtype = raw.dtype
    return loaded


def store(tracing: Tracing, value: Value, dtype: str) -> Sequence[SSAValue]:
    """A value in the type that it is stored in: rounded, or wrapped to its bits; both parts of a complex one."""
    if kind_of(dtype) == "complex":
        parts = complexes.real_parts(convert(value, "complex"))
        return [_store(tracing, part, real_dtype(dtype)) for part in parts]
    return [_store(tracing, value, dtype)]


def _store(tracing: Tracing, value: Value, dtype: str) -> SSAValue:
    kind = kind_of(dtype)
    value = convert(value, kind)
    wide = "i64" if kind == "int" else tracing.compute
    type: Any = mlir_type(dtype)
    if kind == "bool" or type == mlir_type(wide):
        return value.ssa
    if kind == "int":
        return tracing.emit(arith.TruncIOp(value.ssa, type), (value,), kind).ssa
    if dtype != "f64":
        return narrowed(value, dtype).ssa
    return tracing.emit(arith.ExtFOp(value.ssa, type), (value,), kind).ssa


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
