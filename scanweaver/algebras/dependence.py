"""How the values of a step depend on its states, and the components that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, SSAValue


def state_dependence(body: Block, num_states: int) -> dict[SSAValue, frozenset[int]]:
    """For every value of a body, the old states (its first arguments) that it is computed from."""
    depends: dict[SSAValue, frozenset[int]] = {
        arg: frozenset([i] if i < num_states else []) for i, arg in enumerate(body.args)
    }
    for op in body.ops:
        found = frozenset[int]().union(*(depends[operand] for operand in op.operands))
        depends.update((result, found) for result in op.results)
    return depends


def components(reads: Sequence[frozenset[int]]) -> list[tuple[int, ...]]:
    """Strongly connected components of the states, earlier before later; `reads[i]` are the states that i reads.

    The algorithm is Tarjan's (SIAM J. Comput. 1(2), 1972): it emits a component after all those it reads from.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[tuple[int, ...]] = []

    def visit(state: int) -> None:
        index[state] = low[state] = len(index)
        stack.append(state)
        for other in sorted(reads[state]):
            if other not in index:
                visit(other)
                low[state] = min(low[state], low[other])
            elif other in stack:
                low[state] = min(low[state], index[other])
        if low[state] == index[state]:
            cut = stack.index(state)
            found.append(tuple(sorted(stack[cut:])))
            del stack[cut:]

    for state in range(len(reads)):
        if state not in index:
            visit(state)
    return found


def free_values(body: Block, depends: Mapping[SSAValue, frozenset[int]]) -> list[SSAValue]:
    """The state-free values that the state-dependent part of a body uses, in order of definition."""
    values: list[SSAValue] = list(body.args)
    values += [result for op in body.ops for result in op.results]

    def crosses(value: SSAValue) -> bool:
        return any(not use.operation.results or depends[use.operation.results[0]] for use in value.uses)

    return [value for value in values if not depends[value] and crosses(value)]
