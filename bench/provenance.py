"""What a result says of itself: device, versions, commit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import torch


def commit() -> str:
    """The commit that is measured: git's, or SCANWEAVER_COMMIT where there is no repository."""
    told = os.environ.get("SCANWEAVER_COMMIT", "")
    if not told:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        told = asked.stdout.strip()
    assert re.fullmatch("[0-9a-f]{40}", told), f"no commit: {told!r}"
    return told


def processor() -> str:
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{names[0]}, {os.cpu_count()} cores"


def write(path: Path, results: dict[str, Any]) -> None:
    """The results as JSON, with what they were measured on."""
    on: dict[str, Any] = {"commit": commit(), "torch": torch.__version__, "processor": processor()}
    if torch.cuda.is_available():
        on |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    path.write_text(json.dumps(on | results, indent=1) + "\n")
