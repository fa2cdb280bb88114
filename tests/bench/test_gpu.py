"""The run on a GPU: what it says without one."""

import pytest

import mdtensor as md
from bench import command, gpu


@pytest.mark.skipif(not md.cuda.missing, reason="there is a GPU")
def test_without_a_gpu_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.execute(["gpu"]) == gpu.NO_GPU == 3
    assert capsys.readouterr().err == f"no GPU: {md.cuda.missing}\n"


def test_the_page_of_runs_names_the_last_commit() -> None:
    kept = [path.name for path in gpu.KEPT.glob("*.json")]
    page = (gpu.KEPT / "README.md").read_text()
    assert ("verified on a GPU: none" in page) == (not kept)
