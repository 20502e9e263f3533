"""How a bound call runs: results allocated, the kernel launched, results arranged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from scanweaver.config import config
from scanweaver.errors import SignatureError, UnsupportedError
from scanweaver.frontend.binding import Binding
from scanweaver.frontend.signature import Signature
from scanweaver.frontend.unreadable import is_transformed
from scanweaver.gpu_exec.artifact import Artifact

Results = Sequence[tuple[tuple[str, ...], torch.dtype]]
"""The dimensions and dtype of every result: outputs, then last states."""


@dataclass(frozen=True)
class Kernel:
    """What was compiled, and what runs it on one device."""

    artifact: Artifact
    executable: Any


class Plan:
    """A call's launch: all that its binding decides is worked out here, once.

    `strides`: one dictionary for each of the kernel's operands that a call gives.
    """

    def __init__(
        self,
        binding: Binding,
        strides: Sequence[Mapping[str, int]],
        results: Results,
        kernel: Kernel,
        arrange: Callable[[list[Any]], Any],
    ):
        self.artifact = kernel.artifact
        self.arrange = arrange
        self.device = binding.device
        self.results = [
            (countable(binding.shape(axes), dtype), binding.result_strides(axes), dtype) for axes, dtype in results
        ]
        of_results = [of_part for of_part, _ in binding.results_parts(results)]
        self.launch = kernel.executable.prepare(binding.sizes, [*strides, *of_results])
        self.any_complex = any(dtype.is_complex for _, dtype in results)
        self.index = binding.device.index if binding.device.type == "cuda" else None

    def __call__(self, values: list[int | float]) -> Any:
        device = self.device
        results = [
            torch.empty_strided(shape, strides, dtype=dtype, device=device) for shape, strides, dtype in self.results
        ]
        values += addresses(results, self.any_complex)
        if self.index is None:
            self.launch(values)
        else:
            stream = torch._C._cuda_getCurrentRawStream(self.index)  # pyright: ignore[reportPrivateUsage]
            self.launch(values, stream)
        return self.arrange(results)


def countable(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[int, ...]:
    """A result's shape; raises SignatureError where its strides in bytes are no 64-bit integers."""
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize >= 1 << 63:
        raise SignatureError(f"a result of shape {shape} has more bytes than 64 bits count: give smaller inputs")
    return shape


def addresses(results: Sequence[torch.Tensor], any_complex: bool) -> list[int]:
    """Where the elements of results are, or the real and the imaginary parts of them."""
    try:
        found = [result.data_ptr() for result in results]
    except RuntimeError:
        if not any(map(is_transformed, results)):
            raise
        raise UnsupportedError(
            "a recurrence is called inside a transform of torch.func, which is not supported yet"
        ) from None
    if not any_complex:
        return found
    parts = zip(found, results, strict=True)
    return [address for start, result in parts for address in _parts(start, result)]


def _parts(start: int, result: torch.Tensor) -> tuple[int, ...]:
    return (start, start + result.element_size() // 2) if result.is_complex() else (start,)


def arrangement(signature: Signature, return_last: bool, last_computed: bool) -> Callable[[list[Any]], Any]:
    """What a call returns of its results; `last_computed`: last states follow the outputs."""
    outputs = 0 if signature.mode == "last" else len(signature.outputs)

    def one_or_all(results: list[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    if outputs and return_last:
        return lambda results: (one_or_all(results[:outputs]), one_or_all(results[outputs:]))
    if outputs and last_computed:
        return lambda results: one_or_all(results[:outputs])
    return one_or_all


def target_of(device: torch.device) -> str:
    """What to compile for: the host, or the device's chip, or in place of that `config.target`.

    Raises SignatureError for another device, and where `config.target` is no GPU's and the tensors are on one.
    """
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise SignatureError(f"expected tensors on the CPU or a CUDA device, got device {device}")
    if config.target is None:
        return _chip(device.index)
    if not config.target.startswith("sm_"):
        raise SignatureError(
            f"config.target (SCANWEAVER_TARGET) is {config.target!r}, and the tensors are on {device}: expected a "
            "GPU's chip, such as 'sm_90', or None for the device's own"
        )
    return config.target


@cache
def _chip(index: int) -> str:
    major, minor = torch.cuda.get_device_capability(index)
    return f"sm_{major}{minor}"
