"""Checks of what the Spark runtime needs, made before Spark can fail with a stack trace.

Each failure is one sentence that names what is wrong, how to put it right, and the runtime that needs none of it.
Nothing here imports pyspark: the check must work where that is what is missing. Java is asked once, with the option
that Spark's own launcher gives it, so that a Java that answers is a Java that starts.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyline.core.errors import EddylineError

PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

INSTALL = "pip install 'eddyline[spark]'"
INLINE = "or run without Spark: --runtime inline"
LONG_TERM_JAVA = (17, 21, 25)
# The first updates of Java 25 may corrupt data under the default garbage collector (JDK-8377811).
SOUND_25 = (25, 0, 3)
VECTOR = "jdk.incubator.vector"
WRONG_JAVA = f"Spark runs on Java 17, 21 or 25; install one of them and point JAVA_HOME to it, {INLINE}."
_JAVA_SECONDS = 30  # for Java to print its version; one that takes longer is broken


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution with its first usable version and the first that is not; ``module`` is what programs import."""

    name: str
    module: str
    first: tuple[int, ...]
    below: tuple[int, ...] = ()
    why: str = ""

    @property
    def range(self) -> str:
        """
        >>> Package("pandas", "pandas", (2, 2), (3,)).range
        '>=2.2,<3'
        """
        return f">={dotted(self.first)}" + (f",<{dotted(self.below)}" if self.below else "")


STATE = "which Spark's stateful Python operators import"
CONNECT_WHY = "which Spark Connect imports"
PYSPARK = Package("pyspark", "pyspark", (4, 3))
WORKER = (
    Package("pandas", "pandas", (2, 2), (3,), "Spark's Python workers do not work with pandas 3"),
    Package("pyarrow", "pyarrow", (18,), (), "Spark's Arrow exchange needs it"),
    # Spark's generated code is of protobuf 6.33.5, which runs with itself and later, up to the next major version.
    Package("protobuf", "google.protobuf", (6, 33, 5), (8,), STATE),
)
CONNECT = (
    Package("grpcio", "grpc", (1, 76), (), CONNECT_WHY),
    Package("grpcio-status", "grpc_status", (1, 76), (), CONNECT_WHY),
    Package("googleapis-common-protos", "google.rpc", (1, 71), (), CONNECT_WHY),
    Package("zstandard", "zstandard", (0, 25), (), CONNECT_WHY),
)


def check(*, connect: bool = False) -> None:
    """Raise ``EddylineError`` with one sentence if Spark cannot run here.

    With ``connect``, if there is no way to a Spark Connect server, which needs more packages and no Java.
    """
    for package in (PYSPARK, *WORKER, *(CONNECT if connect else ())):
        check_package(package)
    if not connect:
        check_java()


def check_package(package: Package) -> None:
    """One installed distribution against its range.

    >>> check_package(Package("numpy", "numpy", (2,), (3,)))
    >>> check_package(Package("numpy", "numpy", (999,)))
    Traceback (most recent call last):
    eddyline.core.errors.EddylineError: numpy ... is installed, but the Spark runtime needs numpy>=999; ...
    """
    found = installed_version(package)
    if found is None:
        why = f", {package.why}" if package.why and package.why.startswith("which") else ""
        raise EddylineError(f"the Spark runtime needs {package.name}{why}; install it with {INSTALL}, {INLINE}.")
    numbers = version_numbers(found)
    if numbers < package.first or (package.below and numbers >= package.below):
        reason = f" ({package.why})" if package.below and numbers >= package.below and package.why else ""
        raise EddylineError(
            f"{package.name} {found} is installed, but the Spark runtime needs {package.name}{package.range}{reason}; "
            f"pip install '{package.name}{package.range}', {INLINE}."
        )


def installed_version(package: Package) -> str | None:
    """The version by the installer's records, or by the module's own word: a Spark on PYTHONPATH has no records."""
    try:
        return importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        if importlib.util.find_spec(package.module) is None:
            return None
        found = getattr(importlib.import_module(package.module), "__version__", None)
    except ImportError:
        return None
    return str(found) if found is not None else dotted(package.first)


def check_java() -> None:
    """The Java that Spark's launcher would start: there, of a version that Spark supports, with Spark's module."""
    executable = find_java()
    said = _ask(executable)
    version = java_version(said)
    if version and (version[0] not in LONG_TERM_JAVA):
        raise EddylineError(f"{executable} is Java {dotted(version)}, but {WRONG_JAVA}")
    if version and version[0] == SOUND_25[0] and version < SOUND_25:
        raise EddylineError(
            f"{executable} is Java {dotted(version)}, which may corrupt data under Spark; "
            f"install Java {dotted(SOUND_25)} or later, {INLINE}."
        )
    if VECTOR in said and "not found" in said:
        raise EddylineError(
            f"the Java at {executable} lacks the module {VECTOR}, which Spark's launcher asks for; install a full "
            f"Java 17, 21 or 25 (for example apt install openjdk-17-jre-headless) and point JAVA_HOME to it, {INLINE}."
        )
    if not version:
        if re.search(r"[Uu]nrecognized option", said):  # Java 8 has no modules
            raise EddylineError(f"the Java at {executable} is older than 9, but {WRONG_JAVA}")
        words = " ".join(said.split())[:200] or "nothing"
        raise EddylineError(f"the Java at {executable} does not start (it said: {words}); {WRONG_JAVA}")


def find_java() -> str:
    """Where Spark's launcher looks: JAVA_HOME if it is set, and only there; otherwise the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        if not os.access(executable, os.X_OK):
            raise EddylineError(
                f"JAVA_HOME is {home}, but there is no Java in its bin folder; point it to a Java 17, 21 or 25, "
                f"or unset it if java is on the PATH, {INLINE}."
            )
        return str(executable)
    found = shutil.which("java")
    if found is None:
        raise EddylineError(
            "Spark needs Java, and there is none (no JAVA_HOME, no java on the PATH); install Java 17, 21 or 25 "
            f"(for example apt install openjdk-17-jre-headless), {INLINE}."
        )
    return found


def _ask(executable: str) -> str:
    command = [executable, "-XX:+IgnoreUnrecognizedVMOptions", f"--add-modules={VECTOR}", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_JAVA_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"nothing for {_JAVA_SECONDS} seconds"
    except OSError as error:
        return str(error)
    return done.stderr + done.stdout


def java_version(said: str) -> tuple[int, ...]:
    """The version out of ``java -version``, empty if there is none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    (17, 0, 15)
    >>> java_version('java version "1.8.0_402"')
    (8, 0)
    >>> java_version('openjdk version "25-ea" 2025-09-16')
    (25,)
    """
    quoted = re.search(r'version "([^"]+)"', said)
    numbers = version_numbers(quoted[1]) if quoted else ()
    return numbers[1:] if numbers[:1] == (1,) else numbers


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, which is all that ranges compare.

    >>> version_numbers("4.3.0"), version_numbers("5.0.0.dev1"), version_numbers("4.3.0-databricks")
    ((4, 3, 0), (5, 0, 0), (4, 3, 0))
    """
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def check_session(spark: Any, *, stateful: bool) -> None:
    """Raise ``EddylineError`` if this session cannot run a query; reads settings only, and so works on Spark Connect.

    A session belongs to its user: what is missing is asked for with the line to write, never set here.
    """
    oldest = PYSPARK.first
    if version_numbers(spark.version) < oldest:
        raise EddylineError(
            f"this session is Spark {spark.version}, but Eddyline needs Spark {dotted(oldest)} or later; connect to a "
            "newer cluster, or leave the session away (ed.Session()) to run without Spark."
        )
    for package in WORKER if stateful else WORKER[:2]:
        check_package(package)
    _check_workers(spark)
    # By the class's own name: vendors ship theirs in packages of their own.
    if stateful and not str(spark.conf.get(PROVIDER_KEY, "")).endswith(ROCKSDB.rpartition(".")[2]):
        raise EddylineError(
            "this query keeps state, and Spark's Python state needs the RocksDB state store; "
            f'before it, run spark.conf.set("{PROVIDER_KEY}", "{ROCKSDB}").'
        )


def is_connect(spark: Any) -> bool:
    """Whether this session is a client of Spark Connect; this imports nothing of it."""
    return ".connect." in type(spark).__module__


def main() -> int:
    """``python -m eddyline.spark.requirements``: the sentence, if there is one, and the exit status."""
    try:
        check()
    except EddylineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())


def _check_workers(spark: Any) -> None:
    """Spark takes ``python3`` from the PATH for its workers unless configured, and that need not be this Python."""
    if is_connect(spark) or not str(spark.conf.get("spark.master", "")).startswith("local"):
        return
    name = str(getattr(spark.sparkContext, "pythonExec", "python3"))
    found = shutil.which(name)
    if found is not None and found != sys.executable and not _has_eddyline(found):
        raise EddylineError(
            f"Spark's workers would run {found}, where Eddyline is not installed; before the session is made, set"
            ' os.environ["PYSPARK_PYTHON"] = sys.executable.'
        )


@functools.cache
def _has_eddyline(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", "import eddyline"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
