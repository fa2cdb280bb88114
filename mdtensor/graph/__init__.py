"""Graphs of calls: recorded by lazy tensors, traced from a function, or from a file.

calls       calls that have not run, and their results
content     what recorded calls compute, as a key
realized    recorded calls that run as compiled functions do
known       when they do, and the ones of earlier runs
folding     their constant parts
inferred    results of shape rules, for recorded calls
lazy        lazy tensors, and the `lazy` block
trace       `trace`: the calls of a function
compiled    `compile`: functions that run their traces
freeze      compiled functions for fixed types and shapes
keys        which constants are equal for a key
search      the fastest way of equal bytes
searched    searches for a trace, kept on disk
placement   the choice of a device for some work
automatic   compiled functions that choose a device
guards      which trace a call of a compiled function runs
graph       graphs with named values, such as models
storage     how compiled parts store the tensors of a type
layouts     the order of images in compiled parts
lower       nodes to compiled steps
faithful    which steps have the bytes of their calls
bound       plans that are called
plan        plans that say what runs
profile     the time and work of each node of a plan
"""

from mdtensor.graph.calls import spec_of as spec_of
from mdtensor.graph.compiled import compile as compile
from mdtensor.graph.graph import (
    Graph as Graph,
    Node as Node,
    Observe as Observe,
    fresh_name as fresh_name,
    infer_spec as infer_spec,
    name_node as name_node,
    prune as prune,
)
from mdtensor.graph.known import explain as explain
from mdtensor.graph.lazy import lazy as lazy, realize as realize
from mdtensor.graph.trace import Trace as Trace, trace as trace

__all__ = ["Trace", "compile", "explain", "lazy", "realize", "trace"]
#: Graphs of models.
__all__ += ["Graph", "Node", "Observe", "fresh_name", "infer_spec", "name_node"]
__all__ += ["prune", "spec_of"]
