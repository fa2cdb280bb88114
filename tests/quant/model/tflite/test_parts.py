"""Parts of tensors against LiteRT: masks of slices, gathers in batches, sums."""

from typing import Any

import numpy as np
import pytest
from support.each import each
from support.tflite_networks import const, file_of, ints, moving

from bench.rivals.tflite_file import Value, options_of
from mdtensor.errors import BoundsError, ModelError

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 4, 5)


def slices(
    begins: list[int], ends: list[int], behind: bool = False, **options: Any
) -> bytes:
    given = [moving(*SHAPE), ints(*begins), ints(*ends), ints(*[1] * len(begins))]
    made = options_of("StridedSlice", **options)
    return file_of("STRIDED_SLICE", given, made, ["float32"], 1, behind)


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


MASKS = [
    *({"EllipsisMask": 1}, {"EllipsisMask": 2}, {"NewAxisMask": 1}, {"NewAxisMask": 2}),
    *({"EllipsisMask": 2, "NewAxisMask": 1}, {"EllipsisMask": 2, "NewAxisMask": 2}),
    *({"EllipsisMask": 1, "ShrinkAxisMask": 2}, {"NewAxisMask": 1, "EndMask": 2}),
    *({"NewAxisMask": 1, "ShrinkAxisMask": 1}, {"EllipsisMask": 2, "BeginMask": 1}),
]


@each("masks", MASKS)
@each("count", [2, 3, 4])
def test_ellipses_and_new_axes(masks: dict[str, int], count: int, agree: Any) -> None:
    agree(slices([1] * count, [2] * count, **masks), numbers(*SHAPE))


@each("begin, end", [(0, 2), (1, 1), (-2, 1), (2, 0), (-9, 2), (0, 3)])
@each("mask", [0, 1])
def test_ends_that_count_from_the_begin(
    begin: int, end: int, mask: int, agree: Any
) -> None:
    begins, ends = [0, begin, 0, 1], [2, end, 4, 3]
    options = {"Offset": True, "BeginMask": 2 * mask}
    agree(slices(begins, ends, **options), numbers(*SHAPE))


@each(
    "options, said",
    [
        ({"EllipsisMask": 3}, "2 ellipses for 4 axes"),
        ({"NewAxisMask": 4}, "NewAxisMask is 4 for 2 slices"),
        ({"Offset": True, "EndMask": 1}, "with Offset and EndMask 1"),
        ({"Offset": True}, "ends at 4 of an axis of size 3"),
    ],
)
def test_slices_of_no_meaning(
    options: dict[str, Any], said: str, load_bytes: Any
) -> None:
    with pytest.raises(ModelError, match=said):
        load_bytes(slices([0, 1], [1, 3], **options))


BATCHES = [
    *(((2,), 1, 1), ((2, 6), 1, 1), ((2, 6), 2, 1), ((2, 6), 3, 1), ((2, 3, 6), 3, 2)),
    *(((2, 3, 2, 6), 2, 2), ((2, 3), 2, 2), ((2, 3), 3, 2), ((2, 3), 2, -1)),
]


@each("shape, axis, count", BATCHES)
@each("known", [True, False])
def test_gathers_in_batches(
    shape: tuple[int, ...], axis: int, count: int, known: bool, agree: Any
) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, SHAPE[axis], shape).astype(np.int32)
    given = [moving(*SHAPE), const(index) if known else Value(shape, dtype="int32")]
    options = options_of("Gather", Axis=axis, BatchDims=count)
    content = file_of("GATHER", given, options, ["float32"])
    agree(content, numbers(*SHAPE), *([] if known else [index]))


def test_an_index_of_one_batch_reaches_no_other(load_bytes: Any) -> None:
    options = options_of("Gather", Axis=1, BatchDims=1)
    given = [moving(2, 3), Value((2, 1), dtype="int32")]
    network = load_bytes(file_of("GATHER", given, options, ["float32"]))
    for index in (3, -1):
        feeds = dict(
            zip(network.inputs, [numbers(2, 3), np.int32([[index], [0]])], strict=True)
        )
        with pytest.raises(BoundsError, match="axis of size 3"):
            network.graph.run(feeds)


@each("shape, count", [((3, 2), 1), ((2, 2), 2), ((2,), 2)])
def test_batches_that_do_not_fit(
    shape: tuple[int, ...], count: int, load_bytes: Any
) -> None:
    given = [moving(2, 3, 4), const(np.zeros(shape, np.int32))]
    options = options_of("Gather", Axis=1, BatchDims=count)
    with pytest.raises(ModelError, match="batch axes"):
        load_bytes(file_of("GATHER", given, options, ["float32"]))


@each("axis", [0, 1, -1])
@each("exclusive", [False, True])
@each("reverse", [False, True])
def test_running_sums(axis: int, exclusive: bool, reverse: bool, agree: Any) -> None:
    options = options_of("Cumsum", Exclusive=exclusive, Reverse=reverse)
    content = file_of("CUMSUM", [moving(3, 4), ints(axis)], options, ["float32"])
    agree(content, np.random.default_rng(6).normal(size=(3, 4)).astype(np.float32))
