"""Calibration: the ranges of all values of a graph on samples, to choose grids from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor.errors import DataError, ModelError, OptionError, shown
from mdtensor.extend import file_path
from mdtensor.graph import Graph, Node, Observe
from mdtensor.graph.inputs import each, fed
from mdtensor.quant.model.onnx.files import write_file
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.masks import (
    bears_infinity,
    is_masked,
    without_masks,
)
from mdtensor.quant.model.quantize.softmax_rows import softmax_rows
from mdtensor.quant.observers import OBSERVERS, MinMaxObserver, MSEObserver
from mdtensor.quant.observers.cell_counts import CellCounts
from mdtensor.quant.observers.histogram import HistogramObserver
from mdtensor.quant.observers.relative import RelativeHistogramObserver
from mdtensor.quant.weights.moments import GroupedMoments, InputMoments, patches

#: Observers by the class name that a calibration file stores.
KINDS = {kind.__name__: kind for kind in OBSERVERS.values()}


@dataclass(frozen=True)
class Calibration:
    """The observers of all values of a graph.

    Args:
        observers: the observer of each value, by its name.
        samples: the number of samples that they observed.
        infinite: the values that were infinite or NaN somewhere, as masks are.
    """

    observers: Mapping[str, MinMaxObserver]
    samples: int
    infinite: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        kinds = sorted({type(x).__name__ for x in self.observers.values()})
        seen = f"values={len(self.observers)}, samples={self.samples}"
        return f"Calibration({', '.join([seen, *kinds])})"

    def range(self, value: str) -> tuple[float, float]:
        """Return the smallest and the largest element of `value` in all samples."""
        observer = self.observer(value)
        return observer.low, observer.high

    def observer(self, value: str) -> MinMaxObserver:
        """Return the observer of `value`.

        Raises:
            DataError: the calibration belongs to another graph.
        """
        if not isinstance(value, str) or value not in self.observers:
            raise DataError(
                f"the calibration does not know the value {value!r}",
                "Calibrate the graph that is to be quantized",
            )
        return self.observers[value]

    def merged(self, other: Calibration) -> Calibration:
        """Return the calibration that the samples of both together would give.

        Raises:
            DataError: the two observe different values, or use different observers.
            OptionError: their observers depend on the order of samples.
        """
        if not isinstance(other, Calibration):
            raise DataError(
                f"{shown(other)} is not a Calibration",
                "Pass the result of calibrate(graph, samples)",
            )
        if _kinds(self.observers) != _kinds(other.observers):
            raise DataError(
                "the two calibrations observe different values",
                "Calibrate one graph with one observer",
            )
        # Merge into copies: neither of the two calibrations may change.
        joint = {}
        for name, observer in self.observers.items():
            joint[name] = copy_observer(observer)
            joint[name].merge(other.observers[name])
        infinite = self.infinite | other.infinite
        return Calibration(joint, self.samples + other.samples, infinite)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration to a JSON file.

        Raises:
            ModelError: the path is not writable.
        """
        content: dict[str, Any] = {
            "samples": self.samples,
            "observers": {
                name: _state(observer) for name, observer in self.observers.items()
            },
        }
        if self.infinite:
            content["infinite"] = sorted(self.infinite)
        write_file(path, json.dumps(content).encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Calibration:
        """Read a file that `save` wrote.

        Raises:
            ModelError: the file does not exist, or is not a calibration.
        """
        found = file_path(path, "path")
        try:
            content = json.loads(found.read_bytes())
            observers = {
                name: _observer(state) for name, state in content["observers"].items()
            }
            infinite = frozenset(map(str, content.get("infinite", ())))
            return Calibration(observers, int(content["samples"]), infinite)
        except OSError as error:
            reason = error.strerror or "it cannot be read"
            raise ModelError(f"{path}: {reason}", "Check the path") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError(
                f"{path} does not hold a calibration", "Calibrate again"
            ) from None


def _kinds(observers: Mapping[str, MinMaxObserver]) -> dict[str, tuple[Any, ...]]:
    return {name: (type(x), x.settings) for name, x in observers.items()}


def _state(observer: MinMaxObserver) -> dict[str, Any]:
    """Return the JSON object of an observer."""
    state = {"kind": type(observer).__name__, **asdict(observer)}
    if "counts" in state:
        state["counts"] = dict(state["counts"])
    return state


def _observer(state: dict[str, Any]) -> MinMaxObserver:
    """Make an observer from the JSON object that `save` wrote."""
    kind = KINDS[state.pop("kind")]
    # JSON turns the integer keys of a dict into strings.
    if "counts" in state:
        pairs = [(int(cell), int(n)) for cell, n in state["counts"].items()]
        is_dense = issubclass(kind, HistogramObserver)
        state["counts"] = CellCounts(pairs) if is_dense else dict(pairs)
    settings = {f.name: state.pop(f.name) for f in fields(kind) if f.init}
    made = kind(**settings)
    for field in fields(kind):
        if not field.init:
            setattr(made, field.name, state.pop(field.name))
    # A file with unknown fields comes from another version; do not guess.
    if state:
        raise KeyError(*state)
    return made


def copy_observer(observer: MinMaxObserver) -> MinMaxObserver:
    """Return a copy that can observe more without changing the original."""
    new = copy(observer)
    # `copy` shares the counts of a histogram, which observing changes in place.
    if isinstance(new, HistogramObserver):
        new.counts = new.counts.copy()
    elif isinstance(new, RelativeHistogramObserver):
        new.counts = dict(new.counts)
    return new


def calibrate(
    graph: Graph,
    samples: Iterable[Any],
    observer: Callable[[], MinMaxObserver] = MSEObserver,
) -> Calibration:
    """Run a float graph on samples and observe every float value.

    The samples are not stored. Elements that are more than 16.6 below the maximum of
    their row hardly change a softmax. In values that only a softmax reads, the observer
    sees such elements as the maximum minus 16.6; if the softmax reads the value times a
    positive number, minus 16.6 divided by it. NaN and infinity may occur on the way, as
    in a model that fills in missing numbers, and -inf in masks; but not in an output or
    in the input of a layer. Nodes that read or write such values stay float.

    Args:
        graph: a graph that computes in float, before quantization.
        samples: an iterable. Each sample is a tensor or array for the only input, or a
            mapping from the name of each input to one. Or all samples in one array, or
            in a mapping from names to arrays, which are split along their first axis if
            the first size of the input is 1 or dynamic, or if the array has one axis
            more than the input. How you split samples into batches changes only the
            rounding of float sums, because the order of a sum in a matrix product may
            depend on the batch.
        observer: a callable that returns an observer: a class of `mdtensor.quant`, or
            one with settings, `functools.partial(PercentileObserver, percentile=99.9)`.

    Raises:
        DataError: `samples` is empty; a sample has a wrong shape or type; or an
            output, the input of a layer or of a softmax, or a whole value becomes NaN
            or infinite, except for -inf in masks.
        OptionError: `observer` is not callable.
    """
    pairs = ((graph, sample) for sample in each(samples, graph.inputs))
    return calibrate_each(pairs, observer)


def calibrate_each(
    pairs: Iterable[tuple[Graph, Any]], observer: Callable[[], MinMaxObserver]
) -> Calibration:
    """Observe the values of each graph on its sample; see `calibrate`.

    Args:
        pairs: graphs whose values have the same names, each with a sample.
        observer: as for `calibrate`.

    Raises:
        DataError, OptionError: as `calibrate`.
    """
    if not callable(observer):
        problem = f"observer is {shown(observer)}, which cannot be called"
        raise OptionError(problem, "Give a class, such as quant.PercentileObserver")
    observers: dict[str, MinMaxObserver] = {}
    infinite: set[str] = set()
    count = 0

    def observe(graph: Graph, rows: Mapping[str, Any], name: str, tensor: Any) -> None:
        # Indices and masks are never quantized.
        if not tensor.dtype.is_floating:
            return
        values = np.asarray(tensor)
        if not np.isfinite(values).all():
            is_row = name in rows
            _check_infinite(graph, name, values, infinite, is_row, f"sample {count}")
            infinite.add(name)
        seen = without_masks(values, rows.get(name))
        observers.setdefault(name, observer()).observe(seen)

    # Finding the rows of softmax takes as long as a small graph runs.
    found = cache(softmax_rows)
    for count, (graph, sample) in enumerate(pairs, start=1):
        feeds = sample_feeds(graph, sample, f"sample {count}", is_observed=True)
        graph.run(feeds, partial(observe, graph, found(graph)))
    if not count:
        raise DataError("there are no samples to calibrate on", "Give at least one")
    return Calibration(observers, count, frozenset(infinite))


def _check_infinite(
    graph: Graph,
    name: str,
    values: npt.NDArray[Any],
    before: Collection[str],
    is_row: bool,
    where: str,
) -> None:
    """Raise DataError unless a value may hold numbers that are not finite.

    Args:
        before: the values that held such numbers so far.
        is_row: whether a softmax reads the value.
    """
    may_be = is_masked(values) or (not is_row and np.isfinite(values).any())
    if may_be and bears_infinity(graph, name):
        return
    first = _origin(graph, name, before)
    if first in graph.inputs:
        raise _not_finite(first, where)
    node = graph.producers.get(first)
    by = f" in node {node.name!r}, {node.operation.__name__}" if node else ""
    raise DataError(
        f"{where}: {first!r} becomes NaN or infinite{by}",
        "Give samples for which the float model is finite",
    )


def _origin(graph: Graph, name: str, infinite: Collection[str]) -> str:
    """Return the first value from which NaN or infinity came to `name`."""
    while node := graph.producers.get(name):
        sources = [source for source in node.values if source in infinite]
        if not sources:
            break
        name = sources[0]
    return name


def _not_finite(name: str, where: str) -> DataError:
    problem = f"{where}: input {name!r} holds a NaN or an infinity"
    return DataError(problem, "Clean the samples first")


def sample_feeds(
    graph: Graph, sample: object, where: str, *, is_observed: bool = False
) -> dict[str, Any]:
    """Return a tensor for each input.

    Args:
        graph: the graph that has the inputs.
        sample: an array for the only input, or a mapping by name.
        where: names the sample in errors.
        is_observed: whether the caller looks for NaN and infinity in all values.

    Raises:
        DataError: the sample does not fit the inputs, or contains a NaN or an infinity
            other than -inf in a mask, and the caller does not look for them.
    """
    feeds = _feeds(graph, sample, where)
    for name, tensor in feeds.items():
        if is_observed or not tensor.dtype.is_floating:
            continue
        values = np.asarray(tensor)
        if np.isfinite(values).all():
            continue
        if not (bears_infinity(graph, name) and is_masked(values)):
            raise _not_finite(name, where)
    return feeds


def _feeds(graph: Graph, sample: object, where: str) -> dict[str, Any]:
    try:
        return fed(graph.inputs, sample)
    except DataError as error:
        raise DataError(f"{where}: {error.problem}", error.fix) from None


def watch(graph: Graph, samples: Iterable[Any], observe: Observe) -> None:
    """Run the graph on samples, which are not stored.

    Args:
        graph: a float graph.
        samples: inputs, as for `calibrate`.
        observe: called with each value, see `Graph.run`.

    Raises:
        DataError: the samples do not fit the graph, or there are none.
    """
    count = 0
    for count, sample in enumerate(each(samples, graph.inputs), start=1):
        graph.run(sample_feeds(graph, sample, f"sample {count}"), observe)
    if not count:
        raise DataError("there are no samples", "Give at least one")


def input_moments(
    graph: Graph, samples: Iterable[Any], names: Collection[str] | None = None
) -> dict[str, list[InputMoments]]:
    """Sum up the inputs of layers with constant weights; samples are not stored.

    Args:
        graph: a float graph.
        samples: inputs, as for `calibrate`.
        names: the names of the layers; None for all.

    Returns:
        By the name of the node, the moments of each of its groups.

    Raises:
        DataError: the samples do not fit the graph, or there are none.
    """
    readers: dict[str, list[Node]] = {}
    found: dict[str, GroupedMoments] = {}
    for node in graph.nodes:
        if _is_layer(graph, node) and (names is None or node.name in names):
            readers.setdefault(node.inputs[0], []).append(node)

    def observe(name: str, tensor: Any) -> None:
        for node in readers.get(name, []):
            shape = graph.constants[node.inputs[1]].shape
            rows = _rows(node, np.asarray(tensor), shape)
            if node.name not in found:
                found[node.name] = GroupedMoments(len(rows), rows.shape[-1])
            found[node.name].observe(rows)

    watch(graph, samples, observe)
    return {name: moments.split() for name, moments in found.items()}


def _is_layer(graph: Graph, node: Node) -> bool:
    return node.operation in WEIGHTED and node.inputs[1] in graph.constants


def _rows(node: Node, x: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the inputs of a layer as rows: [groups, positions, inputs per group]."""
    if node.operation is md.linear:
        return x.reshape(1, -1, x.shape[-1])
    names = ("stride", "padding", "dilation", "groups")
    options = {name: node.options[name] for name in names if name in node.options}
    return patches(x, shape[2:], **options)
