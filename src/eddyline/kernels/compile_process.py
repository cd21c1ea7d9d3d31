"""The process apart that compiles kernels, which ``kernels.helper`` starts: names come in, kernels go into the cache.

It ends when nobody has asked for anything in a while, and when the process that started it is gone.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import sys
from pathlib import Path

from eddyline.kernels import cache

IDLE = 3.0  # seconds after which it ends


def main(directory: str) -> None:
    """Compile what is asked for, one kernel after another, and save each in the cache in ``directory``."""
    cache.use(Path(directory))
    from eddyline.kernels.compile import registered  # after the cache has its place

    gc.disable()
    parent, waiting = os.getppid(), b""
    while os.getppid() == parent:
        if b"\n" not in waiting:
            ready, _, _ = select.select([sys.stdin.fileno()], [], [], IDLE)
            more = os.read(sys.stdin.fileno(), 1 << 16) if ready else b""
            if not more:
                return
            waiting += more
            continue
        name, waiting = waiting.split(b"\n", 1)
        kernel = name.decode()
        importlib.import_module(kernel.rpartition(".")[0])
        registered[kernel].compile(alone=True)


if __name__ == "__main__":
    main(sys.argv[1])
