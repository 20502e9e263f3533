"""Tensors that are not, or not only, elements in memory: told apart, so that refusals name them."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch.autograd import forward_ad

from scanweaver.errors import SignatureError, UnsupportedError

_functorch = torch._C._functorch  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]

UNREADABLE = (RuntimeError, ValueError)
"""What PyTorch raises where a tensor has no address or no shape."""


def is_transformed(item: torch.Tensor) -> bool:
    """Whether a transform of torch.func wraps the tensor."""
    return _functorch.is_functorch_wrapped_tensor(item)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def refuse_unreadable(label: str, item: torch.Tensor) -> NoReturn:
    """Raise what says why the tensor called `label` has no address, or none that holds its elements."""
    if is_transformed(item):
        what = "vmap" if _functorch.is_batchedtensor(item) else "grad, jvp or functionalize"  # pyright: ignore[reportUnknownMemberType]
        raise UnsupportedError(f"{label} is a tensor of torch.func.{what}, which is not supported yet")
    if item.is_nested:
        raise SignatureError(f"{label}: expected a dense tensor, got a nested one: give x.to_padded_tensor(0)")
    if item.layout != torch.strided:
        layout = str(item.layout).removeprefix("torch.")
        raise SignatureError(f"{label}: expected a dense tensor, got layout {layout}: give x.to_dense()")
    raise SignatureError(f"{label}: expected a tensor with memory of its own, got a {type(item).__name__} without")


def check_readable(label: str, item: torch.Tensor) -> None:
    """Raise the same where PyTorch gives no shape or no address."""
    try:
        _ = item.shape, item.data_ptr()
    except UNREADABLE:
        refuse_unreadable(label, item)


def device_without_address(label: str, item: torch.Tensor) -> torch.device:
    """The device of an empty or a meta tensor; any other has its elements elsewhere (fake, functional, freed)."""
    if item.numel() and item.device.type != "meta":
        refuse_unreadable(label, item)
    return item.device


def refuse_dual(label: str, item: torch.Tensor) -> None:
    """Raise where forward-mode autograd, one of whose levels is open, has a tangent for the tensor."""
    if torch._C._is_fwd_grad_enabled() and forward_ad.unpack_dual(item).tangent is not None:  # pyright: ignore
        raise UnsupportedError(
            f"{label} has a tangent, and forward-mode gradients are not built yet: unpack the dual tensor"
        )
