"""The uncompiled form of a kernel: the same function, calling the uncompiled forms of what it calls.

A kernel is a Python function, and runs as one. What it calls are numba's objects, though: calling those from Python
would have each compiled by itself, and intrinsics cannot be called at all. So its global names are looked up among the
uncompiled forms instead.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from numba.core.dispatcher import Dispatcher

Function = Callable[..., Any]
Compiled = TypeVar("Compiled")

_stands_for: dict[int, Function] = {}  # by the identity of what is compiled
_kept: list[Any] = []  # an identity is one as long as its object lives


def stands_for(compiled: Compiled, function: Function) -> Compiled:
    """Declare the Python function that does the same as something that only compiled code can call."""
    _stands_for[id(compiled)] = function
    _kept.append(compiled)
    return compiled


def uncompiled(compiled: Any) -> Function:
    """The uncompiled form of a kernel, of a helper or of what was declared with ``stands_for``."""
    found = _stands_for.get(id(compiled))
    if found is None:
        function: Any = compiled.py_func
        names = dict(function.__globals__)
        found = types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        stands_for(compiled, found)
        names.update({name: uncompiled(value) for name, value in _calls(function)})
    return found


def length(compiled: Any) -> int:
    """Bytes of code of a kernel and all that it calls: a measure of the work of the compiler, and of an element."""
    seen: dict[int, int] = {}

    def visit(value: Any) -> None:
        if isinstance(value, Dispatcher) and id(value) not in seen:
            function: Any = value.py_func
            seen[id(value)] = len(function.__code__.co_code)
            for _, called in _calls(function):
                visit(called)

    visit(compiled)
    return sum(seen.values())


def _calls(function: Any) -> Iterator[tuple[str, Any]]:
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Dispatcher) or id(value) in _stands_for:
            yield name, value
