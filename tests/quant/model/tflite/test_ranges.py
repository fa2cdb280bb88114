"""Operators at the ends of their ranges against LiteRT: casts, means, indices."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.tflite_networks import const, file_of, ints, moving

from bench.rivals.tflite_file import Step, Value, model, options_of
from mdtensor.errors import BoundsError, ModelError
from mdtensor.quant import load

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 4, 2)
#: Floats in, at and outside of the ranges of integers.
FLOATS = [0.0, -0.0, 1.5, 2.5, -2.5, 127.9, 128, -128.9, -129, 255.5, 256, -1, 300]
FLOATS += [2.0**31, -(2.0**31), 1e10, -1e10, 1e20, -1e20, np.inf, -np.inf, np.nan]


def chosen_by(shape: tuple[int, ...], kind: str, behind: bool) -> bytes:
    """A model that chooses between two values, of which the first may be an image."""
    values = [Value(shape, dtype="bool"), moving(*SHAPE), moving(*SHAPE), moving()]
    steps, first = [], 1
    if behind:
        turned = np.eye(2)[::-1].reshape(2, 1, 1, 2)
        values += [const(turned), const(np.zeros(2)), moving(*SHAPE)]
        stride = options_of("Conv2D", StrideH=1, StrideW=1)
        steps, first = [Step("CONV_2D", [1, 4, 5], 6, stride, version=1)], 6
    steps.append(Step(kind, [0, first, 2], 3, version=1))
    return model(values, steps, [0, 1, 2], [3])


@each("shape", [(2,), SHAPE])
@each("behind", [False, True])
def test_select_takes_one_axis_as_the_first(
    shape: tuple[int, ...], behind: bool, agree: Any
) -> None:
    rng = np.random.default_rng(7)
    chosen = rng.permuted(np.arange(np.prod(shape)) % 2 == 0).reshape(shape)
    x, y = (rng.normal(size=SHAPE).astype(np.float32) for _ in range(2))
    agree(chosen_by(shape, "SELECT", behind), chosen, x, y)
    if shape != (2,):
        agree(chosen_by(shape, "SELECT_V2", behind), chosen, x, y)


@each("shape", [(4,), (1,), (2, 1, 1, 1), (3, 4, 2)])
def test_select_does_not_broadcast(shape: tuple[int, ...], load_bytes: Any) -> None:
    """LiteRT refuses these, too: low_rank_input_condition was not true."""
    with pytest.raises(ModelError, match=r"condition of shape .* first axis"):
        load_bytes(chosen_by(shape, "SELECT", False))


@each("source", ["float16", "float32", "float64"])
@each("target", ["bool", "int8", "uint8", "int16", "int32", "int64", "float32"])
def test_casts_of_floats(source: str, target: str, agree: Any) -> None:
    with np.errstate(over="ignore"):
        x = np.array(FLOATS).astype(source)
    content = file_of("CAST", [Value(x.shape, dtype=source)], None, [target])
    agree(content, x)


@each("source, target", [("int32", "uint8"), ("int64", "int32"), ("int32", "int8")])
def test_casts_of_integers_wrap(source: str, target: str, agree: Any) -> None:
    x = np.array([300, -1, 2**31 - 1, -(2**31), 5]).astype(source)
    agree(file_of("CAST", [Value(x.shape, dtype=source)], None, [target]), x)


@each(
    "dtype, scale, zero",
    [("int8", 0.03125, -5), ("uint8", 0.0437, 128), ("int16", 0.0123, 0)],
)
@each("target", ["float32", "int32", "uint8", "int8"])
def test_casts_of_codes(
    dtype: str, scale: float, zero: int, target: str, load_bytes: Any, litert: Any
) -> None:
    """CAST takes the codes themselves, DEQUANTIZE the numbers."""
    limits = np.iinfo(dtype)
    codes = np.arange(limits.min, limits.max + 1).astype(dtype)
    given = [Value(codes.shape, scale, zero, dtype=dtype)]
    content = file_of("CAST", given, None, [target])
    network = load_bytes(content)
    numbers = (codes.astype(np.float64) - zero) * np.float64(np.float32(scale))
    (found,) = network.graph.run({"t0": numbers.astype(np.float32)}).values()
    (wanted,) = litert(content, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")(codes)
    assert np.asarray(found).dtype == wanted.dtype
    assert np.asarray(found).tolist() == wanted.tolist()
    assert wanted.tolist() == codes.astype(target).tolist()


def test_casts_between_grids_are_refused(load_bytes: Any) -> None:
    values = [Value((4,), 0.5, 3), Value((4,), 0.25, 7)]
    with pytest.raises(ModelError, match=r"casts codes of scale=0.5.*DEQUANTIZE"):
        load_bytes(model(values, [Step("CAST", [0], 1, version=1)], [0], [1]))


@each("mask", [0, 1])
@each("step", [1, 2])
def test_one_index_of_a_slice(mask: int, step: int, agree: Any) -> None:
    given = [moving(5, 2), ints(3), ints(4), ints(step)]
    options = options_of("StridedSlice", BeginMask=mask, ShrinkAxisMask=1)
    content = file_of("STRIDED_SLICE", given, options, ["float32"])
    agree(content, np.arange(10, dtype=np.float32).reshape(5, 2))


def test_one_index_has_no_negative_step(load_bytes: Any) -> None:
    given = [moving(5), ints(3), ints(2), ints(-1)]
    options = options_of("StridedSlice", ShrinkAxisMask=1)
    with pytest.raises(ModelError, match="one index with step -1"):
        load_bytes(file_of("STRIDED_SLICE", given, options, ["float32"]))


@each("dtype", ["int32", "int64"])
@each("axes", [(0,), (1, 2), (-1,), (0, 1, 2, 3)])
@each("keeps", [False, True])
def test_means_of_integers(
    dtype: str, axes: tuple[int, ...], keeps: bool, agree: Any
) -> None:
    rng = np.random.default_rng(8)
    options = options_of("Reducer", KeepDims=keeps)
    content = file_of(
        "MEAN", [Value(SHAPE, dtype=dtype), ints(*axes)], options, [dtype]
    )
    limits = np.iinfo("int32")
    for low, high in ((-9, 10), (limits.min, limits.max), (limits.min, limits.min + 3)):
        x = rng.integers(low, high, SHAPE, np.int64).astype(dtype)
        count = np.prod([SHAPE[axis] for axis in axes])
        total = x.sum(axis=axes, keepdims=keeps, dtype=object)
        wanted = np.sign(total) * (np.abs(total) // count)
        network = agree(content, x)
        (found,) = network.graph.run({"t0": x}).values()
        assert np.asarray(found).tolist() == np.asarray(wanted).tolist()


def test_means_of_nothing_and_of_bytes(agree: Any, load_bytes: Any) -> None:
    options = options_of("Reducer")
    given = [Value((2, 0), dtype="int32"), ints(1)]
    agree(file_of("MEAN", given, options, ["int32"]), np.zeros((2, 0), np.int32))
    given = [Value((2, 3), dtype="int8"), ints(1)]
    with pytest.raises(ModelError, match="mean of int8 numbers without a grid"):
        load_bytes(file_of("MEAN", given, options, ["int8"]))


@each(
    "shape, begins, ends, steps",
    [
        ((5,), [-7], [-8], [-1]),
        ((5,), [-5], [-8], [-1]),
        ((5,), [9], [-9], [-2]),
        ((2, 3, 4), [-2, 2, -6], [-3, -3, -1], [-1, -1, -1]),
        ((3, 4), [0, -5], [3, -6], [1, -2]),
    ],
)
def test_slices_from_before_the_start(
    shape: tuple[int, ...], begins: Any, ends: Any, steps: Any, agree: Any
) -> None:
    given = [moving(*shape), ints(*begins), ints(*ends), ints(*steps)]
    options = options_of("StridedSlice")
    content = file_of("STRIDED_SLICE", given, options, ["float32"])
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    agree(content, x)


def gather(kind: str, index: Any) -> tuple[bytes, list[Array]]:
    """A model that takes rows, and its inputs; `index` may be a constant."""
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    given = [moving(3, 2), index]
    arrays = [table]
    if kind == "EMBEDDING_LOOKUP":
        given, arrays = [index, const(table)], []
    options = options_of("Gather") if kind == "GATHER" else None
    return file_of(kind, given, options, ["float32"]), arrays


@each("kind", ["GATHER", "GATHER_ND"])
@each("index", [-1, -4, 3])
def test_known_indices_count_from_the_front(
    kind: str, index: int, load_bytes: Any, agree: Any
) -> None:
    shape = (2, 1) if kind == "GATHER_ND" else (2,)
    wanted = rf"{kind} of node 0 has index {index}"
    with pytest.raises(ModelError, match=wanted):
        load_bytes(gather(kind, const(np.int32([index, 0]).reshape(shape)))[0])
    content, arrays = gather(kind, const(np.int32([2, 0]).reshape(shape)))
    agree(content, *arrays)


@each("index", [[1], [2, 1]])
def test_one_index_of_an_element(index: list[int], agree: Any) -> None:
    content, arrays = gather("GATHER_ND", const(np.int32(index)))
    agree(content, *arrays)


@each(
    "kind, dtype",
    [("GATHER", "int32"), ("GATHER", "int64"), ("EMBEDDING_LOOKUP", "int32")],
)
def test_computed_indices_count_from_the_front(
    kind: str, dtype: str, agree: Any, load_bytes: Any
) -> None:
    content, arrays = gather(kind, Value((2,), dtype=dtype))
    agree(content, *arrays, np.array([2, 0], dtype))
    network = load_bytes(content)
    for index in (-1, -3, 3):
        feeds = zip(network.inputs, [*arrays, np.array([index, 0], dtype)], strict=True)
        with pytest.raises(BoundsError, match=r"axis of size 3.* from 0 to 2"):
            network.graph.run(dict(feeds))


@each("kind", ["GATHER", "EMBEDDING_LOOKUP"])
def test_computed_indices_are_saved(
    kind: str, agree: Any, load_bytes: Any, tmp_path: Path
) -> None:
    """Operators of ONNX do not take the unsigned type that checks them here."""
    content, arrays = gather(kind, Value((2,), dtype="int32"))
    network = load_bytes(content)
    network.save(tmp_path / "saved.onnx")
    feeds = dict(zip(network.inputs, [*arrays, np.int32([2, 0])], strict=True))
    found = load(tmp_path / "saved.onnx").graph.run(feeds)
    wanted = network.graph.run(feeds)
    for one, other in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@each("kind", ["GATHER", "EMBEDDING_LOOKUP"])
@each("dtype", ["int8", "int4"])
def test_rows_of_codes_with_a_scale_for_each(
    kind: str, dtype: str, load_bytes: Any
) -> None:
    """The rows are selected as integers, and so are their scales."""
    codes = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    scales = np.float32([0.5, 0.25, 3.0, 0.1])
    pairs = (codes.reshape(-1, 2) & 15).astype(np.uint8)
    stored = codes if dtype == "int8" else pairs[:, 0] | pairs[:, 1] << 4
    table = Value((4, 3), scales, axis=0, dtype=dtype, data=stored)
    index = Value((5,), dtype="int32")
    given = [index, table] if kind == "EMBEDDING_LOOKUP" else [table, index]
    options = options_of("Gather") if kind == "GATHER" else None
    network = load_bytes(file_of(kind, given, options, ["float32"]))
    at = np.int32([3, 0, 3, 1, 2])
    wanted = codes[at] * scales[at][:, None]
    assert np.asarray(network(at)).tolist() == wanted.tolist()
    with pytest.raises(BoundsError):
        network(np.int32([4, 0, 0, 0, 0]))
