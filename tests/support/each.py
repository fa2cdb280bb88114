"""Cases of one test: pytest and xdist take 5 ms for each test, of thousands 10 s."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str, values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each value, as `parametrize` does, but as one test.

    All cases run, and the failures of all are reported. Fixtures are shared.
    """
    keys = [name.strip() for name in names.split(",")]
    rows = [value if len(keys) > 1 else (value,) for value in values]
    cases = [dict(zip(keys, row, strict=True)) for row in rows]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = [*filter(None, (failure(test, c, fixtures) for c in cases))]
            if failures:
                text = f"{len(failures)} of {len(cases)} cases failed"
                raise BaseExceptionGroup(text, failures)

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in keys]
        assert len(rest) + len(keys) == len(signature.parameters), keys
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate


def failure(test: Test, case: dict[str, Any], fixtures: Any) -> BaseException | None:
    try:
        test(**fixtures, **case)
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"case: {case}")
        return error
    return None
