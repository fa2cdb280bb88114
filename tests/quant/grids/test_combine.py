"""Ends and edges of the rules that combine grids."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import GridError, quant
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams, qint32
from mdtensor.quant.grids import combine


def ramp(scale, **options):
    """Codes 1, 2, 3, ... on a grid, one for each scale."""
    return QInt8Tensor(np.arange(1, np.size(scale) + 1), scale=scale, **options)


def test_sums_fill_32_bits_and_no_more():
    combine.check_fits(np.array([-(2**31), 2**31 - 1]))
    for sums, text in [
        ([-(2**31) - 1], "-2147483649, beyond -2**31"),
        ([2**31], "2147483648, beyond 2**31 - 1"),
    ]:
        with pytest.raises(GridError) as raised:
            combine.check_fits(np.array(sums))
        assert f"a result would have the code {text}." in str(raised.value)


def test_tensors_share_a_rule_or_none():
    a, b = ramp(0.1), ramp(0.1)
    assert combine.shared_rule([a, b]) == a.rounding
    b.rounding = "tflite_ref"
    assert combine.shared_rule([a, b]) is None


def test_flat_tensors_lay_their_scales_end_to_end():
    x, y = ramp([0.5, 0.25], axis=0), ramp([1.0, 2.0], axis=0)
    for axis in (None, 0):
        found = md.concat([x, y], axis=axis)
        assert found.qparams.scale.tolist() == [0.5, 0.25, 1.0, 2.0]
        assert quant.dequantize(found).tolist() == [0.5, 0.5, 1.0, 4.0]


def test_a_stack_has_the_grid_of_its_tensors():
    x, other = ramp([0.5, 0.25], axis=0), ramp([0.5, 0.125], axis=0)
    assert quant.dequantize(md.stack([x])).tolist() == [[0.5, 0.5]]
    assert quant.dequantize(md.stack([x, x])).tolist() == [[0.5, 0.5]] * 2
    with pytest.raises(GridError, match="the grids differ"):
        md.stack([x, other])


def test_a_bias_in_blocks_is_on_the_grid_of_its_products():
    w = QInt8Tensor([[1, 2]] * 4, scale=[0.5, 0.5, 0.25, 0.25], axis=0)
    x = QInt8Tensor([[2, 3]], scale=0.5)
    scales = QParams([0.25, 0.125], axis=0, block_size=2, dtype=qint32)
    bias = QInt32Tensor([1, 1, 1, 1], scales)
    found = md.linear(x, w, bias)
    assert quant.dequantize(found).tolist() == [[2.25, 2.25, 1.125, 1.125]]
    wrong = QInt32Tensor([1] * 4, scales.replace(scale=[0.25, 0.25]))
    with pytest.raises(GridError, match="the bias has"):
        md.linear(x, w, wrong)
