"""No tuple of types leaves a call undecided: the tables of all operations are sound."""

import itertools
import subprocess
import sys

import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.diagnose.report import study_of

TYPES = [*md.leaves(), bool, int, float, complex, type(None)]
OURS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
UNARY = [f for f in OURS if len(f.operation.dispatched) == 1]
CHECKED = [md.add, md.matmul]


def test_nothing_is_found_in_our_operations(tmp_path):
    """In a fresh process, where no test has registered anything."""
    script = """
import mdtensor.quant
from mdtensor import diagnose
report = diagnose.analyze()
print(len(report.functions), *report.at_least("warning"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) > 200, done.stdout
    assert done.stderr == ""


def selected(function, types):
    """The implementation that a call runs; None if several tie or none fits."""
    try:
        return function.select(*types).method.implementation
    except md.DispatchError as error:
        return "tie" if "more than one" in error.problem else None


def answered(study, types):
    """The same, read off the tables of the checker."""
    table = next(iter(study.tables.values()))[len(types)]
    mask = table.mask(types)
    if not mask:
        return None
    answer = table.answer(mask)
    return table.methods[answer.winner].implementation if answer.winner >= 0 else "tie"


@pytest.mark.parametrize("function", CHECKED, ids=lambda f: f.__name__)
def test_the_checker_answers_every_pair_as_calls_do(function):
    study = study_of(function, TYPES)
    for types in itertools.product(TYPES, repeat=2):
        found = selected(function, types)
        assert found == answered(study, types)
        assert found != "tie"


def test_the_checker_answers_every_type_as_calls_do():
    for function in UNARY:
        study = study_of(function, TYPES)
        for cls in TYPES:
            assert selected(function, (cls,)) == answered(study, (cls,)), function


def test_quantized_types_are_among_them():
    ours = {kind for kind in TYPES if issubclass(kind, quant.QuantizedTensor)}
    here = {kind for kind in ours if kind.device is md.cpu}
    assert len(here) == 8 and quant.QInt4Tensor in here
    assert {kind.__name__ for kind in ours - here} >= {"CudaQInt8Tensor"}
