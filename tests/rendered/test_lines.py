"""Curves, norms, running sums, picks and sorts of rendered loops, against the host."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device

import mdtensor as md
from mdtensor.errors import BoundsError
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.rendered import running

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
FLOATS = [md.float16, md.bfloat16, md.float32, md.float64]


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def floats(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def both(call: Any, *arrays: Any) -> tuple[Any, Any]:
    here = [x if isinstance(x, md.Tensor) else md.asarray(x) for x in arrays]
    found, wanted = call(*(x.to(gpu) for x in here)), call(*here)
    assert found.device is gpu and type(found).dtype is type(wanted).dtype
    assert found.shape == wanted.shape
    return np.asarray(found.to("cpu")), np.asarray(wanted)


def equal(call: Any, *arrays: Any) -> None:
    found, wanted = both(call, *arrays)
    assert found.tobytes() == wanted.tobytes()


CURVES: list[tuple[str, dict[str, Any], int]] = [
    *(
        # The host's gelu of float32 is within 7 ulp, and the device rounds once more.
        ("gelu", {}, 8),
        ("gelu", {"approximate": "tanh"}, 10),
        ("elu", {"alpha": 0.5}, 4),
    ),
    *(("celu", {"alpha": 2.0}, 4), ("selu", {}, 4), ("mish", {}, 6)),
    *(("softplus", {}, 4), ("softplus", {"beta": 2.0, "threshold": 3.0}, 4)),
    *(("softsign", {}, 0), ("logsigmoid", {}, 4), ("hardsigmoid", {"alpha": 0.3}, 0)),
    *(("hardtanh", {"min_val": -2.0}, 0), ("leaky_relu", {"negative_slope": 0.1}, 0)),
]


@pytest.mark.parametrize(("name", "options", "ulp"), CURVES)
def test_curves(name: str, options: Any, ulp: int) -> None:
    """Within units in the last place of numbers above 2⁻¹⁰; NaN and limits alike."""
    far = [np.inf, -np.inf, np.nan, 0, -0.0, 90, -90, 20.5]
    x = np.concatenate([floats(300) * 4, far])
    names = getattr(md, name).operation.options
    options = {k: v for k, v in options.items() if k in names}
    for dtype in FLOATS:
        array = x.astype(dtype.storage)
        found, wanted = both(lambda v: getattr(md, name)(v, **options), array)
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        assert (np.isnan(a) == np.isnan(b)).all()
        finite = np.isfinite(b)
        assert (a[~finite & ~np.isnan(b)] == b[~finite & ~np.isnan(b)]).all()
        unit = 2.0 ** (1 - dtype.digits) * np.maximum(np.abs(b), 2.0**-10)
        most = max(ulp, 1) if dtype.bits < 64 else ulp
        assert (np.abs(a[finite] - b[finite]) <= most * unit[finite]).all(), dtype


def test_norms() -> None:
    x, w, b = floats(3, 4, 5, 6), floats(6), floats(6)
    c, d = floats(4), floats(4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (lambda x, w, b: md.layer_norm(x, w, b, normalized_shape=(6,)), (x, w, b)),
        (lambda x: md.layer_norm(x, normalized_shape=(5, 6), eps=0.1), (x,)),
        (lambda x, w: md.rms_norm(x, w, normalized_shape=(6,)), (x, w)),
        (lambda x, w, b: md.group_norm(x, w, b, num_groups=2), (x, c, d)),
        (lambda x: md.instance_norm(x), (x,)),
        (lambda x: md.layer_norm(md.flip(x), normalized_shape=(6,)), (x,)),
    ]
    for call, given_ in calls:
        found, wanted = both(call, *given_)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-6)
        half = [v.astype(np.float16) for v in given_]
        found, wanted = both(call, *half)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)
    equal(lambda *v: md.batch_norm(*v), x, c, np.abs(d), c, d)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("include_initial", [False, True])
def test_running_sums_have_the_bytes_of_the_host(
    name: str, include_initial: bool
) -> None:
    call = getattr(md, name)
    numbers = np.random.default_rng(4).integers(-9, 9, (3, 7))
    for leaf in md.leaves()[1:13]:
        array = numbers.astype(leaf.dtype.storage)
        for axis in (0, 1):
            equal(
                lambda x, axis=axis: call(
                    x, axis=axis, include_initial=include_initial
                ),
                array,
            )
    equal(lambda x: call(md.flip(x), axis=0, dtype=md.float64), floats(9))


@pytest.mark.parametrize("size", [8192, 8193, 9216, 20_000])
def test_running_sums_of_long_lines(size: int) -> None:
    """Integers and float products as on the host; float sums by pieces of 1024."""
    numbers = np.random.default_rng(size).integers(-9, 9, (2, size))
    for storage in (np.int8, np.int64, np.uint16):
        array = numbers.astype(storage)
        equal(lambda x: md.cumulative_sum(x, axis=1), array)
        equal(lambda x: md.cumulative_sum(x, axis=0, include_initial=True), array.T)
        equal(lambda x: md.cumulative_prod(x, axis=1, dtype=md.int64), array | 1)
    equal(lambda x: md.cumulative_prod(x), 1 + floats(size) / 100)
    x = np.abs(floats(size))
    x[:3] = -0.0
    wanted, before = np.empty(size, np.float32), np.float32(-0.0)
    step = 1024 if size > 8192 else size
    for first in range(0, size, step):
        part = before + np.cumsum(x[first : first + step], dtype=np.float32)
        wanted[first : first + step], before = part, part[-1]
    found = np.asarray(md.cumulative_sum(md.asarray(x).to(gpu)).to("cpu"))
    assert found.tobytes() == wanted.tobytes()
    assert (np.diff(found) >= 0).all()


def test_running_sums_of_pieces_have_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LONGEST", 16)
    monkeypatch.setattr(running, "PIECE", 8)
    array = np.random.default_rng(1).integers(-9, 9, 2999).astype(np.int32)
    for size in (135, 1032, 2999):
        equal(md.cumulative_sum, array[:size])


@settings(max_examples=20)
@given(
    axis=st.integers(0, 2),
    shape=st.sampled_from([(), (3,), (2, 2), (0,)]),
    order=st.sampled_from(ORDERS),
    storage=st.sampled_from([np.int64, np.int8, np.uint8]),
)
def test_take(axis: int, shape: Any, order: str, storage: Any) -> None:
    gpu.order = order
    x, rng = floats(3, 4, 5), np.random.default_rng(1)
    least = 0 if storage is np.uint8 else -3
    indices = np.asarray(rng.integers(least, 3, shape), storage)
    equal(lambda x, i: md.take(x, i, axis=axis), x, indices)
    equal(lambda x, i: md.take(md.permute_dims(x, (2, 0, 1)), i, axis=1), x, indices)
    rows = np.asarray(rng.integers(0, 3, shape), storage)
    equal(md.embedding, rows, x[0])


def test_take_along_axis_and_bounds() -> None:
    x, indices = floats(4, 6), np.array([[0, -1, 3], [2, 1, 0], [5, 5, 5], [-6, 0, 1]])
    equal(lambda x, i: md.take_along_axis(x, i, axis=1), x, indices)
    for call, at in (
        (lambda x, i: md.take(x, i, axis=0), [0, 4]),
        (lambda x, i: md.take(x, i, axis=1), [-7]),
        (lambda x, i: md.embedding(i, x), [-1]),
    ):
        texts = []
        for place in ("cpu", gpu):
            given_ = md.asarray(x).to(place), md.asarray(np.array(at)).to(place)
            with pytest.raises(BoundsError) as caught:
                call(*given_)
            texts.append(str(caught.value).replace(rendered_device.prefix(gpu), ""))
        assert texts[0] == texts[1]


@settings(max_examples=15)
@given(
    axis=st.integers(0, 1),
    descending=st.booleans(),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 99),
)
def test_sorts(axis: int, descending: bool, order: str, seed: int) -> None:
    gpu.order = order
    rng = np.random.default_rng(seed)
    ties = rng.integers(-3, 3, (5, 17)).astype(np.float32)
    ties[rng.random(ties.shape) < 0.2] = np.nan
    ties[rng.random(ties.shape) < 0.1] = -0.0
    options = {"axis": axis, "descending": descending}
    for array in (ties, rng.integers(0, 9, (5, 17)).astype(np.uint8)):
        equal(lambda x: md.argsort(x, **options), array)
        equal(lambda x: md.sort(md.flip(x), **options), array)


@pytest.mark.parametrize("size", [1, 2, 3, 63, 64, 65, 1000])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts_of_lines_of_any_length(size: int, descending: bool) -> None:
    """Few numbers among many places: what is equal keeps its order."""
    rng = np.random.default_rng(size)
    for array in (
        rng.integers(-5, 5, (3, size)),
        rng.standard_normal((2, size)).astype(np.float32),
        np.arange(size)[None],
        np.arange(size)[::-1].copy(),
    ):
        order = np.argsort(array if not descending else -array, kind="stable")
        found = md.argsort(md.asarray(array).to(gpu), descending=descending)
        assert (np.asarray(found.to("cpu")) == order).all()
        equal(lambda x: md.sort(x, descending=descending), array)


def test_sort_takes_long_lines() -> None:
    array = floats(20_000)
    equal(md.argsort, array)
    equal(lambda x: md.topk(x, 9)[0], array)
    with pytest.raises(md.NoMethodError, match=f"no method for {gpu}"):
        md.sort(md.broadcast_to(md.zeros(1, dtype=md.int8, device=gpu), (2**30 + 1,)))


def test_a_new_elementwise_operation_needs_no_code_for_devices() -> None:
    """Written once from operations, it runs wherever these run."""
    with md.registry.restored():

        @md.generic
        def bump(x: Any, /) -> Any:
            """x · exp(-x²)."""

        @md.method(bump, anywhere=True)
        def bump(x: md.FloatingTensor, /) -> Any:
            return x * md.exp(-(x * x))

        found, wanted = both(bump, floats(40))
        np.testing.assert_allclose(found, wanted, rtol=4e-7)
        assert gpu in md.registry.devices_of(md.which(bump, md.Float32Tensor).method)
