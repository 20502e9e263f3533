"""lit's settings for the FileCheck tests, run by pytest (tests/test_filecheck.py) or by `lit tests/filecheck`

Tools: `scanweaver-opt` and `filecheck` of this environment, `%mlir-opt` as ScanWeaver finds it. A test that
assembles PTX says `REQUIRES: ptxas`.
"""

import os
import sys
from pathlib import Path

import lit.formats

from scanweaver.gpu_exec.toolchain import find, look

config = globals()["config"]  # put there by lit
here = Path(__file__).resolve().parent

config.name = "ScanWeaver"
config.suffixes = [".mlir"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = str(here)
config.test_exec_root = os.environ.get("SCANWEAVER_LIT_OUT") or str(here.parents[1] / "build" / "filecheck")

config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), config.environment["PATH"]])
for name in ("HOME", "SCANWEAVER_MLIR_OPT", "SCANWEAVER_CACHE_DIR", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions += [("%mlir-opt", str(find("mlir-opt").path)), ("%python", sys.executable)]
if look("ptxas") is not None:
    config.available_features.add("ptxas")
