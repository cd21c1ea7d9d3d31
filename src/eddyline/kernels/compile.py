"""The decorator of every kernel: one explicit signature, compiled once per machine.

numba does not notice a changed callee in another file, so the cache lives in a directory named by a hash of all of
``kernels/``: any change there starts a fresh cache. numba's own setting is put back at once; a user's numba functions
keep their place.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import config, sigutils, types
from numba.extending import intrinsic

Function = Callable[..., Any]


@functools.cache
def cache_directory() -> Path:
    """Where compiled kernels are kept; ``EDDYLINE_CACHE_DIR`` moves it (on a cluster: a local disk of the worker)."""
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    base = os.environ.get("EDDYLINE_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "eddyline" / f"kernels-{digest.hexdigest()[:16]}"


@functools.cache
def _announce() -> None:
    """Say once that compilation is under way: a first run is slow, and silence looks like a hang."""
    if not config.DISABLE_JIT and not any(cache_directory().rglob("*.nbi")) and sys.stderr.isatty():
        print("eddyline: compiling kernels (first run on this machine, about a minute) …", file=sys.stderr)


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile with one explicit signature, without the GIL, cached on disk; plain Python under NUMBA_DISABLE_JIT=1.

    Compiling, or loading from the cache (some milliseconds), waits for the first call: a query loads only the kernels
    that it uses. Arguments that do not fit the signature are refused, never compiled for.
    """

    def decorate(function: Function) -> Function:
        if config.DISABLE_JIT:
            return function
        kept, config.CACHE_DIR = config.CACHE_DIR, str(cache_directory())
        try:
            dispatcher = numba.njit(cache=True, nogil=True)(function)
        finally:
            config.CACHE_DIR = kept

        def first_call(*args: Any, **kwargs: Any) -> Any:
            # numba asks this method for a version that fits when it has none; from now on its own one answers.
            del dispatcher._compile_for_args
            _announce()
            for position, (argument, wanted) in enumerate(
                zip(args, sigutils.normalize_signature(signature)[0], strict=True)
            ):
                given = dispatcher.typeof_pyval(argument)
                if not _fits(given, wanted):  # the entry point itself does not look
                    raise TypeError(f"argument {position} of {function.__name__} is {given}, not {wanted}")
            entry_point = dispatcher.compile(signature)
            dispatcher.disable_compile()
            return entry_point

        dispatcher._compile_for_args = first_call
        compiled: Function = dispatcher
        return compiled

    return decorate


def _fits(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, types.Array) and isinstance(given, types.Array):
        alike = (given.dtype, given.ndim, given.layout) == (wanted.dtype, wanted.ndim, wanted.layout)
        return alike and (given.mutable or not wanted.mutable)
    return isinstance(given, types.Number | types.Boolean) and isinstance(wanted, types.Number | types.Boolean)


def inlined(function: Function) -> Function:
    """A helper that becomes part of each kernel that calls it. It is typed once and put in its place by LLVM: where
    numba does that itself, each of hundreds of calls is typed anew, which took half of a kernel's compilation."""
    return function if config.DISABLE_JIT else numba.njit(forceinline=True, nogil=True)(function)


if config.DISABLE_JIT:

    def borrowed(array: Any) -> Any:
        return array

    def prefetch(array: Any, index: Any) -> None:
        pass

else:

    @intrinsic
    def borrowed(typingctx: Any, array: Any) -> Any:
        """The same array, not counted as a reference: its owner lives as long as the call. numba counts an array that a
        helper reads on some paths only, atomically, which costs more than reading it."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lent = context.make_array(array)(context, builder, args[0])
            lent.meminfo = lent.meminfo.type(None)
            return lent._getvalue()

        return array(array), codegen

    @intrinsic
    def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
        """Have a place of a one-dimensional array fetched while other work goes on. It is not read: nothing depends on
        it, and no place is wrong."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(array)(context, builder, args[0]).data
            place = builder.gep(data, [args[1]])
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            builder.call(call, [builder.bitcast(place, byte), word(0), word(3), word(1)])  # to read, keep, data
            return context.get_dummy_value()

        return types.void(array, index), codegen
