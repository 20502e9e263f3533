"""The header of `recurrence.generic` and `scan.generic` as text: printing and parsing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSymExpr
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from scanweaver.dialects.iteration import (
    Direction,
    IterationOp,
    IteratorKind,
    LayoutAttr,
    ResultKind,
    iteration_properties,
)

# --- printing --------------------------------------------------------------------------------------------------


def print_iteration(op: IterationOp, printer: Printer) -> None:
    printer.print_string(f" {op.direction.data} [")
    printer.print_string(", ".join(f"{axis}: {kind}" for axis, kind in op.kinds.items()))
    printer.print_string("]")

    def clause(name: str, count: int, print_item: Callable[[int], None]) -> None:
        print_line(printer, name + "(")
        printer.print_list(range(count), print_item)
        printer.print_string(")")

    with printer.indented():
        clause("states", op.num_states, lambda i: _print_state(op, printer, i))
        clause("inputs", len(op.inputs), lambda i: _print_input(op, printer, i))
        if op.offsets is not None:
            print_line(printer, "offsets(")
            printer.print_operand(op.offsets)
            printer.print_string(" : ")
            printer.print_attribute(op.offsets.type)
            printer.print_string(")")
        if op.slots is not None and op.slot_axis is not None:
            print_line(printer, "slots(")
            printer.print_operand(op.slots)
            printer.print_string(f"[{op.slot_axis.data}] : ")
            printer.print_attribute(op.slots.type)
            printer.print_string(")")
        clause("results", len(op.res), lambda i: _print_result(op, printer, i))
        if op.layouts is not None:
            layouts = ", ".join(f'"{layout.axis}" {layout.bytes}' for layout in op.layouts)
            print_line(printer, f"layouts({layouts})")


def print_line(printer: Printer, text: str) -> None:
    printer._print_new_line()  # pyright: ignore[reportPrivateUsage]
    printer.print_string(text)


def _axes(op: IterationOp, map: AffineMapAttr) -> str:
    names = zip(op.map_axes(map), map.data.results, strict=True)
    return "[" + ", ".join(f"@{axis}" if isinstance(expr, AffineSymExpr) else axis for axis, expr in names) + "]"


def _print_operand(op: IterationOp, printer: Printer, value: SSAValue, map: AffineMapAttr) -> None:
    printer.print_operand(value)
    printer.print_string(_axes(op, map) + " : ")
    printer.print_attribute(value.type)


def _print_state(op: IterationOp, printer: Printer, i: int) -> None:
    printer.print_string(op.state_names.data[i].data + _axes(op, op.state_maps.data[i]) + " = ")
    _print_operand(op, printer, op.inits[i], op.init_maps.data[i])


def _print_input(op: IterationOp, printer: Printer, i: int) -> None:
    printer.print_string(op.input_names.data[i].data + " = ")
    _print_operand(op, printer, op.inputs[i], op.input_maps.data[i])


def _print_result(op: IterationOp, printer: Printer, i: int) -> None:
    if i >= op.num_outputs:
        name = "last " + op.state_names.data[op.last_states[i - op.num_outputs]].data
    else:
        prefix = {
            ResultKind.STEP: "",
            ResultKind.SAMPLED: f"sampled {op.sample_step(i)} ",
            ResultKind.REDUCED: "reduced ",
        }[op.output_kinds.data[i].data]
        name = prefix + op.output_names.data[i].data
    printer.print_string(name + _axes(op, op.result_maps.data[i]))
    if i >= op.num_outputs and op.destinations:
        printer.print_string(" into ")
        printer.print_operand(op.destinations[i - op.num_outputs])
    printer.print_string(" : ")
    printer.print_attribute(op.res[i].type)


# --- parsing ---------------------------------------------------------------------------------------------------


@dataclass
class Header:
    """A parsed header: what an operation of the iteration space is created from."""

    operands: list[Sequence[SSAValue]]
    """inits, inputs, offsets, slots, destinations"""
    properties: dict[str, Attribute]
    result_types: list[Attribute]


def parse_iteration(parser: Parser) -> Header:
    direction = parser.parse_str_enum(Direction)
    axes: dict[str, IteratorKind] = {}

    def parse_axis() -> None:
        name = parser.parse_identifier()
        if name in axes:
            parser.raise_error(f"axis '{name}' stands twice")
        parser.parse_punctuation(":")
        axes[name] = parser.parse_str_enum(IteratorKind)

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_axis)
    names = list(axes)
    pooled: set[str] = set()

    def parse_map(sample: int = 1) -> AffineMapAttr:
        def parse_expr() -> AffineExpr:
            if (slot := parser.parse_optional_symbol_name()) is not None:
                pooled.add(slot.data)
                return AffineExpr.symbol(0)
            name = parser.parse_identifier()
            if name not in axes:
                parser.raise_error(f"unknown axis '{name}', the axes are {', '.join(axes)}")
            expr = AffineExpr.dimension(names.index(name))
            return expr // sample if sample > 1 and axes[name] is IteratorKind.TIME else expr

        exprs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_expr)
        symbols = int(any(isinstance(expr, AffineSymExpr) for expr in exprs))
        return AffineMapAttr(AffineMap(len(axes), symbols, tuple(exprs)))

    def parse_operand() -> tuple[UnresolvedOperand, AffineMapAttr, Attribute]:
        operand = parser.parse_unresolved_operand()
        map = parse_map()
        parser.parse_punctuation(":")
        return operand, map, parser.parse_type()

    states: list[tuple[str, AffineMapAttr]] = []
    inits: list[tuple[UnresolvedOperand, AffineMapAttr, Attribute]] = []

    def parse_state() -> None:
        name = parser.parse_identifier()
        states.append((name, parse_map()))
        parser.parse_punctuation("=")
        inits.append(parse_operand())

    input_names: list[str] = []
    inputs: list[tuple[UnresolvedOperand, AffineMapAttr, Attribute]] = []

    def parse_input() -> None:
        input_names.append(parser.parse_identifier())
        parser.parse_punctuation("=")
        inputs.append(parse_operand())

    outputs: list[tuple[str, ResultKind]] = []
    last: list[int] = []
    result_maps: list[AffineMapAttr] = []
    result_types: list[Attribute] = []

    def parse_result() -> None:
        name = parser.parse_identifier()
        kind, sample = ResultKind.STEP, 1
        # `last`, `sampled` and `reduced` are words only in front of another name: an output may bear them.
        if name == "sampled" and (steps := parser.parse_optional_integer(allow_boolean=False)) is not None:
            kind, sample, name = ResultKind.SAMPLED, steps, parser.parse_identifier()
        elif name == "reduced" and (other := parser.parse_optional_identifier()) is not None:
            kind, name = ResultKind.REDUCED, other
        elif name == "last" and (state := parser.parse_optional_identifier()) is not None:
            known = [name for name, _ in states]
            if state not in known:
                parser.raise_error(f"unknown state '{state}', the states are {', '.join(known)}")
            last.append(known.index(state))
        elif last:
            parser.raise_error("outputs come before last states")
        if len(last) + len(outputs) == len(result_maps):
            outputs.append((name, kind))
        result_maps.append(parse_map(sample))
        into = parser.parse_unresolved_operand() if last and parser.parse_optional_keyword("into") else None
        parser.parse_punctuation(":")
        result_types.append(parser.parse_type())
        if into is not None:
            destinations.append(parser.resolve_operand(into, result_types[-1]))

    parser.parse_keyword("states")
    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_state)
    parser.parse_keyword("inputs")
    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_input)
    offsets: list[SSAValue] = []
    if parser.parse_optional_keyword("offsets"):
        with parser.in_parens():
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            offsets = [parser.resolve_operand(operand, parser.parse_type())]
    slots: list[SSAValue] = []
    slot_axis: str | None = None
    if parser.parse_optional_keyword("slots"):
        with parser.in_parens():
            operand = parser.parse_unresolved_operand()
            with parser.in_square_brackets():
                slot_axis = parser.parse_identifier()
            parser.parse_punctuation(":")
            slots = [parser.resolve_operand(operand, parser.parse_type())]
    destinations: list[SSAValue] = []
    parser.parse_keyword("results")
    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_result)
    if pooled - {slot_axis}:
        parser.raise_error(f"'@{min(pooled - {slot_axis or ''})}' needs slots of that axis")
    layouts: list[LayoutAttr] | None = None
    if parser.parse_optional_keyword("layouts"):
        layouts = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: LayoutAttr(parser.parse_str_literal(), parser.parse_integer())
        )

    properties = iteration_properties(
        direction=direction,
        axes=axes,
        states=states,
        init_maps=[map for _, map, _ in inits],
        inputs=list(zip(input_names, (map for _, map, _ in inputs), strict=True)),
        outputs=outputs,
        last=last,
        result_maps=result_maps,
        layouts=layouts,
        slot_axis=slot_axis,
    )
    operands: list[Sequence[SSAValue]] = [
        [parser.resolve_operand(operand, type) for operand, _, type in inits],
        [parser.resolve_operand(operand, type) for operand, _, type in inputs],
        offsets,
        slots,
        destinations,
    ]
    return Header(operands, properties, result_types)
