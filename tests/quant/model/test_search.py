"""A quantization within a budget: met, never worse, the same again, and explained."""

from typing import Any

import numpy as np
import pytest

from mdtensor.errors import BudgetError, DataError, OptionError
from mdtensor.quant.model import Model
from mdtensor.quant.model.quantize.search import Step, relative_error
from mdtensor.quant.model.quantize.searcher import MOST_TRIES
from tests.support.planted import chain, images, narrowed, outlier_channel

HELD_OUT = images(4, 9)


def error(model: Model, small: Model) -> float:
    """The oracle: the relative error of all held-out outputs at once."""
    y, z = (np.float64([np.asarray(m(x)) for x in HELD_OUT]) for m in (model, small))
    return float(np.linalg.norm(z - y) / np.linalg.norm(y))


def test_a_budget_that_is_met_changes_nothing() -> None:
    model = chain(1)
    seen = model.calibrate(images(4, 1))
    plain = model.quantize(seen)
    small = model.quantize(seen, budget=0.5, held_out=HELD_OUT)
    assert small.search is not None
    assert small.search.keep_float == ()
    assert len(small.search.steps) == 1
    assert small.search.error == pytest.approx(error(model, plain))
    assert [n.name for n in small.graph.nodes] == [n.name for n in plain.graph.nodes]
    assert plain.search is None


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("budget", [0.1, 0.02])
def test_a_bad_layer_stays_float(at: int, budget: float) -> None:
    model = chain(at, outlier_channel, at)
    seen = model.calibrate(images(8, 1))
    plain = error(model, model.quantize(seen))
    assert plain > 0.1
    small = model.quantize(seen, budget=budget, held_out=HELD_OUT)
    assert error(model, small) <= budget < plain
    assert small.search is not None
    assert small.search.error == pytest.approx(error(model, small))
    assert f"conv{at}" in small.search.keep_float
    # Only the nodes around the bad value, unless the budget needs more.
    assert budget < 0.1 or small.is_quantized
    assert set(small.search.keep_float) <= {n.name for n in model.graph.nodes}
    assert {n.node for n in small.plan().float_nodes} <= {*small.search.keep_float}


def test_wide_grids_come_before_nodes_in_float() -> None:
    """The MSE observer cuts rare values; a metric that sees only them wants them."""
    model = chain(2)
    seen = model.calibrate(images(8, 1))

    def largest(wanted: list[Any], found: list[Any]) -> float:
        return max(float(abs(y - z).max()) for y, z in zip(wanted, found, strict=True))

    plain = model.quantize(seen, budget=1e9, held_out=HELD_OUT, metric=largest).search
    assert plain is not None
    limit = 0.999 * plain.error
    found = model.quantize(seen, budget=limit, held_out=HELD_OUT, metric=largest)
    assert found.search is not None
    assert found.search.steps[1].change == "grids by MinMaxObserver"
    assert found.search.error <= limit


def test_zero_is_met_in_float_and_is_the_same_again() -> None:
    model = chain(3)
    seen = narrowed(model.calibrate(images(4, 1)), "r2")
    tries: list[Step] = []
    small = model.quantize(seen, budget=0.0, held_out=HELD_OUT, progress=tries.append)
    assert small.search is not None
    assert error(model, small) == 0
    assert tuple(tries) == small.search.steps
    assert len(tries) <= MOST_TRIES
    again = model.quantize(seen, budget=0.0, held_out=HELD_OUT)
    assert again.search == small.search


def test_a_budget_that_cannot_be_met_raises() -> None:
    model = chain(3)
    seen = model.calibrate(images(4, 1))
    with pytest.raises(BudgetError, match=r"least error after \d+ tries is 1, .* 0.5"):
        model.quantize(seen, budget=0.5, held_out=HELD_OUT, metric=lambda y, z: 1.0)


def test_nodes_that_the_caller_keeps_stay_float() -> None:
    model = chain(1, outlier_channel)
    seen = model.calibrate(images(4, 1))
    kept = ["conv0", "relu0"]
    small = model.quantize(seen, keep_float=kept, budget=0.05, held_out=HELD_OUT)
    assert set(kept) <= {n.node for n in small.plan().float_nodes}


def test_the_text() -> None:
    model = chain(2, outlier_channel)
    seen = model.calibrate(images(4, 1))
    search = model.quantize(seen, budget=0.1, held_out=HELD_OUT).search
    lines = str(search).splitlines()
    assert "within the budget 0.1" in lines[0]
    assert "conv2" in lines[1]
    assert lines[2].endswith("used: as usual")
    assert search is not None
    assert len(lines) == 2 + len(search.steps)


def test_errors_of_several_outputs() -> None:
    one, other = np.ones(4), np.zeros(2)
    assert relative_error([(one, one)], [(one, 1.5 * one)]) == 0.5
    assert relative_error([(one, other)], [(one, other)]) == 0
    assert relative_error([(one, other)], [(one, other + 1)]) == np.inf


def test_errors_of_nan_and_infinities() -> None:
    """A NaN of the quantized model alone is no small error; masks are none at all."""
    y = np.array([3.0, 4.0, -np.inf, np.nan])
    assert relative_error([y], [y]) == 0
    assert relative_error([y], [np.array([3.0, 4.5, -np.inf, np.nan])]) == 0.1
    for at, wrong in ((0, np.nan), (0, np.inf), (2, np.inf), (2, 0.0), (3, 0.0)):
        z = y.copy()
        z[at] = wrong
        assert relative_error([y], [z]) == np.inf


def test_a_metric_that_is_nan_once_is_over_the_budget() -> None:
    model = chain(2)
    seen, errors = model.calibrate(images(4, 1)), iter([np.nan, 0.25])
    small = model.quantize(
        seen, budget=0.5, held_out=HELD_OUT, metric=lambda y, z: next(errors)
    )
    assert small.search is not None
    assert [step.error for step in small.search.steps] == [np.inf, 0.25]
    assert small.search.error == 0.25


def test_a_metric_returns_a_number() -> None:
    model = chain(1)
    seen = model.calibrate(images(1, 1))
    for wrong in ("x", None, np.zeros(2), 1j, True):
        with pytest.raises(OptionError, match="error of the metric must be a real"):
            model.quantize(
                seen, budget=1, held_out=HELD_OUT, metric=lambda y, z, w=wrong: w
            )
    small = model.quantize(seen, budget=np.float32(9), held_out=HELD_OUT)
    assert small.search is not None
    assert small.search.budget == 9


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"budget": -1, "held_out": HELD_OUT}, "budget is -1"),
        ({"budget": float("nan"), "held_out": HELD_OUT}, "budget is nan"),
        ({"budget": True, "held_out": HELD_OUT}, "budget is True"),
        ({"budget": 0.1}, "calibration has not seen"),
        ({"budget": 0.1, "held_out": HELD_OUT, "metric": 3}, "cannot be called"),
        ({"budget": 0.1, "held_out": HELD_OUT, "progress": 3}, "progress is 3, which"),
        ({"held_out": HELD_OUT}, "held_out is given without a budget"),
        ({"metric": relative_error}, "metric is given without a budget"),
        ({"progress": print}, "progress is given without a budget"),
    ],
)
def test_wrong_options(options: Any, problem: str) -> None:
    model = chain(1)
    seen = model.calibrate(images(1, 1))
    with pytest.raises(OptionError, match=problem):
        model.quantize(seen, **options)
    with pytest.raises(DataError, match="no held-out"):
        model.quantize(seen, budget=0.1, held_out=[])
