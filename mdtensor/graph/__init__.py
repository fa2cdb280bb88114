"""Graphs of calls: recorded from lazy tensors, or traced from a function.

calls       calls that have not run, and their results
lazy        lazy tensors, and the `lazy` block
trace       `trace` and `compile`
guards      which trace a call of a compiled function runs
"""

from mdtensor.graph.lazy import lazy as lazy, realize as realize
from mdtensor.graph.trace import Trace as Trace, compile as compile, trace as trace

__all__ = ["Trace", "compile", "lazy", "realize", "trace"]
