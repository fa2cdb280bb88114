"""GGUF: the package gguf is the oracle, of every type of blocks and of whole files."""

import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import Blocks, QParams, read_gguf, write_gguf
from mdtensor.quant.gguf.blocks import GRIDS

TYPES = [t.name for t in gguf.GGMLQuantizationType]
DENSE = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"]
UNKNOWN = ["Q8_1", "Q8_K", "Q1_0"]  # the package itself does not decode these
FLOAT = [t for t in TYPES if t not in ["F64", "I8", "I16", "I32", "I64", *UNKNOWN]]


def some(name: str, rng: np.random.Generator, rows: int = 3, cols: int = 2) -> Blocks:
    """Random bytes as blocks."""
    elements, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    data = rng.integers(0, 256, rows * cols * width, np.uint8)
    return Blocks(name, data, (rows, cols * elements))


def decoded(blocks: Blocks) -> np.ndarray:
    kind = gguf.GGMLQuantizationType[blocks.type]
    with np.errstate(all="ignore"):
        found = gguf.quants.dequantize(blocks.data.reshape(blocks.shape[0], -1), kind)
    return np.asarray(found, np.float32).reshape(blocks.shape)


@pytest.mark.parametrize("name", FLOAT)
def test_every_type_is_decoded_as_by_the_package(name, rng) -> None:
    for _ in range(5):  # any bytes: steps of NaN and infinity among them
        blocks = some(name, rng)
        assert blocks.dequantize().buffer.tobytes() == decoded(blocks).tobytes()


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_is_what_the_blocks_say(name, rng) -> None:
    count = 0
    while count < 20:
        blocks = some(name, rng, rows=2)
        try:
            x = blocks.tensor()
        except md.StorageError:
            assert not np.isfinite(decoded(blocks)).all()
            continue
        count += 1
        assert type(x) is blocks.leaf
        found = np.asarray(quant.dequantize(x)) + np.float32(0)  # no -0.0
        assert found.tobytes() == (decoded(blocks) + np.float32(0)).tobytes()


@pytest.mark.parametrize("name", GRIDS)
def test_blocks_of_ones_are_ones(name) -> None:
    ones = np.frombuffer(GRIDS[name].ones, np.uint8)
    elements = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0]
    assert (decoded(Blocks(name, ones, (1, elements))) == 1).all()
    assert elements % GRIDS[name].group == 0


@pytest.mark.parametrize(("name", "lowest"), [("Q8_0", 0x80), ("Q4_0", 0x00)])
def test_a_block_of_step_0_is_0_beside_one_that_turns(name, lowest) -> None:
    """Where a step is negative and a code the smallest, all codes are turned."""
    _, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    rows = np.full((2, width), lowest, np.uint8)
    rows[:, :2] = np.float16([[-0.5], [0.0]]).view(np.uint8)
    blocks = Blocks(name, rows.reshape(-1), (2, 32))
    x = blocks.tensor()
    assert x.qparams.zero_point.tolist() == [[-1], [0]]
    found = np.asarray(quant.dequantize(x)) + np.float32(0)
    assert found.tobytes() == (decoded(blocks) + np.float32(0)).tobytes()


def test_q4_0_has_a_zero_point_where_its_step_is_negative() -> None:
    up = np.linspace(-8, 7, 32, dtype=np.float32)
    blocks = Blocks.quantize(md.asarray(np.stack([up, -up])), "Q4_0")
    x = blocks.tensor()
    assert x.qparams.scale.tolist() == [[1.0], [1.0]]
    assert x.qparams.zero_point.tolist() == [[0], [-1]]
    assert x.codes.tolist()[1][0] == 7  # 8.0 is 1.0 * (7 - -1)


def test_blocks_of_zeros() -> None:
    for name in ("Q8_0", "Q4_0"):
        x = Blocks.quantize(md.zeros((1, 32)), name).tensor()
        assert x.qparams == QParams([[1.0]], dtype=x.dtype, axis=1, block_size=32)
        assert not np.asarray(x.codes).any()


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "BF16", "TQ2_0"])
def test_quantized_as_by_the_package(name, rng) -> None:
    numbers = rng.standard_normal((17, 256)).astype(np.float32)
    numbers *= np.exp2(rng.integers(-30, 10, (17, 1))).astype(np.float32)
    numbers[3], numbers[4, :32] = 0, np.arange(32)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.quantize(numbers, gguf.GGMLQuantizationType[name])
    ours = Blocks.quantize(md.asarray(numbers), name)
    assert ours.data.tobytes() == theirs.tobytes() and ours.shape == (17, 256)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0"])
def test_codes_become_the_bytes_they_came_from(name, rng) -> None:
    numbers = rng.standard_normal((5, 64)).astype(np.float32)
    blocks = Blocks.quantize(md.asarray(numbers), name)
    again = Blocks.of(blocks.tensor())
    assert again.data.tobytes() == blocks.data.tobytes()
    assert (again.type, again.shape) == (blocks.type, blocks.shape)


@pytest.mark.parametrize("dtype", [quant.qint8, quant.qint4], ids=str)
def test_codes_of_ours_are_stored_exactly(dtype, rng) -> None:
    grid = QParams(
        rng.integers(1, 2000, (2, 3, 2)) / 1024,
        -rng.integers(0, 2, (2, 3, 2)),
        dtype=dtype,
        axis=2,
        block_size=32,
    )
    low, high = int(dtype.minimum), int(dtype.maximum)
    codes = rng.integers(low, high, (2, 3, 64), np.int8, endpoint=True)
    x = md.leaf(dtype).from_codes(codes, grid)
    y = Blocks.of(x).tensor()
    found, wanted = (np.asarray(quant.dequantize(t)) for t in (y, x))
    assert found.tobytes() == wanted.tobytes()
    assert decoded(Blocks("F32", found.view(np.uint8), (6, 64))).shape == (6, 64)


@pytest.mark.parametrize("name", DENSE)
def test_dense_tensors_stay_as_they_are(name, rng) -> None:
    blocks = some(name, rng)
    x = blocks.tensor()
    assert type(x) is blocks.leaf and x.shape == (3, 2)
    assert Blocks.of(x).type == name
    assert Blocks.of(x.T).tensor().buffer.tobytes() == x.buffer.T.tobytes()


@pytest.mark.parametrize("name", UNKNOWN)
def test_types_that_nobody_decodes(name, rng) -> None:
    assert some(name, rng).leaf is None
    with pytest.raises(md.StorageError, match=f"gguf does not decode {name}"):
        some(name, rng).dequantize()


FINITE = "expected a Tensor of finite float32 numbers."
UNWRITTEN = (
    "is not a type of blocks that the package gguf writes. Use F32, F16, Q4_0, Q4_1, "
    "Q5_0, Q5_1, Q8_0, BF16, TQ1_0, TQ2_0, MXFP4."
)


@pytest.mark.parametrize("name", UNWRITTEN.partition("Use ")[2].rstrip(".").split(", "))
def test_every_type_that_is_offered_can_be_written(name, rng) -> None:
    x = md.asarray(rng.standard_normal((2, 256)).astype(np.float32))
    blocks = Blocks.quantize(x, name)
    assert blocks.type == name and blocks.dequantize().shape == (2, 256)


def test_what_is_refused(rng) -> None:
    wide = QParams([[0.1, 0.5]], dtype=quant.qint8, axis=1, block_size=32)
    codes = quant.QInt8Tensor(np.zeros((1, 64), np.int8), wide)
    ones = md.ones((1, 32))
    cases = {
        "no tensor type stores Blocks(Q4_K, shape=(1, 256), 144 bytes). "
        "Use dequantize().": some("Q4_K", rng, 1, 1).tensor,
        "a scale of Q8_0 is not finite. Use dequantize().": Blocks(
            "Q8_0", np.full(34, 0x7E, np.uint8), (1, 32)
        ).tensor,
        "float32 would round Blocks(F64, shape=(1, 1), 8 bytes). Use tensor().": some(
            "F64", rng, 1, 1
        ).dequantize,
        "33 bytes do not fit Q8_0 of shape (1, 32).": lambda: Blocks(
            "Q8_0", np.zeros(33, np.uint8), (1, 32)
        ),
        "rows of 31 are not a multiple of 32, the block size of Q8_0. Pad them to a "
        "multiple of 32.": lambda: Blocks("Q8_0", np.zeros(34, np.uint8), (1, 31)),
        "Blocks.quantize(Float32Tensor[1,32]): a block scale of Q8_0 overflows "
        "float16. Divide x by a constant first.": (
            lambda: Blocks.quantize(ones * 1e30, "Q8_0")
        ),
        f"Blocks.quantize(Float32Tensor[1,32]): {FINITE} Replace NaN and infinities "
        "first.": lambda: Blocks.quantize(ones * md.inf, "Q8_0"),
        f"Blocks.quantize(Float64Tensor[1,32]): {FINITE} Use astype(x, float32).": (
            lambda: Blocks.quantize(md.astype(ones, md.float64), "Q8_0")
        ),
        f"Blocks.quantize(ndarray[4,32]): {FINITE} Use asarray(x).": (
            lambda: Blocks.quantize(np.ones((4, 32), np.float32), "Q4_0")
        ),
        "Blocks.quantize(Float32Tensor[0,32]): x is empty. Pass at least one block "
        "of numbers.": lambda: Blocks.quantize(md.ones((0, 32)), "Q4_0"),
        "Blocks.quantize(Float32Tensor[31]): rows are not a multiple of 32, the block "
        "size of Q8_0. Pad them to a multiple of 32.": lambda: Blocks.quantize(
            md.ones(31), "Q8_0"
        ),
        f"'Q8_K' {UNWRITTEN}": lambda: Blocks.quantize(md.ones(256), "Q8_K"),
        f"'q4_0' {UNWRITTEN}": lambda: Blocks.quantize(ones, "q4_0"),
        f"None {UNWRITTEN}": lambda: Blocks.quantize(ones, None),
        "Blocks.of(QInt8Tensor[1,64]): Q8_0 stores a float16 scale for each "
        f"32 elements of the last axis; the grid of x is ({codes.qparams.describe()}). "
        "Use Blocks.quantize(dequantize(x), 'Q8_0'), or "
        "requantize to x.qparams with float16 scales.": (lambda: Blocks.of(codes)),
    }
    for text, call in cases.items():
        with pytest.raises(md.StorageError) as raised:
            call()
        assert str(raised.value) == text
    with pytest.raises(md.StorageError, match=r"Blocks.of\(BoolTensor\[1\]\): no type"):
        Blocks.of(md.asarray([True]))


# --- files ----------------------------------------------------------------------------

METADATA = {
    "general.architecture": "test",
    "a.text": "ä",
    "a.bool": True,
    "a.u8": np.uint8(255),
    "a.i64": np.int64(-(2**60)),
    "a.f32": np.float32(0.1),
    "a.f64": np.float64(0.1),
    "a.tokens": ["a", "", "ß"],
    "a.row": np.array([1, 2, 3], np.int32),
}


def theirs(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """The file that the package writes."""
    writer = gguf.GGUFWriter(path, "test")
    writer.add_string("a.text", "ä")
    writer.add_bool("a.bool", True)
    writer.add_uint8("a.u8", 255)
    writer.add_int64("a.i64", -(2**60))
    writer.add_float32("a.f32", 0.1)
    writer.add_float64("a.f64", 0.1)
    writer.add_array("a.tokens", ["a", "", "ß"])
    writer.add_array("a.row", [1, 2, 3])
    for name, x in tensors.items():
        kind = gguf.GGMLQuantizationType.Q8_0 if x.dtype == np.uint8 else None
        writer.add_tensor(name, x, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ours(rng: np.random.Generator) -> dict[str, object]:
    x = rng.standard_normal((3, 64)).astype(np.float32)
    return {
        "w": Blocks.quantize(md.asarray(x), "Q8_0"),
        "b": md.asarray(x[0]),
        "h": md.asarray(x[:, :3].astype(np.float16)),
    }


def test_files_are_those_of_the_package_byte_for_byte(rng, tmp_path) -> None:
    tensors = ours(rng)
    arrays = {
        "w": tensors["w"].data.reshape(3, -1),
        "b": tensors["b"].buffer,
        "h": tensors["h"].buffer,
    }
    theirs(tmp_path / "theirs", arrays)
    write_gguf(tmp_path / "ours", tensors, METADATA)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_a_file_is_read_as_it_was_written(rng, tmp_path) -> None:
    tensors, path = ours(rng), tmp_path / "a.gguf"
    metadata = METADATA | {"general.alignment": np.uint32(64), "none": np.empty(0)}
    write_gguf(path, tensors, metadata)
    file = read_gguf(path)
    assert repr(file) == "GGUFFile(3 tensors, 11 keys)" and [*file] == [*tensors]
    assert {k: (type(v), str(v)) for k, v in file.metadata.items()} == {
        k: (type(v), str(v)) for k, v in metadata.items()
    }
    assert file.metadata["a.row"].dtype == np.int32
    assert file["b"].tensor().tolist() == tensors["b"].tolist()
    assert file["w"].shape == (3, 64) and file["w"].leaf is quant.QInt8Tensor
    write_gguf(tmp_path / "b.gguf", file, file.metadata)
    assert (tmp_path / "b.gguf").read_bytes() == path.read_bytes()
    for row, stored in {(1, -2): np.int32, (1, 2**31): np.int64}.items():
        write_gguf(path, {}, {"row": [*row]})
        found = read_gguf(path).metadata["row"]
        assert found.dtype == stored and found.tolist() == [*row]
    write_gguf(path, {"n": file["h"]}, {"i": 3, "f": 0.5})
    assert read_gguf(path).metadata == {"i": 3, "f": 0.5}


def test_tensors_of_every_number_of_axes(tmp_path) -> None:
    tensors = {str(n): md.reshape(md.arange(6), (6,) + (1,) * n) for n in range(4)}
    write_gguf(tmp_path / "a.gguf", tensors)
    found = read_gguf(tmp_path / "a.gguf")
    for name, x in tensors.items():
        assert found[name].shape == x.shape
        assert found[name].tensor().tolist() == x.tolist()


def test_tensors_without_names_are_not_written(tmp_path) -> None:
    with pytest.raises(md.StorageError) as raised:
        write_gguf(tmp_path / "a.gguf", [md.ones(1)])
    assert str(raised.value) == 'a list does not have names. Pass {"name": tensor}.'
    assert list(tmp_path.iterdir()) == []


NOT_STR = "is not a str that UTF-8 can encode. Use str(value), without lone surrogates."


def test_what_is_not_written(tmp_path) -> None:
    path = tmp_path / "a.gguf"
    cases = [
        (
            {"a": md.ones((1,) * 5)},
            {},
            "'a' has 5 axes, but GGUF allows 4. Use reshape.",
        ),
        ({1: md.ones(1)}, {}, f"1 {NOT_STR}"),
        ({}, {"k": "\ud800"}, f"'\\ud800' {NOT_STR}"),
        (
            {},
            {"k": {}},
            "'k' is {}. Use a str, a bool, a number, or a list of them.",
        ),
        ({}, {"general.alignment": 3}, "general.alignment is 3. Use a power of 2."),
    ]
    for tensors, metadata, text in cases:
        with pytest.raises(md.StorageError) as raised:
            write_gguf(path, tensors, metadata)
        assert str(raised.value) == text
    with pytest.raises(md.StorageError, match="cannot be written: No such file"):
        write_gguf(tmp_path / "no" / "a", {})
    assert list(tmp_path.iterdir()) == []


def small(tmp_path: Path) -> bytes:
    path = tmp_path / "small.gguf"
    metadata = {"t": ["ab"], "r": np.array([1, 2], np.uint8), "n": 7}
    w = Blocks.quantize(md.ones((1, 32)), "Q8_0")
    write_gguf(path, {"w": w, "b": md.ones(2)}, metadata)
    return path.read_bytes()


def test_a_size_of_zero_hides_no_other() -> None:
    for shape in ((0, 2**62), (2**40, 0, 2**40)):
        with pytest.raises(md.StorageError, match="larger than an array can be"):
            Blocks("F32", np.empty(0, np.uint8), shape)
    assert Blocks("F32", np.empty(0, np.uint8), (0, 2**40)).tensor().shape == (0, 2**40)


def test_damaged_files(tmp_path) -> None:
    whole, path = small(tmp_path), tmp_path / "a.gguf"
    count = b"\x02" + b"\0" * 7  # of the row, before its elements
    endless = whole.replace(count + b"\x01\x02", b"\xff" * 8 + b"\x01\x02")
    assert endless != whole
    for data in (b"", whole[:3], whole[:100], whole[:-40], endless):
        path.write_bytes(data)
        with pytest.raises(md.StorageError) as raised:
            read_gguf(path)
        assert str(raised.value) == (
            f"{path} is not a GGUF file, or it is damaged. Copy it again."
        )
    with pytest.raises(md.StorageError, match="no cannot be read: No such file"):
        read_gguf(tmp_path / "no")


@pytest.mark.long
@settings(max_examples=200)
@given(places=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3))
def test_damage_is_our_error(places, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    damaged = bytearray(small(folder))
    for at, byte in places:
        damaged[at % len(damaged)] = byte
    path = folder / "a.gguf"
    path.write_bytes(damaged)
    try:
        for blocks in read_gguf(path).values():
            blocks.tensor()
            blocks.dequantize()
    except md.StorageError:
        pass


def test_without_the_package(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    for call in (lambda: read_gguf(tmp_path), lambda: Blocks.of(md.ones(1))):
        with pytest.raises(md.StorageError) as raised:
            call()
        assert str(raised.value) == (
            "GGUF files need the package gguf. Install it with "
            "`pip install mdtensor[gguf]`."
        )


def test_the_way_to_blocks_keeps_what_an_algorithm_gained(tmp_path, rng):
    w = md.asarray(rng.normal(size=(4, 64)).astype(np.float32))
    q = quant.quantize_weights(w, dtype=quant.qint4, block_size=32).tensor
    with pytest.raises(md.StorageError, match="with float16 scales"):
        Blocks.of(q)
    scales = np.asarray(q.scale).astype(np.float16).astype(np.float32)
    stored = quant.requantize(q, out=q.qparams.replace(scale=scales))
    quant.write_gguf(tmp_path / "w.gguf", {"w": stored})
    back = quant.read_gguf(tmp_path / "w.gguf")["w"].tensor()
    assert back.codes.tolist() == stored.codes.tolist() == q.codes.tolist()
    with pytest.raises(
        md.StorageError, match=r"Use Blocks.quantize\(dequantize\(x\), 'Q8_0'"
    ):
        Blocks.of(quant.QUInt8Tensor([1], scale=0.5))
