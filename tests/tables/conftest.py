"""Operations that a test declares are gone after it."""

import pytest

from mdtensor import dispatch


@pytest.fixture(autouse=True)
def operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_OPERATIONS", dict(dispatch._OPERATIONS))
