"""`sw.from_mlir`: the text of a recurrence becomes a recurrence over tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from scanweaver.dialects import context_of_all, recurrence, scan
from scanweaver.dialects.iteration import Array, Direction, DirectionAttr, IterationOp, ResultKind, map_of
from scanweaver.errors import ScanWeaverError, SignatureError, UnsupportedError
from scanweaver.frontend.arguments import Options
from scanweaver.frontend.dtypes import LONG, NUMBER, kind_of
from scanweaver.frontend.parameters import REQUIRED, Parameters
from scanweaver.frontend.recurrence import Recurrence
from scanweaver.frontend.signature import Signature, parse_signature
from scanweaver.frontend.specialization import Given, Specialization
from scanweaver.frontend.trace import RESULT_DTYPES
from scanweaver.frontend.values import mlir_type
from scanweaver.transforms.skeleton.kernel import type_name

_REPLACED = ("layouts", "operandSegmentSizes")


def from_mlir(
    text_or_path: str | Path, entry: str | None = None, *, parallel: str = "auto", strategy: str | None = None
) -> Recurrence:
    """The recurrence of a function that holds one `recurrence.generic` (or `scan.generic`: its proof, and a schedule
    where there is one, are taken as they are).

        fn = sw.from_mlir("garch.mlir", entry="garch")
        y = fn(r, omega, init=0.1)          # inputs by position, in the operation's order, or by the names it gives

    `entry` names the function; it may be left out where the module has one. Inputs have the text's dtypes and the sizes
    that its types fix. A state starts at the text's number, or where the text takes an argument at `init=`. Calls go in
    the text's direction and return last states where the text does, unless they say otherwise by `reverse=` and
    `return_last=`, which gives all states. The result does all that `@sw.recurrence` does.

    Raises ScanWeaverError with the place for text that does not parse or verify, UnsupportedError for functions that
    hold anything else.
    """
    source = TextSource(_function(_parsed(text_or_path), entry))
    op = source.op
    options = Options(bool(op.last_states) and bool(op.num_outputs), op.is_reverse, parallel, strategy)
    made = Recurrence(source, Parameters((REQUIRED,) * len(op.inputs), {}), options)
    made.__doc__ = source.signature.text
    return made


# --- reading ---------------------------------------------------------------------------------------------------


def _parsed(text_or_path: str | Path) -> ModuleOp:
    if not isinstance(text_or_path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SignatureError(f"sw.from_mlir: expected text or a path, got {type(text_or_path).__name__}")
    is_path = isinstance(text_or_path, Path) or ("\n" not in text_or_path and text_or_path.endswith(".mlir"))
    name = str(text_or_path) if is_path else "the text"
    try:
        text = Path(text_or_path).read_text() if is_path else str(text_or_path)
    except UnicodeDecodeError as error:
        raise ScanWeaverError(f"{name} is not UTF-8 text: {error}") from error
    try:
        module = Parser(context_of_all(), text, name).parse_module()
        module.verify()
    except (ParseError, VerifyException, DiagnosticException) as error:
        raise ScanWeaverError(f"{name} is no module of ours: {error}") from error
    return module


def _function(module: ModuleOp, entry: str | None) -> func.FuncOp:
    functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, func.FuncOp)}
    names = ", ".join(functions) or "none"
    if entry is None and len(functions) != 1:
        raise ScanWeaverError(f"entry=: expected the name of a function, for the module has {names}")
    name = next(iter(functions)) if entry is None else entry
    if name not in functions:
        raise ScanWeaverError(f"entry={name!r}: the module has no such function; it has {names}")
    return functions[name]


def _held(function: func.FuncOp) -> IterationOp:
    """The recurrence that a function holds, beside constants, and whose results it returns in order."""
    name = function.sym_name.data
    others = [op for op in function.body.block.ops if not isinstance(op, arith.ConstantOp | func.ReturnOp)]
    strange = next((op.name for op in others if not isinstance(op, IterationOp)), None)
    if strange is not None or len(others) != 1:
        found = strange or f"{len(others)} recurrences"
        raise UnsupportedError(
            f"{name} holds {found}: expected one recurrence.generic or scan.generic beside constants; loops are not "
            "raised yet"
        )
    (op,) = others
    assert isinstance(op, IterationOp)
    returned = function.body.block.last_op
    if not isinstance(returned, func.ReturnOp) or list(returned.operands) != list(op.results):
        raise UnsupportedError(f"{name}: expected it to return the recurrence's results, all and in order")
    if op.offsets is not None or op.slots is not None or op.destinations:
        raise UnsupportedError(f"{name}: offsets, slots and destinations are not built yet for text")
    for output, kind in zip(op.output_names, op.output_kinds, strict=True):
        if kind.data is not ResultKind.STEP:
            raise UnsupportedError(
                f"{name}: output '{output.data}' is {kind.data}; only outputs at every step are built"
            )
    if any(not isinstance(value.owner, Block) for value in op.inputs):
        raise UnsupportedError(f"{name}: expected every input to be an argument of the function, got a constant")
    return op


# --- the source ------------------------------------------------------------------------------------------------


class TextSource:
    """A function's recurrence: the same for every specialization, but for starts, last states and direction."""

    def __init__(self, function: func.FuncOp):
        self.name = function.sym_name.data
        self.op = _held(function)
        self.signature: Signature = self._signature()
        self.output_dtypes = [type_name(result.element_type) for result in self.op.result_arrays[: self.op.num_outputs]]
        marked = cast("ArrayAttr[StringAttr] | None", function.attributes.get(RESULT_DTYPES))
        if marked is not None and len(marked) == len(self.op.result_arrays):  # else parts of complex results
            self.output_dtypes = [dtype.data for dtype in marked][: self.op.num_outputs]

    @property
    def fixed_sizes(self) -> Mapping[str, int]:
        return self.op.sizes

    @property
    def fixed_dtypes(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for array in self.op.input_arrays:
            short = type_name(array.element_type)
            found[array.name] = NUMBER[kind_of(short)] if array.is_scalar else LONG[short]
        return found

    @property
    def required_starts(self) -> tuple[str, ...]:
        inits = zip(self.op.states, self.op.inits, strict=True)
        return tuple(state.name for state, init in inits if not isinstance(init.owner, arith.ConstantOp))

    def module(self, specialization: Specialization) -> ModuleOp:
        """Raises SignatureError for an input of another dtype than the text's, and for a start that is missing."""
        op, spec = self.op, specialization
        inputs = [self._typed(given, array) for given, array in zip(spec.inputs, op.input_arrays, strict=True)]
        operands = [*(init for init in spec.inits if init is not None), *inputs]
        sizes = op.sizes | dict(spec.sizes)

        def tensor(axes: Sequence[str], element: Attribute) -> TensorType[Any]:
            return TensorType(element, [sizes.get(axis, DYNAMIC_INDEX) for axis in axes])

        def operand_type(given: Given) -> Attribute:
            element = mlir_type(given.dtype)
            return element if given.scalar else tensor(given.axes, element)

        block = Block(arg_types=map(operand_type, operands))
        for argument, given in zip(block.args, operands, strict=True):
            argument.name_hint = given.name
        arguments = iter(block.args)
        inits = [self._init(i, block) if init is None else next(arguments) for i, init in enumerate(spec.inits)]
        init_axes = [init.axes if init else () for init in spec.inits]
        last = range(op.num_states) if spec.return_last or not op.num_outputs else range(0)
        outputs = op.result_arrays[: op.num_outputs]
        types = [tensor(output.axes, output.element_type) for output in outputs]
        types += [tensor(op.states[i].axes, op.states[i].type) for i in last]
        held = list(arguments)
        direction = Direction.REVERSE if spec.reverse else Direction.FORWARD
        properties = {name: value for name, value in op.properties.items() if name not in _REPLACED} | {
            "direction": DirectionAttr(direction),
            "init_maps": ArrayAttr(map_of(op.axis_names, axes) for axes in init_axes),
            "last": DenseArrayBase.from_list(i64, list(last)),
            "result_maps": ArrayAttr([*op.result_maps.data[: op.num_outputs], *(op.state_maps.data[i] for i in last)]),
        }
        copy = _rebuilt(op, inits, held, properties, types)
        block.add_ops([copy, func.ReturnOp(*copy.results)])
        function = func.FuncOp(self.name, ([argument.type for argument in block.args], types), Region(block))
        lasts = [type_name(op.states[i].type) for i in last]
        function.attributes[RESULT_DTYPES] = ArrayAttr(map(StringAttr, [*self.output_dtypes, *lasts]))
        return ModuleOp([function])

    def _typed(self, given: Given, array: Array) -> Given:
        """An input as the text has it: its dtype, whatever Python number was given."""
        wanted = type_name(array.element_type)
        number = given.scalar and (
            kind_of(given.dtype) == kind_of(wanted) or (kind_of(given.dtype), kind_of(wanted)) == ("int", "float")
        )
        if not number and given.dtype.replace("u", "i") != wanted:
            raise SignatureError(
                f"argument `{given.name}` of {self.name}: the text says {LONG[wanted]}, got {LONG[given.dtype]}"
            )
        return replace(given, dtype=wanted) if number else given

    def _init(self, i: int, block: Block) -> SSAValue:
        """A state's start, where `init` gives none."""
        init = self.op.inits[i]
        if not isinstance(init.owner, arith.ConstantOp):
            state = self.op.states[i].name
            raise SignatureError(
                f"init of state `{state}` of {self.name}: the text takes it as an argument; expected a tensor or a "
                "number, got nothing"
            )
        constant = init.owner.clone()
        block.add_op(constant)
        return constant.result

    # --- the signature ----------------------------------------------------------------------------------------

    def _signature(self) -> Signature:
        op = self.op
        time = op.time_axis
        states = [self._state(i, state) for i, state in enumerate(op.states)]
        inputs = [_array(array) for array in op.input_arrays]
        outputs = [_array(array) for array in op.result_arrays[: op.num_outputs]]
        text = f"{', '.join(states)}; {', '.join(inputs)} -> {', '.join(outputs)}"
        return parse_signature(text.rstrip(), time=time)

    def _state(self, i: int, state: Array) -> str:
        init = self.op.inits[i].owner
        start = ""
        if isinstance(init, arith.ConstantOp) and isinstance(init.value, FloatAttr | IntegerAttr):
            number = init.value.value.data
            start = f"={number!r}" if number else ""
        return f"{_array(state)}:{LONG[type_name(state.type)]}{start}"


def _array(array: Array) -> str:
    return f"{array.name}[{' '.join(array.axes)}]"


def _rebuilt(
    op: IterationOp,
    inits: Sequence[SSAValue],
    inputs: Sequence[SSAValue],
    properties: Mapping[str, Attribute],
    types: Sequence[Attribute],
) -> IterationOp:
    """The same regions over other operands."""
    if isinstance(op, scan.GenericOp):
        components = [component.clone() for component in op.component_ops]
        return scan.GenericOp(inits, inputs, properties, types, op.prelude.clone(), components, op.step.clone())
    assert isinstance(op, recurrence.GenericOp)
    return recurrence.GenericOp(inits, inputs, properties, types, op.body.clone())
