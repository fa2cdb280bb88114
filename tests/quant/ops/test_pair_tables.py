"""Long calls on two tensors of codes: all 65,536 pairs against calls of a pair each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, exact
from mdtensor.quant.ops import bound, pair_tables, short_codes

GRIDS = [
    (QParams(0.05), QParams(0.03), QParams(0.1)),
    (QParams(1 / 3, 2), QParams(1 / 6, -3), QParams(1 / 9, 1)),
    (QParams(0.0123), QParams(0.0457), QParams(0.0781)),
    (
        QParams(0.1, 128, dtype=quant.quint8),
        QParams(0.1, 3),
        QParams(0.2, 5, dtype=quant.quint8),
    ),
    (QParams(0.5, dtype=quant.qint4), QParams(0.25), QParams(1.0, dtype=quant.quint4)),
]
OPERATIONS = [md.add, md.sub, md.mul, md.div]
COMPARISONS = [md.equal, md.not_equal, md.less, md.less_equal, md.greater]


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bound, "_CALLS", {})
    yield


def all_pairs(g1: QParams, g2: QParams) -> tuple[Any, Any]:
    """Return tensors of all pairs of codes, without 0 / 0, 65,536 or more of them."""
    codes = [np.arange(g.minimum, g.maximum + 1) for g in (g1, g2)]
    a, b = (x.reshape(-1) for x in np.meshgrid(*codes))
    is_defined = (a != g1.zero) | (b != g2.zero)
    repeats = -(-(pair_tables.LEAST + 1) // is_defined.sum())
    return tuple(
        quant.tensor.quantized(
            np.tile(x[is_defined], repeats).astype(g.dtype.storage), g
        )
        for x, g in ((a, g1), (b, g2))
    )


def without_tables(monkeypatch: pytest.MonkeyPatch, call: Any) -> Any:
    monkeypatch.setattr(bound, "_CALLS", {})
    for module in (pair_tables, short_codes):
        monkeypatch.setattr(module, "LEAST", 1 << 60)
    return call()


BY_RULE = [(None, grids) for grids in GRIDS]
BY_RULE += [(rule, GRIDS[0]) for rule in ("onnx", "tflite_ref", "ort_cpu")]


@pytest.mark.parametrize(("rule", "grids"), BY_RULE, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_all_pairs(
    operation: Any, rule: Any, grids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    *given, out = grids
    out, (x1, x2) = out.rounded(rule), all_pairs(*given)

    def call() -> Any:
        try:
            found = operation(x1, x2, out=out)
        except md.MdtensorError as error:
            return type(error), str(error)
        return type(found), found.qparams, found.rounding, found.code_array.tobytes()

    found = call()
    assert found == without_tables(monkeypatch, call)


@pytest.mark.parametrize("grids", GRIDS, ids=lambda g: str(g[2].scale))
@pytest.mark.parametrize("operation", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons_of_all_pairs(
    operation: Any, grids: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x1, x2 = all_pairs(*grids[:2])
    found = operation(x1, x2)
    assert type(found) is md.BoolTensor
    wanted = without_tables(monkeypatch, lambda: operation(x1, x2))
    assert found.buffer.tobytes() == wanted.buffer.tobytes()


def test_operands_broadcast_and_zeros_are_seen() -> None:
    codes = np.random.default_rng(2).integers(-128, 128, (300, 300)).astype(np.int8)
    x = quant.tensor.quantized(codes, QParams(0.05))
    row = quant.tensor.quantized(codes[0], QParams(0.03))
    out = QParams(0.1)
    found = md.add(x, row, out=out)
    wide = quant.tensor.quantized(np.tile(codes[0], (300, 1)), QParams(0.03))
    assert found.codes.tolist() == md.add(x.T, wide.T, out=out).T.codes.tolist()
    ones = quant.tensor.quantized(np.ones_like(codes), QParams(0.03))
    md.div(x, ones, out=out)
    with pytest.raises(md.CastError, match="0 / 0"):
        md.div(x, quant.tensor.quantized(np.zeros_like(codes), QParams(0.03)), out=out)


def test_saturations_are_still_counted() -> None:
    # No byte kernel writes 4 bits, so that a table would, which does not count.
    *given, out = GRIDS[4]
    x1, x2 = all_pairs(*given)
    md.add(x1, x2, out=out)
    with exact.count_saturations() as counts:
        md.add(x1, x2, out=out)
    total = exact.reals(x1) + exact.reals(x2)
    low, high = out.range
    assert sum(counts) >= int((total > high + 1).sum() + (total < low - 1).sum()) > 0


WIDE = [
    (quant.qint16, quant.qint16, quant.qint16),
    (quant.qint16, quant.qint8, quant.qint8),
    (quant.qint8, quant.quint4, quant.qint16),
]


@pytest.mark.parametrize("types", WIDE, ids=str)
@pytest.mark.parametrize(
    "scales",
    [(0.1, 0.1, 0.2), (0.05, 0.03, 0.1), (1 / 3, 1 / 6, 1 / 9), (0.5, 0.25, 1)],
)
@pytest.mark.parametrize("operation", OPERATIONS[:3], ids=lambda f: f.__name__)
def test_sums_and_products_of_16_bits(
    operation: Any, types: Any, scales: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, tensors = np.random.default_rng(4), []
    zeros = [0 if t is quant.qint16 else 2 for t in types]
    grids = [
        QParams(s, z, dtype=t) for s, z, t in zip(scales, zeros, types, strict=True)
    ]
    for g in grids[:2]:
        ends = max(int(g.minimum), -300), min(int(g.maximum), 300)
        codes = rng.integers(*ends, (200, 100), endpoint=True)
        tensors.append(quant.tensor.quantized(codes.astype(g.dtype.storage), g))
    found = operation(*tensors, out=grids[2])
    wanted = without_tables(monkeypatch, lambda: operation(*tensors, out=grids[2]))
    assert found.code_array.tobytes() == wanted.code_array.tobytes()
