"""Searches: wrong ways are rejected by bytes, and slow ones by time."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import OptionError
from mdtensor.graph.search import Found, outcome, search


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


class Clock:
    """A clock that each way moves by its own time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, seconds: float, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            self.now += seconds
            return run(*given)

        return timed


def product(x: Any, w: Any) -> Any:
    return x @ w


def without_last(x: Any, w: Any) -> Any:
    return x[:, :-1] @ w[:-1]


def reassociated(x: Any, w: Any) -> Any:
    half = x.shape[1] // 2
    return x[:, :half] @ w[:half] + x[:, half:] @ w[half:]


def sums(x: Any, w: Any) -> Any:
    return x * w


def without_sign(x: Any, w: Any) -> Any:
    return x * w + 0.0


@pytest.mark.parametrize(
    ("oracle", "planted"),
    [(product, without_last), (product, reassociated), (sums, without_sign)],
)
def test_row_planted_ways_that_are_wrong_and_fast_are_rejected(
    oracle: Any, planted: Any
) -> None:
    given = normal(16, 16), normal(16, 16, seed=1)
    close = np.allclose(oracle(*given).buffer, planted(*given).buffer, atol=1e-5)
    assert close or planted is without_last, "a tolerance would let it pass"
    clock = Clock()
    ways = {"default": clock.taking(1.0, oracle), "planted": clock.taking(0.1, planted)}
    found = search(oracle, ways, given, 1000.0, clock)
    assert found.best == "default"
    assert found.tried[1].why == "rejected: it has other bytes than the oracle"
    assert "planted: rejected" in str(found)


def test_a_way_of_equal_bytes_wins_if_it_gains_more_than_the_noise() -> None:
    x = normal(8)
    for gain, best in ((0.5, "other"), (0.05, "other"), (0.02, "default")):
        clock = Clock()
        ways = {
            "default": clock.taking(1.0, md.exp),
            "other": clock.taking(1.0 - gain, md.exp),
        }
        found = search(md.exp, ways, [x], 1000.0, clock)
        assert found.best == best and found.noise < 1e-9


def test_a_gain_within_the_noise_does_not_win() -> None:
    clock, turn = Clock(), iter(range(10_000))

    def unsteady(x: Any) -> Any:
        clock.now += 1.0 if next(turn) % 2 else 1.4
        return md.exp(x)

    ways = {"default": unsteady, "other": clock.taking(0.8, md.exp)}
    found = search(md.exp, ways, [normal(8)], 1000.0, clock)
    assert found.noise == pytest.approx(0.4) and found.best == "default"


def test_the_budget_is_kept() -> None:
    clock = Clock()
    ways = {f"way {i}": clock.taking(1.0, md.exp) for i in range(9)}
    found = search(md.exp, ways, [normal(8)], 5.0, clock)
    # Three cases of each way, then one turn.
    assert [bool(x.why) for x in found.tried] == [False] * 2 + [True] * 7
    assert found.tried[-1].why == "not tried within 5 s"
    assert clock.now <= 5.0 + 3 + 2


def test_an_error_has_to_be_the_same_error() -> None:
    def cast(x: Any) -> Any:
        return md.astype(x, md.uint8, casting="check")

    def wrapped(x: Any) -> Any:
        return md.astype(md.floor(x), md.uint8, casting="wrap")

    x = md.asarray(np.arange(50, dtype=np.float32))
    found = search(cast, {"default": cast, "wraps": wrapped}, [x], 60.0)
    assert found.tried[1].why.startswith("rejected")
    assert outcome(cast, [md.asarray([1e9])]) is md.CastError


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from mdtensor.kernels.cpu import jit

    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    yield tmp_path


def chain(x: Any, w: Any) -> Any:
    return md.hardswish(x * w + 1) * 0.5 - x


@pytest.mark.compiled
def test_a_compiled_function_runs_what_a_search_found(folder: Any) -> None:
    given = normal(40, 50), normal(40, 50, seed=1)
    compiled = md.compile(chain)
    found = compiled.search(*given, seconds=60.0)
    assert isinstance(found, Found) and not found.is_kept
    assert [x.name for x in found.tried] == ["joined", "calls", "generated"]
    assert not any(x.why for x in found.tried)
    assert found.best != "calls", "a chain of calls takes three times as long"
    for _ in range(3):
        assert outcome(compiled, given) == outcome(chain, given)
    assert len(compiled.kernels()) == (found.best == "generated")
    again = md.compile(chain).search(*given)
    assert again.is_kept and again.best == found.best
    assert "found earlier" in str(again)
    (kept,) = folder.glob("search-*.json")
    kept.write_text("{")
    assert not md.compile(chain).search(*given).is_kept, "a damaged file is a miss"


SECOND = """
import numpy as np, mdtensor as md
x = md.from_numpy(np.arange(900, dtype=np.float32))
print(md.compile(lambda x: md.relu(x * 0.5 + 1) - x).search(x).is_kept)
"""


@pytest.mark.slow
def test_row_a_second_process_searches_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = [
        subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True)
        for _ in range(2)
    ]
    assert runs[1].stdout == "True\n", runs[1].stderr


@pytest.mark.compiled
def test_few_turns_and_equal_ways_prove_nothing(folder: Any) -> None:
    clock = Clock()
    ways = {"default": clock.taking(1.0, md.exp), "other": clock.taking(0.5, md.exp)}
    assert search(md.exp, ways, [normal(8)], 6.5, clock).best == "default"
    # Loops of rows are not generated.
    found = md.compile(md.softmax).search(normal(40, 250))
    assert "generated" not in [x.name for x in found.tried]


def test_options_of_a_search() -> None:
    compiled = md.compile(chain)
    for wrong in (0, -1.0, True, "5", float("nan")):
        with pytest.raises(OptionError, match="seconds is"):
            compiled.search(normal(4), normal(4), seconds=wrong)
    with pytest.raises(OptionError, match="auto"):
        md.compile(chain, device="auto").search(normal(4), normal(4))
