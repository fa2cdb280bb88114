"""The lattice, cell by cell and as a whole."""

from functools import partial
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import dtypes
from mdtensor.dtypes import DType
from mdtensor.errors import CastError, OptionError, PromotionError
from mdtensor.promotion import fit_scalar, wider_type, with_scalar
from mdtensor.promotion.lattice import DEFAULT_ARROWS

COLUMNS = "b i1 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8 c8 cc"
NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64 complex128"
)
SHORT = dict(zip(COLUMNS.split(" "), NAMES.split(" "), strict=True))
PLAIN = [md.dtype(name) for name in NAMES.split(" ")]

# Written down by hand from the array API (cells within a kind) and from PyTorch (a
# float keeps its width); "--" is an error.
TABLE = """
      b   i1  i2  i4  i8  u1  u2  u4  u8  f2  bf  f4  f8  c8  cc
b     b   i1  i2  i4  i8  u1  u2  u4  u8  f2  bf  f4  f8  c8  cc
i1    i1  i1  i2  i4  i8  i2  i4  i8  --  f2  bf  f4  f8  c8  cc
i2    i2  i2  i2  i4  i8  i2  i4  i8  --  f2  bf  f4  f8  c8  cc
i4    i4  i4  i4  i4  i8  i4  i4  i8  --  f2  bf  f4  f8  c8  cc
i8    i8  i8  i8  i8  i8  i8  i8  i8  --  f2  bf  f4  f8  c8  cc
u1    u1  i2  i2  i4  i8  u1  u2  u4  u8  f2  bf  f4  f8  c8  cc
u2    u2  i4  i4  i4  i8  u2  u2  u4  u8  f2  bf  f4  f8  c8  cc
u4    u4  i8  i8  i8  i8  u4  u4  u4  u8  f2  bf  f4  f8  c8  cc
u8    u8  --  --  --  --  u8  u8  u8  u8  f2  bf  f4  f8  c8  cc
f2    f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f4  f8  c8  cc
bf    bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  bf  f4  f8  c8  cc
f4    f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  c8  cc
f8    f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  cc  cc
c8    c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  cc  c8  cc
cc    cc  cc  cc  cc  cc  cc  cc  cc  cc  cc  cc  cc  cc  cc  cc
"""
CELLS = [
    (SHORT[row.split()[0]], SHORT[column], SHORT.get(cell))
    for row in TABLE.split("\n")[2:-1]
    for column, cell in zip(TABLE.split("\n")[1].split(), row.split()[1:], strict=True)
]


def joint(*types: md.DType) -> md.DType | None:
    """The common type, or None."""
    try:
        return md.promote_types(*types)
    except PromotionError:
        return None


def join(a: md.DType, b: md.DType) -> md.DType | None:
    return joint(a, b)


@each("a, b, common", CELLS)
def test_table(a: str, b: str, common: str | None) -> None:
    assert join(md.dtype(a), md.dtype(b)) is (common and md.dtype(common))


def test_table_is_whole() -> None:
    assert len(CELLS) == 225


def test_order_never_matters() -> None:
    for a, b in product(PLAIN, PLAIN):
        assert join(a, b) is join(b, a)
        assert join(a, a) is a
    for triple in combinations_with_replacement(PLAIN, 3):
        assert len({joint(*order) for order in permutations(triple)}) == 1


def test_pairs_first_agrees_with_all_at_once() -> None:
    for a, b, c in product(PLAIN, PLAIN, PLAIN):
        if join(a, b) is not None:
            assert joint(a, b, c) is join(md.promote_types(a, b), c)


def test_a_float_among_the_operands_settles_it() -> None:
    assert md.result_type(md.int8, md.uint64, md.float16) is md.float16
    assert joint(md.int8, md.uint64, md.int8) is None


def test_within_a_kind_as_numpy() -> None:
    ours_alone = ({md.float16, md.bfloat16}, *({md.uint64, t} for t in PLAIN[1:5]))
    for a, b in product(PLAIN, PLAIN):
        a_is_exact, b_is_exact = (t.is_integer or t is md.bool for t in (a, b))
        if a_is_exact is b_is_exact and {a, b} not in ours_alone:
            theirs = np.promote_types(a.storage, b.storage)
            assert md.promote_types(a, b).storage == theirs


def test_arrows_name_types_and_do_not_turn_back() -> None:
    assert set(DEFAULT_ARROWS) == set(SHORT.values())
    for source, targets in DEFAULT_ARROWS.items():
        for target in targets:
            assert not md.can_cast(md.dtype(target), md.dtype(source))


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        ((md.int8, 1), "int8"),
        ((md.int8, True), "int8"),
        ((md.int8, 1.5), "float32"),
        ((md.bool, 1), "int64"),
        ((md.bool, True), "bool"),
        ((md.bool, 1.5), "float32"),
        ((md.float16, 1.5), "float16"),
        ((md.float64, 1), "float64"),
        ((md.uint64, -1), "uint64"),
        ((md.int8, md.uint8, 1), "int16"),
        ((md.int8, md.uint8, 1.0), "float32"),
        (("int8", np.float16), "float16"),
        ((md.float32, np.float64(1.5)), "float64"),
        ((md.int8, np.array([1], np.int16)), "int16"),
        ((md.int16,), "int16"),
    ],
    ids=str,
)
def test_result_type(operands: tuple[Any, ...], result: str) -> None:
    assert md.result_type(*operands) is md.dtype(result)
    assert md.result_type(*reversed(operands)) is md.dtype(result)


def test_result_type_of_tensors() -> None:
    assert md.result_type(md.zeros((2,)), md.ones((3,), dtype=md.int8)) is md.float32


def test_with_scalar_and_can_cast() -> None:
    assert with_scalar(md.uint16, int) is md.uint16
    assert md.can_cast(md.int64, md.float16)
    assert not md.can_cast(md.float16, md.int64)
    assert not md.can_cast(md.uint64, md.int64)
    assert md.can_cast(md.int8, md.int8)


@pytest.mark.parametrize(
    ("value", "target"),
    [
        *((-1, "uint8"), (256, "uint8"), (128, "int8"), (0.5, "int8"), (2, "bool")),
        *((float("nan"), "int8"), (float("inf"), "int64"), (-129.0, "int8")),
    ],
)
def test_scalars_that_do_not_fit(value: float, target: str) -> None:
    with pytest.raises(CastError):
        fit_scalar(value, md.dtype(target))


@pytest.mark.parametrize(
    ("value", "target"),
    [
        *((255, "uint8"), (-128, "int8"), (127.0, "int8"), (True, "bool")),
        *((0, "bool"), (10**30, "float32"), (0.1, "float16"), (True, "int8")),
    ],
)
def test_scalars_that_fit(value: float, target: str) -> None:
    assert fit_scalar(value, md.dtype(target)) is value


@pytest.mark.parametrize(
    ("target", "largest", "beyond"),
    [
        ("float16", 65519.99, 65520.0),
        ("bfloat16", 3.3961e38, 3.3962e38),
        ("float32", 2**128 - 2**103 - 1, 2**128 - 2**103),
        ("float64", 2**1024 - 2**970 - 1, 2**1024 - 2**970),
        ("complex64", 3.4e38 - 3.4e38j, 1 - 3.5e38j),
    ],
)
def test_a_finite_number_does_not_become_infinite(
    target: str, largest: Any, beyond: Any
) -> None:
    dtype = md.dtype(target)
    for value in (largest, -largest):
        assert fit_scalar(value, dtype) == value
        assert np.isfinite(md.full(1, value, dtype=dtype).buffer).all()
    for value in (beyond, -beyond):
        for refused in (
            partial(fit_scalar, value, dtype),
            partial(md.full, 1, value, dtype=dtype),
            partial(md.asarray, [0, value], dtype=dtype),
            partial(md.mul, md.ones(1, dtype=dtype), value),
        ):
            with pytest.raises(CastError, match=f"{target} represents"):
                refused()
    for value in (float("inf"), -float("inf"), float("nan")):
        assert not np.isfinite(md.asarray([value], dtype=dtype).buffer).any()


def test_errors_read_well() -> None:
    with pytest.raises(PromotionError) as caught:
        md.promote_types(md.uint64, md.int8)
    assert str(caught.value) == (
        "uint64 and int8 do not have a common type. "
        "Use astype(x, int8) or astype(x, uint64) to choose one."
    )
    with pytest.raises(PromotionError) as caught:
        md.result_type(1, 2.0)
    assert str(caught.value) == "only Python scalars given. Make one a tensor."
    with pytest.raises(CastError) as scalar:
        fit_scalar(300, dtypes.uint8)
    assert str(scalar.value) == (
        "uint8 represents 0 to 255; cannot represent 300. Use astype(x, int16) first."
    )


@pytest.mark.parametrize("target", [dtypes.int8, dtypes.int64, dtypes.uint64])
@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), -0.5])
def test_no_integer_type_is_wide_enough_for_a_fraction(
    target: DType, value: float
) -> None:
    with pytest.raises(CastError, match=r"is not one\..*astype\(x, float64\) first"):
        fit_scalar(value, target)
    assert wider_type(target, value, value) is dtypes.float64


def test_the_wider_type_holds_the_type_and_the_numbers() -> None:
    integers = [d for d in PLAIN if d.is_integer]
    for narrow in integers:
        for value in (-(2**63), -129, -1, 0, 256, 2**31, 2**64 - 1, 2**64):
            found = wider_type(narrow, value, value)
            assert found is not None
            fits = [
                d
                for d in integers
                if d.minimum <= min(narrow.minimum, value)
                and max(narrow.maximum, value) <= d.maximum
            ]
            least = min((d.bits for d in fits), default=64)
            assert found.bits == least and found.is_integer == bool(fits)
    assert wider_type(dtypes.float64, 10**400, 10**400) is None
    assert wider_type(dtypes.bool_, 2, 2) is dtypes.int8


def test_no_types_do_not_promote() -> None:
    with pytest.raises(OptionError, match=r"^promote_types: there are no types\."):
        md.promote_types()
