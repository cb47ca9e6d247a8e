"""Readers of routed experts: one module for each framework's form, one core that counts."""

from routepack.instances.readers.model_shape import ModelShape
from routepack.instances.readers.trace import FORMATS, Trace, count, read_trace

__all__ = ["FORMATS", "ModelShape", "Trace", "count", "read_trace"]
