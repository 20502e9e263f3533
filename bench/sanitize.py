"""One small launch of every kernel family, to be run under compute-sanitizer:

    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 python bench/sanitize.py
    compute-sanitizer --tool racecheck --error-exitcode 9 python bench/sanitize.py

Without PyTorch's cache each tensor is an allocation of its own, so that an access past its end is one past an
allocation's. Prints the family and the error of each against the same step in PyTorch, in float64 and time order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import scanweaver as sw


@sw.recurrence("h[b d]; a[b d t], x[b d t]")
def affine(h: Any, a: Any, x: Any) -> Any:
    return a * h + x


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d], z[b d t] -> y[b d t]")
def selective(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
    dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    return h, (sw.sum(C * h, "n") + D * u) * sw.silu(z)


@sw.recurrence("y1[r], y2[r], x1[r], x2[r]; x[r t], ok[r t] -> y[r t]")
def biquad_with_reset(y1: Any, y2: Any, x1: Any, x2: Any, x: Any, ok: Any) -> Any:
    y = 0.2 * x + 0.3 * x1 + 0.1 * x2 + 0.5 * y1 - 0.2 * y2
    y = sw.where(ok, y, x)
    return (y, y1, x, x1), y


@sw.recurrence("h[r d]; x[r d t], W[d e] -> h[r d t]")
def rnn(h: Any, x: Any, W: Any) -> Any:
    h = sw.tanh(sw.sum(W * sw.rename(h, d="e"), "e") + x)
    return h, h


def affine_step(h: list[torch.Tensor], a: torch.Tensor, x: torch.Tensor) -> Any:
    return [a * h[0] + x], a * h[0] + x


def selective_step(h: list[torch.Tensor], u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any, z: Any) -> Any:
    dt = torch.nn.functional.softplus(dt)
    new = torch.exp(dt[..., None] * A) * h[0] + (dt * u)[..., None] * B[:, None]
    return [new], ((C[:, None] * new).sum(-1) + D * u) * torch.nn.functional.silu(z)


def biquad_step(h: list[torch.Tensor], x: torch.Tensor, ok: torch.Tensor) -> Any:
    y1, y2, x1, x2 = h
    y = torch.where(ok > 0, 0.2 * x + 0.3 * x1 + 0.1 * x2 + 0.5 * y1 - 0.2 * y2, x)
    return [y, y1, x, x1], y


def rnn_step(h: list[torch.Tensor], x: torch.Tensor, W: torch.Tensor) -> Any:
    new = torch.tanh(h[0] @ W.T + x)
    return [new], new


REFERENCES = {affine: affine_step, selective: selective_step, biquad_with_reset: biquad_step, rnn: rnn_step}


def in_time_order(program: Any, tensors: list[torch.Tensor], reverse: bool) -> list[torch.Tensor]:
    """The output and the last states of a program by its reference step."""
    axes = {array.name: array.axes for array in program.signature.inputs}
    values = [(tensor.double(), "t" in axes[name]) for tensor, name in zip(tensors, axes, strict=True)]
    sizes: dict[str, int] = {}
    for tensor, name in zip(tensors, axes, strict=True):
        sizes |= dict(zip(axes[name], tensor.shape, strict=True))
    states = [
        torch.zeros([sizes[axis] for axis in state.axes], dtype=torch.float64) for state in program.signature.states
    ]
    outputs: dict[int, torch.Tensor] = {}
    order = range(sizes["t"])
    for t in reversed(order) if reverse else order:
        now = [value[..., t] if timed else value for value, timed in values]
        states, outputs[t] = REFERENCES[program](states, *now)
    return [torch.stack([outputs[t] for t in order], -1), *states]


def programs() -> Iterator[tuple[str, Any, list[torch.Tensor], dict[str, Any]]]:
    def time_last(*shape: int) -> torch.Tensor:
        return torch.randn(shape)

    def time_first(*shape: int) -> torch.Tensor:
        return torch.randn(shape).transpose(-1, -2).contiguous().transpose(-1, -2)

    for layout, over_time in (("steps", time_last), ("channels", time_first)):
        for strategy in ("lanes", "blelloch", "serial"):
            for reverse in (False, True):
                options = {"strategy": strategy, "reverse": reverse, "return_last": True}
                name = f"{layout} {strategy}{' reverse' if reverse else ''}"
                for t in (65, 300, 1024):
                    a = torch.sigmoid(over_time(2, 3, t))
                    yield f"affine {name} {t}", affine, [a, over_time(2, 3, t)], options
                for t in (65, 272):
                    A, D = -torch.rand(5, 3), torch.randn(5)
                    u, dt, B, C, z = (over_time(2, s, t) for s in (5, 5, 3, 3, 5))
                    yield f"selective {name} {t}", selective, [u, dt, A, B, C, D, z], options
                x = over_time(37, 131)
                yield f"biquad {name}", biquad_with_reset, [x, over_time(37, 131) > -1.0], options
    yield "rnn", rnn, [time_last(3, 4, 33), torch.randn(4, 4) / 4], {"return_last": True}


def main() -> None:
    torch.manual_seed(0)
    worst = 0.0
    for name, program, tensors, options in programs():
        expected = in_time_order(program, tensors, options.get("reverse", False))
        got, last = program(*(tensor.cuda() for tensor in tensors), **options)
        results = [got, *(last if isinstance(last, tuple) else (last,))]
        error = max(float((g.cpu() - e).norm() / e.norm()) for g, e in zip(results, expected, strict=True))
        worst = max(worst, error)
        print(f"{name:40s} {error:.1e}", flush=True)
        assert error < 2e-6, name
    print(f"worst {worst:.1e}")


if __name__ == "__main__":
    main()
