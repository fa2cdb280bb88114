"""Small faults in kernels, grids and readers: the tests of their folder notice them."""

import os
from pathlib import Path

import pytest
from support.mutants import copy_checkout, mutants, passes, survivors

#: Faults of each file, and the tests that shall notice them, without compilation.
TARGETS: dict[str, tuple[int, tuple[str, ...]]] = {
    "kernels/rescale.py": (10, ("tests/kernels/test_rescale.py",)),
    "kernels/observe.py": (8, ("tests/kernels/test_observe.py",)),
    "kernels/numpy/threads.py": (8, ("tests/ops/test_parallel_for.py",)),
    "kernels/presets/tflite.py": (8, ("tests/kernels/presets",)),
    "kernels/presets/ort.py": (6, ("tests/kernels/presets",)),
    "quant/grids/combine.py": (8, ("tests/quant/grids",)),
    "quant/qparams_checks.py": (
        8,
        ("tests/quant/test_qparams.py", "tests/quant/test_odd_arguments.py"),
    ),
    "quant/lookup/table.py": (8, ("tests/quant/lookup/test_table.py",)),
    "mdtensor/safetensors/file.py": (10, ("tests/safetensors",)),
    "mdtensor/safetensors/parts.py": (6, ("tests/safetensors",)),
    "quant/gguf/file.py": (10, ("tests/quant/gguf",)),
    "quant/gguf/blocks.py": (6, ("tests/quant/gguf",)),
    "quant/model/onnx/files.py": (6, ("tests/quant/model/test_files.py",)),
    "mdtensor/files.py": (8, ("tests/test_files.py",)),
}
#: The least share of faults that tests notice. Some faults change no result.
FLOOR = 0.8
#: Seconds of the tests of one fault; a loop without an end counts as noticed.
MOST_SECONDS = 300.0


@pytest.mark.slow
def test_small_faults_are_noticed(tmp_path: Path) -> None:
    """Print the score; it must not fall below the floor."""
    work = [
        (mutant, tests)
        for path, (count, tests) in TARGETS.items()
        for mutant in mutants(path, count)
    ]
    count = min(4, len(os.sched_getaffinity(0)))
    places = [copy_checkout(tmp_path / str(number)) for number in range(count)]
    alive = survivors(work, places, MOST_SECONDS)
    score = 1 - len(alive) / len(work)
    print(f"\n{len(work) - len(alive)} of {len(work)} faults were noticed, but not:")
    print(*alive, sep="\n")
    assert score >= FLOOR


@pytest.mark.slow
@pytest.mark.parametrize("tests", sorted({tests for _, tests in TARGETS.values()}))
def test_without_a_fault_the_tests_pass(tests: tuple[str, ...], tmp_path: Path) -> None:
    """Otherwise every fault would seem to be noticed."""
    assert passes(copy_checkout(tmp_path), tests, 2 * MOST_SECONDS)


def test_a_fault_is_one_change_of_one_line() -> None:
    for path in TARGETS:
        for mutant in mutants(path, 5):
            assert mutant.before != mutant.after
            assert "\n" not in mutant.after
    assert mutants("kernels/rescale.py", 5) == mutants("kernels/rescale.py", 5)
