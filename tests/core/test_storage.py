"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from ridgeformer.core.storage import write_whole
from support import refusal

OLD, NEW = b"what was there before", b"what shall be there"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    return path


def only_the_old_file_is_there(target: Path) -> bool:
    return [path.name for path in target.parent.iterdir()] == [target.name] and target.read_bytes() == OLD


def test_write_whole_to_a_new_path_writes_the_bytes_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "new", NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new").read_bytes() == NEW


def test_write_whole_to_an_old_path_replaces_it(target: Path) -> None:
    write_whole(target, NEW)
    assert target.read_bytes() == NEW
    assert len(list(target.parent.iterdir())) == 1


@pytest.mark.skipif(os.name != "posix", reason="permission bits are those of POSIX")
def test_write_whole_gives_the_permissions_that_open_would(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", NEW)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be synchronised elsewhere")
def test_write_whole_synchronises_the_file_before_the_rename_and_the_folder_after(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(handle: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def record_replace(source: str, destination: str) -> None:
        assert Path(source).read_bytes() == NEW
        events.append("rename")
        replace(source, destination)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    write_whole(target, NEW)
    assert events == ["file", "rename", "folder"]


@pytest.mark.parametrize("function", ["fsync", "replace", "chmod", "fdopen"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_write_whole_on_a_failing_disk_keeps_the_old_file_and_leaves_no_part(
    target: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)
    with refusal(re.escape(f"{target}: {os.strerror(number)}")):
        write_whole(target, NEW)
    assert only_the_old_file_is_there(target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_write_whole_on_a_full_device_says_so(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real ENOSPC from the write itself, by opening the always-full device in place of the temporary file."""
    original = os.fdopen

    def open_full(handle: int, mode: str) -> Any:
        os.close(handle)
        return original(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(os, "fdopen", open_full)
    with refusal(os.strerror(errno.ENOSPC)):
        write_whole(target, NEW)
    assert only_the_old_file_is_there(target)


def test_write_whole_interrupted_leaves_no_part(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(target, NEW)
    assert only_the_old_file_is_there(target)


@pytest.mark.parametrize("name", ["nowhere/file", "folder", "a\0b"])
def test_write_whole_to_an_impossible_path_is_refused_and_leaves_no_part(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with refusal("Cannot write"):
        write_whole(tmp_path / name, NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_write_whole_into_a_read_only_folder_is_refused(target: Path) -> None:
    target.parent.chmod(0o555)
    try:
        with refusal():
            write_whole(target, NEW)
        assert only_the_old_file_is_there(target)
    finally:
        target.parent.chmod(0o755)
