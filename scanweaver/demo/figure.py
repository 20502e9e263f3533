"""The demo's picture: the series with what was computed of it, and time and error of every job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scanweaver.demo.inputs import Prices
from scanweaver.demo.jobs import JOBS, SPANS
from scanweaver.demo.measure import Result
from scanweaver.demo.report import duration

_INK, _GREY = "#22272e", "#b8bec7"
_MEANS = ("#e07b39", "#2563a8")
_VOLATILITY = "#a3333d"
_DEVICES = ("#2563a8", "#3f8f4f", "#8155a8")
_TRADING_DAYS = 252
_SMALLEST = 1e-17
"""Errors below float64's own are drawn here: a logarithm has no zero."""


def draw(path: Path, prices: Prices, results: Sequence[Result]) -> None:
    """Writes the PNG. `results`: the jobs of each device in the same order."""
    from matplotlib import rc_context  # pyright: ignore[reportUnknownVariableType]
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _GREY,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": 10.5,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "legend.frameon": False,
    }
    rows = sorted(results, key=lambda result: JOBS.index(result.job.name))  # the devices of a job side by side
    with rc_context(style):
        height = 1.0 + 0.62 * len(rows)
        figure: Any = Figure(figsize=(10, 5.2 + height), layout="constrained")
        FigureCanvasAgg(figure)
        top, bottom = figure.subfigures(2, height_ratios=(5.2, height))
        means, volatility = top.subplots(2, sharex=True, height_ratios=(5, 4))
        times, errors = bottom.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        by_job = {result.job.name: result for result in rows}
        _draw_means(means, prices, by_job["weighted_mean"])
        _draw_volatility(volatility, prices, by_job["garch"])
        _draw_times(times, rows)
        _draw_errors(errors, rows)
        figure.savefig(path, dpi=110, metadata={"Software": "scanweaver demo"})


def _draw_means(axes: Any, prices: Prices, result: Result) -> None:
    axes.plot(prices.dates, prices.close, color=_GREY, linewidth=0.8, label="daily close")
    for mean, span, color in zip(result.output, SPANS, _MEANS, strict=True):
        axes.plot(prices.dates, mean, color=color, linewidth=1.2, label=f"weighted mean, span {span} days")
    axes.set_title("S&P 500 and its exponentially weighted means, 1999 to 2018")
    axes.set_ylabel("index points")
    axes.legend(loc="upper left")
    axes.margins(x=0.01)


def _draw_volatility(axes: Any, prices: Prices, result: Result) -> None:
    yearly = (result.output * _TRADING_DAYS).sqrt()
    axes.fill_between(prices.dates[1:], yearly, color=_VOLATILITY, alpha=0.18, linewidth=0)
    axes.plot(prices.dates[1:], yearly, color=_VOLATILITY, linewidth=0.9)
    axes.set_title("Its volatility, by a GARCH(1, 1) variance")
    axes.set_ylabel("percent a year")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)


def _draw_times(axes: Any, results: Sequence[Result]) -> None:
    """For each job and device a bar for the loop and one for the kernel, on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter

    colors = _device_colors(results)
    lowest = min(result.milliseconds for result in results) / 3
    for row, result in enumerate(results):
        axes.barh(row - 0.19, result.loop_milliseconds - lowest, 0.36, left=lowest, color=_GREY)
        axes.barh(row + 0.19, result.milliseconds - lowest, 0.36, left=lowest, color=colors[result.device])
        axes.text(result.loop_milliseconds, row - 0.19, f" {duration(result.loop_milliseconds)}", va="center")
        text = f" {duration(result.milliseconds)}, {_rounded(result.speedup)} times faster"
        axes.text(result.milliseconds, row + 0.19, text, va="center", weight="bold")
    axes.set_xscale("log")
    axes.set_xlim(lowest, max(result.loop_milliseconds for result in results) * 25)
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.minorticks_off()
    axes.set_title("Time: a PyTorch loop (grey) and ScanWeaver")
    axes.set_yticks(range(len(results)), [f"{_LABELS[result.job.name]}\n{result.device}" for result in results])
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _tick(milliseconds: float, _: int | None = None) -> str:
    return duration(milliseconds)


def _rounded(number: float) -> str:
    """Two digits that count."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _draw_errors(axes: Any, results: Sequence[Result]) -> None:
    """Each result's error, and the mark that it must stay left of."""
    colors = _device_colors(results)
    for row, result in enumerate(results):
        error = max(result.error, _SMALLEST)
        axes.plot([error, result.allowed], [row, row], color=_GREY, linewidth=1, zorder=1)
        axes.plot([error], [row], "o", color=colors[result.device], markersize=7)
        axes.plot([result.allowed] * 2, [row - 0.28, row + 0.28], color=_INK, linewidth=1.8)
        axes.text(error, row - 0.16, f"{result.error:.0e}", ha="center", va="bottom", fontsize=8.5)
    axes.set_xscale("log")
    axes.set_xlim(_SMALLEST / 3, max(result.allowed for result in results) * 10)
    axes.set_title("Error (dot) and the most allowed (bar)")
    axes.set_xlabel("relative, in norm, to the same loop in float64")
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.minorticks_off()


_LABELS = {
    "selective_scan": "Mamba scan, float32",
    "weighted_mean": "Weighted means, float64",
    "garch": "GARCH, float64",
}


def _device_colors(results: Sequence[Result]) -> dict[str, str]:
    names = dict.fromkeys(result.device for result in results)
    return dict(zip(names, _DEVICES, strict=False))
