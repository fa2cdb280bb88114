"""`mdtensor dispatch coverage --html`: the page, in a browser where there is one."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import plum
import pytest

import mdtensor as md
from mdtensor import dtypes, registry, tensor
from mdtensor.cli.dispatch.html import page
from mdtensor.cli.dispatch.lattice import draw

Call = Callable[..., Any]

PLANTED = '''
import mdtensor as md
import plum

dispatch = plum.Dispatcher()


@dispatch
def put(a: bool, b: int): ...


@dispatch
def put(a: int, b: bool): ...


@md.generic
def blend(x1, x2, /):
    """Halfway between `x1` and `x2`."""


@md.method(blend)
def blend(x1: md.RealTensor, x2: md.FloatingTensor, /):
    return x1


@md.method(blend)
def blend(x1: md.FloatingTensor, x2: md.RealTensor, /):
    return x1
'''
#: What a reader would see and could follow; written into the page in its place.
MEASURE = """
<script>
const all = (query) => [...document.querySelectorAll(query)];
const texts = (query) => all(query).map((e) => e.textContent);
const seen = {
  wide: document.documentElement.scrollWidth,
  window: window.innerWidth,
  spilt: all(".matrix td, .matrix th, .methods td").filter(
    (e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent),
  broken: all("a").map((a) => a.getAttribute("href")).filter(
    (h) => !h.startsWith("#") || !document.getElementById(h.slice(1))),
  fetched: performance.getEntriesByType("resource").map((e) => e.name),
  scripts: all("script").length,
  rows: texts(".matrix tbody th[scope=row]"),
  heads: texts(".matrix thead .kind"),
  articles: all("article h3").map((e) => e.firstChild.textContent),
  bad: texts(".bad"),
  cells: all(".matrix td a").map((a) => [a.title, a.textContent,
    document.getElementById(a.hash.slice(1))?.textContent ?? ""]),
  colours: all(".matrix a").concat(all("body")).map((e) =>
    [e.className, getComputedStyle(e).color, getComputedStyle(e).backgroundColor]),
  types: texts("svg text"),
};
document.body.textContent = "";
document.body.append(Object.assign(document.createElement("pre"),
  { id: "seen", textContent: JSON.stringify(seen) }));
</script>
"""


@pytest.fixture(scope="session")
def browser() -> Callable[..., str]:
    """`browser("--dump-dom", path)` is what a headless browser says."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"there is no browser: none of {', '.join(names)}")

    def run(*arguments: object) -> str:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        command = [found, *flags, "--window-size=1280,900", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def measured(browser: Call, path: Path, *flags: str) -> Any:
    """What a reader of the page sees, by a script in a copy of it."""
    copy = path.with_name("measured.html")
    copy.write_text(path.read_text().replace("</body>", f"{MEASURE}</body>"))
    dom = browser(*flags, "--dump-dom", copy.as_uri())
    (seen,) = re.findall(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
    return json.loads(unescape(seen))


@pytest.fixture
def planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> Iterator[Path]:
    """The page of an operation with a tie, of one without, and of one of plum."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("planted.py").write_text(PLANTED)
    with registry.restored():
        names = ("blend", "neg", "put", "--import", "planted")
        ended = call("dispatch", "coverage", *names, "--html", "page.html")
        assert ended == (0, "page.html: 3 functions\n", "")
        yield tmp_path / "page.html"
    sys.modules.pop("planted")


def is_red(colour: str) -> bool:
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return red > 1.5 * max(green, blue)


def assert_whole(seen: Any) -> None:
    """It fits a window of 1280 px, every link leads somewhere, nothing is fetched."""
    assert seen["window"] == 1280 and seen["wide"] <= 1280
    assert (seen["spilt"], seen["broken"], seen["fetched"]) == ([], [], [])
    assert seen["scripts"] == 1, "the one that measures"


def test_all_operations_are_on_the_page(
    browser: Call, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "all.html"
    with registry.restored():
        ended = call("dispatch", "coverage", "--html", path)
    assert (ended.code, ended.err) == (0, "")
    seen = measured(browser, path)
    assert_whole(seen)
    names = sorted(call.operation.name for call in md.operations().values())
    assert sorted(seen["rows"]) == names
    assert sorted(seen["articles"]) == names
    assert seen["heads"] == [str(leaf.dtype) for leaf in in_columns()]
    assert len(seen["cells"]) == len(names) * len(md.leaves())
    assert [text for text in seen["bad"] if text] == []
    assert set(seen["types"]) >= {"Tensor", "RealTensor", "QInt8Tensor"}
    for cell in md.support("exp") + md.support("add"):
        told = f"{cell.operation}, {cell.dtype}, {cell.device}: {cell.state}"
        (found,) = [each for each in seen["cells"] if each[0] == told]
        assert place_of(cell) in found[2]


def place_of(cell: Any) -> str:
    """The place of the method of a cell; its reason if it has none."""
    leaf = md.leaf(cell.dtype, cell.device)
    if cell.why:
        told = re.sub(rf"\b{leaf.__name__}\b", "T", cell.why)
        return str(told.partition(" Nearest: ")[0])
    operation = getattr(md, cell.operation)
    given = [leaf] * len(operation.operation.dispatched)
    return str(operation.select(*given).method.location)


def in_columns() -> list[Any]:
    """All leaves, those of one device side by side."""
    places = dict.fromkeys(leaf.device for leaf in md.leaves())
    return [leaf for place in places for leaf in md.leaves() if leaf.device is place]


@pytest.mark.parametrize("scheme", [1, 0], ids=["light", "dark"])
def test_what_is_ambiguous_is_red_and_has_a_name(
    browser: Call, planted: Path, scheme: int
) -> None:
    seen = measured(browser, planted, f"--blink-settings=preferredColorScheme={scheme}")
    assert_whole(seen)
    assert seen["rows"] == ["neg", "✖ blend"]
    told = [cell for cell in seen["cells"] if cell[0].endswith(": ambiguous")]
    assert {mark for _, mark, _ in told} == {"✖"}
    assert "blend, float32, cpu: ambiguous" in [title for title, _, _ in told]
    assert all("more than one method fits" in reason for _, _, reason in told)
    colours = {looks: colour for looks, colour, _ in seen["colours"]}
    assert is_red(colours["mark ambiguous"]) and not is_red(colours["mark runs"])
    ground = sum(map(int, re.findall(r"\d+", seen["colours"][-1][2])[:3]))
    assert (ground > 700) == (scheme == 1)
    words = " ".join(seen["bad"])
    assert "✖ 2 ambiguities" in words
    assert "blend(BFloat16Tensor, BFloat16Tensor): 2 methods fit equally well" in words
    assert "def blend(x1: FloatingTensor, x2: FloatingTensor, /): ..." in words
    assert "put(bool, bool): 2 methods fit equally well" in words
    assert {"✖ bool", "✖ BFloat16Tensor · CudaBFloat16Tensor"} <= set(seen["types"])


def test_it_can_be_printed(browser: Call, planted: Path) -> None:
    target = planted.with_name("page.pdf")
    browser("--no-pdf-header-footer", f"--print-to-pdf={target}", planted.as_uri())
    pages = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", target.read_bytes())
    assert pages and all(float(wide) > float(high) for wide, high in pages)


class Names(HTMLParser):
    """The elements of a page, each closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in ("col", "link", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def types() -> Iterator[None]:
    """Element types and classes of tensors, put back afterwards."""
    places: list[dict[Any, Any]] = [dtypes._REGISTRY, tensor._LEAVES]
    before = [dict(place) for place in places]
    yield
    for place, known in zip(places, before, strict=True):
        place.clear()
        place.update(known)


@pytest.mark.usefixtures("types")
def test_names_are_not_taken_for_html() -> None:
    """Types, functions and docstrings of strangers; element types are identifiers."""
    evil = "<script>alert('&')</script>"
    dispatch = plum.Dispatcher()
    other = type(evil, (), {})

    def put(a, b): ...

    put.__name__ = put.__qualname__ = evil
    with registry.restored():
        kind = md.DType("odd", "real floating", 32, "float32")
        body = {"__slots__": (), "__module__": __name__}
        type(evil, (md.FloatingTensor,), body, dtype=kind, device=md.cpu)

        @md.generic
        def twice(x, /):
            """<script>`<b>`</script>"""

        for types in ((other, object), (object, other)):
            dispatch.multi(types)(put)
        (function,) = dispatch.functions.values()
        text = page([md.neg, twice, function])
    assert "<script" not in text and "<b><" not in text
    assert text.count("&lt;script&gt;alert(&#39;&amp;&#39;)") > 10
    assert "script" not in Names(text).seen
    assert "✖ 1 ambiguity" in text


def test_functions_of_plum_have_no_table() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: int): ...

    text = page([put])
    assert 'class="matrix"' not in text and 'href="#table"' not in text
    assert "put(a: int)" in text and "✓ 0" in text
    Names(text)


def test_the_same_methods_give_the_same_bytes() -> None:
    assert page([md.add, md.conv2d]) == page([md.conv2d, md.add])


def test_types_are_drawn_once_and_linked_to_what_they_derive_from() -> None:
    top = type("Top", (), {})
    left, right = type("Left", (top,), {}), type("Right", (top,), {})
    both = type("Both", (left, right), {})
    drawn = draw({top, left, right, both}, {"Both"})
    names = [node.label for node in drawn.nodes]
    assert sorted(names) == ["Left", "Right", "Top", "✖ Both"]
    assert len(drawn.lines) == 4
    assert draw(set()).nodes == []
    scalars = [node.label for node in draw({np.int8, np.int16}).nodes]
    assert scalars == ["int16", "int8"], "they have a dtype, and no device"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gone/page.html", "gone/page.html cannot be written: No such file or dir"),
        (".", "OptionError: . cannot be written: it is a folder. Pass the name of"),
    ],
)
def test_a_place_that_cannot_be_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ended = call("dispatch", "coverage", "neg", "--html", place)
    assert (ended.code, ended.out) == (2, "") and words in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_replaced_whole_or_not_at_all(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    target = tmp_path / "page.html"
    target.write_text("precious")
    assert call("dispatch", "coverage", "neg", "--html", target).code == 0
    whole = target.read_bytes()
    assert whole.endswith(b"</html>\n")

    def full(self: Path, other: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    ended = call("dispatch", "coverage", "add", "--html", target)
    assert ended.code == 2 and "cannot be written: No space left" in ended.err
    assert target.read_bytes() == whole and [*tmp_path.iterdir()] == [target]
