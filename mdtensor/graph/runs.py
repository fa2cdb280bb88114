"""Runs of calls: neighbouring calls of functions of buffers are one part of a call.

In a forest of trees, wrapping each value and finding it by its name takes as long as
computing it. A run passes buffers from call to call. Two calls that are often together
have one kernel: the leaves of trees, and their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np

from mdtensor.generics.estimators import decision_trees
from mdtensor.generics.indexing import take
from mdtensor.generics.manipulation import permute_dims
from mdtensor.graph.bound import Direct, Part, Values, Viewed, wrap

#: Parts that call a function of buffers, and know the spec of what it returns.
Simple = Direct | Viewed
#: A function, and the names of what it reads and writes.
Step = tuple[Callable[..., Any], tuple[str, ...], str]


def joined(parts: Sequence[Part], kept: Iterable[str]) -> tuple[Any, ...]:
    """Return the parts with a `Run` in place of neighbours that call functions.

    Args: kept: the names of values that something else than these parts reads.
    """
    found: list[Any] = []
    for part in parts:
        if not isinstance(part, Simple):
            found.append(part)
        elif found and isinstance(found[-1], list):
            found[-1].append(part)
        else:
            found.append([part])
    done: list[Any] = []
    for at, one in enumerate(found):
        if isinstance(one, list):
            later = {name for other in found[at + 1 :] for name in _reads(other)}
            done.append(Run(one, later.union(kept)))
        else:
            done.append(one)
    return tuple(done)


def _reads(part: Any) -> Iterator[str]:
    for one in part if isinstance(part, list) else [part]:
        yield from one.reads


# Each value of a part of its own is wrapped, stored and found again (decision 0113).
class Run:
    """Calls of functions of buffers, one after the other.

    Args:
        parts: `Direct` and `Viewed` parts, in order.
        kept: the names of values that something behind them reads.
    """

    def __init__(self, parts: Sequence[Simple], kept: set[str]) -> None:
        self._parts = parts
        steps = list(_with_votes(parts, kept))
        made = [output for _, _, output in steps]
        names = {name for _, reads, _ in steps for name in reads}
        self._reads = tuple(names.difference(made))
        places = {name: i for i, name in enumerate((*self._reads, *made))}
        self._steps = [(act, [places[n] for n in reads]) for act, reads, _ in steps]
        types = {part.node.output: part.spec.type for part in parts}
        self._writes = [(n, places[n], types[n]) for n in made if n in kept]

    def run(self, values: Values) -> None:
        """Add what the calls write, and others read, to `values`."""
        found = [values[name].buffer for name in self._reads]
        try:
            for act, places in self._steps:
                found.append(act(*[found[i] for i in places]))
        except (IndexError, MemoryError):
            # The parts themselves name the node and the argument in their errors.
            for part in self._parts:
                part.run(values)
            return
        for name, place, kind in self._writes:
            values[name] = wrap(kind, found[place])


def _with_votes(parts: Sequence[Simple], kept: set[str]) -> Iterator[Step]:
    """Yield the step of each part, and one for leaves and their weights."""
    left = list(parts)
    while left:
        count, step = _votes(left, kept) or (1, _step(left[0]))
        yield step
        del left[:count]


def _step(part: Simple) -> Step:
    """Return what a part calls, and the names of what it reads and writes."""
    node = part.node
    if isinstance(part, Viewed):
        return methodcaller("reshape", part.spec.shape), node.values[:1], node.output
    return part.act, node.values, node.output


def _votes(parts: Sequence[Simple], kept: set[str]) -> tuple[int, Step] | None:
    """Return how many parts find leaves and take their weights first, and their step.

    Returns: None if the first parts do something else.
    """
    by_tree = len(parts) > 1 and parts[1].node.operation is permute_dims
    used = [part.node for part in parts[: 2 + by_tree]]
    pairs = [decision_trees, *[permute_dims] * by_tree, take]
    if [node.operation for node in used] != pairs:
        return None
    first, *_, last = used
    between = {node.output for node in used[:-1]}
    later = {name for part in parts[len(used) :] for name in part.node.values}
    is_chain = all(a.output == b.inputs[-1] for a, b in pairwise(used))
    is_turned = not by_tree or used[1].options["axes"] == (1, 0)
    is_first = last.options.get("axis") in (0, None)
    is_own = between.isdisjoint(later | kept) and last.inputs[0] not in between
    if not (is_chain and is_turned and is_first and is_own):
        return None
    # Imported on use, because numba takes long to import.
    from mdtensor.kernels.cpu.generic import estimators as kernel

    act = partial(_taken, kernel, by_tree, parts[len(used) - 1].spec.shape)
    return len(used), (act, (*first.values, last.inputs[0]), last.output)


def _taken(kernel: Any, by_tree: bool, shape: tuple[int, ...], *given: Any) -> Any:
    """Return the weights of the leaves of all trees; the last of `given` has them."""
    arrays = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in given]
    table = arrays[-1].reshape(-1)
    out = np.empty(shape, table.dtype)
    flat = out.reshape(-1)
    if kernel.take_votes(*arrays[:-1], table, by_tree, flat) != kernel.ENDED:
        raise IndexError
    return out
