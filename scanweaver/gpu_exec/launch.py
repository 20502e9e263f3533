"""Launching an artifact's kernels on one GPU.

All that sizes and strides decide is worked out in `prepare`; a launch writes the call's addresses and numbers into
one buffer and calls the driver.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Mapping, Sequence

from scanweaver.errors import DriverError, ScanWeaverError
from scanweaver.gpu_exec import driver
from scanweaver.gpu_exec.abi import SLOT_BYTES, Packing
from scanweaver.gpu_exec.artifact import Artifact


class GpuExecutable:
    """An artifact, loaded on one device. One artifact may be loaded on several.

    Raises DriverError where the device cannot run what the artifact was compiled for, or the driver refuses.
    """

    def __init__(self, artifact: Artifact, device_index: int):
        self.artifact = artifact
        self.device = driver.device(device_index)
        module = self.device.load(_image(artifact, self.device))
        kernels = artifact.recipe.kernels
        self.functions = [self.device.function(module, kernel.name, kernel.shared_bytes) for kernel in kernels]

    def prepare(self, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]) -> GpuLaunch:
        """A launch for these axis sizes and, for each operand, strides in elements by axis.

        Raises DriverError where a grid passes the device's limit.
        """
        return GpuLaunch(self, sizes, strides)


class GpuLaunch:
    """`launch(values, stream)` enqueues the kernels; `values` holds an address or a number for each operand.

    The caller sees to it that the addresses stay alive and lie on this device. May be called from several
    threads, whatever device is current, and while a CUDA graph is captured. Empty grids launch nothing.
    """

    def __init__(self, executable: GpuExecutable, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]):
        recipe = executable.artifact.recipe
        self._device = executable.device
        self._packing = Packing(recipe, sizes, strides)
        self._buffer = ctypes.create_string_buffer(self._packing.template, len(self._packing.template))
        self._lock = threading.Lock()  # the buffer is in use until the driver has copied it
        # What each kernel's parameters point to, as the driver wants it: an array of addresses, kept alive here.
        base = ctypes.addressof(self._buffer)
        slots = [[self._packing.slot(param) for param in kernel.params] for kernel in recipe.kernels]
        self._pointers = [
            (ctypes.c_void_p * max(1, len(own)))(*(base + SLOT_BYTES * slot for slot in own)) for own in slots
        ]
        self._kernels = [
            (kernel, function, kernel.grid(sizes), ctypes.addressof(pointers))
            for kernel, function, pointers in zip(recipe.kernels, executable.functions, self._pointers, strict=True)
            if kernel.grid(sizes) > 0
        ]
        for kernel, _, grid, _ in self._kernels:
            if grid > self._device.grid_limit:
                raise DriverError(
                    f"{kernel.name}: sizes {dict(sizes)} need a grid of {grid} blocks; "
                    f"{self._device} takes {self._device.grid_limit}"
                )

    def __call__(self, values: Sequence[int | float], stream: int = 0) -> None:
        """Raises SignatureError for a wrong number and DriverError where the driver refuses a launch."""
        device = self._device
        if int(driver.check(device.api.cuCtxGetCurrent(), "cuCtxGetCurrent()")) == device.context_address:
            self._launch(values, stream)
        else:
            with device.current():
                self._launch(values, stream)

    def _launch(self, values: Sequence[int | float], stream: int) -> None:
        launch = self._device.api.cuLaunchKernel
        with self._lock:
            self._packing.write(self._buffer, values)
            for kernel, function, grid, pointers in self._kernels:
                result = launch(function, grid, 1, 1, kernel.block, 1, 1, kernel.shared_bytes, stream, pointers, 0)
                if result[0] != 0:
                    driver.check(
                        result, f"cuLaunchKernel({kernel.name}, {grid} blocks of {kernel.block}) on {self._device}"
                    )


def _image(artifact: Artifact, device: driver.Device) -> bytes:
    """The cubin where the device runs it, else the PTX where the device is newer."""
    found = re.fullmatch(r"sm_(\d+)(\d)(a?)", artifact.target)
    if found is None:
        raise ScanWeaverError(f"{artifact.name} was compiled for {artifact.target!r}, which is no GPU")
    target, this_chip_only = (int(found[1]), int(found[2])), bool(found[3])
    same_family = device.capability[0] == target[0]
    runs = device.capability == target if this_chip_only else device.capability >= target
    if not runs:
        raise DriverError(f"{artifact.name} was compiled for {artifact.target}; {device} is sm_{_chip(device)}")
    if same_family and "cubin" in artifact.binaries:
        return artifact.binaries["cubin"]
    return artifact.stages["ptx"].encode()


def _chip(device: driver.Device) -> str:
    return "".join(map(str, device.capability))
