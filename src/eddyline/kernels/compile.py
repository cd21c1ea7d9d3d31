"""The decorator of every kernel: one explicit signature, compiled once per machine, and not before it pays.

A kernel has two forms with the same results: compiled, and uncompiled (``kernels.uncompiled``). The compiled form is
loaded if the cache has it. Otherwise calls run uncompiled until their time comes near to the time of compiling; then a
separate process compiles (``kernels.helper``). Meanwhile small calls go on uncompiled and a large one waits. So a small
input is answered before the compiler would have begun, and no input waits for a kernel that it hardly uses.

All state is in the arguments, so the form may change between any two calls without any effect on results.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import config, sigutils, types
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from eddyline.core.errors import JobError
from eddyline.kernels import cache, helper, waiting
from eddyline.kernels.uncompiled import length, stands_for, uncompiled

Function = Callable[..., Any]
Work = Callable[..., int]

VARIABLE = "EDDYLINE_COMPILE"
AT_ONCE = "at-once"
UNCOMPILED_SHARE = 0.3  # of the time to compile, which calls may take uncompiled first: more compiles less, and later
SHORT_CALL_SECONDS = 0.25  # a call that is expected to take no longer uncompiled does not wait for the compiler
# Rough estimates: to compile a kernel, and each byte of its code; to run each byte for one element, and all of them.
SECONDS_PER_KERNEL, SECONDS_PER_BYTE, RUN_SECONDS_PER_BYTE, MAX_RUN_SECONDS = 0.1, 2.5e-4, 5e-9, 4e-5
REPORTED_SECONDS = 0.1  # uncompiled, after which the cache gets a report: kernels of many small jobs are compiled, too
SECONDS_BETWEEN_LOOKS = 0.2  # into the cache, for kernels that another process has compiled

registered: dict[str, Kernel] = {}


def first_array(*args: Any) -> int:
    """The length of the first array among the arguments: what most kernels walk along."""
    return next((len(a) for a in args if isinstance(a, np.ndarray)), 1)


class Kernel:
    """A function in both forms. ``work`` counts the elements of a call; ``seconds`` is what compiling takes."""

    def __init__(
        self, function: Function, signature: Any, name: str, work: Work, seconds: float | None, borrows: bool
    ) -> None:
        self.name, self.signature, self.work = name, signature, work
        self.dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, _nrt=not borrows)(function)
        self.uncompiled: Function = self.run_uncompiled
        self.spent, self.elements = 0.0, 0  # uncompiled
        self._seconds = seconds
        self._before = self._reported = 0.0  # seconds uncompiled in earlier processes; those of this one in the cache
        self._cached = False
        self._looked = 0.0
        self._lock = threading.RLock()
        # numba asks this method for a form that fits as long as it has none, and calls what it is given.
        self.dispatcher._compile_for_args = self.choose

    @property
    def compiled(self) -> bool:
        return bool(self.dispatcher.overloads)

    @property
    def seconds(self) -> float:
        """What it will take to compile, about."""
        if self._seconds is None:
            self._seconds = SECONDS_PER_KERNEL + SECONDS_PER_BYTE * length(self.dispatcher)
        return self._seconds

    def expected(self, *args: Any) -> float:
        """Seconds that a call will take uncompiled, as the calls before it did."""
        if self.elements:
            each = self.spent / self.elements
        else:
            each = min(MAX_RUN_SECONDS, RUN_SECONDS_PER_BYTE * length(self.dispatcher))
        return each * self.work(*args)

    def choose(self, *args: Any) -> Function:
        """The form for a call with these arguments."""
        with self._lock:
            self._check(args)
            if self.compiled or _at_once() or self._is_there():
                return self.compile()
            expected = self.expected(*args)
            own = self.spent + expected
            budget = UNCOMPILED_SHARE * self.seconds
            if self._before + own < budget:
                return self.uncompiled
            wait = own >= budget and expected > SHORT_CALL_SECONDS
            with waiting.announce(waiting.COMPILING) if wait else contextlib.nullcontext():
                ready = helper.compiled(self.name, wait=wait)
            if ready or (ready is None and (wait or self.spent > self.seconds)):
                return self.compile()
            return self.uncompiled

    def run_uncompiled(self, *args: Any) -> Any:
        """Run the uncompiled form, and keep count of what that takes."""
        elements = self.work(*args)
        began = time.thread_time()  # of the processor: a busy machine makes the compiler no faster
        with np.errstate(all="ignore"):  # compiled code wraps around and divides in silence
            result = uncompiled(self.dispatcher)(*args)
        self.spent += time.thread_time() - began
        self.elements += max(1, elements)
        if self.spent - self._reported > REPORTED_SECONDS:
            cache.add_uncompiled(self.name, self.spent - self._reported)
            self._reported = self.spent
        return result

    def _is_there(self) -> bool:
        now = time.monotonic()
        if self._looked and now - self._looked < SECONDS_BETWEEN_LOOKS:
            return False
        if not self._looked:
            self._before = cache.uncompiled_before(self.name)
        self._looked = now
        return cache.holds(self.name)

    def compile(self, *, alone: bool = False) -> Function:
        """Load the form in the cache, or compile in this process; ``alone``: the caller holds the lock for it."""
        with self._lock:
            if not self.compiled:
                helper.release(self.name)
                self._use_cache()
                if not (cache.holds(self.name) and self._load()):
                    with contextlib.nullcontext() if alone else cache.locked(self.name), _no_collection():
                        for kernel in registered.values():  # those that it calls are saved too
                            kernel._use_cache()
                        self.dispatcher.compile(self.signature)
                self.dispatcher.disable_compile()
                del self.dispatcher._compile_for_args
            entry: Function = next(iter(self.dispatcher.overloads.values())).entry_point
            return entry

    def _load(self) -> bool:
        try:
            self.dispatcher.compile(self.signature)
        except Exception:  # whatever a damaged file leads to: it is made anew
            cache.forget(self.name)
            return False
        return True

    def _use_cache(self) -> None:
        if self._cached:
            return
        self._cached = True
        # numba's own setting is put back at once: a user's numba functions keep their place.
        kept, config.CACHE_DIR = config.CACHE_DIR, str(cache.folder_of(self.name))
        try:
            self.dispatcher.enable_caching()
        except RuntimeError:  # nowhere to write: it is compiled for this process
            pass
        finally:
            config.CACHE_DIR = kept

    def _check(self, args: tuple[Any, ...]) -> None:
        for position, (argument, wanted) in enumerate(
            zip(args, sigutils.normalize_signature(self.signature)[0], strict=True)
        ):
            given = self.dispatcher.typeof_pyval(argument)
            if not _fits(given, wanted):  # neither the entry point nor Python looks
                name = self.dispatcher.py_func.__name__
                raise TypeError(f"argument {position} of {name} is {given}, not {wanted}")


def kernel(
    signature: Any,
    *,
    work: Work = first_array,
    name: str = "",
    seconds: float | None = None,
    slices: Callable[..., Any] | None = None,
    borrows: bool = False,
) -> Callable[[Function], Function]:
    """Compile with one explicit signature, without the GIL, cached on disk; plain Python under NUMBA_DISABLE_JIT=1.

    Arguments that do not fit the signature are refused, never compiled for. ``work`` counts the elements of a call from
    its arguments, ``seconds`` is what compiling takes where the length of the code does not show it, ``name`` where
    the function has not one of its own. ``slices`` runs a long call piece by piece while it is uncompiled: it gets the
    ``Kernel`` and the arguments.

    ``borrows``: it has arrays from its arguments only, whose owners live as long as the call, so that none is counted
    as a reference. Counting is atomic, for each array that a helper is handed on some paths only; it costs more than
    reading the array, and time of the compiler. numba refuses to compile such a kernel if it makes an array.
    """

    def decorate(function: Function) -> Function:
        if config.DISABLE_JIT:
            return function
        full = f"{function.__module__}.{name or function.__name__}"
        made = registered[full] = Kernel(function, signature, full, work, seconds, borrows)
        if slices is not None:
            made.uncompiled = functools.partial(slices, made)
        compiled: Function = made.dispatcher
        return compiled

    return decorate


def is_compiled(function: Function) -> bool:
    """Whether a kernel runs compiled in this process; under NUMBA_DISABLE_JIT=1 each runs as it always will."""
    return bool(getattr(function, "overloads", True))


def load_compiled(function: Function) -> bool:
    """The same, of a kernel that is loaded now if the cache has it: milliseconds. It is not compiled for that."""
    if not is_compiled(function):
        made = next(k for k in registered.values() if k.dispatcher is function)
        if cache.holds(made.name):
            made.compile()
    return is_compiled(function)


def _at_once() -> bool:
    wish = os.environ.get(VARIABLE, "")
    if wish not in ("", AT_ONCE):
        raise JobError(f"the environment's {VARIABLE} is {wish!r}; it must be {AT_ONCE}, or not be set.")
    return wish == AT_ONCE


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """The compiler makes millions of objects and hardly any garbage; looking for it takes a sixth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _fits(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, types.Array) and isinstance(given, types.Array):
        alike = (given.dtype, given.ndim, given.layout) == (wanted.dtype, wanted.ndim, wanted.layout)
        return alike and (given.mutable or not wanted.mutable)
    return isinstance(given, types.Number | types.Boolean) and isinstance(wanted, types.Number | types.Boolean)


class _Helper(CPUDispatcher):  # type: ignore[misc]
    """What ``inlined`` makes. Without the code that unpacks arguments a call from Python would end the process."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} is a part of kernels; Python cannot call it, only its py_func.")


def inlined(function: Function) -> Function:
    """A helper that becomes part of each kernel that calls it. It is typed once and put in its place by LLVM: where
    numba does that itself, each of hundreds of calls is typed anew, which took half of a kernel's compilation (and
    a third more for parts that are called once). Python never calls it: it gets no code to unpack arguments."""
    if config.DISABLE_JIT:
        return function
    made: Function = numba.njit(
        forceinline=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False
    )(function)
    made.__class__ = _Helper
    return made


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

    stands_for(borrowed, lambda array: array)
    stands_for(prefetch, lambda array, index: None)
