"""Search for a quantization whose error on held-out samples is within a budget.

The steps, in order of what they cost when the model runs:

    1  as usual
    2  grids that cover all calibrated values (MinMaxObserver), at the same speed
    3  nodes in float, those with the largest local errors first, 1, 2, 4, ... at a time
    4  nodes of step 3 that turn out not to be needed become integers again

Step 3 ends at the latest with a float model, so a budget can always be met in time that
grows with the logarithm of the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mdtensor.errors import BudgetError, DataError
from mdtensor.extend import number
from mdtensor.quant.model.compare.compare import Runs, compare
from mdtensor.quant.model.compare.measure import array_of
from mdtensor.quant.model.quantize.calibrate import Calibration, sample_feeds
from mdtensor.quant.model.quantize.search import Metric, Search, Step, relative_error
from mdtensor.quant.observers import MinMaxObserver

Make = Callable[[Calibration, Sequence[str]], Any]
#: The most quantizations that a search tries, and the samples it compares nodes on.
MOST_TRIES, COMPARED = 40, 4


# Grids cost no time, nodes in float do (decision 0065).
class Searcher:
    """A search for one model.

    Args:
        model: the float model.
        make: quantizes it, for a calibration and names of nodes that stay float.
        budget: the largest error.
        held_out: samples; all are in memory, since each try runs on them.
        metric: the error of outputs; None for `relative_error`.
        progress: called with each try.
    """

    def __init__(
        self,
        model: Runs,
        make: Make,
        budget: float,
        held_out: Sequence[Any],
        metric: Metric | None = None,
        progress: Callable[[Step], None] | None = None,
    ) -> None:
        if not held_out:
            raise DataError("there are no held-out samples", "Give at least one")
        self.model, self.make, self.budget = model, make, number(budget, "budget")
        self.samples, self.metric = held_out, metric or relative_error
        self.progress, self.steps = progress, list[Step]()
        for count, sample in enumerate(held_out, start=1):
            sample_feeds(model.graph, sample, f"held-out sample {count}")
        self.wanted = [_outputs(model, sample) for sample in held_out]
        if not any(map(_size, self.wanted)):
            problem = (
                f"the outputs of {len(held_out)} held-out samples have no elements"
            )
            raise DataError(problem, "Give a sample with at least one row")

    def run(self, seen: Calibration, keep_float: Sequence[str]) -> tuple[Any, Search]:
        """Return the best model, and what was tried.

        Raises:
            BudgetError: the budget was not met in `MOST_TRIES` tries.
        """
        self.seen, self.fixed = seen, list(keep_float)
        self.best: Any = None
        self.error, self.groups = np.inf, list[tuple[str, ...]]()
        self._try("as usual", seen, [])
        wide = _min_max(seen)
        if self._is_over() and wide is not None:
            self._try("grids by MinMaxObserver", wide, [])
        self._keep_more()
        if not self._is_over():
            self._drop_unneeded()
        found = self._search()
        if not found.is_met:
            least = min(step.error for step in self.steps)
            raise BudgetError(
                f"the least error after {len(self.steps)} tries is {least:.4g}, "
                f"and the budget is {self.budget:.4g}",
                "Allow more, or give a metric that is 0 for equal outputs",
            )
        return self.best, found

    def _is_over(self) -> bool:
        return not self.error <= self.budget

    def _search(self) -> Search:
        kinds = sorted({type(x).__name__ for x in self.seen.observers.values()})
        names = tuple(dict.fromkeys(n for group in self.groups for n in group))
        steps = tuple(self.steps)
        return Search(self.budget, self.error, names, " and ".join(kinds), steps)

    def _try(
        self,
        change: str,
        seen: Calibration,
        groups: list[tuple[str, ...]],
        most: float | None = None,
    ) -> bool:
        """Quantize and measure; keep the result if its error is at most `most`.

        Args:
            most: by default less than the best error so far.
        """
        names = dict.fromkeys([*self.fixed, *(n for group in groups for n in group)])
        small = self.make(seen, list(names))
        found = [_outputs(small, sample) for sample in self.samples]
        error = number(self.metric(self.wanted, found), "the error of the metric")
        # A NaN is less than nothing, and nothing is less than it.
        error = np.inf if np.isnan(error) else error
        is_kept = error < self.error if most is None else error <= most
        is_kept = is_kept or self.best is None
        if is_kept:
            self.best, self.error = small, error
            self.seen, self.groups = seen, list(groups)
        self.steps.append(Step(change, error, is_kept))
        if self.progress is not None:
            self.progress(self.steps[-1])
        return is_kept

    def _keep_more(self) -> None:
        """Keep more and more nodes float until the error is within the budget."""
        count, left = 1, self._candidates() if self._is_over() else []
        while self._is_over() and left and len(self.steps) < MOST_TRIES:
            new, left = left[:count], left[count:]
            names = ", ".join(dict.fromkeys(n for group in new for n in group))
            # Kept even if the error does not fall: with the next nodes it will.
            groups = [*self.groups, *new]
            self._try(f"in float: {names}", self.seen, groups, np.inf)
            count *= 2

    def _candidates(self) -> list[tuple[str, ...]]:
        """Return groups of nodes to keep float, by their local errors."""
        pairs = zip(self.samples, self.wanted, strict=True)
        filled = [sample for sample, wanted in pairs if _size(wanted)]
        found = compare(self.model, self.best, filled[:COMPARED])
        groups = [
            node.fix.keep_float if node.fix and node.fix.keep_float else node.covers
            for node in found.worst(len(found.nodes))
        ]
        listed = {name for group in groups for name in group}
        others = [(n.name,) for n in self.model.graph.nodes if n.name not in listed]
        return [*(group for group in dict.fromkeys(groups) if group), *others]

    def _drop_unneeded(self) -> None:
        """Quantize nodes again that the budget does not need in float."""
        size = len(self.groups) // 2
        while size:
            # The last ones were added with the least reason.
            end = len(self.groups)
            while end > 0 and len(self.steps) < MOST_TRIES:
                start = max(end - size, 0)
                names = ", ".join(n for group in self.groups[start:end] for n in group)
                rest = [*self.groups[:start], *self.groups[end:]]
                change = f"in integers again: {names}"
                self._try(change, self.seen, rest, self.budget)
                end = start
            size //= 2


def _outputs(model: Any, sample: Any) -> Any:
    """Return the numbers of the outputs for a sample: an array, or a tuple of them."""
    found = model(sample)
    if isinstance(found, tuple):
        return tuple(map(array_of, found))
    return array_of(found)


def _size(outputs: Any) -> int:
    """Return the number of elements of what `_outputs` returns."""
    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    return sum(part.size for part in parts)


def _min_max(seen: Calibration) -> Calibration | None:
    """Return a calibration whose grids cover all values; None if `seen` is one."""
    if all(type(x) is MinMaxObserver for x in seen.observers.values()):
        return None
    observers = {}
    for name, observer in seen.observers.items():
        if observer.low > observer.high:
            # A value without elements does not have a range.
            return None
        observers[name] = MinMaxObserver()
        observers[name].observe(np.array([observer.low, observer.high]))
    return replace(seen, observers=observers)
