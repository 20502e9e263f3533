"""Artifacts: compiled without a call, saved, loaded where no tool is, called like the recurrence; hostile files."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from poison import poisoned
from reference import assert_accurate
from seed import SEED

import scanweaver as sw
from scanweaver.artifacts import swa
from scanweaver.artifacts.compiled import CompiledRecurrence
from scanweaver.config import config
from scanweaver.cpu_exec import host
from scanweaver.gpu_exec import archive
from scanweaver.gpu_exec.archive import DamagedArtifactError, pack, unpack

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
N = 8


@sw.recurrence("h[b d n]; u[b d t], dt[b d t], A[d n], B[b n t], C[b n t], D[d] -> y[b d t]")
def states(h: Any, u: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, *, softplus: bool = False) -> Any:
    if softplus:
        dt = sw.softplus(dt)
    h = sw.exp(dt * A) * h + dt * B * u
    y = sw.sum(C * h, "n")
    return h, y if D is None else y + D * u


@sw.recurrence("m[b]; x[b t], g[], s[] -> y[b t]")
def ewm(m: Any, x: Any, g: Any = 0.5, s: Any = None, *, by: float = 1.0) -> Any:
    m = g * m + by * x
    return m, m if s is None else s * m


def target(device: str) -> str:
    return "cpu" if device == "cpu" else "sm_{}{}".format(*torch.cuda.get_device_capability())


_MADE: dict[Any, CompiledRecurrence] = {}


def compiled_states(device: str) -> CompiledRecurrence:
    if ("states", device) not in _MADE:
        dtypes = dict.fromkeys(("u", "dt", "A", "B", "C", "D"), torch.float32)
        _MADE["states", device] = states.compile(target(device), dtypes=dtypes, sizes={"n": N}, softplus=True)
    return _MADE["states", device]


def compiled_ewm() -> CompiledRecurrence:
    if "ewm" not in _MADE:
        _MADE["ewm"] = ewm.compile("cpu", dtypes=torch.float32)
    return _MADE["ewm"]


def inputs(device: str, batch: int, channels: int, steps: int) -> list[torch.Tensor]:
    """Of one sign: nothing cancels, so that few numbers are as accurate as many."""
    generator = torch.Generator(device).manual_seed(SEED)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, device=device)

    u, dt = draw(batch, channels, steps), draw(batch, channels, steps)
    return [u, dt, -draw(channels, N), draw(batch, N, steps), draw(batch, N, steps), draw(channels)]


# --- what it computes -----------------------------------------------------------------------------------------------


def plain(x: torch.Tensor) -> torch.Tensor:
    return x


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT if x.dim() == 3 else x


def unaligned(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[..., :1], x], -1)[..., 1:] if x.dim() == 3 else x


def strided(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x], -1)[..., 0]


@DEVICES
@pytest.mark.parametrize("lay", [plain, channels_last, unaligned, strided])
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 3, 0), (0, 3, 5), (2, 5, 33), (3, 40, 64), (1, 7, 1000), (70, 32, 20)])
def test_any_sizes_and_strides(device: str, lay: Callable[[torch.Tensor], torch.Tensor], size: Any) -> None:
    given = [lay(x) for x in inputs(device, *size)]
    full = torch.linspace(0, 1, size[0] * size[1] * N, device=device).reshape(size[0], size[1], N)
    for init in (None, 0.25, full, full[:1, :, :1], full.mT.contiguous().mT):
        with poisoned():
            got = compiled_states(device)(*given, init=init, return_last=True)
        want = {"delta_softplus": True, "init": init}
        assert_accurate(got, reference.selective, *given[:5], given[5], **want)
        assert torch.equal(compiled_states(device)(*given, init=init), got[0]), "with and without last states"


@DEVICES
@pytest.mark.parametrize(
    ("lay", "label"),
    [
        (plain, "time contiguous"),
        (channels_last, "axis d contiguous"),
        (unaligned, "time contiguous"),
        (strided, "any strides"),
    ],
)
def test_a_call_takes_the_variant_made_for_it(device: str, lay: Any, label: str) -> None:
    made = compiled_states(device)
    given = [lay(x) for x in inputs(device, 2, 32, 64)]
    for options, form in (({}, "fresh"), ({"return_last": True}, "carried"), ({"init": 0.5}, "carried")):
        made(*given, **options)
        taken = made._last
        assert taken is not None
        assert taken.label.startswith(label)
        assert taken.form == (form if label != "any strides" else "carried")
        if device == "cuda" and label == "time contiguous":
            assert taken.label.endswith("aligned") == (lay is plain)


@DEVICES
def test_outputs_are_laid_out_as_the_recurrence_lays_them_out(device: str) -> None:
    for lay in (plain, channels_last, strided):
        given = [lay(x) for x in inputs(device, 2, 5, 12)]
        want = states(*given, softplus=True, return_last=True)
        got = compiled_states(device)(*given, return_last=True)
        for x, y in zip(got, want, strict=True):
            assert (x.shape, x.stride(), x.dtype, x.device) == (y.shape, y.stride(), y.dtype, y.device)


@DEVICES
def test_serial_gives_the_bits_of_a_call(device: str) -> None:
    """One order of time, whatever else a schedule does; each state its own, so that nothing is summed over states."""

    @sw.recurrence("h[b d]; a[b d t], x[b d t]", strategy="serial")
    def step(h: Any, a: Any, x: Any) -> Any:
        return a * h + x

    made = step.compile(target(device), dtypes=torch.float32, init=True)
    u, a = inputs(device, 3, 5, 77)[:2]
    for options in ({}, {"init": 0.5, "return_last": True}):
        got, want = made(a, u, **options), step(a, u, **options)
        assert all(torch.equal(x, y) for x, y in zip(reference.flat(got), reference.flat(want), strict=True))


def test_rows_decide_nothing_where_they_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled_states("cpu")
    many = inputs("cpu", 2, 32, 40)
    few = [many[0][:, :3], many[1][:, :3], many[2][:3], many[3], many[4], many[5][:3]]
    made(*many)
    assert made._last is not None and made._last.guard.sizes == (("d", 16),)
    monkeypatch.setattr(config, "batch_invariant", True)
    assert torch.equal(made(*many)[:, :3], made(*few))
    assert not made._last.guard.sizes
    fewest = ewm.compile("sm_90", dtypes=torch.float32, init=False, return_last=False)
    assert all(not variant.guard.rows for variant in fewest.variants)


# --- in another process ---------------------------------------------------------------------------------------------

_ELSEWHERE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "xdsl":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import torch
import scanweaver as sw

path, given, out = sys.argv[1:]
fn = sw.load(path)
results = [fn(*args, **kwargs) for args, kwargs in torch.load(given)]
torch.save([results, fn.explain(), fn.ir("recurrence"), fn.ir("scheduled")], out)
"""


def elsewhere(path: Path, calls: Any, folder: Path) -> Any:
    """What a process without xDSL, mlir-opt, ptxas or a compiler makes of these calls."""
    torch.save(calls, folder / "calls")
    nothing = {"PATH": "", "CUDA_HOME": "", "SCANWEAVER_MLIR_OPT": "/nowhere", "SCANWEAVER_CACHE_DIR": "/nowhere"}
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_PATH"} | nothing
    command = [sys.executable, "-c", _ELSEWHERE, path, folder / "calls", folder / "results"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return torch.load(folder / "results")


@DEVICES
def test_loaded_where_no_tool_is_it_gives_the_same_bits(device: str, tmp_path: Path) -> None:
    made = compiled_states(device)
    made.save(tmp_path / "states.swa")
    calls = [
        ([lay(x) for x in inputs(device, 2, channels, 100)], options)
        for channels in (3, 32)
        for lay in (plain, channels_last, strided)
        for options in ({}, {"init": torch.full((N,), 0.5, device=device), "return_last": True})
    ]
    want = [made(*args, **kwargs) for args, kwargs in calls]
    got, explanation, recurrence, scheduled = elsewhere(tmp_path / "states.swa", calls, tmp_path)
    for mine, theirs in zip(want, got, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(reference.flat(mine), reference.flat(theirs), strict=True))
    assert explanation == made.explain()
    assert "recurrence.generic" in recurrence
    assert "#scan.schedule" in scheduled


def test_made_for_a_gpu_where_there_is_none(tmp_path: Path) -> None:
    for chip, options, forms in (("sm_80", {"init": True}, {"carried"}), ("sm_100", {}, {"fresh", "carried"})):
        made = ewm.compile(chip, dtypes={"x": torch.bfloat16, "s": "float16"}, strategy="serial", **options)
        assert {variant.form for variant in made.variants} == forms
        assert [variant.label for variant in made.variants][-1] == "any strides"
        made.save(tmp_path / "ewm.swa")
        loaded = sw.load(tmp_path / "ewm.swa")
        for variant in loaded.variants:
            assert f".target {chip}" in variant.artifact.stages["ptx"]
            assert variant.artifact.binaries["cubin"][:4] == b"\x7fELF"
        assert f".target {chip}" in loaded.ir("ptx")
        with pytest.raises(sw.SignatureError, match=f"compiled for {chip}, the tensors are on cpu"):
            loaded(torch.rand(2, 3).bfloat16(), s=torch.tensor(1.0).half())


def test_few_rows_and_many_have_schedules_of_their_own() -> None:
    made = ewm.compile("sm_90", dtypes=torch.float32, init=False, return_last=False)
    guarded = [variant for variant in made.variants if variant.guard.rows]
    assert guarded
    for variant in guarded:
        few = made.variants[made.variants.index(variant) + 1]
        assert (few.label, few.form, few.guard.rows) == (variant.label, variant.form, 0)
        assert few.artifact.stages["scheduled"] != variant.artifact.stages["scheduled"]


def test_saving_twice_gives_the_same_bytes_which_any_unzip_reads(tmp_path: Path) -> None:
    compiled_ewm().save(tmp_path / "a.swa")
    sw.load(tmp_path / "a.swa").save(tmp_path / "b.swa")
    assert (tmp_path / "a.swa").read_bytes() == (tmp_path / "b.swa").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.swa") as file:
        assert file.testzip() is None
        names = file.namelist()
        manifest = json.loads(file.read("manifest.json"))
        assert file.read("explanation.txt").decode() == compiled_ewm().explain()
        assert json.loads(file.read("remarks.json")) == compiled_ewm().remarks()
    assert "variants/00/stages/00-recurrence" in names
    assert "variants/00/binaries/so" in names
    assert manifest["scanweaver"] == sw.__version__
    assert manifest["contract"]["signature"] == "m[b]; x[b t], g[], s[] -> y[b t]"
    assert len(manifest["variants"]) == len(compiled_ewm().variants)
    assert manifest["variants"][0]["artifact"]["tools"]["mlir-opt"].startswith("22.")


# --- what a call decides --------------------------------------------------------------------------------------------


def test_scalar_inputs_are_numbers_or_tensors() -> None:
    x = torch.rand(3, 9)
    assert torch.equal(compiled_ewm()(x), ewm(x))
    assert torch.equal(compiled_ewm()(x, 0.25), ewm(x, 0.25))
    with pytest.raises(sw.SignatureError, match="argument `g` of ewm: this artifact was compiled for a number"):
        compiled_ewm()(x, torch.tensor(0.25))
    of_tensor = ewm.compile("cpu", dtypes={"x": torch.float32, "g": torch.float32, "s": float})
    assert torch.equal(of_tensor(x, torch.tensor(0.25), 2.0), ewm(x, 0.25, 2.0))
    assert torch.equal(of_tensor(x, 0.25, s=2), ewm(x, 0.25, 2.0)), "a number becomes a tensor of one element"
    assert torch.equal(
        of_tensor(x, 0.25, 2.0, init=1, return_last=True)[1], ewm(x, 0.25, 2.0, init=1, return_last=True)[1]
    )


def test_constants_may_be_left_out_and_come_back_with_every_bit(tmp_path: Path) -> None:
    x = torch.rand(2, 5)
    for by in (0.1, math.inf, 3, -0.0):
        made = ewm.compile("cpu", dtypes=torch.float32, init=False, return_last=False, by=by)
        made.save(tmp_path / "a.swa")
        fn = sw.load(tmp_path / "a.swa")
        assert torch.equal(fn(x), ewm(x, by=by))
        assert torch.equal(fn(x, by=by), ewm(x, by=by))
        for other in (2.5, float(by)) if type(by) is int else (2.5, -by):
            with pytest.raises(sw.SignatureError, match=r"constant `by` of ewm: this artifact was compiled for"):
                fn(x, by=other)


def test_leading_axes() -> None:
    @sw.recurrence("h[...]; x[... t], a[... t]")
    def walk(h: Any, x: Any, a: Any) -> Any:
        return a * h + x

    with pytest.raises(sw.SignatureError, match=r"how many axes `\.\.\.` stands for, as in leading=2"):
        walk.compile("cpu", dtypes=torch.float32)
    made = walk.compile("cpu", dtypes=torch.float32, leading=2, init=True)
    x, a = torch.rand(3, 4, 10), torch.rand(1, 4, 10)
    for init in (None, 0.5, torch.rand(4)):
        got, want = made(x, a, init=init, return_last=True), walk(x, a, init=init, return_last=True)
        assert all(map(torch.equal, got, want))
    with pytest.raises(
        sw.SignatureError, match="argument `a` of walk: this artifact was compiled for 2 leading axes, got 1"
    ):
        made(x, a[0])


def test_states_of_several_types_and_the_last_states_alone() -> None:
    @sw.recurrence("n[b]:int32, top[b k]=-inf; x[b t], ok[b t], w[k] -> ")
    def count(n: Any, top: Any, x: Any, ok: Any, w: Any) -> Any:
        return sw.where(ok, n + 1, n), sw.where(ok, sw.maximum(top, w * x), top)

    dtypes = {"x": torch.float64, "ok": torch.bool, "w": torch.float64}
    made = count.compile("cpu", dtypes=dtypes, init=True, parallel="never")
    x, w = torch.randn(4, 30, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    ok = torch.rand(4, 30) > 0.5
    for init in (None, (2, None), (torch.arange(4), torch.zeros(3))):
        got, want = made(x, ok, w, init=init), count(x, ok, w, init=init, parallel="never")
        assert [y.dtype for y in got] == [torch.int32, torch.float64]
        assert all(map(torch.equal, got, want))


def test_an_axis_that_only_a_state_has_comes_with_init() -> None:
    @sw.recurrence("h[b k]; x[b t] -> y[b t k]")
    def spread(h: Any, x: Any) -> Any:
        h = 0.5 * h + x
        return h, h

    made = spread.compile("cpu", dtypes=torch.float32)
    assert {variant.form for variant in made.variants} == {"carried"}
    x, h0 = torch.rand(2, 6), torch.rand(2, 3)
    assert torch.equal(made(x, init=h0), spread(x, init=h0))
    with pytest.raises(sw.SignatureError, match="axis `k` of state `h"):
        made(x)
    with pytest.raises(sw.SignatureError, match="some state starts only where init= says"):
        spread.compile("cpu", dtypes=torch.float32, init=False, return_last=False)


@pytest.mark.parametrize("reverse", [False, True])
def test_reverse_and_what_is_returned_by_default(reverse: bool) -> None:
    x = torch.rand(3, 20)
    made = ewm.compile("cpu", dtypes=torch.float32, reverse=reverse, return_last=True)
    got = made(x)
    assert all(map(torch.equal, got, ewm(x, reverse=reverse, return_last=True)))
    assert torch.equal(made(x, return_last=False), got[0])
    with pytest.raises(sw.SignatureError, match=f"reverse= of ewm: this artifact was compiled for {reverse}"):
        made(x, reverse=not reverse)


def test_only_what_is_asked_for_is_compiled() -> None:
    x = torch.rand(3, 20)
    fresh = ewm.compile("cpu", dtypes=torch.float32, init=False, return_last=False)
    assert {variant.form for variant in fresh.variants} == {"fresh"}
    assert torch.equal(fresh(strided(x)), ewm(x))
    for options in ({"init": 0.5}, {"return_last": True}):
        with pytest.raises(sw.SignatureError, match="ewm: this artifact was compiled without init= and return_last="):
            fresh(x, **options)
    assert {variant.form for variant in ewm.compile("cpu", dtypes=torch.float32, init=True).variants} == {"carried"}


STATES = dict(zip(["u", "dt", "A", "B", "C", "D"], inputs("cpu", 2, 3, 4), strict=True))


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("argument `u` of states: this artifact was compiled for float32, got float64", {"u": STATES["u"].double()}),
        ("argument `D` of states: this artifact was compiled with it, got nothing", {"D": None}),
        (
            "axis `n` of states: this artifact was compiled for size 8, got 3",
            {"A": STATES["A"][:, :3], "B": STATES["B"][:, :3], "C": STATES["C"][:, :3]},
        ),
        ("constant `softplus` of states: this artifact was compiled for True, got False", {"softplus": False}),
        ("parallel= of states: this artifact was compiled for 'auto', got 'never'", {"parallel": "never"}),
        ("strategy= of states: this artifact was compiled for None, got 'serial'", {"strategy": "serial"}),
        ("states has no argument `softmax`", {"softmax": True}),
        ("argument `u[b d t]` of states", {"u": STATES["u"][0]}),
    ],
)
def test_what_it_was_not_compiled_for(message: str, change: dict[str, Any]) -> None:
    made = compiled_states("cpu")
    made(**STATES)
    with pytest.raises(sw.SignatureError) as caught:
        made(**(STATES | change))
    assert message in str(caught.value)


def test_an_input_it_was_compiled_without() -> None:
    with pytest.raises(sw.SignatureError, match="argument `s` of ewm: this artifact was compiled without it"):
        compiled_ewm()(torch.rand(2, 3), s=0.5)


@pytest.mark.gpu
@pytest.mark.host_tools
def test_tensors_on_a_device_it_was_not_compiled_for() -> None:
    with pytest.raises(sw.SignatureError, match="compiled for cpu, the tensors are on cuda:0"):
        compiled_ewm()(torch.rand(2, 3, device="cuda"))


@pytest.mark.parametrize(
    ("message", "request_"),
    [
        ("expected the dtype of input `u`", {}),
        ("expected the dtype of input `C`", {"dtypes": {"u": "float32", "dt": "float32", "A": "float32", "B": "f32"}}),
        ("dtypes of states: got `U`: expected some of u, dt, A, B, C, D", {"dtypes": {"U": torch.float32}}),
        ("dtypes of states, input `u`: expected one of bool", {"dtypes": {"u": "float23"}}),
        ("Python's float is for a scalar input, `u[]`", {"dtypes": {"u": float}}),
        ("expected the size of axis `n`", {"dtypes": torch.float32}),
        ("sizes of states: got `m`", {"dtypes": torch.float32, "sizes": {"m": 3}}),
        ("axis `b` takes any size at the call", {"dtypes": torch.float32, "sizes": {"n": 3, "b": 3}}),
        ("expected a positive integer, got 0", {"dtypes": torch.float32, "sizes": {"n": 0}}),
        ("expected sizes by axis", {"dtypes": torch.float32, "sizes": 3}),
        ("sizes of states: got `3`: expected some of", {"dtypes": torch.float32, "sizes": {3: 3}}),
        ("has more bytes than 64 bits count", {"dtypes": torch.float32, "sizes": {"n": 2**63}}),
        ("init of compiling states: expected True, False or None", {"dtypes": torch.float32, "init": 3}),
        ("got `softmax`: did you mean `softplus`?", {"dtypes": torch.float32, "softmax": True}),
        ("parallel='always': expected one of", {"dtypes": torch.float32, "sizes": {"n": 3}, "parallel": "always"}),
    ],
)
def test_what_compile_refuses(message: str, request_: dict[str, Any]) -> None:
    with pytest.raises(sw.SignatureError) as caught:
        states.compile("cpu", **request_)
    assert message in str(caught.value)


@pytest.mark.parametrize("leading", [-1, 1.5, "two", 65, 10**11])
def test_how_many_axes_the_ellipsis_stands_for(leading: Any) -> None:
    with pytest.raises(sw.SignatureError, match="leading of squared: expected 0 to 64 axes, got"):
        sw.recurrence("h[...]; x[... t]")(squared).compile("cpu", dtypes=torch.float32, leading=leading)


def squared(h: Any, x: Any) -> Any:
    return h * h + x


def test_what_is_no_path(tmp_path: Path) -> None:
    made = compiled_ewm()
    for path in (3, None, b"bytes"):
        with pytest.raises(sw.SignatureError, match=r"sw\.load: expected a path, got"):
            sw.load(path)  # type: ignore[arg-type]
        with pytest.raises(sw.SignatureError, match="saving ewm: expected a path, got"):
            made.save(path)  # type: ignore[arg-type]
    for path in (tmp_path, tmp_path / "no" / "folder.swa"):
        with pytest.raises(sw.ScanWeaverError, match="saving ewm: expected a file in a folder that is there, got"):
            made.save(path)
    for text in (b"", b"not ours"):
        (tmp_path / "other.swa").write_bytes(text)
        with pytest.raises(sw.ScanWeaverError, match=r"other.swa: the checksum"):
            sw.load(tmp_path / "other.swa")
    assert not (tmp_path / "no").exists() and [path.name for path in tmp_path.iterdir()] == ["other.swa"]


def test_an_artifact_refuses_transforms_of_torch_func() -> None:
    with pytest.raises(sw.UnsupportedError, match=r"is a tensor of torch\.func\.vmap, which is not supported yet"):
        torch.func.vmap(compiled_ewm())(torch.rand(4, 2, 3))


def test_an_unknown_chip_and_a_step_that_is_not_associative() -> None:
    with pytest.raises(sw.UnsupportedError, match="target 'sm_91' is not known; known are cpu, sm_80"):
        ewm.compile("sm_91", dtypes=torch.float32)

    @sw.recurrence("h[b]; x[b t]")
    def squares(h: Any, x: Any) -> Any:
        return h * h + x

    with pytest.raises(sw.NotAssociativeError):
        squares.compile("cpu", dtypes=torch.float32, parallel="require")


def test_a_constant_that_no_file_holds(tmp_path: Path) -> None:
    @sw.recurrence("h[b]; x[b t]")
    def step(h: Any, x: Any, *, f: Any) -> Any:
        return f(h) + x

    fewest = {"init": False, "return_last": False}
    made = step.compile("cpu", dtypes=torch.float32, f=sw.tanh, parallel="never", **fewest)
    x = torch.rand(2, 4)
    assert torch.equal(made(x), step(x, f=sw.tanh, parallel="never"))
    with pytest.raises(sw.ScanWeaverError, match="constant `f` of step: a saved artifact holds None, bools, numbers"):
        made.save(tmp_path / "a.swa")
    assert not (tmp_path / "a.swa").exists()


# --- files that are not what was saved ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved() -> bytes:
    made = compiled_ewm()
    return swa.to_bytes(made.contract, made.variants[:2], made.explanation)


def refused(data: bytes, tmp_path: Path) -> str:
    """The message of the error; anything but ScanWeaverError fails the test."""
    (tmp_path / "bad.swa").write_bytes(data)
    with pytest.raises(sw.ScanWeaverError) as caught:
        sw.load(tmp_path / "bad.swa")
    assert str(tmp_path / "bad.swa") in str(caught.value)
    return str(caught.value)


def changed(saved: bytes, change: Callable[[Any, dict[str, bytes]], Any]) -> bytes:
    """The file that somebody packed again, with right checksums."""
    manifest, members = unpack(saved)
    change(manifest, members)
    return pack({name: value for name, value in manifest.items() if name != "sha256"}, members)


def test_flipped_bytes_and_lost_ends_are_noticed(saved: bytes, tmp_path: Path) -> None:
    for i in [*range(64), *range(64, len(saved), 997), *range(len(saved) - 70, len(saved))]:
        assert "checksum" in refused(saved[:i] + bytes([saved[i] ^ 4]) + saved[i + 1 :], tmp_path)
    for end in (0, 1, 63, 64, 65, len(saved) // 2, len(saved) - 1):
        refused(saved[:end], tmp_path)
    refused(saved + b"\0", tmp_path)
    with pytest.raises(FileNotFoundError):
        sw.load(tmp_path / "nothing.swa")


def test_another_version_and_another_kind(saved: bytes, tmp_path: Path) -> None:
    def newer(manifest: Any, _: Any) -> None:
        manifest |= {"format": 2, "scanweaver": "9.9"}

    assert "format 2, written by ScanWeaver '9.9'; this version reads 1" in refused(changed(saved, newer), tmp_path)
    one_kernel = compiled_ewm().variants[0].artifact.to_bytes()
    assert "it has no contract" in refused(one_kernel, tmp_path)


def edits() -> dict[str, Callable[[Any, dict[str, bytes]], Any]]:
    def variant(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda manifest, _: change(manifest["variants"][0])

    def contract(**change: Any) -> Callable[[Any, Any], Any]:
        return lambda manifest, _: manifest["contract"].update(change)

    def recipe(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda manifest, _: change(manifest["variants"][0]["artifact"]["recipe"])

    return {
        "no variants": lambda manifest, _: manifest.update(variants=[]),
        "variants of another kind": lambda manifest, _: manifest.update(variants={"0": 1}),
        "no explanation": lambda _, members: members.pop("explanation.txt"),
        "an explanation that is no text": lambda _, members: members.update({"explanation.txt": b"\xff"}),
        "remarks that are no JSON": lambda _, members: members.update({"remarks.json": b"{"}),
        "no recipe": variant(lambda v: v["artifact"].pop("recipe")),
        "a form that is none": variant(lambda v: v.update(form="stale")),
        "a guard of text": variant(lambda v: v["guard"].update(rows="many")),
        "a negative guard": variant(lambda v: v["guard"].update(rows=-1)),
        "a guard on an unknown axis": variant(lambda v: v["guard"].update(sizes={"q": 3})),
        "another target": variant(lambda v: v["artifact"].update(target="sm_90")),
        "resources of text": variant(lambda v: v["artifact"].update(resources={"k": {"registers": "all"}})),
        "an operand too few": recipe(lambda r: r["operands"].pop()),
        "an operand of another dtype": recipe(lambda r: r["operands"][0].update(dtype="f64")),
        "an operand that is passed otherwise": recipe(lambda r: r["operands"][0].update(scalar=True)),
        "an unknown field": recipe(lambda r: r["operands"][0].update(secret=1)),
        "a parameter of no operand": recipe(lambda r: r["kernels"][0]["params"].append("pointer 99")),
        "a parameter of no kind": recipe(lambda r: r["kernels"][0]["params"].append("file /etc/passwd")),
        "a size of no axis": recipe(lambda r: r["kernels"][0]["params"].append("size q")),
        "rows of no axis": recipe(lambda r: r["kernels"][0].update(rows=["q"])),
        "a block of no threads": recipe(lambda r: r["kernels"][0].update(per_block=0)),
        "shared memory of text": recipe(lambda r: r["kernels"][0].update(shared_bytes="all")),
        "a signature that is none": contract(signature="h[b; x"),
        "another signature": contract(signature="h[b]; x[b t] -> y[b t]"),
        "a dtype that is none": contract(outputs=[{"axes": ["b", "t"], "dtype": "f23"}]),
        "outputs over unknown axes": contract(outputs=[{"axes": ["q", "t"], "dtype": "f32"}]),
        "an output too many": contract(outputs=[{"axes": ["b", "t"], "dtype": "f32"}] * 2),
        "no inputs": contract(inputs=[]),
        "a state too many": contract(states=[]),
        "defaults of unknown kinds": contract(defaults=[{"pickle": "gASVKAAA"}] * 3),
        "too few defaults": contract(defaults=[]),
        "constants of no kind": contract(constants={"by": 1.0}),
        "a negative number of leading axes": contract(leading=-1),
        "sizes of text": contract(sizes={"b": "many"}),
        "options of text": contract(
            options={"return_last": "no", "reverse": False, "parallel": "auto", "strategy": None}
        ),
        "unknown options": contract(options={"eval": "1"}),
        "deep nesting": contract(constants={"by": _nested(1500)}),
        "a host of text": lambda manifest, _: manifest.update(host="mine"),
        "no host": lambda manifest, _: manifest.update(host=None),
    }


def _nested(depth: int) -> Any:
    value: Any = {"int": "1"}
    for _ in range(depth):
        value = {"tuple": [value]}
    return value


@pytest.mark.parametrize("name", edits())
def test_a_file_that_somebody_edited(saved: bytes, name: str, tmp_path: Path) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)  # to write it; reading has the usual one
    try:
        data = changed(saved, edits()[name])
    finally:
        sys.setrecursionlimit(limit)
    assert "no artifact of ScanWeaver" in refused(data, tmp_path)


def zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive that whoever wrote it signed as `pack` does."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.comment = bytes(64)
        for name, data in members:
            made.writestr(zipfile.ZipInfo(name), data, method)
    body = file.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "a/../../b", "a//b", "./a", "a\\..\\b", "c:x", "a/", "\N{BLACK HEART SUIT}", ".."],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_lead_elsewhere(name: str, tmp_path: Path) -> None:
    assert "which is no plain path" in refused(zipped([("manifest.json", b"{}"), (name, b"")]), tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_of_odd_kinds(tmp_path: Path) -> None:
    assert "two members have one name" in refused(
        zipped([("manifest.json", b"{}"), ("a", b"1"), ("a", b"2")]), tmp_path
    )
    assert "another method" in refused(zipped([("manifest.json", b"{}")], zipfile.ZIP_LZMA), tmp_path)
    assert "holds no manifest.json" in refused(zipped([("a", b"1")]), tmp_path)
    assert "holds no object" in refused(zipped([("manifest.json", b"[]")]), tmp_path)
    assert "no artifact" in refused(zipped([("manifest.json", b"{")]), tmp_path)
    assert "no artifact" in refused(zipped([("manifest.json", b"[" * 100_000)]), tmp_path)
    assert "a member is missing" in refused(zipped([("manifest.json", b'{"sha256": {"a": "0"}}')]), tmp_path)
    assert "no artifact" in refused(b"hello" + hashlib.sha256(b"hello").hexdigest().encode(), tmp_path)


def test_zip_bombs_are_not_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(swa, "MAX_BYTES", 1 << 20)
    bomb = zipped([("manifest.json", b"{}"), ("a", bytes(3 << 20))])
    assert len(bomb) < 1 << 14
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("unpacked"))
    assert "at most 1048576 are read" in refused(bomb, tmp_path)
    many = zipped([("manifest.json", b"{}"), *((f"a{i}", b"") for i in range(archive.MAX_MEMBERS))])
    assert "at most 4096 are read" in refused(many, tmp_path)
    assert "at most 1048576 are read" in refused(bytes(3 << 20), tmp_path)


def test_a_member_that_unpacks_to_more_than_it_says(saved: bytes, tmp_path: Path) -> None:
    data = bytearray(zipped([("manifest.json", b"{}"), ("a", bytes(1 << 20))]))
    entry = data.rindex(b"PK\1\2")  # of the last member, in the directory: its size unpacked stands 24 bytes further
    data[entry + 24 : entry + 28] = (100).to_bytes(4, "little")
    body = bytes(data[:-64])
    with pytest.raises(DamagedArtifactError):
        unpack(body + hashlib.sha256(body).hexdigest().encode())


def test_a_cpu_that_lacks_an_instruction(saved: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = host.description()
    monkeypatch.setattr(host, "description", lambda: {**here, "instructions": here["instructions"][1:]})
    assert f"made for a CPU with {here['instructions'][0]}" in refused(saved, tmp_path)
    monkeypatch.setattr(host, "description", lambda: {**here, "machine": "abacus"})
    assert "this is 'abacus': compile it here" in refused(saved, tmp_path)


def test_the_path_of_every_error_is_named_and_a_good_file_loads(saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "good.swa").write_bytes(saved)
    fn = sw.load(str(tmp_path / "good.swa"))
    x = torch.rand(2, 3)
    assert torch.equal(fn(x), ewm(x))
    with pytest.raises(sw.ScanWeaverError, match="has the stages recurrence, scan"):
        fn.ir("ptx")
    assert repr(fn) == "<ewm for cpu: 2 variants>"


# --- complex --------------------------------------------------------------------------------------------------------


@DEVICES
def test_complex_states_and_inputs(device: str) -> None:
    @sw.recurrence("h[b n]:complex64; x[b t], lam[n], g[] -> y[b t], z[b n t]")
    def lru(h: Any, x: Any, lam: Any, g: Any = 1.0) -> Any:
        h = lam * h + x
        return h, (sw.real(sw.sum(h, "n")), g * h)

    c64, f32 = torch.complex64, torch.float32
    dtypes = {"x": f32, "lam": c64, "g": f32}
    made = lru.compile(target(device), dtypes=dtypes, sizes={"n": 3}, init=True, strategy="serial")
    x, lam = torch.rand(4, 20, device=device), torch.rand(3, device=device, dtype=c64) / 2
    start = torch.rand(4, 3, device=device, dtype=c64)
    for init in (None, start, start.real, 0.5, 0.5 - 1j, start.conj()):
        want = list(reference.flat(lru(x, lam, 2.0, init=init, return_last=True, strategy="serial")))
        for given in (x, x.mT.contiguous().mT, torch.stack([x, x], -1)[..., 0]):
            got = reference.flat(made(given, lam, 2.0, init=init, return_last=True))
            for mine, exact in zip(got, want, strict=True):
                assert (mine.dtype, mine.shape) == (exact.dtype, exact.shape)
                torch.testing.assert_close(mine, exact, rtol=1e-5, atol=1e-6)
    with pytest.raises(sw.SignatureError, match="argument `lam` of lru: this artifact was compiled for complex64"):
        made(x, lam.real, 2.0)
