"""The targets of `scanweaver-opt` below MLIR: nvvm, ptx and cubin, each for a chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.target import Target

from scanweaver.errors import ScanWeaverError


def _pipeline(chip: str) -> str:
    """The passes from a recurrence to what these targets take."""
    from scanweaver.transforms.pipelines import Options, passes
    from scanweaver.transforms.schedule_scan import ScheduleScanPass

    names = [each.name for _, sequence in passes(chip, Options()) for each in sequence]
    of_chip = {ScheduleScanPass.name: f"{ScheduleScanPass.name}{{target={chip}}}"}
    return ",".join(of_chip.get(name, name) for name in names)


@dataclass(frozen=True)
class ChipTarget(Target):
    """Emits what mlir-opt makes of the module's text for `chip`."""

    chip: str = "sm_90"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if not any(op.name == "gpu.module" for op in module.walk()):
            raise ScanWeaverError(
                f"-t {self.name}: the module holds no gpu.module: run -p '{_pipeline(self.chip)}' before it"
            )
        text = StringIO()
        MLIRTarget().emit(ctx, module, text)
        output.write(self.lower(text.getvalue()))

    def lower(self, text: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class NvvmTarget(ChipTarget):
    """The module in the nvvm and llvm dialects."""

    name: ClassVar[str] = "nvvm"

    def lower(self, text: str) -> str:
        from scanweaver.gpu_exec.lower import to_nvvm

        return to_nvvm(text, self.chip)


@dataclass(frozen=True)
class PtxTarget(ChipTarget):
    """The kernels' PTX."""

    name: ClassVar[str] = "ptx"

    def lower(self, text: str) -> str:
        from scanweaver.gpu_exec.lower import to_ptx

        return to_ptx(text, self.chip)


@dataclass(frozen=True)
class CubinTarget(ChipTarget):
    """The kernels' machine code; targets write text, so each byte becomes the Latin-1 character it names."""

    name: ClassVar[str] = "cubin"

    def lower(self, text: str) -> str:
        from scanweaver.gpu_exec.lower import to_cubin

        return to_cubin(text, self.chip).decode("latin-1")


CHIP_TARGETS: dict[str, Callable[[], type[Target]]] = {
    "nvvm": lambda: NvvmTarget,
    "ptx": lambda: PtxTarget,
    "cubin": lambda: CubinTarget,
}
