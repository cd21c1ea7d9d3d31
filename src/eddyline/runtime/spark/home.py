"""Where Spark is installed, seen without its zipped Python sources.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` in front of the path of every Python process that it starts, and
Python compiles what it imports from there anew each time: close to a second a process, and the first micro-batch of a
query waits for six of them, one after another. Where pyspark was installed by pip the same modules are there a second
time, compiled. So Spark is started from a folder that has the installed programs and jars (as links) and no zip.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

LINKED = ("bin", "jars")


def installed_home() -> Path:
    """The user's SPARK_HOME, or that of the installed pyspark."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def spark_home(cache: Path) -> Path:
    """The folder to start Spark from: links kept in ``cache``, or the installed one where that is not possible.

    A SPARK_HOME that the user has set is left as it is, and so is one with settings of its own.
    """
    import pyspark

    installed = installed_home()
    packaged = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or installed.resolve() != packaged.resolve() or (installed / "conf").exists():
        return installed
    light = cache / f"spark-{hashlib.sha256(str(installed).encode()).hexdigest()[:16]}"
    try:
        light.mkdir(parents=True, exist_ok=True)
        for name in LINKED:
            if not (light / name).exists():
                (light / name).symlink_to(installed / name, target_is_directory=True)
    except FileExistsError:
        pass  # another process was faster
    except OSError:
        return installed
    return light if all((light / name).is_dir() for name in LINKED) else installed
