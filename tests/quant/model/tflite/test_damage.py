"""Damaged files raise a ModelError, at once and without much memory."""

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from support.tflite_networks import coded_network, stream, tiny_network

from bench.rivals.tflite_file import Step, Value, model, options_of
from mdtensor.errors import MdtensorError, ModelError
from mdtensor.quant.model.budget import Budget
from mdtensor.quant.model.load import load
from mdtensor.quant.model.tflite.layout import check_layout

#: Numbers that offsets, sizes and options become.
WORDS = [0, 1, 2, 3, 4, 7, 8, 12, 127, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31]
WORDS += [2**32 - 1, 2**32 - 4, 2**32 - 2]
LIMITS = Budget(elements=10**6, nodes=5000, seconds=10)


@cache
def bases() -> tuple[bytes, ...]:
    """A float network, one of codes, and one with variables."""
    coded = coded_network(np.random.default_rng(0))
    return tiny_network(), coded, stream(0.25)


def mutated(data: bytes, rng: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        kind, at = rng.randrange(6), rng.randrange(max(len(found) - 4, 1))
        if kind < 2:
            found[at] ^= 1 << rng.randrange(8)
        elif kind < 4:
            at -= at % 4
            struct.pack_into("<I", found, at, rng.choice([*WORDS, len(found), at]))
        elif kind == 4:
            del found[at : at + rng.choice([1, 4, 16, len(found)])]
        else:
            found[at : at + 8] = found[at - at % 8 : at - at % 8 + 8]
        if len(found) < 8:
            return bytes(found)
    return bytes(found)


def survive(path: Path, data: bytes) -> bool:
    """Load a file, and run it if it loads; return whether it loaded."""
    path.write_bytes(data)
    start = time.monotonic()
    try:
        network = load(path, budget=LIMITS)
        specs = network.graph.specs().values()
        if sum(np.prod(spec.shape, dtype=float) for spec in specs) < 10**6:
            feeds = {
                name: np.zeros(spec.shape, spec.dtype.storage)
                for name, spec in network.inputs.items()
            }
            network.graph.run(feeds)
        loaded = True
    except MdtensorError:
        loaded = False
    # A kernel that was never compiled takes up to 20 seconds on a busy machine.
    assert time.monotonic() - start < 60
    return loaded


def damage(path: Path, seeds: range) -> float:
    """Load mutated files; return which part of them loaded."""
    count = 0
    for seed in seeds:
        rng = random.Random(seed)
        try:
            count += survive(path, mutated(rng.choice(bases()), rng))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    return count / len(seeds)


def test_damaged_files(tmp_path: Path) -> None:
    found = damage(tmp_path / "net.tflite", range(300))
    # Neither always nor never: the mutations reach behind the checks of the layout.
    assert 0.05 < found < 0.9


@pytest.mark.slow
def test_many_damaged_files(tmp_path: Path) -> None:
    damage(tmp_path / "net.tflite", range(1000, 6000))


def test_every_shorter_file(tmp_path: Path) -> None:
    data, path = bases()[0], tmp_path / "net.tflite"
    for size in [*range(60), *range(60, len(data), 97)]:
        assert not survive(path, data[:size])


def test_every_offset_is_checked() -> None:
    """Each word of the tables becomes an offset out of the file, one by one."""
    data, refused = bases()[2], 0
    for at in range(0, len(data) - 4, 4):
        for word in (2**32 - 1, 2**31, len(data)):
            changed = bytearray(data)
            struct.pack_into("<I", changed, at, word)
            try:
                check_layout(bytes(changed), "file")
            except ModelError:
                refused += 1
    assert refused > 100


def test_overlapping_tables_cost_no_time() -> None:
    """Thirty thousand offsets that all lead to one table with a long name."""
    b, count = flatbuffers.Builder(0), 30_000
    name = b.CreateString("a" * 1000)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddName(b, name)
    graph = tflite.SubGraphEnd(b)
    tflite.ModelStartSubgraphsVector(b, count)
    for _ in range(count):
        b.PrependUOffsetTRelative(graph)
    graphs = b.EndVector()
    tflite.ModelStart(b)
    tflite.ModelAddSubgraphs(b, graphs)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    begin = time.monotonic()
    with pytest.raises(ModelError, match="damaged TFLite model"):
        check_layout(bytes(b.Output()), "file")
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a TFLite model: 0 bytes"),
        (b"TFL3", "is not a TFLite model: 4 bytes"),
        (b"\x1c\0\0\0TFL3", "is a damaged TFLite model of 8 bytes: an offset leads to"),
        (b"\x04\0\0\0TFL3" * 9, "damaged"),
    ],
)
def test_what_is_not_a_model(
    content: bytes, words: str, load_bytes: Callable[..., Any]
) -> None:
    with pytest.raises(ModelError, match=words):
        load_bytes(content)


def test_huge_sizes_cost_no_memory(load_bytes: Callable[..., Any]) -> None:
    sizes = np.int32([2**15, 2**15, 2**15])
    values = [
        Value((3,), dtype="int32", data=sizes),
        Value((), dtype="float32", data=np.float32(1)),
        Value((), dtype="float32"),
    ]
    content = model(values, [Step("FILL", [0, 1], 2, version=1)], [], [2])
    tracemalloc.start()
    with pytest.raises(ModelError, match="operator FILL of node 0"):
        load_bytes(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize(("mode", "most"), [(0, 2), (1, 3)])
def test_a_mirrored_pad_reflects_once(
    mode: int, most: int, load_bytes: Callable[..., Any]
) -> None:
    for width in range(6):
        values = [
            Value((3,), dtype="float32"),
            Value((1, 2), dtype="int32", data=np.int32([[0, width]])),
            Value((3 + width,), dtype="float32"),
        ]
        step = Step("MIRROR_PAD", [0, 1], 2, options_of("MirrorPad", Mode=mode))
        content = model(values, [step], [0], [2])
        x = np.float32([1, 2, 3])
        if width <= most:
            wanted = np.pad(x, (0, width), ["reflect", "symmetric"][mode])
            assert np.asarray(load_bytes(content)(x)).tolist() == wanted.tolist()
            continue
        with pytest.raises(ModelError, match=f"={width}. Use one from 0 to {most}"):
            load_bytes(content)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([Step("ABS", [2], 1, version=1)], "node 0 reads 't2', which no earlier node"),
        ([Step("ABS", [0], 0, version=1)], "node 0 writes 't0' a second time"),
        ([Step("ABS", [-1], 1, version=1)], "node 0 does not have input 0"),
        (
            [Step("ABS", [9], 1, version=1)],
            "input of node 0 is 9, expected one from -1",
        ),
        ([Step("ABS", [0], [], version=1)], "node 0 does not have an output"),
        ([Step("LSTM", [0], 1, version=1)], "operator LSTM of node 0 is not supported"),
        (
            [Step("Mystery", [0], 1, custom=b"x")],
            "operator Mystery of node 0 is not supported",
        ),
        (
            [Step("ABS", [2], 1, version=1), Step("NEG", [1], 2, version=1)],
            "node 0 reads 't2', which no earlier node writes",
        ),
        (
            [Step("ADD", [0, 0], 1, options_of("Add", FusedActivationFunction=5))],
            "node 0 has FusedActivationFunction=5. Supported are 0 to 4",
        ),
        (
            [Step("CONV_2D", [0, 0], 1, options_of("Conv2D", StrideH=0))],
            "operator CONV_2D of node 0",
        ),
        (
            [Step("RESHAPE", [0, 0], 1, version=1)],
            "operator RESHAPE of node 0 needs the shape as a constant",
        ),
    ],
)
def test_errors_name_the_node(
    steps: list[Step], words: str, load_bytes: Callable[..., Any]
) -> None:
    values = [Value((2, 3), dtype="float32") for _ in range(3)]
    with pytest.raises(ModelError, match=words):
        load_bytes(model(values, steps, [0], [1]))
