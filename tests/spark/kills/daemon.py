"""The parent of the workers in kill tests: Eddyline's own, with hooks in what it forks."""

from __future__ import annotations

from eddyline.spark import daemon
from tests.spark.kills import hooks

if __name__ == "__main__":
    daemon.preload()
    hooks.install()
    daemon.main()
