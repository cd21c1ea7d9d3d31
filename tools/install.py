"""Install a package with pip and say what it is doing: one line for each large file that is fetched and each stage.

``make`` runs it in the new virtual environment, which has nothing in it yet, so it needs the standard library alone:
``python tools/install.py --editable '.[dev]'``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Final

LARGE: Final = 5.0  # megabytes: what takes long enough to be worth a line
_FETCHED: Final = re.compile(r"\s*(Downloading|Using cached) (\S+?)(?:\.metadata)? \(([\d.]+) ([kMG]?B)\)")
_MEGABYTES: Final = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def readable(lines: Iterable[str]) -> Iterator[str]:
    """What is worth saying of pip's own lines.

    >>> for line in readable(["Collecting pyspark", "  Downloading pyspark-4.1.1.tar.gz (434.2 MB)",
    ...                   "  Downloading six-1.17-py2.py3-none-any.whl (11 kB)",
    ...                   "Building wheels for collected packages: pyspark, eddyline",
    ...                   "Installing collected packages: six, pyspark, eddyline"]): print(line)
      fetching pyspark-4.1.1.tar.gz, 434 MB
      unpacking and building pyspark, eddyline
      installing 3 packages
    """
    for line in lines:
        if found := _FETCHED.match(line):
            size = float(found[3]) * _MEGABYTES[found[4]]
            if size >= LARGE:
                verb = "fetching" if found[1] == "Downloading" else "taking from pip's cache"
                yield f"  {verb} {found[2].rpartition('/')[2]}, {size:.0f} MB"
        elif line.startswith("Building wheels for collected packages: "):
            yield f"  unpacking and building {line.partition(': ')[2].strip()}"
        elif line.startswith("Installing collected packages: "):
            yield f"  installing {line.count(',') + 1} packages"


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        for line in readable(pip.stdout):
            print(line, flush=True)
        return pip.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
