"""The lattices against the definition of a least upper bound, and how they grow."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import product

import ml_dtypes
import pytest

import mdtensor as md
from mdtensor import dtypes
from mdtensor.errors import PromotionError, RegistrationError
from mdtensor.promotion.lattice import (
    ARRAY_API,
    DEFAULT,
    DEFAULT_ARROWS,
    STRICT,
    WEAK,
    Lattice,
)
from mdtensor.promotion.tables import SHORT

LATTICES = [DEFAULT, STRICT, ARRAY_API]
TYPES = [md.dtype(name) for name in SHORT]


def reached(arrows: Mapping[str, tuple[str, ...]]) -> set[tuple[str, str]]:
    """All (a, b) with b at or above a: the closure of the arrows, by Warshall."""
    found = {(name, name) for name in SHORT}
    found |= {(a, b) for a, targets in arrows.items() for b in targets}
    for through, a, b in product(SHORT, repeat=3):
        if {(a, through), (through, b)} <= found:
            found.add((a, b))
    return found


@pytest.mark.parametrize("rules", LATTICES, ids=repr)
def test_a_join_is_the_least_upper_bound(rules: Lattice) -> None:
    above = reached(rules.arrows)
    for types in product(TYPES, repeat=3):
        bounds = [c for c in SHORT if all((t.name, c) in above for t in types)]
        least = [c for c in bounds if all((c, other) in above for other in bounds)]
        found = rules.join(types)
        assert ([found.name] if found else []) == least


@pytest.mark.parametrize("rules", LATTICES, ids=repr)
def test_associative_where_defined(rules: Lattice) -> None:
    for a, b, c in product(TYPES, repeat=3):
        left, right = rules.join((a, b)), rules.join((b, c))
        if left and right:
            assert rules.join((left, c)) is rules.join((a, right))


def test_the_lattices_have_the_cells_they_claim() -> None:
    defined = {
        rules.name: sum(rules.join(pair) is not None for pair in product(TYPES, TYPES))
        for rules in LATTICES
    }
    # uint64 has 4 signed partners; the standard has bool, integers, 4 floats, and
    # nothing between; float16 and bfloat16 meet themselves.
    standard = 1 + (8 * 8 - 2 * 4) + 4 * 4 + 2
    assert defined == {"default": 225 - 8, "strict": 15, "array_api": standard}


def test_integers_never_lose_a_value() -> None:
    """A common type of integers and truth values holds all they hold, exactly."""
    exact = [t for t in TYPES if t.is_integer or t.kind == "bool"]
    for a, b in product(exact, exact):
        common = DEFAULT.join((a, b))
        if common is not None:
            assert common.is_integer or common.kind == "bool"
            assert common.minimum <= min(a.minimum, b.minimum)
            assert common.maximum >= max(a.maximum, b.maximum)


def test_an_integer_becomes_the_float_it_meets() -> None:
    for exact, floating in product(TYPES, TYPES):
        if floating.is_floating and (exact.is_integer or exact.kind == "bool"):
            assert DEFAULT.join((exact, floating)) is floating


# --- types of one's own ---------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[md.DType]:
    before = dict(dtypes._REGISTRY)
    yield md.DType("q8_8", "fixed point", 16, "int16")
    dtypes._REGISTRY.clear()
    dtypes._REGISTRY.update(before)


def lattice() -> Lattice:
    return Lattice("mine", DEFAULT_ARROWS, WEAK, {"float": md.float32})


def test_a_type_takes_its_place(own: md.DType) -> None:
    mine = lattice()
    mine.add(own, above=[md.int8], below=[md.int32, md.float32])
    assert mine.join((own, md.int8)) is own
    assert mine.join((md.bool, own)) is own
    assert mine.join((own, md.uint16)) is md.int32
    assert mine.join((own, md.uint32)) is md.int64
    assert mine.join((own, md.float16)) is md.float16
    assert mine.weak(own, "float") is md.float32
    assert mine.weak(own, "int") is None
    for pair in product(TYPES, TYPES):
        assert mine.join(pair) is DEFAULT.join(pair)


def test_others_do_not_know_it(own: md.DType) -> None:
    lattice().add(own, above=[md.int8], below=[md.float32])
    assert md.promote_types(own, own) is own
    for rules in md.promotion.RULE_SETS:
        with md.promotion_rules(rules), pytest.raises(PromotionError):
            md.promote_types(own, md.int8)


CHANGED = (
    "q8_8 would change what {} become. "
    "Put it above fewer types, or above their common type."
)


@pytest.mark.parametrize(
    ("new", "above", "below", "text"),
    [
        (
            "int8",
            [],
            [],
            "int8 is in the lattice already. Omit this call.",
        ),
        ("q8_8", ["int8"], ["other"], "other is not in the lattice. Add it first."),
        (
            "q8_8",
            ["int16"],
            ["int8"],
            "q8_8 would be above int16 and below int8: a cycle.",
        ),
        (
            "q8_8",
            ["int8"],
            ["int8"],
            "q8_8 would be above int8 and below int8: a cycle.",
        ),
        (
            "q8_8",
            ["int8", "uint8"],
            ["float32"],
            CHANGED.format("int8 and uint8"),
        ),
        (
            "q8_8",
            ["float16", "bfloat16"],
            ["float32"],
            CHANGED.format("bfloat16 and float16"),
        ),
    ],
    ids=str,
)
def test_what_has_no_place(
    own: md.DType, new: str, above: list[str], below: list[str], text: str
) -> None:
    md.DType("other", "fixed point", 8, "int8")
    mine = lattice()
    with pytest.raises(RegistrationError) as caught:
        mine.add(md.dtype(new), map(md.dtype, above), map(md.dtype, below))
    assert str(caught.value) == text
    assert mine.arrows == DEFAULT_ARROWS


def test_a_narrow_float_makes_no_floats_of_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be the one least bound of int64 and uint64."""
    monkeypatch.setattr(dtypes, "_REGISTRY", dict(dtypes._REGISTRY))  # it leaves
    tiny = md.DType("tiny", "real floating", 8, ml_dtypes.float8_e5m2)
    mine = lattice()
    mine.add(tiny, [md.int64, md.uint64], [md.float16, md.bfloat16])
    assert mine.join((md.int64, md.uint64)) is None
    assert mine.join((md.uint64, tiny)) is tiny
    assert mine.join((md.int64, md.uint64, tiny)) is tiny
    assert mine.join((tiny, md.bfloat16)) is md.bfloat16


STRANGER = """
import numpy as np
import mdtensor as md

fixed = md.DType("q8_8", "fixed point", 16, "int16")

class Fixed16Tensor(md.RealTensor, dtype=fixed):
    __slots__ = ()

x, n = Fixed16Tensor(np.array([256], np.int16)), md.asarray([1], dtype=md.int8)
try:
    x + n
except md.PromotionError as error:
    print(error)
md.add_type(fixed, above=[md.int8], below=["float32"])
print(md.result_type(x, n), md.result_type(n, 1.5, x), repr(x + n))
print(md.can_cast(n, fixed), md.can_cast(x, md.int64))
"""


def test_a_stranger_adds_a_type_to_the_default_rules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STRANGER], capture_output=True, text=True, check=True
    )
    error, promoted, casts = done.stdout.splitlines()
    assert error == (
        "add(Fixed16Tensor[1], Int8Tensor[1]): q8_8 and int8 do not have a "
        "common type. "
        "Use astype(x, int8) or astype(x, q8_8) to choose one."
    )
    assert promoted == "q8_8 float32 Fixed16Tensor[1]([257])"
    assert casts == "True False"
