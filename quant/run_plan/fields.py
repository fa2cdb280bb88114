"""Reads of a header that nobody vouches for: types and ranges are checked."""

from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

from mdtensor_run.errors import damaged

#: The most bytes, elements or steps of anything.
MOST = 1 << 40
#: Element types of values, by their names in a header.
ITEMS = {"float32": 4, "uint8": 1, "int8": 1, "bool": 1, "uint16": 2, "int16": 2}
ITEMS |= {"int32": 4, "int64": 8, "float64": 8}


class Fields:
    """An object of the header.

    Args:
        path: the file, for errors.
        found: the object.
        place: its place in the header, for errors.
    """

    def __init__(self, path: Any, found: Any, place: str) -> None:
        self._path, self._place, self._found = path, place, found
        if not isinstance(found, dict):
            self.refuse("is not an object")

    def refuse(self, problem: str) -> NoReturn:
        """Raise PlanError for this object."""
        raise damaged(self._path, f"{self._place} {problem}")

    def _get(self, name: str, kind: type) -> Any:
        value = self._found.get(name)
        # True would pass for 1.
        if type(value) is not kind:
            self.refuse(f"has no {name}")
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        found: str = self._get(name, str)
        return found

    def flag(self, name: str) -> bool:
        """Return True or False."""
        found: bool = self._get(name, bool)
        return found

    def size(self, name: str, least: int = 0) -> int:
        """Return an integer from `least` to MOST."""
        return self._checked(self._get(name, int), name, least)

    def _checked(self, value: Any, name: str, least: int) -> int:
        if type(value) is not int or not least <= value <= MOST:
            self.refuse(f"has a wrong number in {name}")
        return int(value)

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the sizes of a shape; their product is at most MOST."""
        values = self._get(name, list)
        found = tuple(self._checked(value, name, 0) for value in values)
        if len(found) > 32 or prod(max(size, 1) for size in found) > MOST:
            self.refuse(f"has a wrong shape in {name}")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._get(name, list)
        if not all(type(value) is str for value in values):
            self.refuse(f"has something else than texts in {name}")
        return tuple(values)

    def optional(self, name: str) -> "Fields | None":
        """Return an object, or None if there is none."""
        found = self._found.get(name)
        return None if found is None else Fields(self._path, found, name)

    def grid(self) -> dict[str, Any] | None:
        """Return the description of a grid, or None; whoever makes a grid checks it."""
        found = self._found.get("grid")
        if found is not None and not isinstance(found, dict):
            self.refuse("has a wrong grid")
        return found

    def each(self, name: str, make: Callable[["Fields"], Any]) -> list[Any]:
        """Return make(Fields) for each object of a list."""
        values = self._get(name, list)
        start = f"{self._place}.{name}" if self._place else name
        return [
            make(Fields(self._path, value, f"{start}[{i}]"))
            for i, value in enumerate(values)
        ]
