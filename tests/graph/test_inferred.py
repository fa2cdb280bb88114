"""Shape rules of recorded calls run once for equal specs, numbers and settings."""

from typing import Any

import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.dispatch.method import Selection

X = md.asarray([[1, 2, 3]], dtype=md.int32)


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the shape rules that run."""
    found: list[str] = []
    deduce = Selection.deduce

    def counted(self: Any, *specs: Any, **options: Any) -> Any:
        found.append(self.operation.name)
        return deduce(self, *specs, **options)

    monkeypatch.setattr(Selection, "deduce", counted)
    return found


def test_equal_calls_run_one_rule(rules: list[str]) -> None:
    x = md.asarray([[0.5] * 11]).to("lazy")
    for _ in range(5):
        md.sum(x * 1.25, axis=-1)
    assert rules == ["mul", "sum"]


def test_calls_that_differ_are_inferred_apart() -> None:
    x = X.to("lazy")
    for make in (
        *(lambda x: x * 2, lambda x: x * 2.0, lambda x: x * True, lambda x: x / 2),
        *(lambda x: md.sum(x, axis=0), lambda x: md.sum(x, axis=1)),
        *(lambda x: md.sum(x, axis=(0, 1)), lambda x: md.reshape(x, (3, 1))),
        *(lambda x: md.reshape(x, [3]), lambda x: x[0], lambda x: x[:, 1:]),
        *(lambda x: md.astype(x, md.int8), lambda x: md.astype(x, md.float64)),
    ):
        for _ in range(2):
            found, wanted = make(x), make(X)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    for rule in ("torch", "numpy", "default"):
        with md.promotion_rules(rule):
            assert (x / 2).dtype is (X / 2).dtype


def test_grids_are_inferred_each_time() -> None:
    values = md.asarray([0.5, 1.0])
    for rule in ("onnx", "exact"):
        q = quant.quantize(values, quant.QParams(0.25).rounded(rule))
        assert md.realize(md.neg(q.to("lazy"))).rounding == md.neg(q).rounding


def test_an_error_is_raised_each_time() -> None:
    x = md.asarray([1.0, 2.0]).to("lazy")
    for _ in range(2):
        with pytest.raises(md.ShapeError):
            x + md.asarray([1.0, 2.0, 3.0])
