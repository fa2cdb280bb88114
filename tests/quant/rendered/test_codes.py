"""Quantized tensors on a device: the bytes of the host, for every operation there."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device

import mdtensor as md
from bench import mobilenet
from mdtensor import quant
from mdtensor.cli import demo_data
from mdtensor.errors import CastError, DeviceError, GridError
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.quant import (
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QParams,
    QUInt8Tensor,
)
from mdtensor.rendered import tiling

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
FLOAT = md.asarray([1.0])
KINDS: list[Any] = [QInt8Tensor, QUInt8Tensor, QInt16Tensor, QInt32Tensor]
OUT = QParams(0.043, 3)
#: Functions without a result for some numbers.
PARTIAL = {"acos", "acosh", "asin", "atanh", "div", "log", "log10", "log1p", "log2"}
PARTIAL |= {"reciprocal", "sqrt", "tan"}


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def codes(
    kind: Any, *shape: int, scale: Any = 0.037, axis: Any = None, seed: int = 0
) -> Any:
    """Random codes of the whole range, with a zero point where the type has one."""
    rng, info = np.random.default_rng((seed, *shape)), np.iinfo(kind.dtype.storage)
    zero = {quant.qint8: -7, quant.quint8: 120}.get(kind.dtype, 0)
    if np.ndim(scale):
        zero = np.full(np.shape(scale), zero)
    numbers = rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
    return kind(numbers, scale=scale, zero_point=zero, axis=axis)


def weights(*shape: int, seed: int = 1) -> Any:
    scale = np.random.default_rng(seed).uniform(0.001, 0.02, shape[0])
    numbers = np.random.default_rng(seed).integers(-128, 128, shape)
    return QInt8Tensor(numbers, scale=scale, axis=0)


def equal(call: Any, *given: Any) -> Any:
    """Check that the device gives the type, grid, rule and bytes of the host."""
    wanted = call(*given)
    found = call(*(x.to(gpu) if isinstance(x, md.Tensor) else x for x in given))
    assert found.device is gpu
    same(found, wanted)
    return found


def same(found: Any, wanted: Any) -> None:
    here = found.to("cpu")
    assert type(here) is type(wanted) and here.shape == wanted.shape
    if isinstance(wanted, quant.QuantizedTensor):
        assert here.qparams == wanted.qparams and here.rounding == wanted.rounding
    a, b = (np.asarray(getattr(x, "codes", x)) for x in (here, wanted))
    assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind: Any) -> None:
    x = codes(kind, 2, 3)
    there = x.to(gpu)
    assert type(there).__name__ == f"{rendered_device.prefix(gpu)}{kind.__name__}"
    assert there.to(gpu) is there
    same(there, x)
    assert type(there).__bases__ == kind.__bases__
    assert repr(there).startswith(
        f"{rendered_device.prefix(gpu)}{kind.__name__}[2,3](scale=0.037"
    )
    assert kind.with_device(md.cuda).__name__ == f"Cuda{kind.__name__}"


AXIS = {"scale": [0.5, 0.031, 0.7], "axis": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grid", [{}, AXIS], ids=["one scale", "scales along an axis"])
def test_dequantize_and_requantize(kind: Any, grid: Any) -> None:
    x = codes(kind, 40, 3, **grid)
    equal(quant.dequantize, x)
    wide, narrow = QParams(2.0, dtype=quant.qint16), QParams(0.02, narrow_range=True)
    others = QParams(0.9, 200, dtype=quant.quint8), QParams([0.1, 0.2, 0.3], axis=1)
    for out in (OUT, wide, narrow, *others):
        equal(lambda x, out=out: quant.requantize(x, out=out), x)


@given(st.integers(1, 2**24 - 1), st.integers(1, 2**24 - 1), st.integers(-12, 12))
@settings(max_examples=25)
def test_ties_of_any_scales(a: int, b: int, exponent: int) -> None:
    """Sums whose quotients are ties, or next to one."""
    source, target = float(np.float32(a)), float(np.float32(b) * 2.0**exponent)
    near = [(2 * n + 1) * target / (2 * source) for n in range(-130, 130)]
    sums = {int(v) + d for v in near for d in (-1, 0, 1) if abs(v) < 2**30}
    x = QInt32Tensor(sorted(sums) or [0], scale=source)
    equal(lambda x: quant.requantize(x, out=QParams(target)), x)


@pytest.mark.parametrize(
    "dtype", [md.float16, md.bfloat16, md.float32, md.float64], ids=str
)
def test_quantize(dtype: Any) -> None:
    x = np.random.default_rng(2).standard_normal((50, 3)) * 3
    x[0] = np.inf, -np.inf, 0.5 * 0.043
    x = md.asarray(x.astype(dtype.storage))
    for out in (
        OUT,
        QParams(0.25, dtype=quant.quint8),
        QParams([0.1, 0.2, 0.3], axis=1),
    ):
        equal(lambda x, out=out: quant.quantize(x, out), x)
    x[1, 1] = np.nan
    with pytest.raises(CastError, match="cannot quantize NaN"):
        quant.quantize(x.to(gpu), OUT)


def elementwise() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Each operation of codes that devices have by a table."""
    for call in md.operations().values():
        for method in call.operation.methods:
            is_table = method.location.startswith("mdtensor/quant/rendered/tables.py")
            if is_table and gpu in md.registry.devices_of(method):
                yield call.__name__, method.signature.types


def argument(hint: Any, at: int) -> Any:
    if hint == float | int or float in getattr(hint, "__args__", ()):
        return 0.5
    steps = np.arange(256, dtype=np.uint8).reshape(16, 16)[: 16 if at else 8]
    return QUInt8Tensor(steps if at else steps[:, :1], scale=0.01, zero_point=at * 9)


def test_every_elementwise_operation_of_codes() -> None:
    names = set()
    for name, hints in elementwise():
        given = [argument(hint, 1 - at) for at, hint in enumerate(hints)]
        if len(given) == 2 and all(isinstance(x, md.Tensor) for x in given):
            given = [argument(None, 0), argument(None, 1)[:1]]
        call = getattr(md, name)
        options = {"out": OUT} if "out" in call.operation.options else {}
        if name == "clip":
            options |= {"min": 0.2, "max": 0.9}
        try:
            call(*given, **options)
        except md.MdtensorError as error:
            with pytest.raises((type(error), md.NoMethodError)):
                call(*(x.to(gpu) if isinstance(x, md.Tensor) else x for x in given),
                     **options)  # fmt: skip
            continue
        try:
            equal(lambda *xs, call=call, options=options: call(*xs, **options), *given)
        except md.NoMethodError:
            # Some code, though none here, has no result: log of 0.
            assert name in PARTIAL, name
            continue
        names.add(name)
    assert {"relu", "hardswish", "add", "mul", "sub", "less", "tanh", "gelu"} <= names


@pytest.mark.parametrize("rule", ["onnx", "ort_cpu", "tflite_ref", "xnnpack_x86"])
def test_tables_have_the_bytes_of_every_rounding_rule(rule: str) -> None:
    x, y = codes(QInt8Tensor, 4, 9), codes(QInt8Tensor, 4, 9, seed=3, scale=0.051)
    out = OUT.rounded(rule)
    equal(lambda x, y: md.add(x, y, out=out), x, y)
    equal(lambda x: quant.requantize(x, out=out), x)
    with pytest.raises(md.NoMethodError, match=f"no method for {gpu} yet"):
        md.matmul(x.to(gpu), y.to(gpu).T, out=out)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("out", [OUT, None], ids=["rounded", "exact"])
def test_products(order: str, out: Any) -> None:
    gpu.order = order
    x, w = codes(QUInt8Tensor, 5, 70), weights(6, 70)
    grid = QParams(float(x.scale) * w.scale, dtype=quant.qint32, axis=0)
    bias = QInt32Tensor(np.arange(-3, 3) * 4001, grid)
    equal(lambda x, w, b: md.linear(x, w, b, out=out), x, w, bias)
    equal(lambda x, w: md.linear(x, w, out=out), x, w)
    y = codes(QInt8Tensor, 3, 70, 4, scale=0.02)
    equal(lambda x, y: md.matmul(x, y, out=out), codes(QInt8Tensor, 2, 70), y)


def rows_of(kind: Any, *shape: int) -> Any:
    return codes(kind, *shape, seed=5)


@settings(max_examples=20)
@given(
    k=st.integers(1, 21),
    skipped=st.integers(0, 5),
    kinds=st.tuples(st.sampled_from(KINDS[:2]), st.sampled_from(KINDS[:2])),
)
def test_products_of_four_bytes_at_a_time(k: int, skipped: int, kinds: Any) -> None:
    """Rows of any length and alignment; with strides there is one byte at a time."""
    x, w = rows_of(kinds[0], 4, k + skipped), rows_of(kinds[1], 3, k + skipped)
    signed = QInt8Tensor(np.asarray(w.codes).view(np.int8), scale=0.02)
    for other in (w, signed):
        equal(lambda x, w: md.linear(x[:, skipped:], w[:, skipped:]), x, other)
        equal(lambda x, w: md.linear(md.flip(x), w, out=OUT), x, other)


@settings(max_examples=10)
@given(
    kernel=st.sampled_from([1, 3]),
    stride=st.sampled_from([1, 2]),
    padding=st.sampled_from([0, 1, (0, 1, 2, 0)]),
    groups=st.sampled_from([1, 2, 4]),
    kind=st.sampled_from(KINDS[:3]),
)
def test_conv2d(kernel: int, stride: int, padding: Any, groups: int, kind: Any) -> None:
    x, w = codes(kind, 2, 4, 7, 6), weights(8, 4 // groups, kernel, kernel)
    grid = QParams(float(x.scale) * w.scale, dtype=quant.qint32, axis=0)
    bias = QInt32Tensor(np.arange(8) * 999, grid)
    options = {"stride": stride, "padding": padding, "groups": groups}
    equal(lambda x, w, b: md.conv2d(x, w, b, **options, out=OUT), x, w, bias)


def test_sums_beyond_32_bits_raise() -> None:
    x = QInt16Tensor(np.full((1, 4), 2**15 - 1), scale=1.0)
    with pytest.raises(GridError) as raised:
        md.matmul(x.to(gpu), x.T.to(gpu))
    with pytest.raises(GridError) as wanted:
        md.matmul(x, x.T)
    assert str(raised.value).replace(rendered_device.prefix(gpu), "") == str(
        wanted.value
    )
    equal(lambda x: md.matmul(x, x.T, out=QParams(2.0**20)), x)


def test_pools_and_reductions() -> None:
    x = codes(QUInt8Tensor, 2, 3, 8, 7)
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
                    {"kernel_size": 3, "stride": 2, "ceil_mode": True}):  # fmt: skip
        equal(lambda x, options=options: md.max_pool2d(x, **options), x)
        equal(lambda x, options=options: md.avg_pool2d(x, **options, out=OUT), x)
    equal(lambda x: md.global_avg_pool2d(x, out=OUT), x)
    for axis in (None, 1, (0, 2)):
        for out in (OUT, None):
            equal(lambda x, axis=axis, out=out: md.sum(x, axis=axis, out=out), x)
        equal(lambda x, axis=axis: md.mean(x, axis=axis, out=OUT), x)
        equal(lambda x, axis=axis: md.max(x, axis=axis, keepdims=True), x)
    equal(lambda x: md.argmax(x, axis=1), x)


@pytest.mark.parametrize("grid", [{}, AXIS], ids=["one scale", "scales along an axis"])
def test_movement(grid: Any) -> None:
    x = codes(QInt8Tensor, 4, 3, **grid)
    calls = [
        *(lambda x: md.permute_dims(x, (1, 0)), lambda x: md.expand_dims(x, axis=0)),
        *(lambda x: md.flip(x, axis=0), lambda x: x[1:3], lambda x: x[..., 1:]),
        *(lambda x: md.concat([x, x], axis=0), lambda x: md.stack([x, x], axis=0)),
        *(lambda x: md.broadcast_to(x, (2, 4, 3)), lambda x: md.unstack(x)[1]),
        lambda x: md.moveaxis(x, 0, 1),
    ]
    if not grid:
        calls += [lambda x: md.reshape(x, (2, 6)), lambda x: md.tile(x, (2, 1))]
        calls += [lambda x: md.pad(x, [(1, 0), (0, 2)], value=0.0)]
        calls += [lambda x: md.concat([x, x], axis=1, out=OUT)]
    for call in calls:
        equal(call, x)


def test_what_devices_lack_raises() -> None:
    x = codes(QInt8Tensor, 4).to(gpu)
    for call in (
        lambda: md.softmax(x, axis=0),
        lambda: md.sort(x),
        lambda: quant.quantize(
            md.asarray([1.0]).to(gpu), QParams(1, dtype=quant.qint4)
        ),
        lambda: md.exp(codes(QInt8Tensor, 2, 3, **AXIS).to(gpu), out=OUT),
    ):
        with pytest.raises(md.NoMethodError, match=rf"no method for {gpu} yet\. Move"):
            call()
    assert md.which(md.softmax, x, axis=0).is_refusal
    with pytest.raises(DeviceError, match=f"operands are on {gpu} and cpu"):
        md.add(x, x.to("cpu"), out=OUT)
    with pytest.raises(DeviceError, match=f"qfloat8_e4m3 has no tensor type on {gpu}"):
        quant.QFloat8E4M3Tensor([1, 2], scale=1.0).to(gpu)


def test_no_call_is_ambiguous_on_the_device() -> None:
    report = md.diagnose.analyze()
    assert len(report.functions) > 200 and not report.at_least("warning")


def test_which_names_the_kernel_of_the_device() -> None:
    x = codes(QInt8Tensor, 4).to(gpu)
    found = md.which(md.tanh, x, out=OUT)
    assert (found.kernel, found.isa) == ("tanh_s8", "CUDA text")
    assert "mdtensor/quant/rendered/tables.py:" in found.place


@pytest.mark.slow
def test_the_demo_network_node_by_node() -> None:
    """The int8 classifier has the bytes of the host's compiled plan in each node."""
    model = quant.load(demo_data.classifier_path(), demo_data.INPUT_SHAPE)
    crops = [crop.pixels for crop in demo_data.crops()[0][:4]]
    compare(model.quantize(model.calibrate(crops)), md.asarray(crops[0]))


@pytest.mark.slow
def test_mobilenet_v2_node_by_node() -> None:
    """As published, with seeded weights: see bench/mobilenet.py."""
    image = next(mobilenet.images(224, 5))
    compare(mobilenet.quantized(224), md.asarray(image))


def compare(small: Any, x: Any) -> None:
    (name,) = small.inputs
    wanted = small.plan({name: x.shape}).values({name: x})
    there, seen = small.to(gpu), {}
    there.run({name: x.to(gpu)}, seen.__setitem__)
    compared = 0
    for value, found in seen.items():
        if value in wanted:
            same(found, wanted[value])
            compared += 1
    assert compared > len(small.graph.nodes) * 0.9
    assert there.to("cpu") is small
    with pytest.raises(DeviceError, match=rf"is Float32Tensor.*, not on {gpu}"):
        there(x)


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tiles of the kernels that a test launches; 0 for a kernel without."""
    found: list[int] = []
    issue = type(gpu).issue

    def record(self: Any, stream: Any, kernel: Any, launch: Any) -> None:
        found.append(kernel.tile)
        issue(self, stream, kernel, launch)

    monkeypatch.setattr(type(gpu), "issue", record)
    return found


def some(kind: Any, *shape: int, zero: int = 0, scale: Any = 0.1, **grid: Any) -> Any:
    """Codes of the whole range of a type."""
    info = np.iinfo(kind.dtype.storage)
    rng = np.random.default_rng(shape)
    numbers = rng.integers(info.min, info.max, shape, endpoint=True)
    return kind(numbers.astype(info.dtype), scale=scale, zero_point=zero, **grid)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [QInt8Tensor, QUInt8Tensor])
def test_products_of_matrices_go_by_tiles(
    kind: Any, order: str, tiles: list[int]
) -> None:
    gpu.order = order
    scales = np.random.default_rng(7).uniform(0.01, 0.1, 40)
    x = some(kind, 3, 20, 70, zero=5)
    w = some(QInt8Tensor, 40, 70, scale=scales, axis=0)
    b = QInt32Tensor(np.arange(40) * 99, scale=0.1 * scales, axis=0)
    unsigned = some(QUInt8Tensor, 70, 33, zero=131)
    zeros = some(QInt8Tensor, 40, 70, zero=np.arange(40) - 9, scale=scales, axis=0)
    for call, given_ in (
        (lambda x, w, b: md.linear(x, w, b, out=OUT), (x, w, b)),
        (lambda x, w: md.linear(x, w), (x, zeros)),
        (lambda x, w: md.matmul(x, w, out=OUT), (x, unsigned)),
        (lambda x, w: md.matmul(x, w), (x, some(kind, 3, 70, 20, zero=7))),
    ):
        tiles.clear()
        equal(call, *given_)
        assert 64 in tiles
    # Few rows are sliced, if codes are neighbours; a row of few sums does not pay.
    for call, given_, wanted in (
        (lambda x, w, b: md.linear(x, w, b, out=OUT), (x[0, :1], w, b), 16),
        (lambda x, w: md.matmul(x, w), (x[0, :9], unsigned), 0),
        (lambda x, w: md.linear(x, w), (x[0, :7], zeros[:9]), 0),
    ):
        tiles.clear()
        equal(call, *given_)
        assert tiles and set(tiles) == {wanted}


@pytest.mark.parametrize("order", ORDERS)
def test_convolutions_go_by_tiles(order: str, tiles: list[int]) -> None:
    """Rows are places of the window, columns are channels; groups are apart."""
    gpu.order = order
    x, w = some(QUInt8Tensor, 2, 4, 7, 6, zero=3), some(QInt8Tensor, 34, 2, 3, 3)
    for options in (
        {"padding": 1},
        {"stride": 2, "dilation": 2, "padding": (2, 1, 1, 2)},
    ):
        tiles.clear()
        equal(lambda x, w, o=options: md.conv2d(x, w, groups=2, **o, out=OUT), x, w)
        assert 64 in tiles


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_depthwise_convolutions_have_a_table(
    channels: int, order: str, tiles: list[int]
) -> None:
    """A channel alone for each group, or few: rounded in the same kernel."""
    gpu.order, count = order, 4 * channels
    scales = np.random.default_rng(7).uniform(0.01, 0.1, count)
    filters = some(QInt8Tensor, count, 1, 5, 3, scale=scales, axis=0)
    bias = QInt32Tensor(np.arange(count) * 99, scale=0.1 * scales, axis=0)
    for kind, size in ((QUInt8Tensor, (30, 21)), (QInt8Tensor, (6, 7))):
        x = some(kind, 2, 4, *size, zero=3)
        for options in ({"padding": 1}, {"stride": 2, "padding": (2, 1, 1, 2)}):
            tiles.clear()
            equal(
                lambda x, w, b, o=options: md.conv2d(x, w, b, groups=4, **o, out=OUT),
                x,
                filters,
                bias,
            )
            assert 1 in tiles and set(tiles) <= {0, 1}
    zeros = some(QInt8Tensor, count, 1, 5, 3, zero=np.arange(count) - 5,
                 scale=scales, axis=0)  # fmt: skip
    equal(lambda x, w: md.conv2d(x, w, groups=4), x, zeros)


@pytest.mark.parametrize("order", ORDERS)
def test_long_sums_of_few_tiles_have_parts(order: str, tiles: list[int]) -> None:
    """Parts of the sums are computed by more blocks, and then added in their order."""
    gpu.order = order
    scales = np.random.default_rng(7).uniform(0.01, 0.1, 40)
    w = some(QInt8Tensor, 40, 2048, zero=np.arange(40) - 9, scale=scales, axis=0)
    b = QInt32Tensor(np.arange(40) * 99, scale=0.1 * scales, axis=0)
    x, turned = some(QUInt8Tensor, 20, 2048, zero=131), some(QInt8Tensor, 2048, 17)
    image = some(QUInt8Tensor, 2, 1024, 3, 4, zero=3)
    filters = some(QInt8Tensor, 34, 1024, 1, 1)
    for call, given_, side in (
        (lambda x, w, b: md.linear(x, w, b, out=OUT), (x, w, b), 64),
        (lambda x, w: md.linear(x, w), (x, w), 64),
        (lambda x, w: md.linear(x, w, out=OUT), (x[:3], w), 16),
        (lambda x, w: md.matmul(x, w, out=OUT), (x, turned), 64),
        (lambda x, w: md.conv2d(x, w, out=OUT), (image, filters), 64),
    ):  # fmt: skip
        tiles.clear()
        with md.trace_device() as log:
            equal(call, *given_)
        assert side in tiles and 0 in tiles
        assert any("_in_parts" in one.kernel for one in log.launches)
    # Sums of 2048 codes have 4 parts of 512; shorter ones none.
    shapes = [tiling._parts(n, (64, 1024, k), (2,)) for n, k in ((16, 4096), (16, 512))]
    assert shapes == [(8, 2), None]
    assert tiling._parts(128, (64, 1024, 4096), (2,)) is None
    # A line that has no parts of whole 64 codes stays one.
    assert tiling._parts(16, (64, 1024, 4095), (2,)) is None
