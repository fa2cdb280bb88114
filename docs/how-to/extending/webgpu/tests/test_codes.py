"""Quantized tensors: the bytes of the host, and the classifier of the demo."""

from typing import Any

import numpy as np
import pytest
from host import bytes_of, same, there, webgpu
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.cli import demo_data
from mdtensor.quant import (
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
)

OUT = QParams(0.043, 3)
KINDS: list[Any] = [QInt8Tensor, QUInt8Tensor, QInt16Tensor]
ZEROS = {"qint8": -7, "quint8": 120}


def codes(kind: Any, *shape: int, scale: float = 0.037, seed: int = 0) -> Any:
    """Random codes of the whole range, with a zero point where the type has one."""
    rng, info = np.random.default_rng((seed, *shape)), np.iinfo(kind.dtype.storage)
    found = rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
    return kind(found, scale=scale, zero_point=ZEROS.get(kind.dtype.name, 0))


def weights(*shape: int) -> Any:
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.001, 0.02, shape[0])
    return QInt8Tensor(rng.integers(-128, 128, shape), scale=scale, axis=0)


def bias_of(x: Any, w: Any) -> Any:
    grid = QParams(float(x.scale) * w.scale, dtype=quant.qint32, axis=0)
    return QInt32Tensor(np.arange(-3, len(w.scale) - 3) * 4001, grid)


def test_types() -> None:
    assert type(there(codes(QInt8Tensor, 2))).__name__ == "WebGpuQInt8Tensor"


def test_quantize_and_back() -> None:
    x = np.linspace(-9, 9, 3001).astype(np.float32)
    ties = (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(0.043)
    for given_ in (x, ties):
        found = same(lambda x: quant.quantize(x, OUT), md.asarray(given_))
        assert same(quant.dequantize, found.to("cpu")).dtype is md.float32
    with pytest.raises(md.CastError, match="cannot quantize NaN"):
        quant.quantize(there(md.asarray([np.nan])), OUT)


@settings(max_examples=15, deadline=None)
@given(
    a=st.integers(1, 2**24 - 1),
    b=st.integers(1, 2**24 - 1),
    exponent=st.integers(-9, 9),
)
def test_ties_of_any_scales(a: int, b: int, exponent: int) -> None:
    """The quotient of scales is exact in 128 bits, so no tie is rounded wrongly."""
    steps = np.concatenate([np.arange(-500, 500) * k for k in (1, 77, 4_000_037)])
    x = QInt32Tensor(steps, QParams(float(np.float32(a)), dtype=quant.qint32))
    out = QParams(float(np.float32(b)) * 2.0**exponent, dtype=quant.qint16)
    same(lambda x: quant.requantize(x, out=out), x)


@pytest.mark.parametrize("out", [OUT, None], ids=["rounded", "exact"])
def test_products(out: Any) -> None:
    x, w = codes(QUInt8Tensor, 5, 70), weights(6, 70)
    same(lambda x, w, b: md.linear(x, w, b, out=out), x, w, bias_of(x, w))
    y = codes(QInt8Tensor, 3, 70, 4, scale=0.02)
    same(lambda x, y: md.matmul(x, y, out=out), codes(QInt8Tensor, 2, 70), y)


@pytest.mark.parametrize("k", [1, 3, 4, 7, 16, 21])
@pytest.mark.parametrize("skipped", [0, 1, 4])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_products_of_four_bytes_at_a_time(k: int, skipped: int, kind: Any) -> None:
    """Rows of any length and alignment; with strides there is one byte at a time."""
    x, w = codes(kind, 4, k + skipped), codes(QInt8Tensor, 3, k + skipped, seed=5)
    signed = QInt8Tensor(np.asarray(w.codes), scale=0.02)
    for other in (w, signed):
        same(lambda x, w: md.linear(x[:, skipped:], w[:, skipped:]), x, other)
        same(lambda x, w: md.linear(md.flip(x), w, out=OUT), x, other)


@pytest.mark.parametrize("kernel, groups", [(1, 1), (3, 1), (3, 4), (1, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_convolutions(kernel: int, groups: int, kind: Any) -> None:
    x, w = codes(kind, 2, 4, 7, 6), weights(8, 4 // groups, kernel, kernel)
    for options in ({"padding": (0, 1, 2, 0)}, {"stride": 2}):
        run = lambda x, w, b, o=options: md.conv2d(x, w, b, groups=groups, out=OUT, **o)  # noqa: E731
        same(run, x, w, bias_of(x, w))


def test_pools_and_reductions() -> None:
    x = codes(QUInt8Tensor, 2, 3, 8, 7)
    options: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1}
    same(lambda x: md.max_pool2d(x, **options), x)
    same(lambda x: md.avg_pool2d(x, **options, out=OUT), x)
    same(lambda x: md.global_avg_pool2d(x, out=OUT), x)
    for axis in (None, 1, (0, 2)):
        same(lambda x, axis=axis: md.sum(x, axis=axis, out=OUT), x)
        same(lambda x, axis=axis: md.mean(x, axis=axis, out=OUT), x)


@pytest.mark.parametrize("rule", ["onnx", "ort_cpu", "tflite_ref", "xnnpack_x86"])
def test_elementwise_by_tables_in_every_rounding_rule(rule: str) -> None:
    x, y = codes(QInt8Tensor, 4, 9), codes(QInt8Tensor, 4, 9, seed=3, scale=0.051)
    out = OUT.rounded(rule)
    same(lambda x, y: md.add(x, y, out=out), x, y)
    same(md.relu, x)
    same(lambda x: quant.requantize(x, out=out), x)


def test_movement() -> None:
    x = codes(QInt8Tensor, 4, 3)
    for call in (
        *(lambda x: md.concat([x, x], axis=1), lambda x: x[1:, ::-1]),
        lambda x: md.pad(x, [(1, 0), (0, 2)], value=0.0),
    ):
        same(call, x)


def test_the_classifier_of_the_demo_has_the_bytes_of_the_host() -> None:
    """112 nodes, 53 convolutions, from pixels to shares of two classes."""
    model = quant.load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)
    crops = [crop.pixels for crop in demo_data.crops()[0][:4]]
    small = model.quantize(model.calibrate(crops))
    x, (name,) = md.asarray(crops[0]), small.inputs
    wanted = small.plan({name: x.shape}).values({name: x})
    seen: dict[str, Any] = {}
    with md.trace_device() as log:
        small.to("webgpu").run({name: there(x)}, seen.__setitem__)
    compared = [value for value in seen if value in wanted]
    for value in compared:
        assert bytes_of(seen[value].to("cpu")) == bytes_of(wanted[value]), value
    assert len(compared) > len(small.graph.nodes) * 0.9
    assert seen[small.outputs[0]].device is webgpu
    # Nothing comes back while it runs, but one number for each check of NaN.
    assert log.size("to host") <= 8 * len(log.waits)
