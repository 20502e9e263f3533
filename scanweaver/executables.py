"""From an artifact to what runs it on a device."""

from __future__ import annotations

from typing import Any

from scanweaver.gpu_exec.artifact import Artifact


def load(artifact: Artifact, device: Any) -> Any:
    """The executable of an artifact on a `torch.device`; see `docs/architecture.md` for its one method."""
    if artifact.target == "cpu":
        from scanweaver.cpu_exec.launch import CpuExecutable

        return CpuExecutable(artifact)
    from scanweaver.gpu_exec.launch import GpuExecutable

    return GpuExecutable(artifact, device.index)
