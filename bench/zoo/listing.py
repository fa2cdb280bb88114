"""The list of models: package, file, licence, family and inputs, from `models.toml`."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("models.toml")


@dataclass(frozen=True)
class Package:
    """A package of the registry.

    Args:
        name, version, licence: as the registry has them.
        wheel_for: `python` and `platform` of the wheel, if it must be one of these.
    """

    name: str
    version: str
    licence: str
    wheel_for: Mapping[str, str] = field(default_factory=dict)

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Entry:
    """A model of the list.

    Args:
        package: the package that contains it.
        name: the name here, which `--row` takes.
        family: what it does: faces, wake words.
        file: the path in the package.
        sha256: the hash of the file.
        inputs: sizes and data of each input, see `samples`; the rest as in the file.
        constants: inputs that are fixed when the model is loaded.
    """

    package: Package
    name: str
    family: str
    file: str
    sha256: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_tflite(self) -> bool:
        return self.file.endswith(".tflite")


def entries(pattern: str = "*") -> list[Entry]:
    """Return the entry of this name, or those whose name fits the glob pattern."""
    found = list(_read())
    exact = [entry for entry in found if entry.name == pattern]
    return exact or [entry for entry in found if fnmatchcase(entry.name, pattern)]


def _read() -> Iterator[Entry]:
    for kept in tomllib.loads(LIST.read_text())["packages"]:
        models = kept.pop("models")
        package = Package(**kept)
        for model in models:
            yield Entry(package, **model)
