"""The public names of the language: all there, and none imported before it is used."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

import pytest

import scanweaver as sw

# Written out rather than read from the package: what users type is fixed, and this is the list of it.
FUNCTIONS = (
    *("recurrence", "affine_scan", "from_mlir", "load"),
    *("exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tanh"),
    *("sigmoid", "silu", "softplus", "relu", "erf", "maximum", "minimum", "logaddexp"),
    *("isnan", "detach", "real", "imag", "conj", "where", "clamp", "cast", "complex"),
    *("sum", "max", "min", "logsumexp", "argmax", "argmin", "take", "rename"),
)
ERRORS = ("ScanWeaverError", "SignatureError", "NotAssociativeError", "ToolchainError", "UnsupportedError")
NOT_BUILT_YET = ("from_stablehlo", "from_torch", "compat", "algebra")
HEAVY = ("torch", "xdsl", "numpy", "cuda", "rich", "click")


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_there(name: str) -> None:
    assert callable(getattr(sw, name))
    assert name in sw.__all__
    assert name in dir(sw)


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_a_scanweaver_error(name: str) -> None:
    assert issubclass(getattr(sw, name), sw.ScanWeaverError)


def test_submodules_need_no_import_of_their_own() -> None:
    assert run_python("import scanweaver as sw; print(sw.ops.__name__, sw.errors.__name__)").split() == [
        "scanweaver.ops",
        "scanweaver.errors",
    ]


@pytest.mark.parametrize("name", NOT_BUILT_YET)
def test_what_is_not_built_yet_says_so(name: str) -> None:
    with pytest.raises(sw.UnsupportedError, match=rf"scanweaver\.{name} is not built yet"):
        getattr(sw, name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(sw, "exq")
    with pytest.raises(AttributeError, match="'scanweaver' has no attribute 'exq'"):
        _ = sw.exq


def test_star_import_brings_what_all_names() -> None:
    code = "from scanweaver import *; import scanweaver as sw; print(set(sw.__all__) - set(globals()))"
    assert run_python(code).strip() == "set()"


def test_config_stays_the_object_after_its_module_was_imported() -> None:
    """Both have one name; a module in its place would take assignments that nobody reads."""
    code = (
        "import scanweaver as sw; a = sw.config\n"
        "import scanweaver.config; from scanweaver.config import config\n"
        "print(sw.config is a is config)"
    )
    assert run_python(code).strip() == "True"


def test_config_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Config = type(sw.config)
    for name in ("SCANWEAVER_CACHE_DIR", "SCANWEAVER_MLIR_OPT", "SCANWEAVER_TARGET"):
        monkeypatch.delenv(name, raising=False)
    plain = Config()
    assert (plain.mlir_opt, plain.target, plain.batch_invariant) == (None, None, False)
    assert plain.cache_dir.name == "scanweaver"

    monkeypatch.setenv("SCANWEAVER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SCANWEAVER_MLIR_OPT", "~/bin/mlir-opt")
    monkeypatch.setenv("SCANWEAVER_TARGET", "sm_90")
    named = Config()
    assert named.cache_dir == tmp_path
    assert named.mlir_opt == Path.home() / "bin" / "mlir-opt"
    assert named.target == "sm_90"


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, scanweaver; print([m for m in {HEAVY} if m in sys.modules])"
    assert run_python(code).strip() == "[]"


def test_import_takes_a_fifth_of_a_second_at_most() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        run_python(code)
        return time.perf_counter() - start

    assert median(seconds("import scanweaver") for _ in range(5)) <= 0.2


def test_version_is_the_installed_one() -> None:
    assert sw.__version__ == version("scanweaver")
