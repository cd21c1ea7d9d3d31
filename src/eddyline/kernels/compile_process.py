"""The separate process that compiles kernels; ``kernels.helper`` starts it. It reads names and fills the cache.

It ends when no request has come in a while, and when the process that started it is gone.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import sys
from pathlib import Path

from eddyline.kernels import cache

IDLE_SECONDS = 3.0  # without a request, after which it ends


def main(directory: str) -> None:
    """Compile what is asked for, one kernel after another, and save each in the cache in ``directory``."""
    cache.use(Path(directory))
    from eddyline.kernels.compile import registered  # after the cache has its place

    gc.disable()
    parent, waiting = os.getppid(), b""
    while os.getppid() == parent:
        if b"\n" not in waiting:
            ready, _, _ = select.select([sys.stdin.fileno()], [], [], IDLE_SECONDS)
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
