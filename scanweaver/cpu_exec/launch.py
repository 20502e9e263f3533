"""Launching an artifact's kernels on the host: the tasks of a call are shared out over threads.

ctypes releases the GIL for the whole of a kernel, so Python's threads run in parallel.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from scanweaver.cpu_exec.lower import packed
from scanweaver.errors import ScanWeaverError
from scanweaver.gpu_exec import toolchain
from scanweaver.gpu_exec.abi import Packing
from scanweaver.gpu_exec.artifact import Artifact

# Waking threads and waiting for them costs some 40 µs: a call with fewer elements is done before they help.
INLINE_ELEMENTS = 1 << 17
# Chunks a thread: enough that one slowed by another program does not hold up the rest.
CHUNKS = 4


class CpuExecutable:
    """An artifact, loaded into this process. Raises ScanWeaverError where it was not compiled for the host."""

    def __init__(self, artifact: Artifact):
        if "so" not in artifact.binaries:
            raise ScanWeaverError(f"{artifact.name} was compiled for {artifact.target!r}, not for the host")
        self.artifact = artifact
        self._library = _load(artifact.binaries["so"])
        self.functions = [self._function(kernel.name) for kernel in artifact.recipe.kernels]

    def prepare(self, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]) -> CpuLaunch:
        """A launch for these axis sizes and, for each operand, strides in elements by axis."""
        return CpuLaunch(self, sizes, strides)

    def _function(self, name: str) -> Callable[..., None]:
        try:
            function = self._library[packed(name)]
        except AttributeError:
            raise ScanWeaverError(f"{self.artifact.name}: its library has no kernel {name!r}") from None
        function.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        function.restype = None
        return function


class CpuLaunch:
    """`launch(values)` runs the kernels to their end; `values` holds an address or a number for each operand.

    The caller sees to it that the addresses stay alive. May be called from several threads. The order in which
    tasks run decides nothing: each writes what is its own.
    """

    def __init__(self, executable: CpuExecutable, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]):
        recipe = executable.artifact.recipe
        self._executable = executable  # keeps the library loaded
        self._packing = Packing(recipe, sizes, strides)
        self._buffer_type = ctypes.c_char * len(self._packing.template)
        self._small = prod(sizes.values()) < INLINE_ELEMENTS
        slots = [[self._packing.slot(p) for p in kernel.params[2:]] for kernel in recipe.kernels]
        self._orders = [(ctypes.c_int64 * max(1, len(own)))(*own) for own in slots]
        self._kernels = [
            (function, kernel.grid(sizes), ctypes.addressof(order))
            for kernel, function, order in zip(recipe.kernels, executable.functions, self._orders, strict=True)
        ]

    def __call__(self, values: Sequence[int | float], stream: int = 0) -> None:
        """Raises SignatureError for a wrong number. `stream` is there for the protocol's sake."""
        buffer = self._buffer_type.from_buffer_copy(self._packing.template)  # this call's own
        self._packing.write(buffer, values)
        slots = ctypes.addressof(buffer)
        for function, tasks, order in self._kernels:
            if self._small or tasks <= 1:
                if tasks:
                    function(0, tasks, slots, order)
            else:
                _share_out(function, tasks, slots, order)


def _share_out(function: Callable[..., None], tasks: int, slots: int, order: int) -> None:
    """Runs tasks [0, tasks) in chunks, on the pool's threads and on this one; returns when all are done."""
    threads = thread_count()
    size = max(1, -(-tasks // (threads * CHUNKS)))
    chunks = itertools.count(0, size)  # `next` is one step under the GIL: no chunk is dealt twice

    def work() -> None:
        while (begin := next(chunks)) < tasks:
            function(begin, min(begin + size, tasks), slots, order)

    helpers = [_Help(work) for _ in range(min(threads, -(-tasks // size)) - 1)]
    try:
        _workers.ask(helpers)
        work()
    finally:
        for helper in helpers:  # also when interrupted: they write to the caller's memory
            helper.end()
    for helper in helpers:
        if helper.error is not None:
            raise helper.error


class _Help:
    """Work that another thread may join. Whoever takes the lock first decides whether it does."""

    def __init__(self, work: Callable[[], None]):
        self.error: BaseException | None = None
        self._work = work
        self._lock = threading.Lock()

    def run(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # too late
        try:
            self._work()
        except BaseException as error:
            self.error = error
        finally:
            self._lock.release()

    def end(self) -> None:
        """From here on the work is not touched: waits where it has begun."""
        self._lock.acquire()


class _Workers:
    """Threads that wait for work, as many as a call has asked for. A queue wakes one sooner than a future does."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[_Help] = SimpleQueue()
        self._count = 0
        self._growing = threading.Lock()

    def ask(self, helpers: Sequence[_Help]) -> None:
        if self._count < len(helpers):
            self._grow(len(helpers))
        for helper in helpers:
            self._asked.put(helper)

    def _grow(self, count: int) -> None:
        with self._growing:
            while self._count < count:
                threading.Thread(target=self._serve, name=f"scanweaver_{self._count}", daemon=True).start()
                self._count += 1

    def _serve(self) -> None:
        while True:
            self._asked.get().run()


_workers = _Workers()


def thread_count() -> int:
    """PyTorch's number of threads; without PyTorch, the CPUs that this process may use."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forget_threads() -> None:
    """A forked child has the workers' memory but not their threads: it makes its own."""
    global _workers
    _workers = _Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _load(library: bytes) -> Any:
    """Loads a library from memory; its file is gone once it is mapped."""
    with tempfile.TemporaryDirectory(prefix=toolchain.prefix(toolchain.LIBRARY)) as folder:
        file = Path(folder, "kernels.so")
        file.write_bytes(library)
        return ctypes.CDLL(str(file))
