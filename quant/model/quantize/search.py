"""What a search for a quantization within a budget is given, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import OptionError, shown, written

Array = npt.NDArray[Any]
#: The error of outputs: those of the float model, those of the quantized one; a list
#: with an array for each sample, or a tuple of arrays if the model has several outputs.
Metric = Callable[[list[Any], list[Any]], float]


@dataclass(frozen=True)
class Step:
    """One try of a search.

    Args:
        change: what was changed.
        error: the error on the held-out samples.
        is_kept: whether the change stayed.
    """

    change: str
    error: float
    is_kept: bool

    def __str__(self) -> str:
        return f"{self.error:.4g}  {'' if self.is_kept else 'not '}used: {self.change}"


@dataclass(frozen=True)
class Search:
    """What a search tried and chose; `print` shows it.

    Args:
        budget: the largest error that was allowed.
        error: the error of the result.
        keep_float: the nodes that stay float because of the search.
        observer: the class of the observers that chose the grids.
        steps: all tries, in order.
    """

    budget: float
    error: float
    keep_float: tuple[str, ...]
    observer: str
    steps: tuple[Step, ...]

    @property
    def is_met(self) -> bool:
        """Return whether the error is within the budget."""
        return self.error <= self.budget

    def __str__(self) -> str:
        met = "within" if self.is_met else "over"
        lines = [f"error {self.error:.4g}, {met} the budget {self.budget:.4g}"]
        names = ", ".join(self.keep_float) or "none"
        lines.append(f"grids by {self.observer}, nodes kept float: {names}")
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


def relative_error(wanted: list[Any], found: list[Any]) -> float:
    """Return the largest |z - y| / |y| of an output, over all samples.

    Example:
        >>> relative_error([np.array([3.0, 4.0])], [np.array([3.0, 4.5])])
        0.1
    """
    worst = 0.0
    for ys, zs in zip(_by_output(wanted), _by_output(found), strict=True):
        noise = sum(_energy(y, z) for y, z in zip(ys, zs, strict=True))
        signal = sum(float(np.square(y[np.isfinite(y)]).sum()) for y in ys)
        if noise:
            worst = max(worst, (noise / signal) ** 0.5 if signal else np.inf)
    return float(worst)


def _energy(y: Array, z: Array) -> float:
    """Return the sum of (z - y)², infinite if only one of them is infinite or NaN.

    Masks are -inf on both sides, and have no error.
    """
    with np.errstate(invalid="ignore"):
        error = np.where((y == z) | (np.isnan(y) & np.isnan(z)), 0.0, z - y)
    return float(np.square(np.where(np.isnan(error), np.inf, error)).sum())


def _by_output(results: list[Any]) -> Iterator[tuple[Array, ...]]:
    return zip(*(x if isinstance(x, tuple) else (x,) for x in results), strict=True)


def check_budget(budget: Any, held_out: Any, metric: Any, progress: Any = None) -> None:
    """Check the options of a search before any work starts; None is no search.

    Raises:
        OptionError: the budget is not a number of at least 0; it is None, but another
            option is given; the metric or the progress cannot be called; or there are
            no held-out samples.
    """
    others = {"held_out": held_out, "metric": metric, "progress": progress}
    if budget is None:
        for name, value in others.items():
            if value is not None:
                problem = f"{name} is given without a budget"
                raise OptionError(problem, f"Pass {written('budget')}, too")
        return
    is_number = isinstance(budget, Real) and not isinstance(budget, bool)
    if not is_number or not budget >= 0:
        problem = f"budget is {shown(budget)}"
        raise OptionError(problem, "Give the largest error, such as 0.01")
    if held_out is None:
        raise OptionError(
            "a budget needs samples that calibration has not seen",
            f"Pass {written('held_out')}",
        )
    for name in ("metric", "progress"):
        if others[name] is not None and not callable(others[name]):
            problem = f"{name} is {shown(others[name])}, which cannot be called"
            raise OptionError(problem, "Give a function")
