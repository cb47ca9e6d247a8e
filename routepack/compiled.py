"""Numba where it is installed, plain Python where it is not: the same functions, the same results."""

from collections.abc import Callable
from typing import Any

numba: Any
try:
    import numba
except ImportError:
    numba = None


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function on first call, release the GIL in it, and keep the machine code between runs."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    return wrapped


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled functions call."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return wrapped


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into its callers; for small steps that take a whole chain, whose arguments cost more than their work."""
    if numba is None:
        return function
    wrapped: Callable[..., Any] = numba.njit(nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return wrapped
