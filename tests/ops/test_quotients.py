"""Quotients and means of integers under every rule set (decision 0050)."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import PromotionError

INTEGERS = [leaf for leaf in md.leaves()[:15] if leaf.dtype.is_integer]
NARROW = {
    "default": "float64",
    "numpy": "float64",
    "jax": "float32",
    "torch": "float32",
}
WIDE = {**NARROW, "jax": "float64"}


@pytest.mark.parametrize("rules", NARROW)
@pytest.mark.parametrize("leaf", INTEGERS)
def test_types_and_values(leaf: Any, rules: str) -> None:
    wanted = md.dtype((WIDE if leaf.dtype.bits == 64 else NARROW)[rules])
    x, y = leaf([7, 100, 0, 1]), leaf([2, 3, 0, 0])
    with md.promotion_rules(rules), np.errstate(all="ignore"):
        exact = x.buffer.astype(wanted.storage) / y.buffer.astype(wanted.storage)
        for found in (md.div(x, y), x / y):
            assert found.dtype is wanted is md.infer(md.div, x, y).dtype
            np.testing.assert_array_equal(found.buffer, exact)
        assert (x / 2).dtype is (2 / x).dtype is wanted
        assert (x / 2).tolist() == [3.5, 50, 0, 0.5]


@pytest.mark.parametrize("rules", ["default", "numpy", "jax"])
@pytest.mark.parametrize("leaf", INTEGERS)
def test_means(leaf: Any, rules: str) -> None:
    wanted = md.dtype((WIDE if leaf.dtype.bits == 64 else NARROW)[rules])
    x = leaf([[7, 100, 0], [1, 127, 3]])
    with md.promotion_rules(rules):
        found = md.mean(x, axis=1, keepdims=True)
        assert found.dtype is wanted is md.infer(md.mean, x).dtype
        exact = [float(Fraction(107, 3)), float(Fraction(131, 3))]
        expected = np.asarray(exact).astype(wanted.storage).reshape(2, 1)
        np.testing.assert_array_equal(found.buffer, expected)
        assert np.isnan(md.mean(leaf([])).tolist())


@pytest.mark.parametrize("rules", ["default", "numpy", "jax"])
@pytest.mark.parametrize("leaf", INTEGERS)
def test_variances_and_deviations(leaf: Any, rules: str) -> None:
    wanted = md.dtype((WIDE if leaf.dtype.bits == 64 else NARROW)[rules])
    rows = [[7, 100, 0], [1, 127, 3]]
    x = leaf(rows)
    for correction in (0, 1, 3):
        exact = [variance(row, correction) for row in rows]
        with md.promotion_rules(rules):
            options = {"axis": 1, "correction": correction, "keepdims": True}
            found, roots = md.var(x, **options), md.std(x, **options)
            assert found.dtype is roots.dtype is wanted
            assert md.infer(md.std, x, **options).dtype is wanted
        assert found.shape == roots.shape == (2, 1)
        # A few roundings in float64, and one to the type of quotients.
        close = {"rtol": 1e-15 if wanted.bits == 64 else 2.0**-24, "strict": False}
        np.testing.assert_allclose(found.buffer[:, 0], exact, **close)
        np.testing.assert_allclose(roots.buffer[:, 0], np.sqrt(exact), **close)


def variance(row: list[int], correction: int) -> float:
    """Return the variance, rounded once from the exact rational number."""
    mean = Fraction(sum(row), len(row))
    total = sum((n - mean) ** 2 for n in row)
    freedom = len(row) - correction
    return float(total / freedom) if freedom > 0 else float("nan")


@pytest.mark.parametrize("rules", ["strict", "array_api", "pypto"])
def test_rules_that_refuse(rules: str) -> None:
    x = md.asarray([1, 2])
    with md.promotion_rules(rules):
        for refused in (md.div, md.infer):
            arguments = (x, x) if refused is md.div else (md.div, x, x)
            with pytest.raises(
                PromotionError, match="int64 cannot represent fractions"
            ):
                refused(*arguments)
        with pytest.raises(PromotionError, match="int64 cannot represent fractions"):
            md.mean(x)
        for operation in (md.var, md.std):
            with pytest.raises(PromotionError, match="int64 cannot represent fract"):
                operation(x)


@pytest.mark.parametrize("operation", [md.mean, md.var, md.std])
def test_torch_does_not_average_integers(operation: Any) -> None:
    with md.promotion_rules("torch"), pytest.raises(PromotionError):
        operation(md.asarray([1, 2]))


def test_bools_do_not_divide() -> None:
    yes = md.asarray([True])
    with pytest.raises(PromotionError, match="bool cannot represent fractions"):
        md.div(yes, yes)
    assert md.div(yes, md.asarray([2])).tolist() == [0.5]
