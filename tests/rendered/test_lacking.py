"""What a device does not have: each operation says so, and the page lists them."""

import re
from pathlib import Path
from typing import Any

import pytest
from support import rendered_device, samples
from support.on_device import gpu, there

import mdtensor as md
from mdtensor.errors import NoMethodError

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cuda.md"


def lacking() -> dict[str, str]:
    """The operations without a method for their sample, and what each one says."""
    found = {}
    for name, operation in md.operations().items():
        if not name.startswith("mdtensor."):
            continue
        arguments, options = samples.sample(operation)
        moved: Any = {key: there(value) for key, value in options.items()}
        try:
            samples.call(operation, there(tuple(arguments)), moved)
        except NoMethodError as error:
            found[name.rpartition(".")[2]] = str(error)
    return found


@pytest.mark.compiled
def test_the_page_lists_what_runs_on_the_cpu_only() -> None:
    said = lacking()
    text = PAGE.read_text().partition("run on the CPU only:")[2].partition(". For")[0]
    listed = set(re.findall(r"`(\w+)`", text))
    fourier = {name for name in said if name.endswith(("fft", "fftn"))}
    assert "Fourier transforms" in text and "fft" in listed
    assert listed | fourier == said.keys()
    for name, message in said.items():
        assert name in message and f"no method for {gpu}" in message
        assert 'to("cpu")' in message
