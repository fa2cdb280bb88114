"""The built site: every link leads somewhere, and every page fits its screen.

`make site` builds it and then runs these tests.
"""

import os
import shutil
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Attributes that make a browser fetch something without a click.
FETCHED = {("img", "src"), ("script", "src"), ("source", "srcset"), ("iframe", "src")}
SIZES = {"phone": (390, 844), "desktop": (1280, 800)}


class Links(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        is_style = "stylesheet" in given.get("rel", "") or "icon" in given.get(
            "rel", ""
        )
        if tag == "link" and is_style:
            self.loaded.append(given["href"])
        self.loaded += [given[name] for name in given if (tag, name) in FETCHED]


@cache
def read(path: Path) -> Links:
    return Links(path.read_text())


def pages() -> list[Path]:
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: run make site")
    return sorted(SITE.rglob("*.html"))


def problem(page: Path, link: str) -> str | None:
    """Return what is wrong with an internal link of a page."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"{page.relative_to(SITE)}: {link} is missing"
    if target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        return f"{page.relative_to(SITE)}: {link} names no anchor"
    return None


def test_every_link_and_anchor_exists() -> None:
    found = [problem(page, link) for page in pages() for link in read(page).links]
    assert len(found) > 1000
    assert [text for text in found if text] == []


def test_every_loaded_file_is_in_the_site() -> None:
    loaded = [(page, url) for page in pages() for url in read(page).loaded]
    assert [url for _, url in loaded if urlsplit(url).netloc] == []
    found = [problem(page, url.partition("?")[0]) for page, url in loaded]
    assert [text for text in found if text] == []


def test_a_broken_link_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.SITE", tmp_path)
    page = tmp_path / "index.html"
    page.write_text('<h1 id="here"></h1><a href="gone.html"></a>')
    assert problem(page, "gone.html") == "index.html: gone.html is missing"
    assert problem(page, "#there") == "index.html: #there names no anchor"
    assert problem(page, "#here") is None


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    # A container runs as root, where Chromium refuses its own sandbox.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program, args=flags)
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_opens_fits_and_stays_in_the_site(
    browser: Any, size: str, scheme: str
) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme
    )
    tab = context.new_page()
    outside: list[str] = []
    errors: list[str] = []
    tab.on("request", lambda r: outside.append(r.url) if is_outside(r.url) else None)
    tab.on("requestfailed", lambda r: errors.append(f"not loaded: {r.url}"))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    wide = []
    for page in pages():
        tab.goto(page.as_uri())
        if tab.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(str(page.relative_to(SITE)))
    context.close()
    assert (outside, errors, wide) == ([], [], [])


def is_outside(url: str) -> bool:
    return not url.startswith((SITE.as_uri(), "data:", "blob:"))


def test_the_search_finds_a_function(browser: Any) -> None:
    pages()
    tab = browser.new_page()
    tab.goto(f"{(SITE / 'search.html').as_uri()}?q=conv2d")
    tab.wait_for_selector("#search-results li a", timeout=30_000)
    found = tab.locator("#search-results li a").all_inner_texts()
    assert any("convolution" in text for text in found)
    tab.close()
