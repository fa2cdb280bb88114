"""zyx: of its design the error policy, and that it runs anywhere.

"A user's error is an error value, anything else is a bug of ours": here whatever a
caller gets wrong ends in an `MdtensorError`. Two things are Python's own and stay so:

- a call that does not fit a signature, by the number of arguments or by an unknown
  keyword, and an operator for which no operand has an answer, are TypeErrors of the
  interpreter, raised before any line of ours runs or after all of ours declined;
- what an object of the caller's raises while it is asked (its `__iter__`, its
  `__array__`) is its own error and passes through.

The lazy graph, fusion and search of the original (rows Z5 to Z15) are no part of this.
"""

import signal
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from support.abuse import OPERATIONS, Call, bad_calls
from support.samples import call, sample

import mdtensor as md

#: Where our lines are.
OURS = tuple(path for p in (md, md.kernels, md.quant) for path in p.__path__)
#: Longer than this is no refusal.
SECONDS = 10


class TooSlow(Exception):
    pass


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Threads are as before, whatever the calls set; each call has its time."""

    def ring(*_: Any) -> None:
        raise TooSlow

    threads, before = md.get_num_threads(), signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, before)
    md.set_num_threads(threads)


def leak(call: Call) -> str:
    """What came out of a call that should not have; empty if all is well."""
    signal.alarm(SECONDS)
    try:
        call.run()
    except md.MdtensorError as error:
        return "" if str(error).endswith(".") else f"{call}: {error!r} is no sentence"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if is_pythons(error, [frame.filename for frame in frames]):
            return ""
        return f"{call}: {type(error).__name__}: {error} at {frames[-1]}"
    finally:
        signal.alarm(0)
    return ""


def is_pythons(error: Exception, files: list[str]) -> bool:
    """Whether no line of ours was running, or the caller's own object raised."""
    is_adapted = files[-1].endswith("mdtensor/operators.py")  # x.sum, for numpy.sum(x)
    if is_adapted and isinstance(error, TypeError):
        return True
    ours = (*OURS, "<call of ")
    is_hostile = isinstance(error, RuntimeError) and str(error) == "hostile"
    return is_hostile or not any(name.startswith(ours) for name in files)


def leaks(count: int, seed: int) -> list[str]:
    return [found for call in bad_calls(count, seed) if (found := leak(call))]


def test_z2_bad_calls_end_in_errors_of_ours() -> None:
    """Z2, row 61: 2,000 of the bad calls."""
    assert leaks(2_000, seed=1) == []


def test_z2_an_option_that_is_true_or_false_takes_nothing_else() -> None:
    """Z2: what is wrong and would pass for True is refused as well."""
    taken = [
        f"{operation.__name__}({name}={wrong!r})"
        for operation in OPERATIONS
        for name, default in operation.operation.options.items()
        for wrong in ("yes", 1, 0.0)
        if isinstance(default, bool) and is_taken(operation, name, wrong)
    ]
    assert taken == []


def is_taken(operation: Any, name: str, wrong: Any) -> bool:
    arguments, options = sample(operation)
    try:
        call(operation, arguments, {**options, name: wrong})
    except md.OptionError as error:
        assert f"{name} is " in str(error)
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_z2_many_bad_calls(seed: int) -> None:
    """Z2, row 61: 10,000 more."""
    assert leaks(1_000, seed) == []
