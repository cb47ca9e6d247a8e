"""The compiler as search kernels import it."""

from routepack.compiled import compiled, inlined

__all__ = ["compiled", "inlined"]
