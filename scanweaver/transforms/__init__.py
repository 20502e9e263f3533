"""The passes of ScanWeaver by name, each imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """All our passes. A pass, its module and its test share one name; none has a name that xDSL uses."""

    def get_convert_recurrence_to_scan():
        from scanweaver.transforms.convert_recurrence_to_scan import ConvertRecurrenceToScanPass

        return ConvertRecurrenceToScanPass

    def get_lower_block_scan():
        from scanweaver.transforms.lower_block_scan import LowerBlockScanPass

        return LowerBlockScanPass

    def get_lower_math_for_cpu():
        from scanweaver.transforms.lower_math_for_cpu import LowerMathForCpuPass

        return LowerMathForCpuPass

    def get_lower_math_for_gpu():
        from scanweaver.transforms.lower_math_for_gpu import LowerMathForGpuPass

        return LowerMathForGpuPass

    def get_lower_scan_to_cpu():
        from scanweaver.transforms.lower_scan_to_cpu import LowerScanToCpuPass

        return LowerScanToCpuPass

    def get_lower_scan_to_gpu():
        from scanweaver.transforms.lower_scan_to_gpu import LowerScanToGpuPass

        return LowerScanToGpuPass

    def get_regroup_products():
        from scanweaver.transforms.regroup_products import RegroupProductsPass

        return RegroupProductsPass

    def get_fuse_multiply_add():
        from scanweaver.transforms.fuse_multiply_add import FuseMultiplyAddPass

        return FuseMultiplyAddPass

    def get_lower_sweeps() -> type[ModulePass]:
        from scanweaver.transforms.lower_sweeps import LowerSweepsPass

        return LowerSweepsPass

    def get_schedule_scan():
        from scanweaver.transforms.schedule_scan import ScheduleScanPass

        return ScheduleScanPass

    return {
        "convert-recurrence-to-scan": get_convert_recurrence_to_scan,
        "fuse-multiply-add": get_fuse_multiply_add,
        "lower-block-scan": get_lower_block_scan,
        "lower-math-for-cpu": get_lower_math_for_cpu,
        "lower-math-for-gpu": get_lower_math_for_gpu,
        "lower-scan-to-cpu": get_lower_scan_to_cpu,
        "lower-scan-to-gpu": get_lower_scan_to_gpu,
        "regroup-products": get_regroup_products,
        "lower-sweeps": get_lower_sweeps,
        "schedule-scan": get_schedule_scan,
    }
