"""Kernels that change between their compiled and their uncompiled form at random moments, as on a machine on which the
compiler gets ready while queries run. No answer may depend on it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from numba.core import config

from eddyline.kernels import join_slices
from eddyline.kernels.compile import Kernel
from eddyline.kernels.uncompiled import uncompiled
from eddyline.kernels.warm import all_kernels


@contextmanager
def changing_forms(rng: random.Random, share: float = 0.5) -> Iterator[list[int]]:
    """Run about ``share`` of all calls uncompiled; the join kernel also changes within a call. Gives the numbers of
    compiled and uncompiled calls. Where nothing is compiled at all (NUMBA_DISABLE_JIT=1), nothing changes."""
    calls = [0, 0]
    if config.DISABLE_JIT:
        yield calls
        return
    kernels = all_kernels()
    for kernel in kernels:  # while their names still mean the kernels
        kernel.compile()
        uncompiled(kernel.dispatcher)
    with ExitStack() as stack:
        for kernel in kernels:
            call = _either(kernel, rng, share, calls)
            for module in [m for name, m in sys.modules.items() if name.startswith("eddyline.")]:
                for name, value in list(vars(module).items()):
                    if value is kernel.dispatcher:
                        stack.enter_context(patch.object(module, name, call))
        stack.enter_context(patch.object(join_slices, "FIRST_SLICE", rng.randint(1, 8)))
        yield calls


def _either(kernel: Kernel, rng: random.Random, share: float, calls: list[int]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        slow = rng.random() < share
        calls[slow] += 1
        return kernel.uncompiled(*args) if slow else kernel.dispatcher(*args)

    return call
