"""Operations that a test declares are gone after it."""

import pytest

from mdtensor.dispatch import operation


@pytest.fixture(autouse=True)
def operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_OPERATIONS", dict(operation._OPERATIONS))
