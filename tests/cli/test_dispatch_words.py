"""`mdtensor dispatch` with words that make no sense: an answer, or one clear line."""

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from mdtensor import cli

COMMANDS = ["check", "dead", "overwrites", "piracy", "explain", "suggest", "methods"]
COMMANDS += ["methods-with", "coverage", "rule", "baseline write", "baseline diff"]
COMMANDS += ["baseline prune", "baseline", "", "nothing"]
WORDS = ["add", "linalg.solve", "sofmax", "", "*", "[", "[!", "add.", "..", ".", "..x"]
WORDS += ["mdtensor", "mdtensor.add", "int", "Float32Tensor", "None", "Any", "object"]
WORDS += ["Union[int, str]", "int|str", "list[int]", "a b", "a\nb", "\n", "\x00", "é"]
WORDS += ["\ud800", "%s", "{}", "1.2", "-1", "--", "-o", "--format", "json", "sarif"]
WORDS += ["--select", "MDT001", "--ignore", "mdt001,,", "--function", "--import", "os"]
WORDS += ["--import=", "--import=.", "--import=a.b.c", "nowhere", "--exact", "--html"]
WORDS += ["--baseline", "known.json", "/", "--fail-on", "never", "--strict-baseline"]
OTHER = st.characters(exclude_characters="/\\")  # nothing is written elsewhere
words = st.lists(st.sampled_from(WORDS) | st.text(OTHER, max_size=5), max_size=4)


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder to write into, and the path of modules as it was, afterwards."""
    path = [*sys.path]
    with contextlib.chdir(tmp_path_factory.mktemp("words")):
        yield
    sys.path[:] = path


@settings(max_examples=50)
@given(st.sampled_from(COMMANDS), words)
def test_whatever_is_typed(somewhere: None, command: str, words: list[str]) -> None:
    answered(command, words)


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.sampled_from(COMMANDS), words)
def test_whatever_is_typed_1000_times(
    somewhere: None, command: str, words: list[str]
) -> None:
    answered(command, words)


def answered(command: str, words: list[str]) -> None:
    """The command ends with a known code, and an error is one line."""
    out, err = io.StringIO(), io.StringIO()
    before = {*Path().iterdir()}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.execute(["dispatch", *command.split(), *words])
    assert code in range(5)
    if code in (2, 3):
        said = err.getvalue()
        assert said.startswith("mdtensor: ") and said.endswith(".\n")
        assert said.count("\n") == 1 and len(said) < 2000
        assert out.getvalue() == "" and {*Path().iterdir()} == before
