"""The folder that Spark is started from: links to what is installed, made once, without what slows the start."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from eddyline.spark import class_archive, home


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return home.installed_home()


def test_all_jars_but_those_of_machine_learning(installed: Path, tmp_path: Path) -> None:
    light = home.spark_home(tmp_path / "cache")
    there = {p.name for p in (installed / "jars").glob("*.jar")}
    assert there - {p.name for p in (light / "jars").iterdir()} == {n for n in there if n.startswith("spark-mllib_")}
    assert all(p.resolve().is_file() for p in (light / "jars").iterdir())
    assert (light / "bin" / "spark-submit").is_file()
    assert not (light / "python").exists()


def test_it_is_made_once(installed: Path, tmp_path: Path) -> None:
    light = home.spark_home(tmp_path)
    made = light.stat().st_ctime_ns
    assert home.spark_home(tmp_path) == light
    assert light.stat().st_ctime_ns == made
    assert list(tmp_path.iterdir()) == [light]  # and nothing unfinished is left behind


def test_another_process_may_be_faster(installed: Path, tmp_path: Path) -> None:
    light = home.spark_home(tmp_path)
    home._link(light, installed, home.jars(installed))  # it found no folder, and there is one by now
    assert list(tmp_path.iterdir()) == [light]


def test_a_place_that_cannot_be_written_to(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert home.spark_home(tmp_path / "file") == installed


def test_the_archive_is_the_same_from_either_folder(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = home.spark_home(tmp_path)
    assert class_archive.place("/usr/bin/java", light) == class_archive.place("/usr/bin/java", installed)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert home.spark_home(tmp_path) == tmp_path  # the user's own is left as it is


def test_links_that_others_can_change_are_not_used(installed: Path, tmp_path: Path) -> None:
    light = home.spark_home(tmp_path)
    (light / home.JARS).chmod(0o777)
    assert home.spark_home(tmp_path) == installed
    (light / home.JARS).chmod(0o755)
    assert home.spark_home(tmp_path) == light


def test_an_archive_that_others_can_change_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "spark.jsa"
    file.write_bytes(class_archive.HEADER + b"classes")
    file.chmod(0o644)
    assert class_archive.complete(file)
    file.chmod(0o664)
    assert not class_archive.complete(file)
