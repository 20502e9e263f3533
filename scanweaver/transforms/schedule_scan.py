"""Gives every scan a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from scanweaver.dialects import scan
from scanweaver.schedule.choose import choose


@dataclass(frozen=True)
class ScheduleScanPass(ModulePass):
    """
    rewrite: scan.generic …  ->  scan.generic … schedule #scan.schedule<…>

    `target`: a chip (`sm_90`) or `cpu`. `strategy`: `auto`, `lanes` (lanes or warps across time), `blelloch`
    (the same, their folds scanned by two sweeps in workgroup memory), `serial`. `sizes`: hints such as
    `"b=8,d=2048,t=4096"`; the kernel takes any size.
    """

    name = "schedule-scan"
    target: str = "sm_90"
    strategy: str = "auto"
    sizes: str = ""

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        sizes = self._sizes()
        for generic in op.walk():
            if isinstance(generic, scan.GenericOp):
                generic.schedule = choose(generic, self.target, self.strategy, sizes)

    def _sizes(self) -> dict[str, int]:
        try:
            pairs = (item.split("=") for item in self.sizes.split(",") if item)
            return {axis.strip(): int(size) for axis, size in pairs}
        except ValueError:
            raise PassFailedException(f'sizes is written as "b=8,t=4096", got "{self.sizes}"') from None
