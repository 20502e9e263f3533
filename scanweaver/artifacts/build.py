"""Compiles a recurrence ahead of its calls: which variants there are, and what each relies on.

A kernel of either form (see `contract.py`) comes for operands that carry time with

    time contiguous, 16 bytes aligned   GPU only: a CPU loads rows unaligned as well as aligned
    time contiguous
    an axis contiguous                  the last parallel axis, or an operand's last other axis where it lacks that one
    any strides                         of the carried form alone, where there is one: it serves every call

and each but the last for many rows and for few, where a schedule makes a difference between them. Operands without
time may have any strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from scanweaver.artifacts.compiled import CompiledRecurrence
from scanweaver.artifacts.contract import CARRIED, FORMS, FRESH, Contract
from scanweaver.artifacts.variants import Guard, Variant
from scanweaver.compiler import compile_module
from scanweaver.config import config
from scanweaver.dialects import scan
from scanweaver.dialects.iteration import Array, IterationOp, IteratorKind
from scanweaver.dialects.schedule import ScheduleAttr
from scanweaver.errors import SignatureError
from scanweaver.explain.explanation import explain
from scanweaver.frontend.arguments import Options as CallOptions
from scanweaver.frontend.binding import ANYWHERE, Binding, Layout, write_layouts
from scanweaver.frontend.plan import Planner, Traced
from scanweaver.frontend.request import Requested
from scanweaver.frontend.specialization import Specialization
from scanweaver.frontend.trace import iteration_of, parts_of, result_dtypes
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.schedule.choose import choose
from scanweaver.transforms.pipelines import Options, before_schedule, stages
from scanweaver.transforms.skeleton.memory import byte_size

MANY_ROWS = 1 << 17
TIME_ALIGNED, TIME, ANY = "time contiguous, 16 bytes aligned", "time contiguous", "any strides"


@dataclass(frozen=True)
class RowClass:
    """Hints for the schedule, and what they make a guard of."""

    sizes: Mapping[str, int]
    guard: Guard


def compile_variants(
    requested: Requested, target: str, options: CallOptions, forms: Sequence[str]
) -> CompiledRecurrence:
    """The recurrence for every call that the request describes. `options.return_last`: what calls return by default.

    Raises what compiling raises.
    """
    planner = requested.planner
    forms = [form for form in FORMS if form in forms and (form == CARRIED or requested.can_be_fresh)]
    if not forms:
        raise SignatureError(f"{requested.name}: some state starts only where init= says: compile it with init=True")
    bindings = {form: _binding(requested, form, options) for form in FORMS if form == CARRIED or form in forms}
    variants: list[Variant] = []
    for form in forms:
        traced = planner.traced(bindings[form])
        modules = _modules(planner, bindings[form], target, options, last=form == forms[-1])
        variants += [
            Variant(label, form, guard, planner.compiled(traced, module, target, compile_options))
            for label, guard, module, compile_options in modules
        ]
    contract = _contract(requested, bindings[CARRIED], target, options)
    explanation = explain([variants[0].artifact], contract.text, [str(variant) for variant in variants])
    return CompiledRecurrence(contract, variants, explanation)


def first_variant(requested: Requested, target: str, options: CallOptions, *, tools: bool) -> Artifact:
    """What explanations are of where there was no call: a dense call of many rows, time contiguous. Without `tools` its
    stages end where theirs begin."""
    form = FRESH if requested.can_be_fresh else CARRIED
    binding = _binding(requested, form, options)
    _, _, module, compile_options = next(_modules(requested.planner, binding, target, options, last=False))
    if tools:
        return compile_module(module, target, compile_options)
    texts, recipe, milliseconds = stages(module, target, compile_options)
    return Artifact(requested.name, target, recipe, texts, milliseconds=milliseconds)


def _binding(requested: Requested, form: str, options: CallOptions) -> Binding:
    carried = form == CARRIED
    return requested.binding(
        starts=carried,
        return_last=carried,
        reverse=options.reverse,
        parallel=options.parallel,
        strategy=options.strategy,
    )


def _contract(requested: Requested, carried: Binding, target: str, options: CallOptions) -> Contract:
    planner, signature, spec = requested.planner, requested.signature, carried.specialization
    traced = planner.traced(carried)
    outputs = len(traced.results) - len(signature.states)
    dtypes = result_dtypes(traced.module)
    return Contract(
        requested.name,
        target,
        signature.text,
        signature.time,
        signature.batch,
        requested.parameters.defaults,
        tuple((name, value) for name, _, value in spec.constants),
        spec.leading,
        spec.inputs,
        tuple(init for init in spec.inits if init is not None),
        planner.source.required_starts,
        tuple((axes, dtype) for (axes, _), dtype in zip(traced.results[:outputs], dtypes, strict=False)),
        tuple((axis, carried.sizes[axis]) for axis in planner.touched(carried)),
        options,
    )


# --- variants --------------------------------------------------------------------------------------------------


def _modules(
    planner: Planner, binding: Binding, target: str, options: CallOptions, *, last: bool
) -> Iterator[tuple[str, Guard, ModuleOp, Options]]:
    """What to compile: by layouts, and rows where they make a difference; `last`: one serves every call."""
    traced = planner.traced(binding)
    for label, layouts in _layouts(traced, binding.specialization, target, last=last):
        module = traced.module.clone()
        write_layouts(module, layouts)
        plain = Options(options.parallel, options.strategy or "auto")
        classes = [RowClass({}, Guard())]
        if label != ANY:
            classes = _row_classes(before_schedule(module, target, plain), target, plain.strategy)
        for rows in classes:
            yield label, rows.guard, module, replace(plain, sizes=rows.sizes)


def _layouts(traced: Traced, spec: Specialization, target: str, *, last: bool) -> Iterator[tuple[str, list[Layout]]]:
    generic = iteration_of(traced.module)
    time = generic.time_axis
    arrays = (*generic.init_arrays, *generic.input_arrays, *generic.result_arrays)
    whole = [True for _ in generic.init_arrays]
    whole += [len(given.parts) == 1 for given in spec.inputs for _ in given.parts]
    whole += [len(parts) == 1 for parts in map(parts_of, result_dtypes(traced.module)) for _ in parts]

    def of_timed(layout: Callable[[Array], Layout]) -> list[Layout]:
        """A part of a complex array is nowhere contiguous."""
        pairs = zip(arrays, whole, strict=True)
        return [layout(array) if time in array.axes and is_whole else ANYWHERE for array, is_whole in pairs]

    if target != "cpu":
        yield TIME_ALIGNED, of_timed(lambda array: Layout(time, 16))
    yield TIME, of_timed(lambda array: Layout(time, byte_size(array.element_type)))
    axis = _innermost_row_axis(generic)
    if axis is not None:
        yield f"axis {axis} contiguous", of_timed(lambda array: _along(array, axis, generic))
    if last:
        yield ANY, of_timed(lambda array: ANYWHERE)


def _innermost_row_axis(generic: IterationOp) -> str | None:
    """The last parallel axis that an operand with time has: contiguous where time stands before the channels."""
    timed = [array.axes for array in generic.input_arrays if generic.time_axis in array.axes]
    rows = generic.axes_of_kind(IteratorKind.PARALLEL)
    return next((axis for axis in reversed(rows) if any(axis in axes for axes in timed)), None)


def _along(array: Array, axis: str, generic: IterationOp) -> Layout:
    """Where an operand is contiguous when time stands before the channels."""
    others = [other for other in array.axes if generic.kinds[other] is IteratorKind.STATE]
    contiguous = axis if axis in array.axes else others[-1] if others else generic.time_axis
    return Layout(contiguous, byte_size(array.element_type))


def _row_classes(generic: scan.GenericOp, target: str, strategy: str) -> list[RowClass]:
    """Many rows and few, where a schedule tells them apart."""
    if generic.schedule is not None or config.batch_invariant:
        return [RowClass({}, Guard())]
    rows = generic.axes_of_kind(IteratorKind.PARALLEL)

    def chosen(sizes: Mapping[str, int]) -> ScheduleAttr:
        return choose(generic, target, strategy, sizes)

    if target == "cpu":
        many = chosen({})
        if many.vector.data not in rows or many == chosen(dict.fromkeys(rows, 1)):
            return [RowClass({}, Guard())]
        guard = Guard(sizes=((many.vector.data, many.row_lanes.data),))
        return [RowClass({}, guard), RowClass(dict.fromkeys(rows, 1), Guard())]

    def of_rows(count: int) -> dict[str, int]:
        return dict.fromkeys(rows, 1) | dict.fromkeys(rows[:1], count)

    many = chosen(of_rows(MANY_ROWS))
    boundary = next(1 << e for e in range(MANY_ROWS.bit_length()) if chosen(of_rows(1 << e)) == many)
    if boundary == 1:
        return [RowClass(of_rows(MANY_ROWS), Guard())]
    # An eighth of it: where rows alone leave most of the chip idle.
    few = RowClass(of_rows(max(1, boundary // 8)), Guard())
    return [RowClass(of_rows(MANY_ROWS), Guard(rows=boundary)), few]
