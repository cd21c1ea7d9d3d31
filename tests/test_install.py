"""What ``make`` says while packages are fetched."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "install.py"


@pytest.fixture
def install() -> Any:
    spec = importlib.util.spec_from_file_location("install", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_large_files_and_stages_have_a_line(install: Any) -> None:
    pip = [
        "Collecting pyspark>=4.0",
        "  Downloading pyspark-4.1.1.tar.gz (434.2 MB)",
        "  Downloading six-1.17-py2.py3-none-any.whl.metadata (1.7 kB)",
        "Using cached numpy-2.3.5-cp311-cp311-manylinux.whl (16.9 MB)",
        "Building wheels for collected packages: pyspark, eddyline",
        "Installing collected packages: six, numpy, pyspark, eddyline",
        "Successfully installed eddyline-0.2.0",
    ]
    assert list(install.readable(pip)) == [
        "  fetching pyspark-4.1.1.tar.gz, 434 MB",
        "  taking from pip's cache numpy-2.3.5-cp311-cp311-manylinux.whl, 17 MB",
        "  unpacking and building pyspark, eddyline",
        "  installing 4 packages",
    ]


def test_a_package_that_is_not_there_fails(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--dry-run", "--no-index", "no-such-package-anywhere"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0 and "no-such-package-anywhere" in done.stderr
