"""States that live in a pool: which slot of it a row uses, and the memory that last states go to.

With `slots(%slots[b] : tensor<?xi32>)`, an init or last state whose map says `@b` has slots where others have rows:
row i of axis b reads and writes slot `slots[i]`. A negative slot is padding: that row's outputs are 0 and it writes
nothing else. Slots that are not negative must differ from each other and lie inside the pool.

`last h[@b, d] into %pool` is the destination with the elements at the map's positions replaced. Where the destination
is the state's own init, a kernel advances it in place: each row reads what it starts from before it writes, and no
other row may read it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32, i64
from xdsl.utils.exceptions import VerifyException

from scanweaver.dialects.iteration import IterationOp, IteratorKind, element_type, is_pooled, shape_of


def verify_slots(op: IterationOp) -> None:
    """Slots are integers along a parallel axis that every state and output has; inits and last states know them."""
    if (op.slots is None) != (op.slot_axis is None):
        raise VerifyException("slots and slot_axis stand together")
    for kind, maps in (("state", op.state_maps), ("input", op.input_maps), ("output", op.output_maps)):
        for i, map in enumerate(maps):
            if is_pooled(map):
                raise VerifyException(f"{kind} map #{i} has rows: only inits and last states have slots")
    for kind, maps in (("init", op.init_maps), ("last state's", op.last_maps)):
        for i, map in enumerate(maps):
            if is_pooled(map) and op.slots is None:
                raise VerifyException(f"{kind} map #{i} has slots, and the operation none")
    if op.slots is None or op.slot_axis is None:
        return
    axis = op.slot_axis.data
    if op.kinds.get(axis) is not IteratorKind.PARALLEL:
        raise VerifyException(f"slots are along a parallel axis, got '{axis}'")
    if len(shape_of(op.slots.type)) != 1:
        raise VerifyException("slots are a tensor or memref of one dimension")
    element = element_type(op.slots.type)
    if element not in (i32, i64):
        raise VerifyException(f"slots are i32 or i64, got {element}")
    for kind, maps in (("state", op.state_maps), ("output", op.output_maps)):
        for i, map in enumerate(maps):
            if axis not in op.map_axes(map):
                raise VerifyException(f"{kind} map #{i} lacks axis '{axis}': a row without a slot has none of it")
    for i, map in enumerate(op.last_maps):
        if not is_pooled(map):
            raise VerifyException(f"last state #{i} is by row: a row without a slot leaves none")


def verify_destinations(op: IterationOp) -> None:
    """Destinations are one per last state, of its type; in place a state is read by the row that writes it alone."""
    if not op.destinations:
        if any(is_pooled(map) for map in op.last_maps):
            raise VerifyException("a last state that has slots goes into a pool")
        return
    if len(op.destinations) != len(op.last_states):
        raise VerifyException(f"expected {len(op.last_states)} destinations, got {len(op.destinations)}")
    if len(set(op.destinations)) != len(op.destinations):
        raise VerifyException("two last states have one destination")
    parallel = op.axes_of_kind(IteratorKind.PARALLEL)
    for j, (i, destination) in enumerate(zip(op.last_states, op.destinations, strict=True)):
        name, result = op.state_names.data[i].data, op.res[op.num_outputs + j]
        if destination.type != result.type:
            raise VerifyException(f"the destination of last '{name}' must be {result.type}, got {destination.type}")
        readers = [n for n, init in enumerate(op.inits) if init is destination and n != i]
        if destination in op.inputs or readers:
            raise VerifyException(f"the destination of last '{name}' is an operand of something else too")
        if op.inits[i] is not destination:
            continue
        if op.init_maps.data[i] != op.last_maps[j]:
            raise VerifyException(f"state '{name}' is advanced in place: its init and last maps must be one")
        missing = [axis for axis in parallel if axis not in op.map_axes(op.state_maps.data[i])]
        if missing:
            raise VerifyException(
                f"state '{name}' is advanced in place and lacks axis '{missing[0]}': all rows along it would read "
                "what one of them writes"
            )
