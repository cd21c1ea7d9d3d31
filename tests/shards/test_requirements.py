"""What stops Spark from running here is told in one sentence, with the remedy, before Spark is started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from eddyline import cli
from eddyline.core.errors import EddylineError
from eddyline.spark import requirements
from eddyline.spark.requirements import PROVIDER_KEY, ROCKSDB, check, check_session

GOOD = {
    "pyspark": "4.3.0",
    "pandas": "2.3.3",
    "pyarrow": "22.0.0",
    "protobuf": "6.33.5",
    "grpcio": "1.76.0",
    "grpcio-status": "1.76.0",
    "googleapis-common-protos": "1.71.0",
    "zstandard": "0.25.0",
}
SAYS_17 = 'openjdk version "17.0.15" 2025-04-15'


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The installed distributions; a test takes away or replaces one."""
    installed = dict(GOOD)

    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    modules = {p.module for p in (requirements.PYSPARK, *requirements.WORKER, *requirements.CONNECT)}
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else found(name))
    return installed


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return Java(tmp_path, monkeypatch)


class Java:
    """A fake one, as a shell script that says what it is told to, and writes down how it was called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.calls = folder / "java", folder / "calls"
        self.executable = self.home / "bin" / "java"
        self.executable.parent.mkdir(parents=True)
        monkeypatch.setenv("PATH", str(self.executable.parent))

    def says(self, *lines: str, status: int = 0) -> None:
        told = "".join(f"echo '{line}' >&2\n" for line in lines)
        self.executable.write_text(f'#!/bin/sh\necho "$*" >> {self.calls}\n{told}exit {status}\n')
        self.executable.chmod(0o755)


def sentence(capture: pytest.ExceptionInfo[EddylineError]) -> str:
    text = str(capture.value)
    assert "\n" not in text
    assert text.endswith(".")
    assert capture.value.exit_status == 1
    return text


def refusal(*, connect: bool = False) -> str:
    with pytest.raises(EddylineError) as error:
        check(connect=connect)
    text = sentence(error)
    assert "--runtime inline" in text
    return text


def test_all_there_asks_java_once(versions: dict[str, str], java: Java) -> None:
    java.says("WARNING: Using incubator modules: jdk.incubator.vector", SAYS_17)
    check()
    assert len(java.calls.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "said", [SAYS_17, 'java version "21.0.4" 2024-07-16 LTS', 'openjdk version "25.0.3" 2026-04-21']
)
def test_javas_that_spark_supports(versions: dict[str, str], java: Java, said: str) -> None:
    java.says(said)
    check()


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("pyspark", "the Spark runtime needs pyspark; install it with pip install 'eddyline[spark]'"),
        ("pandas", "the Spark runtime needs pandas; install"),
        ("protobuf", "the Spark runtime needs protobuf, which Spark's stateful Python operators import; install"),
    ],
)
def test_a_missing_package(versions: dict[str, str], java: Java, package: str, words: str) -> None:
    java.says(SAYS_17)
    del versions[package]
    assert words in refusal()
    assert not java.calls.exists()


def test_a_server_on_spark_says_it_too(
    versions: dict[str, str], java: Java, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eddyline.server.serve.serve", lambda *_, **__: 0)
    del versions["pyspark"]
    assert cli.main(["serve", "--runtime", "spark"]) == 1
    assert "error: the Spark runtime needs pyspark; install it with pip" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "version", "words"),
    [
        ("pyspark", "4.2.1", "pyspark 4.2.1 is installed, but the Spark runtime needs pyspark>=4.3; pip install"),
        ("pyspark", "3.5.8", "pyspark 3.5.8 is installed"),
        ("pandas", "3.0.1", "needs pandas>=2.2,<3 (Spark's Python workers do not work with pandas 3); pip install"),
        ("pandas", "1.5.3", "pandas 1.5.3 is installed, but the Spark runtime needs pandas>=2.2,<3; pip install"),
        ("protobuf", "5.29.6", "needs protobuf>=6.33.5,<8; pip install 'protobuf>=6.33.5,<8'"),
    ],
)
def test_a_wrong_version(versions: dict[str, str], java: Java, package: str, version: str, words: str) -> None:
    java.says(SAYS_17)
    versions[package] = version
    assert words in refusal()


def test_a_spark_on_the_python_path_has_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="4.3.7", __spec__=SimpleNamespace()))
    assert requirements.installed_version(requirements.PYSPARK) == "4.3.7"


def test_no_java_at_all(versions: dict[str, str], java: Java) -> None:
    assert "Spark needs Java, and there is none (no JAVA_HOME, no java on the PATH); install Java 17" in refusal()


def test_java_home_comes_first_as_in_spark(
    versions: dict[str, str], java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.says(SAYS_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert f"JAVA_HOME is {tmp_path / 'none'}, but there is no Java in its bin folder" in refusal()
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    monkeypatch.setenv("PATH", "")
    check()


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (['java version "1.8.0_402"'], 0, "is Java 8.0, but Spark runs on Java 17, 21 or 25"),
        (['openjdk version "11.0.22" 2024-01-16'], 0, "is Java 11.0.22, but Spark runs on Java 17, 21 or 25"),
        (['openjdk version "26" 2026-03-17'], 0, "is Java 26, but Spark runs on Java 17, 21 or 25"),
        (['openjdk version "25.0.1" 2025-10-21'], 0, "may corrupt data under Spark; install Java 25.0.3 or later"),
        (["Unrecognized option: --add-modules"], 1, "is older than 9, but Spark runs on"),
        (
            [
                "Error occurred during initialization of boot layer",
                "java.lang.module.FindException: Module jdk.incubator.vector not found",
            ],
            1,
            "lacks the module jdk.incubator.vector, which Spark's launcher asks for; install a full Java 17, 21 or 25",
        ),
        (["The operation couldn’t be completed.", "Unable to locate a Java Runtime."], 1, "Unable to locate a Java"),
        ([], 0, "does not start (it said: nothing)"),
    ],
)
def test_a_wrong_java(versions: dict[str, str], java: Java, said: list[str], status: int, words: str) -> None:
    java.says(*said, status=status)
    text = refusal()
    assert words in text
    assert str(java.executable) in text


def test_a_java_that_is_no_program(versions: dict[str, str], java: Java) -> None:
    java.executable.write_text("not a program")
    java.executable.chmod(0o755)
    assert "does not start (it said: " in refusal()


def test_a_server_needs_no_java(versions: dict[str, str], java: Java) -> None:
    check(connect=True)


@pytest.mark.parametrize("package", ["grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"])
def test_only_a_server_needs_its_packages(versions: dict[str, str], java: Java, package: str) -> None:
    java.says(SAYS_17)
    del versions[package]
    check()
    assert f"needs {package}, which Spark Connect imports; install it with" in refusal(connect=True)


def session(version: str = "4.3.0", **settings: str) -> SimpleNamespace:
    """All that a session on Spark Connect offers as well."""
    return SimpleNamespace(version=version, conf=SimpleNamespace(get=lambda key, default: settings.get(key, default)))


def test_a_session_with_rocksdb(versions: dict[str, str]) -> None:
    check_session(session(**{PROVIDER_KEY: ROCKSDB}), stateful=True)
    check_session(session(**{PROVIDER_KEY: "com.vendor.state.RocksDBStateStoreProvider"}), stateful=True)
    check_session(session(), stateful=False)


@pytest.mark.parametrize("settings", [{}, {PROVIDER_KEY: ROCKSDB.replace("RocksDB", "HDFSBacked")}])
def test_state_needs_rocksdb(versions: dict[str, str], settings: dict[str, str]) -> None:
    with pytest.raises(EddylineError) as error:
        check_session(session(**settings), stateful=True)
    assert f'run spark.conf.set("{PROVIDER_KEY}", "{ROCKSDB}").' in sentence(error)


def test_a_session_of_an_old_spark(versions: dict[str, str]) -> None:
    with pytest.raises(EddylineError) as error:
        check_session(session("4.0.1"), stateful=False)
    assert "this session is Spark 4.0.1, but Eddyline needs Spark 4.3 or later" in sentence(error)


def test_a_session_with_pandas_3(versions: dict[str, str]) -> None:
    versions["pandas"] = "3.0.0"
    with pytest.raises(EddylineError) as error:
        check_session(session(), stateful=False)
    assert "pandas 3.0.0 is installed" in sentence(error)


def test_the_check_itself_imports_no_spark() -> None:
    program = "import sys, eddyline.spark.requirements; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
