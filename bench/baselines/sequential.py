"""The sequential baselines: a PyTorch loop over time, and one CUDA thread a row (built by nvcc where it is found)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("sequential.cu")


def pytorch_loop(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    state = torch.zeros_like(a[:, 0])
    out = torch.empty_like(a)
    for t in range(a.shape[1]):
        state = a[:, t] * state + b[:, t]
        out[:, t] = state
    return out


def build_cuda() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """The CUDA kernel as a function of tensors; None where there is no nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    library = Path(tempfile.mkdtemp()) / "sequential.so"
    major, minor = torch.cuda.get_device_capability()
    flags = ["-O3", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC"]
    subprocess.run([nvcc, *flags, str(SOURCE), "-o", str(library)], check=True, capture_output=True)
    launch = ctypes.CDLL(str(library)).launch
    launch.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2 + [ctypes.c_void_p]

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a)
        stream = torch.cuda.current_stream().cuda_stream
        code = launch(a.data_ptr(), b.data_ptr(), out.data_ptr(), *a.shape, stream)
        assert code == 0, f"CUDA error {code}"
        return out

    return run
