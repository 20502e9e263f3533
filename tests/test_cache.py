"""The artifact's file and the cache: what comes back is what went in, or nothing does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path

import pytest

from scanweaver.config import config
from scanweaver.cpu_exec import host
from scanweaver.errors import ScanWeaverError
from scanweaver.gpu_exec import cache as caching
from scanweaver.gpu_exec.abi import Kernel, Operand, Param, Recipe
from scanweaver.gpu_exec.artifact import Artifact, DamagedArtifactError
from scanweaver.gpu_exec.cache import Cache

KEY = hashlib.sha256(b"a key").hexdigest()


def artifact(stage: str = "ä: one step", binary: bytes = bytes(range(256))) -> Artifact:
    recipe = Recipe(
        "sm_90",
        (Operand("x", "input", ("b", "t"), "bf16", contiguous="t", align=16),),
        (Kernel("k", (Param("pointer", 0), Param("stride", 0, "b")), ("b",), "t", 32, 4, 128, 1024),),
    )
    return Artifact(
        "ewm",
        "sm_90",
        recipe,
        {"recurrence": stage, "scan": "", "gpu": "module {}", "ptx": ".version"},
        {"cubin": binary},
        {"k": {"registers": 40}},
        {"mlir-opt": "22.1.8"},
        {"mlir-opt": 51.5},
    )


# --- artifact ---


def test_an_artifact_comes_back_from_its_file(tmp_path: Path) -> None:
    artifact().save(tmp_path / "a.swa")
    loaded = Artifact.load(tmp_path / "a.swa")
    assert loaded == artifact()
    assert list(loaded.stages) == ["recurrence", "scan", "gpu", "ptx"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.swa"]


def test_the_same_artifact_is_the_same_bytes_and_any_unzip_reads_them(tmp_path: Path) -> None:
    artifact().save(tmp_path / "a.swa")
    assert (tmp_path / "a.swa").read_bytes() == artifact().to_bytes()
    with zipfile.ZipFile(tmp_path / "a.swa") as archive:
        assert archive.testzip() is None
        assert archive.read("stages/00-recurrence").decode() == "ä: one step"
        assert archive.read("binaries/cubin") == bytes(range(256))
        sums = json.loads(archive.read("manifest.json"))["sha256"]
        assert sums == {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name != "manifest.json"
        }


def test_any_flipped_byte_or_lost_end_is_noticed() -> None:
    data = artifact(binary=b"x").to_bytes()
    for i in range(len(data)):
        with pytest.raises(DamagedArtifactError):
            Artifact.from_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
    for i in range(0, len(data), 7):
        with pytest.raises(DamagedArtifactError):
            Artifact.from_bytes(data[:i])
    with pytest.raises(DamagedArtifactError):
        Artifact.from_bytes(data + b"\0")


def test_what_is_no_artifact_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DamagedArtifactError, match=str(tmp_path / "text")):
        Artifact.load(tmp_path / "text")
    assert issubclass(DamagedArtifactError, ScanWeaverError)


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scanweaver.gpu_exec.artifact.FORMAT", 2)
    data = artifact().to_bytes()
    monkeypatch.undo()
    with pytest.raises(DamagedArtifactError, match="format 2; this version reads 1"):
        Artifact.from_bytes(data)


# --- cache ---


def test_what_was_put_is_got_and_nothing_else(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "cache")
    assert cache.get(KEY) is None
    for value in (b"", b"one", bytes(100_000), b"two"):
        cache.put(KEY, value)
        assert cache.get(KEY) == Cache(cache.directory).get(KEY) == value
    assert cache.get("0" * 64) is None
    cache.remove(KEY)
    assert cache.get(KEY) is None


def test_the_directory_is_its_owners_alone(tmp_path: Path) -> None:
    Cache(tmp_path / "cache").put(KEY, b"code")
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def _entry(directory: Path) -> Path:
    (path,) = [path for path in directory.rglob("*") if path.is_file()]
    return path


def test_every_flipped_byte_is_noticed_and_the_entry_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"a small value")
    path = _entry(tmp_path)
    data = path.read_bytes()
    for i in range(len(data)):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0x10]) + data[i + 1 :])
        assert cache.get(KEY) is None, i
        assert not path.exists()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        assert cache.get(KEY) is None, end
    cache.put(KEY, b"a small value")
    assert cache.get(KEY) == b"a small value"


def test_flipped_bytes_of_a_big_value_are_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    value = os.urandom(300_000)
    cache.put(KEY, value)
    path = _entry(tmp_path)
    data = bytearray(path.read_bytes())
    for i in [*range(64), *range(64, len(data), 9973), len(data) - 1]:
        data[i] ^= 0x80
        path.write_bytes(data)
        assert cache.get(KEY) is None, i
        data[i] ^= 0x80


def test_every_byte_of_an_entry_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    data = artifact().to_bytes()
    cache.put(KEY, data)
    sha256, hashed = hashlib.sha256, list[bytes]()

    class Counting:
        def __init__(self, data: bytes):
            self.hash = sha256()
            self.update(data)

        def update(self, data: bytes) -> None:
            hashed.append(bytes(data))
            self.hash.update(data)

        def digest(self) -> bytes:
            return self.hash.digest()

        def hexdigest(self) -> str:
            return self.hash.hexdigest()

    monkeypatch.setattr(hashlib, "sha256", Counting)
    assert caching.get_or_compile(KEY, lambda: pytest.fail("compiled again"), cache) == artifact()
    assert b"".join(hashed) == KEY.encode() + data


def test_an_entry_under_another_key_is_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"value")
    other = hashlib.sha256(b"another").hexdigest()
    (tmp_path / other[:2]).mkdir(exist_ok=True)
    _entry(tmp_path).rename(tmp_path / other[:2] / other[2:])
    assert cache.get(other) is None


def test_a_damaged_artifact_is_compiled_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    compiled: list[int] = []

    def compile_() -> Artifact:
        compiled.append(1)
        return artifact()

    for expected in (1, 1):
        assert caching.get_or_compile(KEY, compile_, cache) == artifact()
        assert len(compiled) == expected
    path = _entry(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert caching.get_or_compile(KEY, compile_, cache) == artifact()
    cache.put(KEY, b"whole, but no artifact")
    assert caching.get_or_compile(KEY, compile_, cache) == artifact()
    assert len(compiled) == 3
    assert caching.get_or_compile(KEY, compile_, cache) == artifact()
    assert len(compiled) == 3


_WRITER = """
import hashlib, sys
from pathlib import Path
from scanweaver.gpu_exec.cache import Cache
cache = Cache(Path(sys.argv[1]))
for n in range(int(sys.argv[3])):
    key = hashlib.sha256(str(n % 5).encode()).hexdigest()
    got = cache.get(key)
    assert got is None or got == got[:1] * 200_000, "torn"
    cache.put(key, sys.argv[2].encode() * 200_000)
"""


def test_processes_race_and_one_is_killed(tmp_path: Path) -> None:
    endless = subprocess.Popen([sys.executable, "-c", _WRITER, tmp_path, "z", "100000000"])
    racing = [subprocess.Popen([sys.executable, "-c", _WRITER, tmp_path, who, "60"]) for who in "ab"]
    while not list(tmp_path.glob("??/*")):
        time.sleep(0.01)
    time.sleep(0.2)
    endless.kill()
    endless.wait()
    assert [process.wait(timeout=120) for process in racing] == [0, 0]
    cache = Cache(tmp_path)
    for n in range(5):
        got = cache.get(hashlib.sha256(str(n).encode()).hexdigest())
        assert got is not None
        assert got == got[:1] * 200_000


_KILLED = """
import os, sys
from pathlib import Path
from scanweaver.gpu_exec.cache import Cache
os.fsync = lambda handle: os.kill(os.getpid(), 9)
Cache(Path(sys.argv[1])).put(sys.argv[2], b"half")
"""


def test_what_a_killed_writer_leaves_is_no_entry_and_is_swept(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(KEY, b"whole")
    done = subprocess.run([sys.executable, "-c", _KILLED, tmp_path, KEY], check=False)
    assert done.returncode == -9
    (left,) = (tmp_path / "unfinished").iterdir()
    assert cache.get(KEY) == b"whole"
    Cache(tmp_path).put(KEY, b"again")
    assert left.exists()  # it may be another process's that is still writing
    os.utime(left, (time.time() - 7200,) * 2)
    Cache(tmp_path).put(KEY, b"again")
    assert not left.exists()
    assert cache.get(KEY) == b"again"


_RACE = Path(__file__).parent.parent / "bench" / "cache_race.py"


@pytest.mark.host_tools
@pytest.mark.skipif(not _RACE.exists(), reason="needs bench/, which is not part of the sdist")
def test_processes_that_compile_race_and_half_of_them_are_killed() -> None:
    command = [sys.executable, _RACE, "--processes", "4", "--rounds", "4", "--rewriting", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].startswith("4 rounds of 4 processes")


def test_folders_that_tools_left_a_week_ago_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ["scanweaver-mlir-opt-abcdefgh", "scanweaver-llc-12345678", "scanweaver-mine-abcdefgh", "scanweaver-opt-a"]
    for name in [*names, "scanweaver-opt-recently"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "input.mlir").write_text("")
        if name in names:
            os.utime(tmp_path / name, (time.time() - 8 * DAY,) * 2)
    Cache(tmp_path / "cache").put(KEY, b"")
    left = {path.name for path in tmp_path.iterdir()} - {"cache"}
    assert left == {"scanweaver-mine-abcdefgh", "scanweaver-opt-a", "scanweaver-opt-recently"}


DAY = 24 * 3600


def _filled(directory: Path, days: dict[str, int]) -> dict[str, Path]:
    """Entries of 1000 bytes and a digest by name, each last read that many days ago."""
    paths: dict[str, Path] = {}
    for name, ago in days.items():
        Cache(directory).put(_key(name), bytes(1000))
        paths[name] = directory / _key(name)[:2] / _key(name)[2:]
        os.utime(paths[name], (time.time() - ago * DAY,) * 2)
    return paths


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def test_above_its_size_a_cache_drops_what_was_long_unread_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = _filled(tmp_path, {"fresh": 0, "month": 29, "old": 31, "older": 40, "oldest": 400, "read": 500})
    Cache(tmp_path).put(KEY, b"")  # far below the size that is allowed
    assert all(path.exists() for path in paths.values())
    assert Cache(tmp_path).get(_key("read")) == bytes(1000)  # is a use: it stays

    monkeypatch.setattr(caching, "MAX_BYTES", 4 * 1032 + 100)
    Cache(tmp_path).put(KEY, b"")
    assert {name for name, path in paths.items() if not path.exists()} == {"older", "oldest"}

    monkeypatch.setattr(caching, "MAX_BYTES", 100)
    Cache(tmp_path).put(KEY, b"")
    assert {name for name, path in paths.items() if path.exists()} == {"fresh", "month", "read"}
    assert Cache(tmp_path).get(KEY) == b""


_OPENER = """
import hashlib, os, sys
from pathlib import Path
from scanweaver.gpu_exec import cache
cache.MAX_BYTES = 0
directory = Path(sys.argv[1])
for n in range(40):
    for m in range(8):
        key = hashlib.sha256(str(m).encode()).hexdigest()
        opened = cache.Cache(directory)
        got = opened.get(key)
        assert got is None or got == got[:1] * 1000, "torn"
        opened.put(key, sys.argv[2].encode() * 1000)
        try:
            os.utime(directory / key[:2] / key[2:], (0, 0))
        except FileNotFoundError:
            pass
"""


def test_processes_that_drop_the_same_entries_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", _OPENER, str(tmp_path)]
    racing = [subprocess.Popen([*command, who]) for who in "abc"]
    assert [process.wait(timeout=120) for process in racing] == [0, 0, 0]


def test_an_entry_that_may_not_be_touched_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cache(tmp_path).put(KEY, b"value")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(caching.os, "utime", refuse)
    assert Cache(tmp_path).get(KEY) == b"value"


@pytest.mark.parametrize("block", ["file", "gone", "full"])
def test_an_unusable_directory_costs_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    cache = Cache(tmp_path / "cache")
    if block == "file":
        (tmp_path / "cache").write_text("not a directory")
    else:
        code = {"gone": 30, "full": 28}[block]  # EROFS, ENOSPC

        def refuse(*_: object, **__: object) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(caching, "write_atomically", refuse)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert caching.get_or_compile(KEY, artifact, cache) == artifact()
    (warning,) = caught
    assert str(tmp_path / "cache") in str(warning.message)
    assert "SCANWEAVER_CACHE_DIR" in str(warning.message)


def test_a_cache_deleted_under_a_running_process_is_made_again(tmp_path: Path) -> None:
    import shutil

    cache = Cache(tmp_path / "cache")
    cache.put(KEY, b"one")
    shutil.rmtree(tmp_path / "cache")
    assert cache.get(KEY) is None
    cache.put(KEY, b"two")
    assert cache.get(KEY) == b"two"


def test_the_configuration_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in (tmp_path / "here", tmp_path / "there"):
        monkeypatch.setattr(config, "cache_dir", folder)
        assert caching.default_cache().directory == folder
        assert caching.default_cache() is caching.default_cache()


# --- keys ---


def test_everything_that_decides_is_in_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def tool(name: str, body: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    tool("ptxas", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    before = caching.artifact_key("text", "sm_90", {"strategy": "auto", "parallel": True})
    assert caching.artifact_key("text", "sm_90", {"parallel": True, "strategy": "auto"}) == before
    keys = {
        before,
        caching.artifact_key("text ", "sm_90", {"strategy": "auto", "parallel": True}),
        caching.artifact_key("text", "sm_80", {"strategy": "auto", "parallel": True}),
        caching.artifact_key("text", "cpu", {"strategy": "auto", "parallel": True}),
        caching.artifact_key("text", "sm_90", {"strategy": "serial", "parallel": True}),
    }
    tool("ptxas", "exit 1 # another build")
    keys.add(caching.artifact_key("text", "sm_90", {"strategy": "auto", "parallel": True}))
    monkeypatch.setattr(caching, "source_hash", lambda: "another version")
    keys.add(caching.artifact_key("text", "sm_90", {"strategy": "auto", "parallel": True}))
    on_this_host = caching.artifact_key("text", "cpu", {})
    monkeypatch.setattr(host, "identity", lambda: "another CPU")
    keys |= {on_this_host, caching.artifact_key("text", "cpu", {})}
    assert len(keys) == 9


def test_from_disk_within_50_milliseconds_and_no_tool_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    big = artifact(stage="%x = arith.addf %y, %z : f32\n" * 20_000, binary=os.urandom(200_000))

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a tool was started")

    cache.put(caching.artifact_key("text", "sm_90", {}), big.to_bytes())
    monkeypatch.setattr(subprocess, "run", started)
    caching.source_hash.cache_clear()
    start = time.perf_counter()
    key = caching.artifact_key("text", "sm_90", {})
    found = caching.get_or_compile(key, lambda: pytest.fail("compiled again"), cache)
    took = time.perf_counter() - start
    assert found == big
    assert took < 0.05
