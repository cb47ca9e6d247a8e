"""
Numba where it is installed, plain Python where it is not: the same functions, the same results.

Compiled code divides as numpy does, without a check for zero at each division; no compiled function divides by zero.
"""

from collections.abc import Callable
from typing import Any

numba: Any
try:
    import numba
except ImportError:
    numba = None

INSIDE = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on first call, release the GIL in it, and keep the machine code between runs."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return wrapped


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled functions call."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(**INSIDE)(function)
    return wrapped


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into its callers; for small steps that take a whole chain, whose arguments cost more than their work."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(**INSIDE, forceinline=True)(function)
    return wrapped
