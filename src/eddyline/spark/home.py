"""A home folder for Spark without the parts that slow its start.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` in front of the path of every Python process that it starts, and
Python compiles what it imports from there anew each time: close to a second a process, and the first micro-batch of a
query waits for six of them, one after another. Where pyspark was installed by pip the same modules are there a second
time, compiled. Besides, the machine-learning library registers functions of its own with every session, which takes
more than a second, and no job of Eddyline can call them. So Spark is started from a folder that has the installed
programs and jars (as links), but neither the zip nor that library.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from eddyline.core.folders import why_distrusted

PROGRAMS: Final = "bin"
JARS: Final = "jars"
LEFT_OUT: Final = ("spark-mllib_",)  # how their names begin


def installed_home() -> Path:
    """The user's SPARK_HOME, or that of the installed pyspark."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def jars(installed: Path) -> list[Path]:
    """The jars that Spark is started with, in order of their names; the same for the folder of links to them."""
    found = (installed / JARS).glob("*.jar")
    return sorted(j.resolve() for j in found if not j.name.startswith(LEFT_OUT))


def spark_home(cache: Path) -> Path:
    """The folder to start Spark from: links kept in ``cache``, or the installed one where that is not possible, or
    others can have written the links.

    A SPARK_HOME that the user has set is left as it is, and so is one with settings of its own.
    """
    import pyspark

    installed = installed_home()
    packaged = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or installed.resolve() != packaged.resolve() or (installed / "conf").exists():
        return installed
    try:
        linked = jars(installed)
        listed = "\n".join(map(str, (installed, *linked)))
        light = cache / f"spark-{hashlib.sha256(listed.encode()).hexdigest()[:16]}"
        if not light.is_dir():
            _link(light, installed, linked)
        whole = (light / PROGRAMS).is_dir() and len(list((light / JARS).iterdir())) == len(linked)
        whole = whole and not any(map(why_distrusted, (light, light / JARS)))
    except OSError:
        return installed
    return light if whole else installed  # files were removed from the cache


def _link(light: Path, installed: Path, linked: list[Path]) -> None:
    """All at once: no process sees a folder with only some of the links."""
    light.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{light.name}.", dir=light.parent))
    try:
        (unfinished / PROGRAMS).symlink_to(installed / PROGRAMS, target_is_directory=True)
        (unfinished / JARS).mkdir()
        for jar in linked:
            (unfinished / JARS / jar.name).symlink_to(jar)
        for folder in (unfinished, unfinished / JARS):  # others may share the cache
            folder.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            unfinished.rename(light)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if not light.is_dir():
        raise NotADirectoryError(light)
