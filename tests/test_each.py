"""Cases that run as one test: each of them runs, and each failure is reported."""

import inspect
from typing import Any

import pytest
from support.each import each


def test_all_cases_run_and_all_failures_are_reported() -> None:
    seen = []

    @each("a, b", [(1, 2), (3, 3), (5, 6)])
    @each("c", [0, 1])
    def check(a: int, b: int, c: int, rng: Any) -> None:
        seen.append((a, b, c, rng))
        assert a == b

    assert [*inspect.signature(check).parameters] == ["rng"]
    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as caught:
        check(rng="fixture")
    assert len(seen) == 6 and {rng for *_, rng in seen} == {"fixture"}
    first = caught.value.exceptions[0]
    assert isinstance(first, BaseExceptionGroup) and len(first.exceptions) == 2
    assert first.__notes__ == ["case: {'a': 1, 'b': 2}"]
    assert first.exceptions[1].__notes__ == ["case: {'c': 1}"]


def test_an_error_that_is_not_raised_is_a_failure() -> None:
    @each("value", ["1", "a"])
    def check(value: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(value)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases failed"):
        check()
