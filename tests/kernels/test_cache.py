"""The folder of compiled kernels: nothing is loaded that another user can have put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eddyline.core import folders
from eddyline.kernels import cache


@pytest.fixture
def bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folders of the first two choices, for this process."""
    first, second = tmp_path / "cache", tmp_path / "temporary"
    monkeypatch.setattr(cache, "_given", None)
    monkeypatch.setenv(folders.VARIABLE, str(first))
    monkeypatch.setattr("tempfile.tempdir", str(second))
    second.mkdir()
    return first / "eddyline" / cache._name(), folders.temporary_folder() / cache._name()


def found() -> Path:
    return cache._found.__wrapped__()


def test_the_folder_is_made_for_this_user_alone(bases: tuple[Path, Path]) -> None:
    before = os.umask(0o002)
    try:
        assert found() == bases[0]
    finally:
        os.umask(before)
    assert bases[0].stat().st_mode & 0o777 == 0o700


def test_nothing_is_loaded_from_the_folder_of_another(
    bases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bases[0].mkdir(parents=True)
    (bases[0] / "a.nbi").write_bytes(b"not to be loaded")
    if os.geteuid() == 0:
        os.chown(bases[0], 12345, -1)
        assert found() == bases[1]
        assert "belongs to another user; another is used. Set EDDYLINE_CACHE_DIR" in capsys.readouterr().err
        assert not list(bases[1].iterdir())
    else:  # who cannot give it away becomes another
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        assert folders.why_distrusted(bases[0]).endswith("it belongs to another user")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_nor_from_one_that_others_can_write(
    mode: int, bases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bases[0].mkdir(parents=True)
    bases[0].chmod(mode)
    assert found() == bases[1]
    assert "other users can write to it; another is used." in capsys.readouterr().err


def test_nor_below_one_in_which_others_can_replace_it(
    bases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bases[0].mkdir(parents=True, mode=0o700)
    bases[0].parent.chmod(0o777)
    assert found() == bases[1]
    assert f"other users can write to {bases[0].parent}; another" in capsys.readouterr().err
    bases[0].parent.chmod(0o1777)  # as /tmp: nobody replaces what belongs to another
    assert found() == bases[0]


def test_a_folder_that_cannot_be_written(bases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    bases[0].parent.parent.write_text("a file where a folder should be")
    assert found() == bases[1]
    assert "cannot be written (Not a directory); another is used." in capsys.readouterr().err
    bases[1].rmdir()
    bases[1].parent.rmdir()
    bases[1].parent.write_text("here too")
    last = found()
    assert last.is_dir() and not folders.why_unusable(last)
    cache._remove(last, os.getpid())
    assert not last.exists()


def test_a_prepared_folder_that_cannot_be_written_is_copied(
    bases: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = bases[0] / "a.kernel" / "kernels_1"
    kernel.mkdir(parents=True)
    bases[0].chmod(0o755)
    (kernel / "a.1.nbc").write_bytes(b"code")
    kernel.chmod(0o555)
    usable = folders.why_unusable
    monkeypatch.setattr(cache, "why_unusable", lambda f: "cannot be written" if f == bases[0] else usable(f))
    assert found() == bases[1]
    copied = bases[1] / "a.kernel" / "kernels_1"
    assert (copied / "a.1.nbc").read_bytes() == b"code"
    assert copied.stat().st_mode & 0o200
