"""`@sw.recurrence`: a step function becomes a recurrence over tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scanweaver.errors import UnsupportedError
from scanweaver.frontend.arguments import Options
from scanweaver.frontend.parameters import read_parameters
from scanweaver.frontend.signature import parse_signature
from scanweaver.frontend.source import PythonStep

if TYPE_CHECKING:
    from scanweaver.gpu_exec.artifact import Artifact


class Recurrence:
    """A recurrence, called on tensors. `y = f(u, a, init=…, return_last=…, reverse=…, strategy=…)` computes

        h = init
        for t in range(T):                    # T-1 … 0 with reverse=True
            h, y[..., t] = step(h, u[..., t], a)
        return y                              # (y, h) with return_last=True

    in one fused kernel, on the tensors' device. See `docs` for the signature's language.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: str,
        *,
        time: str = "t",
        batch: str = "b",
        parallel: str = "auto",
        strategy: str | None = None,
    ):
        if parallel == "newton":
            raise UnsupportedError('parallel="newton" is not built yet: use "auto", "require" or "never"')
        functools.update_wrapper(self, function)
        self.function = function
        self.signature = parse_signature(signature, time=time, batch=batch)
        self._source = PythonStep(function, self.signature)
        self._parameters = read_parameters(function, self.signature)
        self._options = Options(parallel=parallel, strategy=strategy)

    @functools.cached_property
    def _binder(self) -> Any:
        from scanweaver.frontend.binding import Binder  # imports torch, which a signature does not need

        return Binder(self.function.__name__, self.signature, self._parameters, self._options)

    @functools.cached_property
    def _planner(self) -> Any:
        from scanweaver.frontend.plan import Planner

        return Planner(self._source)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # `operands` keeps converted tensors alive until the kernel is enqueued
        binding, operands, values = self._binder.bind(args, kwargs)
        plan = binding.plan
        if plan is None:
            binding.plan = plan = self._planner.plan(binding)
        results = plan(values)
        del operands
        return results

    def artifact(self, *args: Any, **kwargs: Any) -> Artifact:
        """What a call with these arguments runs: every stage's text, the binary, the recipe. Runs nothing."""
        binding, _, _ = self._binder.bind(args, kwargs)
        if binding.plan is None:
            binding.plan = self._planner.plan(binding)
        return binding.plan.artifact

    def artifact_for(self, target: str, /, *args: Any, **kwargs: Any) -> Artifact:
        """The same for `target`, a chip such as `"sm_90"` or `"cpu"`, whatever device the tensors are on.

        No GPU is needed: `f.artifact_for("sm_90", u, a).stages["ptx"]`. Raises UnsupportedError for an unknown chip.
        """
        binding, _, _ = self._binder.bind(args, kwargs)
        return self._planner.artifact(binding, target)

    def step(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError("fn.step is not built yet: call the recurrence with one step of time")

    def explain(self) -> str:
        raise UnsupportedError("fn.explain is not built yet: fn.artifact(*args).stages holds the text of every stage")

    def ir(self, stage: str) -> str:
        raise UnsupportedError("fn.ir is not built yet: fn.artifact(*args).stages holds the text of every stage")

    def compile(self, **kwargs: Any) -> Any:
        raise UnsupportedError("fn.compile is not built yet: fn.artifact(*args) compiles for given arguments")

    def __repr__(self) -> str:
        return f"<recurrence {self.function.__name__}: {self.signature.text}>"


def recurrence(
    signature: str,
    *,
    time: str = "t",
    batch: str = "b",
    parallel: str = "auto",
    strategy: str | None = None,
) -> Callable[[Callable[..., Any]], Recurrence]:
    """Decorates a step function: `@sw.recurrence("h[b d]; a[b d t], x[b d t]")`.

    The step takes the states, then the inputs, by the signature's names, and returns new states and outputs.
    `time`, `batch`: what these axes are called. `parallel`: `"auto"` (in time where proved associative, else in time
    order), `"require"`, `"never"`. `strategy`: `"auto"`, `"lanes"`, `"serial"`.

    Raises SignatureError with a caret under the place for a wrong signature, or for parameters that do not match it.
    """
    return lambda function: Recurrence(
        function, signature, time=time, batch=batch, parallel=parallel, strategy=strategy
    )
