"""Operations that others make up, and picks by tensors: the results of the host.

Elements are whole numbers where sums and products of floats are compared by their
bytes, since then every order of a sum is exact.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device
from support.on_device import agree, gpu, same_bytes, there

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import (
    BoundsError,
    DeviceError,
    MdtensorError,
    NoMethodError,
    OptionError,
)
from mdtensor.kernels.emulated.launcher import ORDERS
from mdtensor.kernels.loops import kernel

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
SMALL = [md.int8, md.uint16, md.int64, md.float16, md.float32, md.float64]


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def whole(dtype: Any, *shape: int, seed: int = 0) -> Any:
    """Small whole numbers of a type, with zeros and equal ones among them."""
    low = 0 if dtype.kind.startswith("unsigned") else -3
    found = np.random.default_rng((seed, *shape)).integers(low, 5, shape)
    return md.asarray(found.astype(dtype.storage))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_differences_and_products(dtype: Any) -> None:
    x, y = whole(dtype, 4, 6), whole(dtype, 4, 3, seed=1)
    agree(lambda x: md.diff(x, axis=1), x)
    agree(lambda x, y: md.diff(x, axis=1, n=2, prepend=y, append=y), x, y)
    agree(lambda x: md.diff(x, axis=0, n=9), x)
    agree(lambda x, y: md.tensordot(x, y, axes=((0,), (0,))), x, y)
    agree(lambda x, y: md.tensordot(x, y, axes=0), x, y)
    agree(lambda x, y: md.tensordot(x, y, axes=2), x, x)
    agree(lambda x, y: md.linalg.cross(x, y), y, whole(dtype, 3, seed=2))
    agree(lambda x: md.linalg.cross(x, x[::-1], axis=0), whole(dtype, 3, 5))
    agree(lambda x: md.linalg.trace(x, offset=1), x)


@pytest.mark.parametrize("dtype", [md.bool, *SMALL, md.complex64], ids=str)
def test_places_of_elements(dtype: Any) -> None:
    x = whole(dtype, 2, 4, 6)
    for k in (-9, -4, -1, 0, 2, 6, 9):
        agree(lambda x, k=k: md.tril(x, k=k), x)
        agree(lambda x, k=k: md.triu(x, k=k), x)
        agree(lambda x, k=k: md.linalg.diagonal(x, offset=k), x)
    agree(lambda x: md.repeat(x, 3, axis=1), x)
    agree(lambda x: md.repeat(x[..., ::-1], 2), x)
    agree(lambda x: md.repeat(x, 0, axis=0), x)
    for kind, axis, repeats in (
        (md.int64, 1, [2, 0, 1, 3]),
        (md.uint8, 0, [0, 2]),
        (md.uint64, 2, [2]),
        (md.int32, None, list(range(48))),
        (md.int8, 1, [0] * 4),
    ):
        counts = md.asarray(repeats).astype(kind)
        agree(lambda x, n, axis=axis: md.repeat(x, n, axis=axis), x, counts)
    counts = md.asarray([1, -1]).to(gpu)
    with pytest.raises(OptionError, match="a number of repeats is below 0"):
        md.repeat(there(x), counts, axis=0)
    agree(md.fft.fftshift, x)
    agree(lambda x: md.fft.ifftshift(x, axes=(0, 2)), x)
    image = whole(dtype, 2, 8, 3, 4)
    agree(lambda x: md.pixel_shuffle(x, upscale_factor=2), image)
    agree(lambda x: md.pixel_unshuffle(x, downscale_factor=2), image[:, :, :2])


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_powers_of_matrices(dtype: Any) -> None:
    x = whole(dtype, 2, 3, 3)
    for n in range(7):
        agree(lambda x, n=n: md.linalg.matrix_power(x, n), x)
    y = there(x)
    assert md.linalg.matrix_power(y, 1).buffer.memory is not y.buffer.memory
    if dtype.is_floating:
        with pytest.raises(NoMethodError, match=r'matrix_power.*to\("cpu"\)'):
            md.linalg.matrix_power(y, -1)


@pytest.mark.parametrize("dtype", SMALL[3:], ids=str)
def test_folded_norms_and_reduced_precision(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    w, *five = (
        md.astype(md.asarray(np.abs(rng.standard_normal(shape))), dtype)
        for shape in ((4, 3, 2, 2), *[(4,)] * 5)
    )
    same_bytes(md.fold_batch_norm, w, *five)
    same_bytes(lambda w, *x: md.fold_batch_norm(w, None, *x, eps=0.1), w, *five[1:])
    exotic = np.array([1.0001, 65519, 65520, 1e-8, np.nan, -0.0, np.inf])
    x = md.astype(md.asarray(exotic), dtype, casting="wrap")
    for name in (md.float16, "bfloat16", "float32"):
        same_bytes(lambda x, name=name: md.reduce_precision(x, name), x)


@pytest.mark.parametrize("dtype", [md.float32, md.float64], ids=str)
def test_parts_of_complex_numbers_are_views(dtype: Any) -> None:
    pairs = whole(dtype, 3, 4, 2)
    for view in (lambda x: x, lambda x: x[:, ::-2], lambda x: x[..., ::-1]):
        agree(lambda x, view=view: md.view_as_complex(view(x)), pairs)
    numbers = md.view_as_complex(pairs)
    agree(lambda x: md.view_as_real(x.T[::2]), numbers)
    moved = there(numbers)
    md.view_as_real(moved)[0, 0, 1] = 7
    assert moved[0, 0].tolist().imag == 7


@pytest.mark.parametrize("dtype", SMALL[3:], ids=str)
def test_norms(dtype: Any) -> None:
    x, near = whole(dtype, 2, 3, 4), 4 * 2.0**-dtype.digits
    for order in (0, 1, 2, 3, 0.5, np.inf, -np.inf):
        for axis in (None, 1, (0, 2)):
            agree(
                lambda x, a=axis, o=order: md.linalg.vector_norm(x, axis=a, ord=o),
                x,
                near=near,
            )
    for order in ("fro", 1, -1, np.inf, -np.inf):
        agree(lambda x, o=order: md.linalg.matrix_norm(x, ord=o), x, near=near)
        agree(
            lambda x, o=order: md.linalg.matrix_norm(x, ord=o, keepdims=True),
            x,
            near=near,
        )
    agree(lambda x: md.linalg.vector_norm(x, ord=1), x[:0])
    agree(lambda x: md.linalg.vector_norm(x, ord=np.inf), x[:0])
    agree(lambda x: md.normalize(x, p=2.0, axis=1), x, near=near)
    with pytest.raises(NoMethodError, match="matrix_norm"):
        md.linalg.matrix_norm(there(x), ord="nuc")


@pytest.mark.parametrize("dtype", SMALL[3:], ids=str)
def test_layers(dtype: Any) -> None:
    near = 8 * 2.0**-dtype.digits
    x = whole(dtype, 2, 4, 6, 6)
    agree(lambda x: md.glu(x, axis=1), x, near=near)
    agree(md.prelu, x, whole(dtype, 4))
    agree(md.prelu, x, whole(dtype, 1, seed=5))
    agree(lambda x: md.adaptive_avg_pool2d(x, output_size=(1, 1)), x, near=near)
    agree(lambda x: md.adaptive_max_pool2d(x, output_size=(3, 2)), x)


@pytest.mark.parametrize("dtype", SMALL[3:], ids=str)
def test_attention(dtype: Any) -> None:
    q, k, v = (whole(dtype, 2, n, 8, seed=n) for n in (5, 7, 7))
    near = 32 * 2.0**-dtype.digits
    attend = md.scaled_dot_product_attention
    agree(attend, q, k, v, near=near)
    agree(lambda *x: attend(*x, is_causal=True), q, k, v, near=near)
    agree(lambda *x: attend(*x, scale=0.5), q, k, v, near=near)
    seen = np.random.default_rng(1).random((5, 7)) < 0.5
    # A query that sees nothing has the result 0.
    seen[2] = False
    for mask in (md.asarray(seen), whole(dtype, 5, 7)):
        agree(lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, mask, near=near)
    with pytest.raises(DeviceError):
        attend(*map(there, (q, k, v)), attn_mask=md.asarray(seen))


BLOCKS = st.sampled_from([(), (3,), (2, 3), (1, 3), (0,)])
KINDS = st.lists(st.sampled_from(["int", "slice", "pick", "none"]), max_size=5)


def key_of(kinds: Any, block: Any, shape: Any, last: str, rank: int) -> list[Any]:
    """A key of these kinds of indices, and behind them a mask or an ellipsis."""
    key, axis = list[Any](), 0
    rng = np.random.default_rng(len(kinds))
    for kind in kinds:
        size = 1 if kind == "none" else shape[axis]
        axis += kind != "none"
        made = {
            "none": lambda: None,
            "int": lambda n=size: int(rng.integers(-n, n)),
            "slice": lambda: slice(None, None, -1),
            "pick": lambda n=size: md.asarray(rng.integers(-n, n, block)),
        }
        key.append(made[kind]())
    rest = shape[axis:]
    if last == "mask" and rest[:rank]:
        key.append(md.asarray(rng.random(rest[:rank]) < 0.5))
    elif last == "ellipsis":
        key += [..., *(md.asarray([0, -1]) for _ in rest[:1])]
    return key


@settings(max_examples=60)
@given(
    kinds=KINDS,
    block=BLOCKS,
    last=st.sampled_from(["", "mask", "ellipsis"]),
    rank=st.integers(1, 3),
    shape=st.lists(st.integers(1, 4), min_size=5, max_size=5),
    order=st.sampled_from(ORDERS),
)
def test_picks_by_tensors(
    kinds: Any, block: Any, last: str, rank: int, shape: Any, order: str
) -> None:
    """Keys of integers, slices, None, an ellipsis, masks and integer tensors."""
    gpu.order = order
    key = key_of(kinds, block, shape, last, rank)
    if not any(isinstance(one, md.Tensor) for one in key):
        key.insert(0, md.asarray([0]))
    x = whole(md.int32, *shape)
    try:
        x[tuple(key)]
    except MdtensorError as error:
        with pytest.raises(type(error)):
            there(x)[tuple(map(there, key))]
        return
    agree(lambda x, *key: x[key], x, *key)


def test_picks_outside_and_of_nothing() -> None:
    x = there(whole(md.float32, 3, 4))
    outside = there(md.asarray([0, 3]))
    for call in (lambda: x[outside], lambda: x[outside, outside]):
        with pytest.raises(BoundsError, match="an index is outside an axis of size 3"):
            call()
    with pytest.raises(BoundsError, match="does not fit"):
        x[there(md.asarray([True, False]))]
    with pytest.raises(MdtensorError):
        x[md.asarray([0])]
    none = md.asarray(np.zeros((3, 4), bool))
    agree(lambda x, m: x[m], x.to("cpu"), none)
    agree(lambda x, m: x[m], x.to("cpu"), none[:0, :0])


def test_masks() -> None:
    x = whole(md.float32, 3, 4, 5)
    for y in (x, x.T if x.ndim == 2 else md.flip(x), x[:0], x[0, 0]):
        agree(lambda x: md.nonzero(x), y)
        agree(md.argwhere, y)
    agree(lambda x: x[x > 0], x)
    agree(lambda x: x[x[:, :, 0] > 0], x)
    for mask in (x > 1, x[:, 0, 0] > 0, x[:, :, 2] < 1):
        here, far = md.asarray(x, copy=True), there(x)
        far_view = far[::-1]
        here[mask], far[there(mask)] = 7.5, 7.5
        assert far.tolist() == here.tolist()
        assert far_view.tolist() == here[::-1].tolist()
    with pytest.raises(md.errors.WriteError):
        read_only = md.broadcast_to(there(x[0, 0]), (2, 5))
        read_only[read_only > 0] = 1
    ints = there(whole(md.int8, 4))
    with pytest.raises(md.CastError):
        ints[ints > 0] = 300
    with pytest.raises(NoMethodError, match="setitem"):
        ints[ints > 0] = ints[:1]


def test_indices_and_values_on_the_host_are_refused_by_name() -> None:
    """Also arrays of NumPy, which the host takes; a NumPy scalar is a number."""
    x, i = there(whole(md.float32, 3, 4)), np.array([0, 2])
    row, mask = np.ones(4, np.float32), np.ones((3, 4), bool)

    def write(key: Any, value: Any) -> Any:
        x[key] = value

    calls: list[Callable[[], Any]] = [
        *(lambda key=key: x[key] for key in (i, mask, md.asarray(i), (0, i))),
        *(lambda value=value: write(0, value) for value in (row, md.asarray(row))),
        *(lambda key=key: write(key, 1.0) for key in (mask, md.asarray(mask))),
    ]
    for call in calls:
        with pytest.raises(DeviceError, match=f"operands are on {gpu} and cpu. Move"):
            call()
    write(0, np.float32(2.5))
    assert x.tolist()[0] == [2.5] * 4


def test_results_without_room_are_refused_by_our_error() -> None:
    x = md.broadcast_to(there(md.ones((1,), dtype=md.int8)), (2**45,))
    with pytest.raises(
        md.errors.AllocationError, match=r"there is no memory for \d+ bytes"
    ):
        x + x


def test_classes_and_members() -> None:
    x = md.asarray(np.array([[0, 2], [1, 0]], np.int16))
    agree(lambda x: md.one_hot(x, num_classes=4), x)
    agree(lambda x: md.one_hot(x, num_classes=-1), x)
    with pytest.raises(BoundsError, match="outside of 2 classes"):
        md.one_hot(there(x), num_classes=2)
    with pytest.raises(BoundsError):
        md.one_hot(there(x - 1), num_classes=3)
    with pytest.raises(md.ShapeError, match="classes of an empty"):
        md.one_hot(there(x[:0]), num_classes=-1)
    # 2**53 + 1 is not a float64, so a promoted comparison would find it.
    large = md.asarray([2**53 + 1, 2, 3])
    for members in (md.asarray([2.0**53, 3.0]), x, x[:0]):
        for invert in (False, True):
            agree(lambda a, b, i=invert: md.isin(a, b, invert=i), large, members)


def test_two_numbers_have_no_type() -> None:
    truth = md.asarray([True])
    for x in (truth, there(truth)):
        with pytest.raises(md.PromotionError, match="only Python scalars"):
            md.where(x, 1, 2)


def test_compositions_are_recorded_and_joined() -> None:
    """A second call of the same layout launches what was planned; nothing waits."""
    q = there(whole(md.float32, 2, 5, 8))
    calls: list[Callable[[], Any]] = [
        lambda: md.scaled_dot_product_attention(q, q, q, is_causal=True),
        lambda: md.diff(q, axis=1),
        lambda: md.tril(q),
        lambda: md.linalg.vector_norm(q, axis=2),
    ]
    for call in calls:
        wanted = call().tolist()
        with md.no_sync(), md.no_transfer(), md.trace_device() as log:
            found = call()
        assert 0 < len(log.launches) <= 8
        assert found.tolist() == wanted


def test_a_checked_cast_reads_its_elements_once() -> None:
    """It counts what it refuses while it converts, for 8 bytes to the host."""
    x = there(md.asarray(np.arange(20000) % 100.0))
    big = there(md.asarray(np.where(np.arange(20000) % 7, 1.0, 300.0)))
    for call, title in (
        (lambda x: md.astype(x, md.int8), "astype_f64s8"),
        (lambda x: quant.quantize(x, quant.QParams(0.5)), "quantize"),
    ):
        with md.trace_device() as log:
            call(x)
        first, second = (one.kernel for one in log.launches)
        assert first.startswith("fill") and second.startswith(title)
        assert log.size("to host") == 8 and len(log.waits) == 1
    for order in ORDERS:
        gpu.order = order
        with pytest.raises(md.CastError, match="2858 of 20000 values are out of range"):
            md.astype(big, md.int8)
    with gpu.stream(), pytest.raises(md.CastError, match="2858 of 20000"):
        md.astype(there(big.to("cpu")), md.int8)


def test_a_thread_counts_all_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block for many elements, so that each thread has several."""
    monkeypatch.setattr(kernel, "BLOCKS", 1)
    x = there(md.asarray(np.full(1023, 300.0)))
    with pytest.raises(md.CastError, match="1023 of 1023 values are out of range"):
        md.astype(x, md.int8)


def test_a_counter_has_one_element() -> None:
    from mdtensor.kernels.loops.cuda import render
    from mdtensor.kernels.loops.ir import Input, Loop, apply, load

    x = load(0, "float32")
    inputs = Input("float32"), Input("uint64", is_counter=True)
    counted = render(Loop(inputs, x, refused=apply("isnan", x), name="counted"))
    buffers = [there(md.zeros((2,), dtype=t)).buffer for t in ("float32", "uint64")]
    with pytest.raises(DeviceError, match="argument 1 is not a counter: it has 2"):
        gpu.launch(counted, *buffers, buffers[0])
