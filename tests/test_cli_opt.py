"""`scanweaver-opt` and the registries behind it. What it prints is tested in tests/filecheck/opt."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

import scanweaver.transforms
from scanweaver.cli.opt import ScanWeaverOptMain, main
from scanweaver.dialects import get_all_dialects
from scanweaver.transforms import get_all_passes

BIN = Path(sys.executable).parent
MODULE = "func.func @f(%x: f32) -> f32 { return %x : f32 }\n"


def run_tool(*args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(BIN / args[0]), *args[1:]]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", get_all_dialects())
def test_a_dialect_is_called_what_the_registry_calls_it(name: str) -> None:
    dialect = get_all_dialects()[name]()
    assert isinstance(dialect, Dialect)
    assert dialect.name == name


@pytest.mark.parametrize("name", get_all_passes())
def test_pass_module_and_class_share_one_name(name: str) -> None:
    cls = get_all_passes()[name]()
    assert issubclass(cls, ModulePass)
    assert cls.name == name
    assert cls.__module__ == "scanweaver.transforms." + name.replace("-", "_")
    assert cls.__name__.lower() == name.replace("-", "") + "pass"
    assert "->" in (cls.__doc__ or ""), "a pass says what it rewrites: `rewrite: before -> after`"


def test_every_pass_file_is_registered() -> None:
    folder = Path(scanweaver.transforms.__file__).parent
    files = [path for path in folder.glob("*.py") if "(ModulePass):" in path.read_text()]
    assert {path.stem.replace("_", "-") for path in files} == set(get_all_passes())


def test_no_pass_takes_a_name_that_xdsl_has() -> None:
    assert not get_all_passes().keys() & XDSL_UNIVERSE.all_passes.keys()


@pytest.mark.commands
def test_plain_xdsl_opt_finds_recurrence_and_scan_and_keeps_its_own_gpu() -> None:
    universe = Universe.get_multiverse()
    ours = universe.all_dialects.keys() - XDSL_UNIVERSE.all_dialects.keys()
    assert {"recurrence", "scan"} <= ours
    assert "nvvm" not in ours
    assert universe.all_dialects["gpu"] is XDSL_UNIVERSE.all_dialects["gpu"]
    assert get_all_passes().keys() <= universe.all_passes.keys()

    ran = run_tool("xdsl-opt", "--help")
    assert ran.returncode == 0
    assert "convert-recurrence-to-scan" in ran.stdout


def test_scanweaver_opt_knows_xdsl_and_ours_and_our_gpu() -> None:
    driver = ScanWeaverOptMain(args=[])
    known = set(driver.ctx.registered_dialect_names)
    assert XDSL_UNIVERSE.all_dialects.keys() | get_all_dialects().keys() <= known
    assert XDSL_UNIVERSE.all_passes.keys() | get_all_passes().keys() <= driver.available_passes.keys()
    gpu = driver.ctx.get_optional_op("gpu.func")
    assert gpu is not None
    assert gpu.__module__.startswith("scanweaver.")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["-p", "no-such-pass"], 2),
        (["-p", "cse{a"], 2),
        (["-t", "{{"], 2),
        (["-t", "mlir{a=1}"], 2),
        (["-t", "cubin", "--split-input-file"], 2),
        (["no/such/file.mlir"], 2),
        (["-o", "no/such/folder/out.mlir"], 2),
        ([str(BIN)], 2),
    ],
)
def test_a_wrong_command_line_exits_2_without_a_traceback(
    args: list[str], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(args)
    assert exit_.value.code == code
    err = capfd.readouterr().err
    assert err.startswith("scanweaver-opt: error: ")
    assert "Traceback" not in err


LOWERED = (
    "regroup-products,fuse-multiply-add,convert-recurrence-to-scan,schedule-scan{target=sm_90},lower-scan-to-gpu,"
    "lower-block-scan,lower-sweeps,lower-math-for-gpu"
)


@pytest.mark.parametrize("target", ["nvvm", "ptx", "cubin"])
def test_a_module_without_kernels_is_told_which_passes_make_them(
    target: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (path := tmp_path / "empty.mlir").write_text("func.func @f() { func.return }")
    with pytest.raises(SystemExit) as exit_:
        main([str(path), "-t", target, "-o", str(tmp_path / "out")])
    assert exit_.value.code == 1
    assert f"-t {target}: the module holds no gpu.module: run -p '{LOWERED}' before it" in capfd.readouterr().err


def test_the_passes_that_are_named_make_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    main([str(Path(__file__).parent / "filecheck" / "ptx" / "scan.mlir"), "-p", LOWERED])
    assert "gpu.module" in capfd.readouterr().out


def test_a_target_whose_package_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "xdsl.backend.llvm.convert", raising=False)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    (path := tmp_path / "empty.mlir").write_text("func.func @f() { func.return }")
    with pytest.raises(SystemExit) as exit_:
        main([str(path), "-t", "llvm"])
    assert exit_.value.code == 2
    assert "-t llvm needs the package" in capfd.readouterr().err


def test_bytes_that_are_no_text_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.mlir"
    path.write_bytes(b"\x7fELF\xd0\xff")
    with pytest.raises(SystemExit):
        main([str(path)])
    assert "binary.mlir is not UTF-8 text" in capfd.readouterr().err


@pytest.mark.commands
def test_a_parse_error_shows_the_place_and_exits_1() -> None:
    ran = run_tool("scanweaver-opt", text="func.func @f() { no.such }\n")
    assert ran.returncode == 1
    assert "stdin:1:" in ran.stderr
    assert "^" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.commands
def test_a_reader_that_leaves_early_is_no_error() -> None:
    many = "".join(f"func.func @f{i}() {{ return }}\n" for i in range(5000))
    command = f"'{BIN / 'scanweaver-opt'}' | head -n 1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], input=many, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["builtin.module {", "0"]
    assert ran.stderr == ""


@pytest.mark.commands
def test_help_takes_a_second_at_most_and_does_without_torch() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        assert run_tool("scanweaver-opt", "--help").returncode == 0
        return time.perf_counter() - start

    assert median(seconds() for _ in range(3)) <= 1.0
    code = (
        "import sys, scanweaver.cli.opt as opt\n"
        "try: opt.main(['--help'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"
