"""`@sw.recurrence`: a step function becomes a recurrence over tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.arguments import Options
from scanweaver.frontend.parameters import Parameters, read_parameters
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.source import PythonStep, Source

if TYPE_CHECKING:
    from scanweaver.artifacts.compiled import CompiledRecurrence
    from scanweaver.explain.words import Explanation
    from scanweaver.frontend.binding import Binder
    from scanweaver.frontend.plan import Planner
    from scanweaver.frontend.step import Stepper
    from scanweaver.gpu_exec.artifact import Artifact


class Recurrence:
    """A recurrence, called on tensors. `y = f(u, a, init=…, return_last=…, reverse=…, strategy=…)` computes

        h = init
        for t in range(T):                    # T-1 … 0 with reverse=True
            h, y[..., t] = step(h, u[..., t], a)
        return y                              # (y, h) with return_last=True

    in one fused kernel, on the tensors' device. See `docs` for the signature's language.
    """

    def __init__(self, source: Source, parameters: Parameters, options: Options):
        self.name = source.name
        self.signature = source.signature
        self.source = source
        self.parameters = parameters
        self.options = options
        self.last_plan: Any = None
        """How the last call ran."""

    @functools.cached_property
    def binder(self) -> Binder:
        from scanweaver.frontend.binding import Binder  # imports torch, which a signature does not need

        return Binder(self.name, self.signature, self.parameters, self.options)

    @functools.cached_property
    def planner(self) -> Planner:
        from scanweaver.frontend.plan import Planner

        return Planner(self.source)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # `operands` keeps converted tensors alive until the kernel is enqueued
        binding, operands, values = self.binder.bind(args, kwargs)
        plan = binding.plan
        if plan is None:
            binding.plan = plan = self.planner.plan(binding)
        self.last_plan = plan
        results = plan(values)
        del operands
        return results

    def artifact(self, *args: Any, **kwargs: Any) -> Artifact:
        """What a call with these arguments runs: every stage's text, the binary, the recipe. Runs nothing."""
        binding, _, _ = self.binder.bind(args, kwargs)
        if binding.plan is None:
            binding.plan = self.planner.plan(binding)
        return binding.plan.artifact

    def artifact_for(self, target: str, /, *args: Any, **kwargs: Any) -> Artifact:
        """The same for `target`, a chip such as `"sm_90"` or `"cpu"`, whatever device the tensors are on.

        No GPU is needed: `f.artifact_for("sm_90", u, a).stages["ptx"]`. Raises UnsupportedError for an unknown chip.
        """
        if not isinstance(target, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureError(f"target of {self.name}: expected a chip such as 'sm_90', or 'cpu', got {target!r}")
        binding, _, _ = self.binder.bind(args, kwargs)
        return self.planner.artifact(binding, target)

    @functools.cached_property
    def step(self) -> Stepper:
        """`y = f.step(u, a, state=h)`: one step on inputs without time, `h` advanced in place; see `Stepper`."""
        from scanweaver.frontend.step import Stepper

        return Stepper(self.source, self.parameters)

    def compile(
        self,
        target: str | None = None,
        *,
        dtypes: Any = None,
        sizes: Mapping[str, int] | None = None,
        leading: int | None = None,
        init: bool | None = None,
        return_last: bool | None = None,
        **decided: Any,
    ) -> CompiledRecurrence:
        """Compiles for all calls of one kind, without making one; no GPU is needed.

            art = f.compile("sm_90", dtypes={"u": torch.bfloat16, "A": torch.float32}, sizes={"n": 16})
            art.save("f.swa")                    # sw.load("f.swa") gives it back, where no tool is installed

        target: a chip such as `sm_90`, or `cpu`; without one, the GPU that is there, else the CPU. dtypes: by input
        (optional ones count as given when named), or one for all that must be given; Python's `float` for a scalar
        input that is given as a number. sizes: of the axes that the step reduces, renames or takes from. leading: how
        many axes `...` stands for. init, return_last: True or False where calls always, or never, have them; else both
        are served. By name as well: constants, `reverse`, `parallel`, `strategy`.

        The artifact takes any T, rows, strides and alignment. Raises SignatureError for what is missing or unknown,
        UnsupportedError for an unknown chip, NotAssociativeError, ToolchainError.
        """
        from scanweaver.artifacts.ahead import compile_ahead

        request = {"dtypes": dtypes, "sizes": sizes or {}, "leading": leading}
        return compile_ahead(self, target, request, init, return_last, decided)

    def explain(self, target: str | None = None, **request: Any) -> str:
        """What was proved, state by state; where each value is computed; the schedule; or why not.

        Of what the last call ran; where there was none, or where `target` or anything that `compile` takes is given, of
        what would run: float32, size 16 and every optional input given unless said otherwise; without a target the GPU
        that is there, else sm_90 and the CPU.
        """
        return self.explanation(target, **request).text

    def explanation(self, target: str | None = None, **request: Any) -> Explanation:
        """`explain()` as text and as remarks, which are JSON values."""
        from scanweaver.artifacts.ahead import explained

        return explained(self, target, request)[0]

    def ir(self, stage: str, target: str | None = None, **request: Any) -> str:
        """The text of a stage, of what `explain` explains: "recurrence", "scan", "scheduled", then "gpu", "nvvm", "ptx"
        for a GPU, "cpu", "llvm", "asm" for the CPU. Raises ScanWeaverError for another one."""
        from scanweaver.artifacts.ahead import ir

        return ir(self, stage, target, request)

    def __reduce__(self) -> str:
        """Copied and pickled as functions are: by name, so that a module that holds one can be."""
        return getattr(self, "__qualname__", self.name)

    def __repr__(self) -> str:
        return f"<recurrence {self.name}: {self.signature.text}>"


def recurrence(
    signature: str,
    *,
    time: str = "t",
    batch: str = "b",
    parallel: str = "auto",
    strategy: str | None = None,
    autotune: bool = False,
    group: Any = None,
) -> Callable[[Callable[..., Any]], Recurrence]:
    """Decorates a step function: `@sw.recurrence("h[b d]; a[b d t], x[b d t]")`.

    The step takes the states, then the inputs, by the signature's names, and returns new states and outputs.
    `time`, `batch`: what these axes are called. `parallel`: `"auto"` (in time where proved associative, else in time
    order), `"require"`, `"never"`. `strategy`: `"auto"`, `"lanes"`, `"blelloch"`, `"serial"`; `"lanes"` and
    `"blelloch"`, which scans the lanes' folds by two sweeps in shared memory, are for GPUs and need a proof.

    Raises SignatureError with a caret under the place for a wrong signature, for parameters that do not match it,
    and for a `parallel` or `strategy` that there is not; UnsupportedError for `autotune` and `group`.
    """
    if autotune or group is not None:
        raise UnsupportedError(f"{'autotune' if autotune else 'group'}= is not built yet: leave it out")
    if isinstance(parallel, str) and parallel == "newton":  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnsupportedError('parallel="newton" is not built yet: use "auto", "require" or "never"')
    if not isinstance(signature, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SignatureError(
            f"sw.recurrence: expected the signature as text, got {type(signature).__name__}: write it, as in "
            '`@sw.recurrence("h[b]; x[b t]")`'
        )
    parsed = parse_signature(signature, time=time, batch=batch)
    options = Options(parallel=parallel, strategy=strategy)

    def decorate(function: Callable[..., Any]) -> Recurrence:
        recurrence = Recurrence(PythonStep(function, parsed), read_parameters(function, parsed), options)
        functools.update_wrapper(recurrence, function)
        return recurrence

    return decorate
