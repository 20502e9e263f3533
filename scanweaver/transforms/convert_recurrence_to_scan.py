"""Proves a recurrence associative, component by component, and writes the monoids down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, builtin
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.utils.exceptions import PassFailedException

from scanweaver import algebras
from scanweaver.algebras.component import Component, Refused, is_constant
from scanweaver.algebras.dependence import components, free_values, state_dependence
from scanweaver.dialects import recurrence, scan
from scanweaver.errors import NotAssociativeError

PARALLEL = ("auto", "require", "never")


def copy_ops(ops: Iterable[Operation], values: dict[SSAValue, SSAValue], into: Block) -> None:
    """Copies operations to a block's end; `values` maps what they use, and gains what they define."""
    for op in ops:
        copy = op.clone(values)
        values.update(zip(op.results, copy.results, strict=True))
        into.add_op(copy)


class ConvertGeneric(RewritePattern):
    def __init__(self, parallel: str):
        self.parallel = parallel

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: recurrence.GenericOp, rewriter: PatternRewriter) -> None:
        body = op.body.block
        depends = state_dependence(body, op.num_states)
        free = [value for value in free_values(body, depends) if not is_constant(value)]
        found = list(self._components(op, depends, free))
        rewriter.replace(
            op,
            scan.GenericOp(
                op.inits,
                op.inputs,
                {name: value for name, value in op.properties.items() if name != "operandSegmentSizes"},
                op.res.types,
                _prelude(op, depends, free),
                found,
                _step(op, depends, free),
                op.offsets,
                op.slots,
                op.destinations,
            ),
        )

    def _components(
        self, op: recurrence.GenericOp, depends: Mapping[SSAValue, frozenset[int]], free: list[SSAValue]
    ) -> Iterable[scan.ComponentOp]:
        old, new = op.body.block.args[: op.num_states], op.yield_op.states
        names = [name.data for name in op.state_names]
        earlier: list[int] = []
        for states in components([depends[value] for value in new]):
            component = Component(
                states,
                tuple(names[i] for i in states),
                tuple(old[i] for i in states),
                tuple(new[i] for i in states),
                depends,
                (*(old[i] for i in earlier), *(new[i] for i in earlier), *free),
            )
            yield self._proved(component)
            earlier += states

    def _proved(self, component: Component) -> scan.ComponentOp:
        if self.parallel == "never":
            return scan.ComponentOp(scan.SEQUENTIAL, component.states, reason='parallel="never" was asked for')
        try:
            name, proof = algebras.prove(component)
        except Refused as refused:
            if self.parallel == "require":
                raise NotAssociativeError(f"{component.described} not proved associative: {refused.reason}") from None
            return scan.ComponentOp(scan.SEQUENTIAL, component.states, reason=refused.reason)
        return scan.ComponentOp(name, component.states, (proof.lift, proof.combine, proof.apply))


def _prelude(op: recurrence.GenericOp, depends: Mapping[SSAValue, frozenset[int]], free: list[SSAValue]) -> Region:
    inputs = op.body.block.args[op.num_states :]
    block = Block(arg_types=[value.type for value in inputs])
    for arg, value in zip(block.args, inputs, strict=True):
        arg.name_hint = value.name_hint
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    needed = _backward_slice(free)
    copy_ops((inner for inner in op.body.block.ops if inner in needed), values, block)
    block.add_op(scan.ScanYieldOp([values[value] for value in free]))
    return Region(block)


def _step(op: recurrence.GenericOp, depends: Mapping[SSAValue, frozenset[int]], free: list[SSAValue]) -> Region:
    states = op.body.block.args[: op.num_states]
    arguments = [*states, *free]
    block = Block(arg_types=[value.type for value in arguments])
    for arg, value in zip(block.args, arguments, strict=True):
        arg.name_hint = value.name_hint
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, block.args, strict=True))
    used = {
        operand.owner
        for inner in op.body.block.ops
        if not inner.results or depends[inner.results[0]]
        for operand in inner.operands
    }

    def belongs(inner: Operation) -> bool:
        if isinstance(inner, arith.ConstantOp):
            return inner in used
        return not inner.results or bool(depends[inner.results[0]])

    copy_ops((inner for inner in op.body.block.ops if belongs(inner)), values, block)
    return Region(block)


def _backward_slice(values: Iterable[SSAValue]) -> set[Operation]:
    """The operations that values are computed by."""
    needed: set[Operation] = set()
    work = [value.owner for value in values]
    while work:
        owner = work.pop()
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            work += [operand.owner for operand in owner.operands]
    return needed


@dataclass(frozen=True)
class ConvertRecurrenceToScanPass(ModulePass):
    """
    rewrite: recurrence.generic { body }  ->  scan.generic { prelude, components, step }

    States are taken by strongly connected components of their dependence, in order; each is proved by the first
    algebra that takes it, or becomes `sequential` with the operation that stands in the way as its reason.

    `parallel`: `auto`; `require` fails where a component is refused; `never` proves nothing.
    """

    name = "convert-recurrence-to-scan"
    parallel: str = "auto"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        if self.parallel not in PARALLEL:
            raise PassFailedException(f"parallel is one of {', '.join(PARALLEL)}, got {self.parallel}")
        pattern = ConvertGeneric(self.parallel)
        for generic in [inner for inner in op.walk() if isinstance(inner, recurrence.GenericOp)]:
            pattern.match_and_rewrite(generic, PatternRewriter(generic))  # a walker would add the module to a refusal
