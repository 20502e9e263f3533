"""Finding tools, running them loudly, and the road from upstream text to PTX and cubin."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scanweaver.config import config
from scanweaver.errors import ToolchainError, UnsupportedError
from scanweaver.gpu_exec import lower, toolchain
from scanweaver.gpu_exec.abi import Kernel, Recipe
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.toolchain import INPUT, OUTPUT, Tool

needs_ptxas = pytest.mark.skipif(toolchain.look("ptxas") is None, reason="ptxas is not installed")


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def kernel(body: str, parameters: str = "%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i64", globals_: str = "") -> str:
    return f"""
    module attributes {{gpu.container_module, scan.recipe = {{target = "a \\"quoted\\" name"}}}} {{
      gpu.module @kernels {{
        {globals_}
        gpu.func @k({parameters}) kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
          %tx = gpu.thread_id x
          %i = arith.index_cast %tx : index to i64
          {body}
          gpu.return
        }}
      }}
    }}"""


LOAD = """
    %pi = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %qi = llvm.getelementptr %q[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
    %x = llvm.load %pi : !llvm.ptr<1> -> f32"""
SAXPY = f"""
    %inside = arith.cmpi slt, %i, %n : i64
    scf.if %inside {{
      {LOAD}
      %y = math.fma %x, %x, %x : f32
      llvm.store %y, %qi : f32, !llvm.ptr<1>
    }}"""


# --- finding ---


def test_a_missing_tool_says_where_it_was_looked_for_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(config, "mlir_opt", None)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    with pytest.raises(ToolchainError) as caught:
        toolchain.find("mlir-opt")
    said = str(caught.value)
    assert said.startswith("mlir-opt was not found")
    assert 'pip install "scanweaver[mlir]"' in said
    assert "22" in said
    assert f"{tmp_path}/mlir-opt-22" in said
    assert f"{tmp_path}/site/mlir/bin/mlir-opt" in said
    assert toolchain.identity("mlir-opt") == "mlir-opt=missing"


def test_a_named_mlir_opt_is_the_only_one_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "mlir_opt", tmp_path / "gone")
    with pytest.raises(ToolchainError, match=re.escape(f"Looked for:\n  {tmp_path}/gone")):
        toolchain.find("mlir-opt")
    script(tmp_path / "bin" / "mlir-opt", "echo LLVM version 22.1.8")
    beside = script(tmp_path / "bin" / "llc", "echo LLVM version 22.1.8")
    monkeypatch.setattr(config, "mlir_opt", tmp_path / "bin" / "mlir-opt")
    assert toolchain.find("mlir-opt").path == tmp_path / "bin" / "mlir-opt"
    assert toolchain.find("llc").path == beside


@pytest.mark.parametrize("version", ["21.1.0", "23.0.0", "2.2"])
def test_another_major_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setattr(config, "mlir_opt", script(tmp_path / "mlir-opt", f"echo LLVM version {version}"))
    with pytest.raises(ToolchainError, match=f"LLVM 22 is needed, .* is '{version}'"):
        toolchain.find("mlir-opt")


def test_the_order_is_wheels_then_versioned_names_then_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(config, "mlir_opt", None)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("PATH", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
    for place in ("a/opt", "b/opt-22", "site/llvm/bin/opt"):
        found = script(tmp_path / place, "echo LLVM version 22.1.8")
        assert toolchain.find("opt").path == found


@pytest.mark.parametrize(
    "place",
    ["cuda/bin", "site/nvidia/cu13/bin", "site/nvidia/cuda_nvcc/bin", "site/triton/backends/nvidia/bin"],
)
def test_ptxas_is_found_in_each_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = script(tmp_path / place / "ptxas", "echo release 13.0, V13.0.88")
    tool = toolchain.find("ptxas")
    assert (tool.path, tool.version()) == (found, "13.0")


def test_identity_changes_with_the_file_and_starts_nothing(tmp_path: Path) -> None:
    started = tmp_path / "started"
    tool = Tool("opt", script(tmp_path / "opt", f"touch {started}"))
    before = tool.identity()
    assert tool.identity() == before
    script(tmp_path / "opt", f"touch {started} # and more")
    assert tool.identity() != before
    assert not started.exists()


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, scanweaver.gpu_exec.toolchain as t; t.identity('mlir-opt');"
        "print({'torch', 'xdsl'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- running ---


def test_output_comes_from_the_named_file_or_from_stdout(tmp_path: Path) -> None:
    tool = Tool("t", script(tmp_path / "t", 'if [ -n "$2" ]; then cp "$1" "$2"; else cat "$1"; fi'))
    assert toolchain.run_tool(tool, [INPUT], "dä\0ta", suffix=".txt").output == "dä\0ta".encode()
    assert toolchain.run_tool(tool, [INPUT, OUTPUT], b"\xff", suffix=".txt").output == b"\xff"


@pytest.mark.parametrize("body", ["echo oh >&2; exit 3", "echo oh >&2"])
def test_failure_shows_stderr_and_a_command_that_repeats(tmp_path: Path, body: str) -> None:
    tool = Tool("t", script(tmp_path / "t", f'echo "read $(cat $1)" >&2; {body}'))
    with pytest.raises(ToolchainError) as caught:
        toolchain.run_tool(tool, [INPUT, "a b"], "the text", suffix=".mlir")
    said = str(caught.value)
    assert "read the text" in said
    assert "oh" in said
    saved = Path(re.search(r"Its input: (.*)", said)[1])  # type: ignore[index]
    assert saved.read_text() == "the text"
    command = shlex.split(re.search(r"To repeat: (.*)", said)[1])  # type: ignore[index]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stderr == "read the text\noh\n"


def test_success_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    tool = Tool("t", script(tmp_path / "t", 'echo warned >&2; echo more > "$(dirname $1)/extra"'))
    ran = toolchain.run_tool(tool, [INPUT], "x", suffix=".mlir", loud=False)
    assert (ran.stderr, ran.files) == ("warned\n", {"extra": "more\n"})
    assert list((tmp_path / "temp").iterdir()) == []


# --- lowering ---


@pytest.mark.parametrize("chip", sorted(lower.PTX_FEATURE))
def test_every_chip_gets_its_ptx(chip: str) -> None:
    ptx = lower.to_ptx(kernel(SAXPY), chip)
    assert f".target {chip}\n" in ptx
    assert ".visible .entry k(" in ptx
    assert ".maxntid 128, 1, 1" in ptx
    assert "fma.rn.f32" in ptx
    assert ".param .b64 k_param_2" in ptx or ".param .u64 k_param_2" in ptx


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100"])
def test_cubin_and_what_it_takes(chip: str) -> None:
    lowered = lower.lower(kernel(SAXPY), chip)
    assert lowered.cubin is not None
    assert lowered.cubin.startswith(b"\x7fELF")
    assert 0 < lowered.resources["k"].registers < 64
    assert lowered.resources["k"].spill_bytes == 0
    assert set(lowered.tools) == set(lowered.milliseconds) == {"mlir-opt", "ptxas"}


@needs_ptxas
def test_the_artifact_has_every_stage_and_what_it_took() -> None:
    recipe = Recipe("sm_90", (), (Kernel("k", (), ()),))
    made = lower.to_artifact("name", {"scan": "…", "gpu": kernel(SAXPY)}, recipe)
    assert list(made.stages) == ["scan", "gpu", "nvvm", "ptx"]
    assert made.binaries["cubin"].startswith(b"\x7fELF")
    assert made.resources["k"]["registers"] > 0
    assert Artifact.from_bytes(made.to_bytes()) == made


def test_without_ptxas_the_ptx_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "look", lambda name: None)  # type: ignore[misc]
    lowered = lower.lower(kernel(SAXPY), "sm_90")
    assert lowered.cubin is None
    assert "fma.rn.f32" in lowered.ptx


def test_nvvm_is_the_text_before_the_back_end() -> None:
    nvvm = lower.to_nvvm(kernel(SAXPY), "sm_90")
    assert "llvm.func @k(" in nvvm
    assert "nvvm.read.ptx.sreg.tid.x" in nvvm
    assert "llvm.intr.fma" in nvvm
    assert not re.search(r"\b(scf|arith|math)\.", nvvm)


@pytest.mark.parametrize(
    ("body", "instructions"),
    [
        (
            f"""{LOAD}
            %c1 = arith.constant 1 : i32
            %c32 = arith.constant 32 : i32
            %y, %ok = gpu.shuffle up %x, %c1, %c32 : f32
            llvm.store %y, %qi : f32, !llvm.ptr<1>""",
            ["shfl.sync.up.b32"],
        ),
        (
            f"""{LOAD}
            %y = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%x) : (f32) -> f32
            llvm.store %y, %qi : f32, !llvm.ptr<1>""",
            ["ex2.approx.ftz.f32"],
        ),
        (
            """%pi = llvm.getelementptr %p[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
            %qi = llvm.getelementptr %q[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f64
            %x = llvm.load %pi : !llvm.ptr<1> -> f64
            %e = math.exp %x : f64
            %y = math.fma %e, %e, %x : f64
            llvm.store %y, %qi : f64, !llvm.ptr<1>""",
            ["fma.rn.f64", "0d3FF71547652B82FE"],  # log2(e), where libdevice's exp begins
        ),
        (
            """%x = llvm.load %p {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
            %a = vector.extract %x[0] : f32 from vector<4xf32>
            %y = vector.insert %a, %x[1] : f32 into vector<4xf32>
            %z = vector.shuffle %y, %x [0, 2, 5, 7] : vector<4xf32>, vector<4xf32>
            %w = vector.from_elements %a, %a : vector<2xf32>
            llvm.store %z, %q {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
            llvm.store %w, %q {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>""",
            ["ld.global.v4.b32", "st.global.v"],
        ),
        (
            """%x = llvm.inline_asm has_side_effects "ld.acquire.gpu.b32 $0, [$1];", "=f,l" %p
              : (!llvm.ptr<1>) -> f32
            llvm.store %x, %q : f32, !llvm.ptr<1>""",
            ["ld.acquire.gpu.b32"],
        ),
    ],
    ids=["shuffle", "ex2", "float64", "vector", "asm"],
)
def test_operations_reach_ptx(body: str, instructions: list[str]) -> None:
    ptx = lower.to_ptx(kernel(body), "sm_90")
    assert [found for found in instructions if found not in ptx] == []
    assert ".extern" not in ptx
    assert "call" not in ptx


DYNAMIC = "llvm.mlir.global external @buffer() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>"


def test_dynamic_shared_memory_is_extern() -> None:
    body = f"""{LOAD}
        %s = llvm.mlir.addressof @buffer : !llvm.ptr<3>
        %si = llvm.getelementptr %s[%i] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
        llvm.store %x, %si : f32, !llvm.ptr<3>
        gpu.barrier
        %y = llvm.load %s : !llvm.ptr<3> -> f32
        llvm.store %y, %qi : f32, !llvm.ptr<1>"""
    ptx = lower.to_ptx(kernel(body, globals_=DYNAMIC), "sm_90")
    assert ".extern .shared .align 16 .b8 buffer[];" in ptx


def test_dynamic_shared_memory_that_llvm_would_shrink_is_refused() -> None:
    body = f"""{LOAD}
        %m = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
        %c0 = arith.constant 0 : index
        %v = memref.view %m[%c0][] : memref<?xi8, #gpu.address_space<workgroup>>
          to memref<128xf32, #gpu.address_space<workgroup>>
        memref.store %x, %v[%tx] : memref<128xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %y = memref.load %v[%c0] : memref<128xf32, #gpu.address_space<workgroup>>
        llvm.store %y, %qi : f32, !llvm.ptr<1>"""
    with pytest.raises(ToolchainError, match="static variable of one byte"):
        lower.to_ptx(kernel(body), "sm_90")


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"'sm_42' is not known; known are sm_80, .*sm_100"):
        lower.to_ptx(kernel(SAXPY), "sm_42")


@pytest.mark.parametrize("wrong", ["math.fmaaa %x, %x, %x : f32", "scan.block_scan %x", "math.fma %x : f32"])
def test_what_mlir_opt_does_not_know_is_refused(wrong: str) -> None:
    with pytest.raises(ToolchainError, match=r"mlir-opt exited with 1(.|\n)*error: (.|\n)*To repeat: "):
        lower.to_ptx(kernel(f"{LOAD}\n%y = {wrong}"), "sm_90")


def test_an_undefined_function_is_refused() -> None:
    text = kernel("llvm.call @elsewhere() : () -> ()", globals_="llvm.func @elsewhere()")
    with pytest.raises(ToolchainError, match="calls what nothing defines: elsewhere"):
        lower.to_ptx(text, "sm_90")


def test_a_build_without_libdevice_is_linked_with_the_toolkits_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = toolchain.find("mlir-opt").path
    # A build without libdevice: the same PTX, but for a call left over, unless the command links a library.
    without = f"""
        case "$*" in *--version*) exec {real} "$@";; esac
        {real} "$@" || exit
        case "$*" in *" l="*) exit;; esac
        sed -i 's/assembly = "/&.extern .func  (.param .b32 r) __nv_expf\\\\0A(\\\\0A)\\\\0A;\\\\0A/' \\
          "$(echo "$*" | sed 's/.*-o //')" """
    monkeypatch.setattr(config, "mlir_opt", script(tmp_path / "mlir-opt", without))
    monkeypatch.setattr(lower, "find_file", lambda *names: None)  # type: ignore[misc]
    with pytest.raises(ToolchainError, match=r"left __nv_expf unlinked(.|\n)*pip install nvidia-cuda-nvcc"):
        lower.to_ptx(kernel(SAXPY), "sm_90")
    bitcode = toolchain.find_file("nvvm/libdevice/libdevice.10.bc")
    if bitcode is not None:
        monkeypatch.setattr(lower, "find_file", lambda *names: bitcode)  # type: ignore[misc]
        assert "fma.rn.f32" in lower.to_ptx(kernel(SAXPY), "sm_90")


@needs_ptxas
def test_ptxas_shows_its_complaint() -> None:
    with pytest.raises(ToolchainError, match=r"ptxas exited with \d+(.|\n)*error(.|\n)*To repeat: "):
        lower.assemble(".version 8.3\n.target sm_90\n.address_size 64\nnonsense", "sm_90")


def test_unescaping_is_the_inverse_of_mlirs_escapes() -> None:
    text = 'assembly = "a\\\\0A\\0A\\09\\22\\"\\C3\\A4\\00"'
    assert lower._assembly(text) == 'a\\0A\n\t""ä'  # pyright: ignore[reportPrivateUsage]
