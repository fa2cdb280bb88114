"""Choosing rules: scopes, threads, tasks, and what errors say."""

import asyncio
import copy
import pickle
import re
import threading
from itertools import permutations, product
from typing import Any

import pytest

import mdtensor as md
from mdtensor.errors import OptionError, PromotionError
from mdtensor.promotion import RULE_SETS, current, with_scalar
from mdtensor.promotion.tables import SHORT

# int32 with float32, and int8 with 1.5, tell most rules apart.
MIXED = {
    "default": ("float32", "float32"),
    "strict": (None, None),
    "array_api": (None, None),
    "numpy": ("float64", "float64"),
    "jax": ("float32", "float64"),
    "torch": ("float32", "float32"),
    "pypto": ("float32", "float32"),
}


def mixed() -> tuple[str | None, str | None]:
    found: list[str | None] = []
    for operands in ((md.int32, md.float32), (md.int8, 1.5)):
        try:
            found.append(md.result_type(*operands).name)
        except PromotionError:
            found.append(None)
    return found[0], found[1]


def text(*operands: Any) -> str:
    with pytest.raises(PromotionError) as caught:
        md.result_type(*operands)
    return str(caught.value)


def test_every_rule_set_is_chosen_by_name() -> None:
    assert set(RULE_SETS) == set(MIXED)
    for name, expected in MIXED.items():
        with md.promotion_rules(name) as rules:
            assert rules is current() is RULE_SETS[name]
            assert mixed() == expected
    assert current().name == "default"
    assert repr(current()) == "<promotion rules 'default'>"


def test_scopes_nest() -> None:
    with md.promotion_rules("numpy"):
        with md.promotion_rules("strict"):
            with md.promotion_rules("default"):
                assert mixed() == MIXED["default"]
            assert mixed() == MIXED["strict"]
        assert mixed() == MIXED["numpy"]
    assert mixed() == MIXED["default"]


def test_an_exception_leaves_the_scope() -> None:
    with pytest.raises(KeyError), md.promotion_rules("numpy"):
        raise KeyError
    assert mixed() == MIXED["default"]


def test_a_choice_of_rules_holds_inside_with_only() -> None:
    scope = md.promotion_rules("numpy")
    assert mixed() == MIXED["default"]
    with scope:
        assert mixed() == MIXED["numpy"]


@pytest.mark.parametrize("name", ["NumPy", "", None, 3, ["numpy"]], ids=repr)
def test_unknown_rules(name: Any) -> None:
    with pytest.raises(OptionError) as caught:
        md.promotion_rules(name)
    assert str(caught.value) == (
        f"unknown promotion rules {name!r}. "
        "Known are default, strict, array_api, numpy, jax, torch, pypto."
    )


def test_threads_have_rules_of_their_own() -> None:
    names = [*RULE_SETS, "default"]
    start = threading.Barrier(len(names))
    wrong: list[str] = []

    def work(name: str) -> None:
        if mixed() != MIXED["default"]:
            wrong.append(f"a new thread starts with {current()}")
        with md.promotion_rules(name):
            start.wait()
            wrong.extend(name for _ in range(200) if mixed() != MIXED[name])

    threads = [threading.Thread(target=work, args=[name]) for name in names]
    with md.promotion_rules("torch"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_tasks_have_rules_of_their_own() -> None:
    async def task(name: str) -> tuple[Any, Any]:
        inherited = current().name
        with md.promotion_rules(name):
            await asyncio.sleep(0)
            return inherited, mixed() == MIXED[name]

    async def gathered() -> list[tuple[Any, Any]]:
        with md.promotion_rules("jax"):
            return await asyncio.gather(*map(task, RULE_SETS))

    assert asyncio.run(gathered()) == [("jax", True)] * len(RULE_SETS)
    assert mixed() == MIXED["default"]


def test_scalars_in_any_order() -> None:
    scalars = (True, 1, 1.5, 1j)
    for rules, name in product(RULE_SETS, SHORT):
        with md.promotion_rules(rules):
            for some in permutations(scalars, 3):
                found = {_type(name, *order) for order in permutations(some)}
                assert len(found) == 1, (rules, name, some)


def _type(*operands: Any) -> str | None:
    try:
        return md.result_type(*operands).name
    except PromotionError:
        return None


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("default", {"bool": 15, "int": 15, "float": 15, "complex": 15}),
        ("strict", {"bool": 1, "int": 14, "float": 6, "complex": 2}),
        ("array_api", {"bool": 1, "int": 14, "float": 6, "complex": 4}),
        ("numpy", {"bool": 15, "int": 15, "float": 15, "complex": 15}),
        ("jax", {"bool": 15, "int": 15, "float": 15, "complex": 15}),
        ("torch", {"bool": 15, "int": 15, "float": 15, "complex": 14}),
        ("pypto", {"bool": 15, "int": 13, "float": 13, "complex": 0}),
    ],
)
def test_how_many_types_meet_a_scalar(rules: str, allowed: dict[str, int]) -> None:
    scalars = {"bool": True, "int": 1, "float": 1.5, "complex": 1j}
    with md.promotion_rules(rules):
        for kind, value in scalars.items():
            found = [_type(name, value) for name in SHORT]
            assert sum(x is not None for x in found) == allowed[kind], kind


def test_can_cast_follows_the_rules() -> None:
    for rules, a, b in product(RULE_SETS, SHORT, SHORT):
        with md.promotion_rules(rules):
            assert md.can_cast(a, b) is (a == b or _type(a, b) == b)
    assert md.can_cast(md.ones((2,), dtype=md.int8), md.int16)
    assert not md.can_cast(md.ones((2,), dtype=md.int16), "int8")


def test_errors_name_the_rules() -> None:
    i8, f32 = md.ones((4,), dtype=md.int8), md.ones((4,))
    with md.promotion_rules("strict"):
        with pytest.raises(PromotionError) as caught:
            md.add(i8, f32)
        assert str(caught.value) == (
            "add(Int8Tensor[4], Float32Tensor[4]) under 'strict': int8 and float32 "
            "do not have a common type. Use astype(x, float32)."
        )
        assert text(md.int8, md.uint8) == (
            "under 'strict': int8 and uint8 do not have a common type. "
            "Use astype(x, int16) on each."
        )
        with pytest.raises(PromotionError) as scalar:
            i8 * 1.5
        assert str(scalar.value) == (
            "mul(Int8Tensor[4], float) under 'strict': int8 and a Python float "
            "do not have a common type. Use astype(x, float32)."
        )
    for error in (caught.value, scalar.value):
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (str(twin), twin.rules) == (str(error), "strict")


@pytest.mark.parametrize(
    ("rules", "operands", "said"),
    [
        ("default", ("int8", "uint64"), "int8 and uint64 do not have a common type. "),
        ("torch", ("uint16", "int8"), "under 'torch': uint16 and int8 do not have a"),
        (
            "strict",
            ("int8", True),
            "a Python bool do not have a common type. Use int(value)",
        ),
        ("pypto", ("complex64", 1j), "Make both tensors of one type."),
        ("torch", ("float16", 1j), "Use astype(x, complex64)."),
        ("default", (1, 2.0), "only Python scalars given. Make one a tensor."),
        ("default", (), "nothing given. Give a tensor or an element type."),
    ],
)
def test_errors_say_what_would_work(
    rules: str, operands: tuple[Any, ...], said: str
) -> None:
    with md.promotion_rules(rules):
        assert said in text(*operands)


def test_the_cast_for_a_scalar_works() -> None:
    values = {"bool": True, "int": 1, "float": 1.5, "complex": 1j}
    told = 0
    for rules, name, kind in product(RULE_SETS, SHORT, values):
        with md.promotion_rules(rules):
            if _type(name, values[kind]) is not None:
                continue
            hint = re.search(r"Use astype\(x, (\w+)\)", text(name, values[kind]))
            if hint:
                wider = md.dtype(hint[1])
                assert with_scalar(wider, type(values[kind])) is wider
                told += 1
    assert told > 40
