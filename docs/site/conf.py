"""Sphinx settings of the site: README and docs/ as they are, and an API reference.

    make site      # build/site/index.html

The source folder is the checkout, so that a link between two pages is the same path on
GitHub and in the site.
"""

import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "generate"))

import api  # noqa: E402

project = "mdtensor"
author = copyright = "The mdtensor developers"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
include_patterns += ["docs/*.md", "docs/**/*.md"]
# Sphinx walks the whole checkout, so folders without pages are left out by name.
exclude_patterns = [".*", "build", "dist", "bench", "kernels", "mdtensor", "quant"]
exclude_patterns += ["tests", "docs/how-to/extending", "docs/generate"]

myst_heading_anchors = 4
# A cell of a table may end in `|`, and a shell block may hold a prompt.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
toc_object_entries = False

html_theme = "furo"
html_title = "mdtensor"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

#: The sidebar: a caption, and pages or patterns of them.
SIDEBAR = {
    "Start": ["docs/index", "docs/numpy-and-torch"],
    "Tutorial": [
        "docs/tutorial/first-tensor",
        "docs/tutorial/first-type",
        "docs/tutorial/first-quantized-model",
    ],
    "How to": ["docs/how-to/*"],
    "Applications": ["docs/applications/index"],
    "Explanation": ["docs/explanation/*"],
    "Reference": ["docs/reference/*"],
    "API": ["docs/reference/api/*"],
    "Project": [
        "docs/decisions/README",
        "docs/gpu-runs/README",
        "docs/style",
        "CONTRIBUTING",
        "CHANGELOG",
    ],
}
PICTURE = re.compile(
    r'<picture>\s*<source [^>]*srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)


def sidebar() -> str:
    """Return the hidden tables of contents; GitHub would show them as code."""
    parts = []
    for caption, pages in SIDEBAR.items():
        known = [page for page in pages if "*" in page or is_page(page)]
        head = ["```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", ""]
        parts.append("\n".join([*head, *(f"/{page}" for page in known), "```"]))
    return "\n\n".join(parts)


def is_page(name: str) -> bool:
    return (ROOT / f"{name}.md").exists()


def both_pictures(match: re.Match[str]) -> str:
    """Return the light and the dark picture; the theme shows the one that fits."""
    return "\n\n".join(
        f"```{{image}} {match[mode]}\n:alt: {match['alt']}\n:class: only-{mode}\n```"
        for mode in ("light", "dark")
    )


def adapt(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace what GitHub and Sphinx write differently."""
    source[0] = PICTURE.sub(both_pictures, source[0])
    if name == root_doc:
        source[0] += f"\n\n{sidebar()}\n"
    if name == "docs/decisions/README":
        pages = "```{toctree}\n:hidden:\n:glob:\n\n/docs/decisions/0*\n```"
        source[0] += f"\n\n{pages}\n"


def write_api(app: Sphinx) -> None:
    """Write the API reference before Sphinx looks for pages."""
    api.write(ROOT / "docs" / "reference" / "api")


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Show the README at the address of the folder."""
    if error is None:
        shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_api)
    app.connect("source-read", adapt)
    app.connect("build-finished", add_index)
