"""Benches declare operations; they are gone after each test."""

from collections.abc import Iterator

import pytest

from mdtensor import registry


@pytest.fixture(autouse=True)
def restored_registries() -> Iterator[None]:
    with registry.restored():
        yield
