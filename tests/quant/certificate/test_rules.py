"""Every operation of every rule on decimal scales, where sums fall close to ties."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant.certificate import rules
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.presets.table import TABLE

#: Scales of two arguments and a result that people write into files.
DECIMALS = ((0.1, 0.1, 0.1), (0.02, 0.05, 0.06))


@pytest.mark.slow
@pytest.mark.parametrize("scales", DECIMALS, ids=str)
@pytest.mark.parametrize("dtype", [qint8, quint8], ids=str)
@pytest.mark.parametrize("rule", TABLE)
def test_decimal_scales(
    rule: str, dtype: md.DType, scales: tuple[float, ...], monkeypatch: Any
) -> None:
    monkeypatch.setitem(rules.SCALES, "decimals", scales)
    cases = list(rules.Rule(rule, dtype, "decimals").cases())
    assert len(cases) >= 8
    for case in cases:
        assert np.array_equal(case.compute(1), case.oracle()), case.title
