"""The CUDA driver, through cuda-bindings, in each device's primary context: the one that PyTorch uses.

Every call's return code is checked where it is made. cuda-bindings is imported on the first use.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from scanweaver.errors import DriverError

_LOG_BYTES = 16384

_devices: dict[int, Device] = {}
_devices_lock = threading.Lock()


def check(result: tuple[Any, ...], call: str) -> Any:
    """The value that a cuda-bindings call returned (None, one, or a tuple of several).

    Raises DriverError with the call, the code's name and the driver's description.
    """
    code = result[0]
    if code != 0:
        raise DriverError(f"{call}: {_describe(code)}")
    return result[1] if len(result) == 2 else result[1:] or None


def device(index: int) -> Device:
    """The device of this index, as PyTorch counts; raises DriverError where there is no driver or no such GPU."""
    with _devices_lock:
        if index not in _devices:
            _devices[index] = Device(index)
        return _devices[index]


def device_count() -> int:
    """How many GPUs the driver sees; raises DriverError where there is no driver."""
    return check(_api().cuDeviceGetCount(), "cuDeviceGetCount()")


class Device:
    """One GPU and its primary context, which is retained for the life of the process."""

    def __init__(self, index: int):
        self.index = index
        self.api = _api()
        self.handle = check(self.api.cuDeviceGet(index), f"cuDeviceGet({index})")
        name = check(self.api.cuDeviceGetName(128, self.handle), f"cuDeviceGetName({index})")
        self.name = name.split(b"\0", 1)[0].decode()
        attribute = self.api.CUdevice_attribute
        self.capability = (
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )
        self.shared_limit = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self.grid_limit = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)
        self.context = check(self.api.cuDevicePrimaryCtxRetain(self.handle), f"cuDevicePrimaryCtxRetain({index})")
        self.context_address = int(self.context)

    def __str__(self) -> str:
        return f"cuda:{self.index} ({self.name})"

    @contextmanager
    def current(self) -> Generator[None]:
        """Makes the device current in this thread; whichever was current is so again afterwards."""
        check(self.api.cuCtxPushCurrent(self.context), f"cuCtxPushCurrent({self})")
        try:
            yield
        finally:
            check(self.api.cuCtxPopCurrent(), f"cuCtxPopCurrent() after {self}")

    def load(self, image: bytes) -> Any:
        """A module from a cubin or from PTX text, which the driver compiles; raises DriverError with its log.

        Modules are never unloaded: a captured graph may launch a kernel long after Python forgot it.
        """
        option = self.api.CUjit_option
        log = bytearray(_LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        with self.current():
            result = self.api.cuModuleLoadDataEx(image + b"\0", len(options), options, [log, _LOG_BYTES])
        call = f"cuModuleLoadDataEx({len(image)} bytes) on {self}"
        told = log.split(b"\0", 1)[0].decode(errors="replace").strip()
        return check(result, f"{call}\n{told}\n" if told else call)

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        """A kernel of the module, allowed to take `shared_bytes` of dynamic shared memory a block.

        Raises DriverError where there is no such kernel, or its shared memory passes the device's limit.
        """
        with self.current():
            function = check(self.api.cuModuleGetFunction(module, name.encode()), f"cuModuleGetFunction({name})")
            attribute = self.api.CUfunction_attribute
            static = check(
                self.api.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
                f"cuFuncGetAttribute({name}, shared size)",
            )
            if static + shared_bytes > self.shared_limit:
                raise DriverError(
                    f"{name}: a block needs {static + shared_bytes} bytes of shared memory ({static} static, "
                    f"{shared_bytes} dynamic); {self} has {self.shared_limit}"
                )
            if shared_bytes:
                # Above 48 KiB in all, a kernel has to ask; asking for less is harmless.
                check(
                    self.api.cuFuncSetAttribute(
                        function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
                    ),
                    f"cuFuncSetAttribute({name}, dynamic shared size, {shared_bytes}) on {self}",
                )
            return function

    def _attribute(self, attribute: Any) -> int:
        return check(self.api.cuDeviceGetAttribute(attribute, self.handle), f"cuDeviceGetAttribute({attribute})")


@cache
def _api() -> Any:
    """The module `cuda.bindings.driver`, with the driver initialised."""
    try:
        api: Any = import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DriverError(
            'running on a GPU needs the package cuda-bindings, 12.9 or later: pip install "scanweaver[cuda]"'
        ) from error
    try:
        result = api.cuInit(0)
    except Exception as error:  # of cuda-bindings' own kinds, where libcuda is not there
        raise DriverError(f"the CUDA driver was not found: {error}") from error
    check(result, "cuInit(0)")
    return api


def _describe(code: Any) -> str:
    api: Any = import_module("cuda.bindings.driver")
    error, text = api.cuGetErrorString(code)
    name = f"{getattr(code, 'name', 'code')} ({int(code)})"
    return f"{name}: {text.decode()}" if error == 0 and text else name
