"""What is proposed runs where it is pasted: in the module of the method."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mdtensor.diagnose import analyze, plan, suggest
from mdtensor.dispatch import operation

ELSEWHERE = """
class Far: ...
class Near(Far): ...
class Box:
    class Lid: ...
"""
MARKET = """
import collections.abc
import typing as t
import numpy as np
import plum
import mdtensor as md
import elsewhere
from elsewhere import Near as Close

d = plum.Dispatcher()

class Outer:
    class In: ...

@d
def modules(a: np.ndarray, b: object): ...
@d
def modules(a: object, b: md.FloatingTensor): ...

@d
def nested(a: Outer.In, b: elsewhere.Far): ...
@d
def nested(a: object, b: Close): ...

@d
def abstract(a: collections.abc.Sequence, b: object): ...
@d
def abstract(a: object, b: t.Union[int, str, None]): ...

@md.generic
def blend(x1: t.Any, x2: t.Any, /) -> t.Any:
    "Two of them."
@md.method(blend)
def blend(x1: md.FloatingTensor, x2: md.NumericTensor, /): ...
@md.method(blend)
def blend(x1: md.NumericTensor, x2: md.FloatingTensor, /): ...
"""
FIXES = {
    "modules": "@d\ndef modules(a: np.ndarray, b: md.FloatingTensor): ...",
    "nested": "@d\ndef nested(a: Outer.In, b: Close): ...",
    "abstract": (
        "@d\ndef abstract(a: collections.abc.Sequence, b: t.Union[None, int, str]): ..."
    ),
    "blend": (
        "@md.method(blend)\n"
        "def blend(x1: md.FloatingTensor, x2: md.FloatingTensor, /): ..."
    ),
}
Write = Callable[[str, str], ModuleType]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Modules and operations that are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(operation, "_OPERATIONS", operation.operations())
    names = []

    def written(name: str, text: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield written
    for name in names:
        del sys.modules[name]


def test_a_fix_is_spelled_as_its_module_spells(write: Write) -> None:
    write("elsewhere", ELSEWHERE)
    market = write("market", MARKET)
    for name, fix in FIXES.items():
        (finding,) = analyze(getattr(market, name)).of("MDT001")
        assert finding.fix == fix
        exec(fix, vars(market))
        assert analyze(getattr(market, name)).of("MDT001") == ()


def test_headers_are_spelled_so_too(write: Write) -> None:
    elsewhere, market = write("elsewhere", ELSEWHERE), write("market", MARKET)
    ((header,),) = plan(market.nested).values()
    assert header == "def nested(a: Outer.In, b: Close): ..."
    said = suggest(market.modules, int, elsewhere.Near).header
    assert said == "def modules(a: int, b: Close): ..."


def test_what_is_bound_nowhere_is_imported(write: Write) -> None:
    write("elsewhere", ELSEWHERE)
    write("market", "import plum\nd = plum.Dispatcher()\n@d\ndef put(a, b): ...")
    first = """
from typing import Union
from elsewhere import Box, Near
from market import put
@put.dispatch
def put(a: Union[Near, Box.Lid], b: object): ...
"""
    second = "from market import put as p\n@p.dispatch\ndef put(a: object, b: int): ..."
    write("first", first)
    last = write("last", second)
    (finding,) = analyze(last.p).of("MDT001")
    assert finding.fix.splitlines() == [
        "from elsewhere import Box, Near",
        "from typing import Union",
        "@put.dispatch",
        "def put(a: Union[Box.Lid, Near], b: int): ...",
    ]
    exec(finding.fix, vars(last))
    assert analyze(last.p).of("MDT001") == ()
