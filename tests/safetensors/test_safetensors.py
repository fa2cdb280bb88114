"""Files of tensors: the package `safetensors` is the oracle, damage is refused."""

import json
import os
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy as peer
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import dtypes
from mdtensor.files import replacing
from mdtensor.safetensors import load, load_file, safe_open, save, save_file

DENSE = [leaf for leaf in md.leaves()[:15] if leaf.device is md.cpu]
#: What is no array of a type that the format names has a note.
NOTED = {"complex128"}


def some(leaf: type[md.Tensor], shape: tuple[int, ...] = (2, 3)) -> md.Tensor:
    count = int(np.prod(shape))
    bits = np.random.default_rng(7).integers(0, 256, 16 * count, np.uint8)
    if leaf is md.BoolTensor:
        bits &= 1
    stored = leaf.dtype.storage
    numbers = bits.view(stored)[:count].reshape(shape)
    return leaf.wrap(numbers)


def same(x: md.Tensor, y: md.Tensor) -> bool:
    return (
        type(x) is type(y)
        and x.shape == y.shape
        and x.buffer.tobytes() == y.buffer.tobytes()
    )


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_dense_tensors_round_trip(shape: tuple[int, ...]) -> None:
    tensors = {leaf.dtype.name: some(leaf, shape) for leaf in DENSE}
    found = load(save(tensors))
    assert list(found) == sorted(tensors)
    assert all(same(x, found[name]) for name, x in tensors.items())


def test_files_are_those_of_the_package_byte_for_byte() -> None:
    tensors = {f"{x.dtype}{i}": some(x) for x in DENSE for i in (2, 10)}
    tensors = {n: x for n, x in tensors.items() if x.dtype.name not in NOTED}
    arrays = {name: x.buffer for name, x in tensors.items()}
    assert save(tensors) == peer.save(arrays)
    assert save(tensors, {"a": "ä"}) == peer.save(arrays, {"a": "ä"})


def test_a_written_file_has_the_bytes_of_the_package(tmp_path: Path) -> None:
    """Written piece by piece, with names that JSON has to escape."""
    path = tmp_path / "a.safetensors"
    texts = ["", "ä", '"\\/', "\x00\x1f\x7f\n\t", "\u2028😀", "b" * 300]
    odd: dict[str, md.Tensor] = {text: md.zeros((0, 2)) for text in texts}
    odd |= {"t" + text: md.reshape(md.arange(6), (2, 3)).T for text in texts}
    all_types = {f"{x.dtype}{i}": some(x) for x in DENSE for i in (2, 10)}
    for tensors in ({}, odd, all_types, odd | all_types):
        save_file(tensors, path)
        assert path.read_bytes() == save(tensors)
    for text in texts:
        save_file(odd, path, {"key" + text: text})
        assert path.read_bytes() == save(odd, {"key" + text: text})


def test_views_are_stored_row_by_row() -> None:
    x = md.reshape(md.arange(6), (2, 3))
    wide = md.broadcast_to(md.asarray(7), (2, 2))
    found = load(save({"t": x.T, "part": x[:, ::2], "wide": wide}))
    assert found["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["part"].tolist() == [[0, 2], [3, 5]]
    assert found["wide"].tolist() == [[7, 7], [7, 7]]


def test_what_is_loaded_can_be_written_to_and_what_is_open_cannot(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": md.ones(2)}, path)
    x = load_file(path)["a"]
    x[0] = 5.0
    with safe_open(path) as file:
        y = file["a"]
        assert file.arrays() == ["a"] and len(file) == 1 and "b" not in file
        assert repr(file) == "SafeTensors(1 tensors)"
    with pytest.raises(md.WriteError):
        y[0] = 5.0
    save_file({"a": md.zeros(2)}, path)
    assert x.tolist() == [5.0, 1.0] and y.tolist() == [1.0, 1.0]
    with pytest.raises(md.StorageError, match="the file is closed"):
        file["a"]


def test_metadata_are_kept_and_ours_are_taken_out() -> None:
    pairs = md.asarray([1 + 2j], dtype=md.complex128)
    data = np.frombuffer(save({"z": pairs}, {"format": "np"}), np.uint8)
    file = md.safetensors.SafeTensors(data)
    assert file.metadata == {"format": "np"}
    assert file["z"].tolist() == [1 + 2j]
    assert peer.load(data.tobytes())["z"].tolist() == [[1.0, 2.0]]


def test_types_that_no_tensor_has_are_arrays() -> None:
    import ml_dtypes

    arrays = {"scale": np.array([1, 2], ml_dtypes.float8_e8m0fnu)}
    file = md.safetensors.SafeTensors(np.frombuffer(peer.save(arrays), np.uint8))
    assert file.array("scale").astype(float).tolist() == [1.0, 2.0]
    with pytest.raises(md.StorageError) as raised:
        file["scale"]
    assert str(raised.value) == (
        "'scale' holds float8_e8m0fnu, which is not an element type. Read the array: "
        "safe_open(filename).array('scale')."
    )


def test_unaligned_files_of_others_are_read() -> None:
    header = b'{"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}'
    assert len(header) % 8
    data = len(header).to_bytes(8, "little") + header + np.float64(0.1).tobytes()
    (x,) = load(data).values()
    assert x.tolist() == [0.1] and x.buffer.flags.aligned


@contextmanager
def element_types_restored() -> Iterator[None]:
    before = dict(dtypes._REGISTRY)
    try:
        yield
    finally:
        dtypes._REGISTRY.clear()
        dtypes._REGISTRY.update(before)


def test_a_leaf_with_fields_says_what_a_file_keeps_of_it() -> None:
    with md.registry.restored(), element_types_restored():
        price = md.DType("price", "real floating", 32, "float32")

        class PriceTensor(md.FloatingTensor, dtype=price):
            __slots__ = ("currency",)

        x = PriceTensor([1.5])
        x.currency = "EUR"
        with pytest.raises(md.StorageError) as raised:
            save({"x": x})
        assert str(raised.value) == (
            "PriceTensor has the field currency besides its buffer. Declare "
            "to_parts and "
            "from_parts."
        )

        def to_parts(self):
            return {"": self.buffer}, {"currency": self.currency}

        def from_parts(cls, parts, facts):
            new = cls(parts[""])
            new.currency = facts["currency"]
            return new

        PriceTensor.to_parts, PriceTensor.from_parts = to_parts, classmethod(from_parts)
        y = load(save({"x": x}))["x"]
        assert type(y) is PriceTensor and (y.tolist(), y.currency) == ([1.5], "EUR")


# --- what is refused ------------------------------------------------------------------

USE_A_NAME = "Use a str that UTF-8 can encode, other than '__metadata__'."
NOT_STR = (
    "a name or value of the metadata is not a str that UTF-8 can encode. "
    "Use str(value), without lone surrogates."
)


@pytest.mark.parametrize(
    ("tensors", "metadata", "text"),
    [
        (
            {"a": np.ones(1)},
            None,
            "'a' is a ndarray, not a tensor. Use asarray(x).",
        ),
        ({1: md.ones(1)}, None, f"a tensor cannot be called 1. {USE_A_NAME}"),
        (
            {"\ud800": md.ones(1)},
            None,
            f"a tensor cannot be called '\\ud800'. {USE_A_NAME}",
        ),
        ({}, {"\ud800": ""}, NOT_STR),
        (
            {"__metadata__": md.ones(1)},
            None,
            f"a tensor cannot be called '__metadata__'. {USE_A_NAME}",
        ),
        (
            {"a": md.ones(1)},
            {"n": 1},
            NOT_STR,
        ),
        ([md.ones(1)], None, 'a list does not have names. Give {"name": tensor}.'),
        (
            {"a": md.ones(1)},
            {"mdtensor": "1"},
            "the metadata key 'mdtensor' is reserved. Rename it.",
        ),
    ],
)
def test_what_cannot_be_saved(tensors, metadata, text, tmp_path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(md.StorageError) as raised:
        save_file(tensors, path, metadata)
    assert str(raised.value) == text
    assert list(tmp_path.iterdir()) == []


def file_of(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one(**changes: object) -> dict[str, object]:
    entry = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    return {"a": entry | changes}


def noted(note: object, version: object = 1) -> dict[str, object]:
    text = json.dumps({"version": version, "tensors": note})
    return one() | {"__metadata__": {"mdtensor": text}}


INVALID = "expected a safetensors file, but: "
DAMAGED = {
    f"{INVALID}header too small. Copy it again.": b"",
    f"{INVALID}header too large. Copy it again.": b"\xff" * 9,
    f"{INVALID}invalid JSON in header: EOF while parsing": file_of(b"{"),
    f"{INVALID}invalid JSON in header: invalid type: sequence": file_of([]),
    "the header has a name twice.": file_of(
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
        b'"a":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}'
    ),
    f"{INVALID}invalid JSON in header: invalid type: integer `1`": file_of(
        {"__metadata__": {"a": 1}}
    ),
    "'a' has the fields dtype, shape, data_offsets, more, expected dtype, shape": (
        file_of(one(more=1), b"12")
    ),
    f"{INVALID}invalid JSON in header: invalid type: integer `8`": file_of(
        one(dtype=8), b"12"
    ),
    f"{INVALID}invalid JSON in header: invalid value: integer `-2`": file_of(
        one(shape=[-2]), b"12"
    ),
    f"{INVALID}invalid JSON in header: invalid type: boolean `true`": file_of(
        one(shape=[True, 2]), b"12"
    ),
    "'a' has the shape (1152921504606846976, 0), which NumPy does not": file_of(
        one(dtype="F64", shape=[2**60, 0], data_offsets=[0, 0])
    ),
    f"{INVALID}invalid JSON in header: invalid type: floating point `2.0`": file_of(
        one(data_offsets=[0, 2.0]), b"12"
    ),
    f"{INVALID}invalid shape, data type, or offset for tensor": file_of(
        one(shape=[3]), b"12"
    ),
    f"{INVALID}invalid offset for tensor `a`. Copy": file_of(
        one(data_offsets=[2, 0]), b"12"
    ),
    f"{INVALID}invalid offset for tensor `a`.": file_of(
        one(data_offsets=[1, 3]), b"123"
    ),
    f"{INVALID}incomplete metadata, file not fully covered.": file_of(one(), b"1"),
    f"{INVALID}incomplete metadata, file not fully covered. Copy": file_of(
        one(), b"123"
    ),
    f"{INVALID}invalid offset for tensor `b`. Copy": file_of(
        one() | {"b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}, b"123"
    ),
    # Both lie at the same bytes; which of them the package names is not fixed.
    f"{INVALID}invalid offset for tensor `": file_of(
        one() | {"b": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, b"12"
    ),
    "'a' holds bools other than 0 and 1.": file_of(one(dtype="BOOL"), b"\0\2"),
    "'a' holds F4, which mdtensor cannot read.": file_of(
        one(dtype="F4", shape=[4]), b"12"
    ),
    "the note on tensors is not JSON.": file_of(
        one() | {"__metadata__": {"mdtensor": "{"}}, b"12"
    ),
    "the note on tensors has version 2, but this mdtensor reads 1. Read it with": (
        file_of(noted({}, 2), b"12")
    ),
    "the note on tensors does not list any.": file_of(noted([]), b"12"),
    "the note on 'a' lacks type, parts or facts.": file_of(
        noted({"a": {"type": "int8", "parts": [1], "facts": {}}}), b"12"
    ),
    "'a' has a part 'a_x' that does not exist or belongs to another tensor.": file_of(
        noted({"a": {"type": "int8", "parts": ["_x"], "facts": {}}}), b"12"
    ),
    "'a': the element type 'int9' is not registered. Import the package that": file_of(
        noted({"a": {"type": "int9", "parts": [""], "facts": {}}}), b"12"
    ),
    "'a': Int8Tensor must be stored as one array without further fields, but the file "
    "has 1 arrays and the fields ['b'].": file_of(
        noted({"a": {"type": "int8", "parts": [""], "facts": {"b": 1}}}), b"12"
    ),
    "'a': the array holds uint8, not int8. Use astype(asarray(a), int8).": file_of(
        noted({"a": {"type": "int8", "parts": [""], "facts": {}}}), b"12"
    ),
    "'a': complex128 is stored as pairs of float64.": file_of(
        noted({"a": {"type": "complex128", "parts": [""], "facts": {}}}), b"12"
    ),
}


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(DAMAGED[text])
    for read in (load_file, lambda path: dict(safe_open(path))):
        with pytest.raises(md.StorageError) as raised:
            read(path)
        assert str(raised.value).startswith(f"{path}: {text}")


SPANS = [(start, end) for start in range(5) for end in range(start, 5)]


@pytest.mark.long
@pytest.mark.parametrize("first", SPANS)
def test_arrays_cover_each_byte_once(first: tuple[int, int], tmp_path: Path) -> None:
    """Overlaps and gaps of two arrays in 4 bytes, all 225 of them, are damage.

    Bytes of two arrays could be changed for one reader and not for the other, and bytes
    of none could hide anything.

    Source: safetensors, "Format".
    """
    path = tmp_path / "a.safetensors"
    for second in SPANS:
        entries = {
            name: {"dtype": "U8", "shape": [end - start], "data_offsets": [start, end]}
            for name, (start, end) in {"a": first, "b": second}.items()
        }
        path.write_bytes(file_of(entries, b"1234"))
        covered = [*range(*first), *range(*second)]
        # An empty array may not lie inside the other.
        empty = [span[0] for span in (first, second) if span[0] == span[1]]
        others = [span for span in (first, second) if span[0] < span[1]]
        inside = any(s < at < e for at in empty for s, e in others)
        if sorted(covered) == [0, 1, 2, 3] and not inside:
            found = {name: x.buffer.tobytes() for name, x in load_file(path).items()}
            wanted = {"a": b"1234"[slice(*first)], "b": b"1234"[slice(*second)]}
            assert found == wanted
            continue
        for read in (load_file, safe_open, lambda path: load(path.read_bytes())):
            with pytest.raises(md.StorageError, match=r"offset|not fully covered"):
                read(path)


@pytest.mark.parametrize(
    "text",
    [b'{"a":' + b"[" * 100_000, b'{"\\ud800":1}', b'{"a\xff":1}', b'{"a":9e'],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(md.StorageError, match=r"invalid (JSON|UTF-8) in header"):
        load(file_of(text))


def test_without_the_package_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: save({"a": md.ones(1)}), lambda: load(b"")):
        with pytest.raises(md.StorageError) as raised:
            call()
        assert str(raised.value) == (
            "safetensors files need the package safetensors. "
            "Install it with `pip install mdtensor[safetensors]`."
        )


def test_a_pipe_receives_the_bytes_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        save_file({"a": md.ones(1)}, pipe)
        assert read.result(timeout=60) == save({"a": md.ones(1)})
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_places_that_are_not_there(tmp_path: Path) -> None:
    for read in (load_file, safe_open):
        with pytest.raises(
            md.StorageError, match="no cannot be read: No such file or directory"
        ):
            read(tmp_path / "no")
        with pytest.raises(md.StorageError, match="Is a directory"):
            read(tmp_path)
    with pytest.raises(md.StorageError, match="cannot be written: it is a folder"):
        save_file({}, tmp_path)
    with pytest.raises(md.StorageError, match="cannot be written: No such file"):
        save_file({}, tmp_path / "no" / "a")


SMALL = peer.save(
    {"a": np.arange(2, dtype=np.uint8), "b": np.ones(1, np.float32)}, {"k": "v"}
)


@settings(max_examples=300)
@given(st.data())
def test_damage_is_our_error_or_what_the_package_reads(data: st.DataObject) -> None:
    damaged = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(SMALL) - 1))
        damaged[at] = data.draw(st.sampled_from(b'0123456789{}[],:"ab \0\xff'))
    cut = data.draw(st.integers(0, 12)) if data.draw(st.booleans()) else 0
    given = bytes(damaged[: len(damaged) - cut])
    try:
        theirs = peer.load(given)
    except (safetensors.SafetensorError, KeyError):
        theirs = None
    try:
        ours = load(given)
    except md.StorageError:
        return
    assert theirs is not None
    assert {n: (x.shape, x.buffer.tobytes()) for n, x in ours.items()} == {
        n: (a.shape, a.tobytes()) for n, a in theirs.items()
    }


# --- one step or none -----------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
def test_a_write_that_fails_leaves_the_old_file(error: type, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as file:
        file.write(b"ne")
        file.flush()
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"")
    path.chmod(0o640)
    link.symlink_to(path)
    save_file({"a": md.ones(1)}, link)
    assert link.is_symlink() and load_file(path)["a"].tolist() == [1.0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    new = tmp_path / "new"
    mask = os.umask(0o022)
    try:
        save_file({}, new)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o644
    assert load_file(new) == {}
