"""Jinja templates of HTML pages, with every value escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render(path: Path, **values: Any) -> str:
    """Return the page that the template at `path` makes of these values.

    Values are escaped, as names and signatures may contain "<" and "&"; Markup is not.
    """
    # Imported late: only pages need jinja2.
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page: str = environment.get_template(path.name).render(values)
    return page
