"""Models whose first plan may be on disk, from an earlier process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor import TensorSpec
from mdtensor.errors import ModelError
from mdtensor.graph import Graph
from mdtensor.graph.inputs import is_unchanged
from mdtensor.graph.plan import Plan
from mdtensor.kernels.numpy.threads import of_steps
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.shaped import ShapedPlans
from mdtensor.quant.plans import cache
from mdtensor.quant.plans.cache import Kept
from mdtensor.quant.plans.network import StoredNetwork

Answer = tuple[Any, ...]


# The file of the model is read when something needs more than its first plan (decision
# 0084).
class KeptModel(Model):
    """A model of a file, which runs the plan that an earlier process kept.

    `load` returns it for files whose plans can be kept. It is the model of the file in
    every way: what the plan cannot tell, and every error, comes from the file, which is
    read then.

    Args:
        read: returns the graph of the file.
        place: where the plan is kept.
        name: of the file, for lists of plans.
        kept: what is kept already; None to read the file now.
    """

    def __init__(
        self, read: Callable[[], Graph], place: Path, name: str, kept: Kept | None
    ) -> None:
        self._plans, self.search = ShapedPlans(), None
        self._calls: dict[Hashable, Any] = {}
        self._lock, self._reading = threading.Lock(), threading.RLock()
        self._read, self._place, self._name = read, place, name
        self._kept = kept
        self._network: StoredNetwork | None = None
        self._graph = read() if kept is None else None
        # What this process plans first is what the next one needs first.
        self._is_new = True

    @property
    def graph(self) -> Graph:  # type: ignore[override]
        """Return the graph of the file, which is read at the first use.

        Raises:
            ModelError: the file changed after it was loaded.
        """
        with self._reading:
            if self._graph is None:
                self._graph = self._read()
                # From now on the graph counts: its constants can be written.
                self._kept = self._network = None
                self._calls.clear()
            return self._graph

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input by name; -1 stands for any size."""
        # A steady call asks, and the lock of `graph` takes as long as a small step.
        if (known := self._graph) is not None:
            return known.inputs
        kept = self._kept
        return self.graph.inputs if kept is None else kept.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        kept = self._kept
        return self.graph.outputs if kept is None else kept.outputs

    @property
    def states(self) -> Mapping[str, Any]:
        """Return no states if a plan is kept; else as `Model.states`."""
        return self.graph.states if self._kept is None else {}

    def _bind(
        self, key: Hashable, inputs: Answer | None, feeds: Mapping[str, Any]
    ) -> tuple[Answer, Any]:
        tensors = tuple(feeds.values())
        network = self._network_for(feeds)
        if network is None:
            return super()._bind(key, inputs, feeds)
        call = KeptCall(self, network)
        is_known = key is not None and inputs is not None
        if is_known and all(map(is_unchanged, inputs or (), tensors)):
            self._remember(key, call)
        return tensors, call

    def _network_for(self, feeds: Mapping[str, Any]) -> StoredNetwork | None:
        """Return the kept network if it is for the shapes of these inputs."""
        kept = self._kept
        if kept is None or _wants_threads() or not cache.may_keep():
            return None
        if any(feeds[n].shape != spec.shape for n, spec in kept.planned.items()):
            return None
        with self._reading:
            if self._network is None and self._kept is not None:
                # A plan of other kernels, or damage: the file is planned again.
                with suppress(ModelError):
                    found = StoredNetwork(kept.path)
                    is_same = found.inputs == kept.planned
                    self._network = found if is_same else None
            return self._network

    def planned(self, inputs: Answer) -> Answer:
        """Return the results of the graph itself, for tensors or their buffers."""
        names = self.graph.inputs
        feeds = self.fed(*inputs)
        found: Answer = self._plan_for(feeds).bound(*(feeds[name] for name in names))
        return found

    def _plan_for_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> Plan:
        graph = self.graph
        plan = super()._plan_for_shapes(shapes)
        if self._is_new and cache.may_keep():
            self._is_new = False
            cache.keep(self._place, plan, self._plans.on.name, self._name, graph)
        return plan


class KeptCall:
    """A call of a kept plan, for inputs of fixed types and shapes.

    Args:
        model: plans for calls that the kept plan does not serve.
        network: the kept plan.
    """

    def __init__(self, model: KeptModel, network: StoredNetwork) -> None:
        self._model, self._run = model, network.attempt

    def __call__(self, *inputs: Any) -> Answer:
        """Return the outputs in order."""
        found = None if _wants_threads() else self._run([*map(_elements, inputs)])
        # The model itself raises errors that name its nodes.
        return self._model.planned(inputs) if found is None else found


def _elements(x: Any) -> Any:
    """Return the elements of an array or a tensor."""
    if type(x) is np.ndarray:
        return x
    codes = getattr(x, "code_array", None)
    return x.buffer if codes is None else codes


# A kept plan runs on one thread.
def _wants_threads() -> bool:
    return of_steps() > 1
