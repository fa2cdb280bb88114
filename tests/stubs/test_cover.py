"""Boxes hold every call of a table and no other."""

from itertools import product

from hypothesis import given, strategies as st

from mdtensor.stubs.overloads import boxes

TYPES = "abcd"


@given(st.dictionaries(st.tuples(*[st.sampled_from(TYPES)] * 2), st.integers(0, 2)))
def test_boxes_hold_the_table(table: dict[tuple[str, str], int]) -> None:
    held = {}
    for box in boxes(table, TYPES):
        for key in product(*box.sides):
            assert held.setdefault(key, box.result) == box.result
    assert held == table


@given(st.sets(st.sampled_from(TYPES), min_size=1), st.sets(st.sampled_from(TYPES)))
def test_one_box_is_found_as_one(first: set[str], second: set[str]) -> None:
    table = dict.fromkeys(product(first, second), 1)
    assert len(boxes(table, TYPES)) == bool(table)


def test_arguments_of_three_places() -> None:
    table = {key: key[0] == "a" for key in product(TYPES, repeat=3)}
    found = boxes(table, TYPES)
    assert {box.result: [len(side) for side in box.sides] for box in found} == {
        True: [1, 4, 4],
        False: [3, 4, 4],
    }
