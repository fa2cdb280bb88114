"""Every cell of every table, as its owner has it.

NumPy is asked here. JAX, torch and array_api_strict were asked by `generate.py`, whose
answers lie beside it. PyPTO's rule is written down once more.
"""

import json
from itertools import permutations, product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import PromotionError
from mdtensor.promotion import RULE_SETS, with_scalar
from mdtensor.promotion.tables import SHORT, cells

NAMES = list(SHORT)
SCALARS = {"bool": True, "int": 1, "float": 1.5, "complex": 1j}
ASKED = ("jax", "torch", "array_api")
Answer = str | None


def promoted(*types: str) -> Answer:
    """What promotion says under the rules in force, None for an error."""
    try:
        return md.promote_types(*types).name
    except PromotionError:
        return None


def with_python(tensor: str, scalar: str) -> Answer:
    try:
        return with_scalar(md.dtype(tensor), type(SCALARS[scalar])).name
    except PromotionError:
        return None


def all_cells(rules: str) -> dict[tuple[str, str], Answer]:
    """All cells of a rule set: types in order, and scalars."""
    with md.promotion_rules(rules):
        found = {(a, b): promoted(a, b) for a, b in product(NAMES, NAMES)}
        for scalar, name in product(SCALARS, NAMES):
            found[f"Python {scalar}", name] = with_python(name, scalar)
    return found


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def by_numpy(*operands: object) -> Answer:
    types = [numpy_dtype(x) if isinstance(x, str) else x for x in operands]
    try:
        return np.result_type(*types).name
    except TypeError:
        return None


def test_numpy() -> None:
    for (row, column), cell in all_cells("numpy").items():
        operand = SCALARS.get(row.removeprefix("Python ")) if " " in row else row
        assert cell == by_numpy(operand, column), (row, column)


def test_numpy_of_three_types() -> None:
    """NumPy's own n-ary rule, which folding in the order given would miss."""
    differ = 0
    with md.promotion_rules("numpy"):
        for types in product(NAMES, repeat=3):
            theirs = by_numpy(*types)
            assert promoted(*types) == theirs or (
                theirs is None and "bfloat16" in types
            ), types
            a, b, c = types
            differ += promoted(promoted(a, b) or a, c) != theirs
    assert differ > 0


@pytest.mark.parametrize("peer", ASKED)
def test_peers_that_were_asked(peer: str) -> None:
    stored = json.loads(Path(__file__).with_name(f"{peer}.json").read_text())
    assert stored["command"] == f"python tests/promotion/generate.py {peer}"
    outside = {"float16", "bfloat16"} if peer == "array_api" else set()
    for (row, column), cell in all_cells(peer).items():
        if not {row, column} & outside:
            assert cell == stored["cells"][row].get(column), (row, column)


PYPTO_BITS = {
    "bool": 1,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
}


def by_pypto(a: str, b: str) -> Answer:
    """`PromoteDataTypes` of PyPTO's `src/ir/op/type_inference.cpp`, with our names."""
    if a == b:
        return a
    if a not in PYPTO_BITS or b not in PYPTO_BITS:
        return None  # PyPTO has no complex types
    floating = ["float" in a, "float" in b]
    if floating == [True, False]:
        return a
    if floating == [False, True]:
        return b
    if PYPTO_BITS[a] != PYPTO_BITS[b]:
        return a if PYPTO_BITS[a] > PYPTO_BITS[b] else b
    if a.startswith("int"):
        return a
    return b if b.startswith("int") else a


def test_pypto() -> None:
    found = all_cells("pypto")
    for a, b in product(NAMES, NAMES):
        assert found[a, b] == by_pypto(a, b), (a, b)
    assert found["uint32", "int32"] == "int32"


def test_pypto_takes_numbers_into_the_tensor_type() -> None:
    found = all_cells("pypto")
    for name in NAMES:
        is_known = name in PYPTO_BITS
        to_float = name if "float" in name else "float32"
        assert found["Python int", name] == (name if is_known else None)
        assert found["Python float", name] == (to_float if is_known else None)
        assert found["Python complex", name] is None
        assert found["Python bool", name] == name


ASYMMETRIC = {
    ("pypto", "float16", "bfloat16"): "float16",
    ("pypto", "bfloat16", "float16"): "bfloat16",
}


def test_tables_are_symmetric_but_for_two_cells() -> None:
    found = {}
    for rules in RULE_SETS:
        with md.promotion_rules(rules):
            for a, b in product(NAMES, NAMES):
                if promoted(a, b) != promoted(b, a):
                    found[rules, a, b] = promoted(a, b)
    assert found == ASYMMETRIC


@pytest.mark.parametrize("rules", RULE_SETS)
def test_the_order_of_three_never_matters(rules: str) -> None:
    with md.promotion_rules(rules):
        for types in product(NAMES, repeat=3):
            if rules == "pypto" and {"float16", "bfloat16"} <= {*types}:
                continue
            assert len({promoted(*order) for order in permutations(types)}) == 1, types


def test_pypto_takes_the_first_of_the_small_floats_among_others() -> None:
    with md.promotion_rules("pypto"):
        assert promoted("int64", "float16", "bfloat16") == "float16"
        assert promoted("bfloat16", "int64", "float16") == "bfloat16"
        assert promoted("bfloat16", "float32", "float16") == "float32"


@pytest.mark.parametrize(
    ("peer", "differences"), [("numpy", 27), ("torch", 23), ("jax", 11)]
)
def test_how_far_pypto_is_from_others(peer: str, differences: int) -> None:
    """Counted before these tables were, over the 78 pairs of 12 types that all know."""
    mine, theirs = (_pairs(rules) for rules in ("pypto", peer))
    assert sum(mine[pair] != theirs[pair] for pair in mine) == differences


def _pairs(rules: str) -> dict[frozenset[str], Answer]:
    plain = [n for n in NAMES if n != "float64" and "complex" not in n]
    with md.promotion_rules(rules):
        return {frozenset((a, b)): promoted(a, b) for a, b in product(plain, plain)}


@pytest.mark.parametrize("matrix", [" b\nb  b  b", " b\nb  q", " q\nb  b"])
def test_a_broken_matrix_is_no_table(matrix: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        cells(matrix)
