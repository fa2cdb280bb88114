"""Write the API reference from the docstrings: a page for each family or module.

    python docs/generate/api.py FOLDER

`make site` calls it. The pages are not kept in git, so a change of one docstring is a
change of one file.
"""

import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mdtensor as md

#: Modules with public names of their own, and the title of their page.
MODULES = {
    "mdtensor.quant": "Quantization: mdtensor.quant",
    "mdtensor.linalg": "Linear algebra: mdtensor.linalg",
    "mdtensor.fft": "Fourier transforms: mdtensor.fft",
    "mdtensor.extend": "Extension packages: mdtensor.extend",
    "mdtensor.tables": "Dispatch tables: mdtensor.tables",
    "mdtensor.wide": "106-bit numbers: mdtensor.wide",
    "mdtensor.safetensors": "Files: mdtensor.safetensors",
    "mdtensor.checking": "Checked arithmetic: mdtensor.checking",
    "mdtensor.registry": "Methods by device: mdtensor.registry",
    "mdtensor.diagnose": "Diagnostics: mdtensor.diagnose",
    "mdtensor.conformance": "Device tests: mdtensor.conformance",
    "mdtensor.errors": "Errors: mdtensor.errors",
}
#: Families whose name in the source is short.
FAMILIES = {
    "conv": "convolution",
    "linalg": "linear algebra",
    "matmul": "matrix products",
    "parts": "real and imaginary parts",
    "pool": "pooling",
    "scan": "cumulative sums",
}
SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example|Examples|Source):(.*)$")
PACKAGES = "mdtensor|numpy|typing|collections|pathlib"
QUALIFIED = re.compile(rf"\b(?:{PACKAGES})\.[\w.]*?(\w+)\b(?![.])")
ITEM = re.compile(r"^(?P<names>[\w*][\w*, .]*): (?P<text>.*)$", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public name and the object behind it."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def public(module: types.ModuleType) -> Iterator[Entry]:
    """Yield the functions and classes that a module offers."""
    names = getattr(module, "__all__", None) or [
        name for name in dir(module) if not name.startswith("_")
    ]
    for name in sorted(set(names), key=str.lower):
        value = getattr(module, name)
        ours = getattr(value, "__module__", "") or ""
        if callable(value) and ours.startswith("mdtensor"):
            yield Entry(module.__name__, name, value)


def pages() -> dict[str, tuple[str, list[Entry]]]:
    """Return title and entries of each page, by the name of its file."""
    found: dict[str, tuple[str, list[Entry]]] = {}
    for entry in public(md):
        family, title = family_of(entry.value)
        found.setdefault(family, (title, []))[1].append(entry)
    for module, title in MODULES.items():
        entries = list(public(importlib.import_module(module)))
        found[module.replace(".", "-")] = (title, entries)
    return {name: found[name] for name in sorted(found)}


def family_of(value: Any) -> tuple[str, str]:
    """Return the page and the title for a name of mdtensor itself."""
    operation = getattr(value, "operation", None)
    if not isinstance(value, type) and operation is not None:
        family = operation.category
        return family, f"Functions: {FAMILIES.get(family, family)}"
    if isinstance(value, type) and issubclass(value, Exception):
        return "exceptions", "Exceptions"
    if isinstance(value, type) and issubclass(value, md.Tensor):
        return "tensor-types", "Tensor types"
    if isinstance(value, type):
        return "classes", "Other classes"
    return "tools", "Tools: types, dispatch, devices"


def page(title: str, entries: list[Entry]) -> str:
    parts = [f"# {title}"]
    for entry in entries:
        parts.append(described(entry))
    return "\n\n".join(parts) + "\n"


def described(entry: Entry) -> str:
    """Return the section of a name: signature, docstring, and methods of a class."""
    parts = [f"## {entry.path}", f"```py\n{signature(entry.name, entry.value)}\n```"]
    parts.append(markdown(own_doc(entry.value)))
    if isinstance(entry.value, type) and not issubclass(entry.value, md.Tensor):
        for name, method in sorted(vars(entry.value).items()):
            plain = inspect.unwrap(getattr(method, "__func__", method))
            if not name.startswith("_") and inspect.isfunction(plain):
                shown = signature(f"{entry.name}.{name}", plain)
                text = markdown(own_doc(plain))
                parts.append(f"```py\n{shown}\n```\n\n{text}".rstrip())
    return "\n\n".join(part for part in parts if part)


def own_doc(value: Any) -> str:
    """Return the docstring of the object itself, not the one of a base class."""
    doc = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    return inspect.cleandoc(doc) if isinstance(doc, str) else ""


def signature(name: str, value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (ValueError, TypeError):
        return name
    # Types decide at run time: `Any` in a declaration tells a reader nothing.
    text = QUALIFIED.sub(r"\1", text.replace("'", ""))
    text = re.sub(r": Any\b(?! \|)| -> (Any|None)$", "", text)
    # An object as a default value shows its address, which differs in each build.
    text = re.sub(r"<(\w+)[^<>]* at 0x[0-9a-f]+>", r"<\1>", text)
    return folded(f"{name}{text}")


def folded(text: str) -> str:
    """Break a long signature after its commas."""
    if len(text) <= 72:
        return text
    return "\n".join(textwrap.wrap(text, 72, subsequent_indent="    "))


def markdown(doc: str) -> str:
    """Return a docstring as Markdown: sections as bold words, examples as code."""
    parts: list[str] = []
    for name, lines in sections(doc.splitlines()):
        body = textwrap.dedent("\n".join(lines)).strip("\n")
        if name in ("Args", "Raises"):
            body = items(body)
        elif name in ("Example", "Examples"):
            body = fenced(body)
        else:
            body = prose(body)
        parts.append(f"**{name}**\n\n{body}" if name else body)
    return "\n\n".join(part for part in parts if part.strip())


def sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    name, found = "", list[str]()
    for line in lines:
        match = SECTION.match(line)
        if match:
            yield name, found
            name, found = match[1], [match[2].strip()] if match[2].strip() else []
        else:
            found.append(line)
    yield name, found


def items(body: str) -> str:
    """Return a list with one entry for each argument or exception."""
    joined: list[str] = []
    for line in body.splitlines():
        if line[:1] == " " and joined:
            joined[-1] += f" {line.strip()}"
        elif line.strip():
            joined.append(line.strip())
    return "\n".join(f"- {ITEM.sub(bold_names, escaped(line))}" for line in joined)


def bold_names(match: re.Match[str]) -> str:
    names = match["names"].replace("*", "\\*")
    return f"**{names}**: {match['text']}"


def prose(body: str) -> str:
    """Return paragraphs; indented ones are formulas or code."""
    blocks = re.split(r"\n\s*\n", body)
    return "\n\n".join(map(block, filter(str.strip, blocks)))


def block(text: str) -> str:
    if ">>>" in text:
        return fenced(text)
    if all(line.startswith("    ") for line in text.splitlines()):
        return f"```text\n{textwrap.dedent(text)}\n```"
    return escaped(text)


def fenced(body: str) -> str:
    return f"```pycon\n{textwrap.dedent(body)}\n```"


def escaped(text: str) -> str:
    """Return text whose marks outside of code are plain characters."""
    pieces = text.split("`")
    pieces[::2] = [re.sub(r"([*_<\[\]|])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def write(folder: Path) -> None:
    """Write all pages into a folder; pages of names that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {f"{name}.md": page(*content) for name, content in pages().items()}
    for path in folder.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        # An unchanged page keeps its time, and Sphinx does not read it again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
