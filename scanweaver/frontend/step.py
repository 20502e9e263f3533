"""`fn.step`: one step of a recurrence, on states that stay where they are."""

from __future__ import annotations

from typing import Any

import torch

from scanweaver.errors import SignatureError
from scanweaver.frontend.in_place import InPlace
from scanweaver.frontend.launching import Kernel, addresses, arrangement, countable
from scanweaver.frontend.parameters import Parameters
from scanweaver.frontend.plan import Planner, Traced
from scanweaver.frontend.source import Source
from scanweaver.frontend.step_binding import StepBinder, StepBinding
from scanweaver.gpu_exec.artifact import Artifact


class Stepper:
    """`y = f.step(u, dt, A, state=h)` is one step of the recurrence, on inputs and outputs without time:

        h[...], y = step(h, u, dt, A)

    `state`: a tensor, or a tuple with one per state, advanced in place: float32 (or the state's own dtype), bfloat16
    or float16, which are computed in float32 and rounded when stored. It shares memory with no input.

    `slots`: int32 or int64, one number for each row of axis `b` (`batch=` on the decorator), on the inputs' device and
    never read by the host where that is a GPU: row i uses `state[slots[i]]` of a pool, whose axis `b` is of any size. A
    negative slot is padding: the row's outputs are 0 and nothing is written. The other slots lie in the pool (which is
    checked on the CPU) and differ from each other: two rows of one slot race.

    Returns what the recurrence returns, without time; the states themselves where it has no outputs. There are no
    gradients. May be captured in a CUDA graph, after a first call outside of it.

    Raises SignatureError naming the argument, what was expected and what came.
    """

    def __init__(self, source: Source, parameters: Parameters):
        self._binder = StepBinder(source.name, source.signature, parameters)
        self._planner = StepPlanner(InPlace(source))

    def __call__(self, *args: Any, state: Any = None, slots: Any = None, **kwargs: Any) -> Any:
        binding, operands, values = self._binder.bind_step(args, kwargs, state, slots)
        plan = binding.plan
        if plan is None:
            binding.plan = plan = self._planner.plan_step(binding)
        outputs = plan(operands, values)
        return state if outputs is None else outputs

    def artifact_for(self, target: str, /, *args: Any, state: Any = None, slots: Any = None, **kwargs: Any) -> Artifact:
        """What such a step runs on `target`, a chip such as `"sm_90"` or `"cpu"`: see `Recurrence.artifact_for`."""
        binding, _, _ = self._binder.bind_step(args, kwargs, state, slots)
        return self._planner.artifact(self._planner.settled(binding), target)


class StepPlanner(Planner):
    """Makes plans for the steps of one recurrence."""

    def plan_step(self, binding: StepBinding) -> StepPlan:
        binding = self.settled(binding)
        traced = self.traced(binding)
        outputs = len(self.source.signature.outputs) if self.source.signature.mode != "last" else 0
        arrange = arrangement(self.source.signature, False, False) if outputs else None
        return StepPlan(binding, traced, self._kernel(binding, traced), outputs, arrange)

    def settled(self, binding: StepBinding) -> StepBinding:
        """The binding with copies of the states that other rows read than the one that writes them."""
        special, touched = binding.specialization, set(self.touched(binding))
        if special.slots is not None and special.slots.axes[0] in touched:
            raise SignatureError(
                f"slots= of {self.source.name}.step: expected rows along `{special.slots.axes[0]}`, and the step "
                "reduces, renames or takes from that axis"
            )
        starts = [init for init in special.inits if init is not None]
        rows = {axis for given in (*starts, *special.inputs) for axis in given.axes} - touched - {binding.time}
        return binding.copying([i for i, start in enumerate(starts) if rows - set(start.axes)])


class StepPlan:
    """A step's launch. Called with the operands and their values, it gives the outputs; None where there are none."""

    def __init__(self, binding: StepBinding, traced: Traced, kernel: Kernel, outputs: int, arrange: Any):
        self.artifact = kernel.artifact
        self.arrange = arrange
        self.device = binding.device
        self.index = binding.device.index if binding.device.type == "cuda" else None
        special = binding.specialization
        self.states = len(special.inits)
        self.parts = len(binding.pool_parts)
        self.outputs: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]] = []
        for axes, dtype in traced.results[:outputs]:
            strides = dict(zip(axes, binding.result_strides(axes), strict=True))
            kept = [axis for axis in axes if axis != binding.time]
            self.outputs.append((countable(binding.shape(kept), dtype), tuple(strides[axis] for axis in kept), dtype))
        self.any_complex = any(dtype.is_complex for _, _, dtype in self.outputs)
        of_results = [strides for strides, _ in binding.results_parts(traced.results)]
        self.launch = kernel.executable.prepare(binding.sizes, [*binding.operand_strides, *of_results])
        self.copies: list[tuple[int, int, int | None]] = []
        place = 0
        for i, start in enumerate(special.inits):
            assert start is not None
            if i in special.copied:
                self.copies.append((i, place, start.axes.index(special.slots.axes[0]) if special.slots else None))
            place += len(start.parts)

    def __call__(self, operands: list[Any], values: list[Any]) -> Any:
        device = self.device
        outputs = [
            torch.empty_strided(shape, strides, dtype=dtype, device=device) for shape, strides, dtype in self.outputs
        ]
        pools = values[: self.parts]
        copies: list[torch.Tensor] = []  # alive until the kernel is enqueued
        for i, place, dim in self.copies:
            copies.append(copy := self._copy(operands, i, dim))
            starts = addresses([copy], copy.is_complex())
            values[place : place + len(starts)] = starts
        values += addresses(outputs, self.any_complex)
        values += pools
        if self.index is None:
            self.launch(values)
        else:
            self.launch(values, torch._C._cuda_getCurrentRawStream(self.index))  # pyright: ignore
        torch.autograd.graph.increment_version(operands[: self.states])
        return None if self.arrange is None else self.arrange(outputs)

    def _copy(self, operands: list[Any], i: int, dim: int | None) -> torch.Tensor:
        """A state's start by row, read before the kernel writes it."""
        state = operands[i]
        if dim is None:
            return state.clone(memory_format=torch.contiguous_format)
        slots = operands[self.states]
        if not state.shape[dim]:  # no row has a slot
            return state.new_empty([*state.shape[:dim], len(slots), *state.shape[dim + 1 :]])
        return state.index_select(dim, slots.clamp_min(0))
