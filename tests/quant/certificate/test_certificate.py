"""The certificate: what it covers, what it hashes, and that it finds what is wrong."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from inspect import getmembers
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import (
    frames,
    kinds as numbers,
    products,
    step as plan,
    steps,
)
from mdtensor.kernels.cpu.program.elementwise import Elementwise, Where
from mdtensor.kernels.cpu.program.floats import FloatStep
from mdtensor.kernels.cpu.program.norms import Normalize
from mdtensor.kernels.cpu.program.plain import PlainStep
from mdtensor.kernels.cpu.program.products import Repeated
from mdtensor.kernels.cpu.program.recurrent import Recurrent
from mdtensor.kernels.cpu.program.reductions import MeanOfCodes
from mdtensor.kernels.cpu.program.row_words import WordLinear
from mdtensor.kernels.cpu.program.steps import Extreme, LookupChannels
from mdtensor.kernels.cpu.threads import split
from mdtensor.quant.certificate import case as draw, case as stepping, cases, verify
from mdtensor.quant.certificate.case import Case, digest
from mdtensor.quant.ops import bound
from mdtensor.quant.ops.weight_only import PackedLayer
from mdtensor.quant.presets.table import TABLE

CASES = cases.every_case()
#: `gemm_u8s8u8`: named by the types of its elements, an integer among them.
INTEGER_KERNEL = re.compile(r"_(f32)?([us]\d+)+(f32)?$")
#: Families whose sums are of floats: no rule says their bytes on every CPU.
SUMS_OF_FLOATS = {"float_matmul", "weight_only"}
#: Their results are layouts of one runway, which products read.
PACKERS = {"pack_s8", "pack_depthwise"}


def kernels_of(module: ModuleType) -> set[str]:
    """The integer kernels that a module defines."""
    own = getmembers(module, lambda x: getattr(x, "__module__", "") == module.__name__)
    return {n for n, _ in own if INTEGER_KERNEL.search(n) and n[0] != "_"} - PACKERS


def integer_kernels() -> set[str]:
    """Those of every family."""
    families = vars(kernel_set.families("generic")).items()
    found = (kernels_of(module) for n, module in families if n not in SUMS_OF_FLOATS)
    return set().union(*found)


@pytest.fixture(scope="module")
def ran() -> dict[str, Any]:
    """Every case on this process's runway: its results, and the steps that ran."""
    patch, seen = pytest.MonkeyPatch(), set()
    prepared = plan.Step.prepare

    def spy(step: Any, *shapes: Any) -> Any:
        seen.add(step)
        return prepared(step, *shapes)

    whole = Repeated.bound

    def spy_on_parts(step: Any, shape: Any) -> Any:
        seen.add(step)
        return whole(step, shape)

    # Calls that earlier tests have bound would prepare no step.
    patch.setattr(bound, "_CALLS", {})
    patch.setattr(plan.Step, "prepare", spy)
    patch.setattr(Repeated, "bound", spy_on_parts)
    results = [case.compute(1) for case in CASES]
    patch.undo()
    return {"results": results, "steps": seen}


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    return [case.oracle() for case in CASES]


def subclasses(kind: type) -> set[type]:
    """All classes below a class."""
    direct = kind.__subclasses__()
    return {*direct, *(c for d in direct for c in subclasses(d))}


#: Steps without a case, and why.
NO_CASE: dict[type, str] = {
    PackedLayer: "sums of floats; kernels/cpu/test_float_matmul.py compares their bytes"
}
# A case changes the published hash, so these wait for the next edition of it.
NO_CASE |= {
    Extreme: "kernels/cpu/test_extreme.py compares every pair of codes",
    Normalize: "kernels/cpu/test_norms.py compares exact fractions",
    LookupChannels: "quant/model/test_steps_of_codes.py compares every code",
    steps.Sub: "kernels/cpu/test_reduction_steps.py compares differences of codes",
    MeanOfCodes: "kernels/cpu/test_reduction_steps.py compares exact means",
    Where: "it is of floats; kernels/cpu/test_reduction_steps.py compares bytes",
    PlainStep: "kernels/cpu/test_plain.py compares the bytes of NumPy",
    Recurrent: "it is of floats; quant/model/test_recurrent.py compares layers",
    frames.Pad: "a join of constants; kernels/cpu/test_frames.py compares NumPy's pad",
    frames.Tile: "a take of rows; kernels/cpu/test_frames.py compares NumPy's tile",
    WordLinear: "kernels/cpu/test_row_words.py compares sums of Python integers",
}
#: Kernels of integers in the steps above.
WITHOUT_CASES = {"gemm_s16s8s32", "words_f32s16"}


def test_every_step_has_a_case(ran: dict[str, Any]) -> None:
    kinds = {step.kind for step in ran["steps"] if step.parts == (step,)}
    # Kinds of float32 follow; kernels/cpu/test_float_steps.py compares their bytes.
    without = {getattr(kind, "kind", None) for kind in NO_CASE}
    every = set(range(numbers.CONV_F32))
    # Which convolutions are products of windows is up to the ISA.
    kinds.discard(numbers.WINDOWS)
    # A step without a case may be of a kind that others have cases of.
    assert kinds == every - (without - kinds)
    ours = {c for c in subclasses(plan.Step) if c.__module__.startswith("mdtensor.")}
    ours -= {FloatStep, Elementwise, *subclasses(FloatStep), *NO_CASE}
    assert {type(step) for step in ran["steps"]} == ours


def made_for_plans() -> dict[str, set[type]]:
    """What each operation on codes or of codes can become in a plan, by its method."""
    found = {}
    for name in md.ops():
        for method in md.get_op(name).operation.methods:
            is_float = method.implementation.__module__.startswith("mdtensor.ops.")
            if method.prepare is not None and not is_float:
                made = get_type_hints(method.prepare)["return"]
                found[f"{name}, {method.location}"] = {*(get_args(made) or (made,))}
    return found


def test_every_operation_that_becomes_a_step_has_a_case(ran: dict[str, Any]) -> None:
    known = {type(step) for step in ran["steps"]} | set(NO_CASE)
    made = made_for_plans()
    assert set().union(*made.values()) >= {products.Conv2d, steps.Lookup, PackedLayer}
    assert {name: kinds - known for name, kinds in made.items() if kinds - known} == {}


def test_every_kernel_has_a_case(ran: dict[str, Any]) -> None:
    seen = {name for step in ran["steps"] for name in step.kernels}
    seen |= {case.kernel for case in CASES}
    seen |= {x for kind in NO_CASE for x in getattr(kind, "kernels", ())}
    seen |= WITHOUT_CASES
    assert {"gemm_u8s8u8", "lookup_u16"} < integer_kernels() <= seen


@pytest.mark.parametrize("rule", TABLE)
def test_every_operation_of_a_rule_has_a_case(rule: str) -> None:
    found = {re.split(r"[,:]", c.name)[0] for c in CASES if c.kernel == rule}
    assert found == {*TABLE[rule]}
    kinds = {tuple(c.name.rsplit(", ", 2)[1:]) for c in CASES if c.kernel == rule}
    assert kinds == {("qint8", "any scales"), ("quint8", "ties")}


def test_this_runway_gives_the_published_hash(ran: dict[str, Any]) -> None:
    found = digest(zip([c.title for c in CASES], ran["results"], strict=True))
    assert found == verify.WHOLE


@pytest.mark.compiled
def test_two_threads_give_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "PIECE_NANOSECONDS", split.PIECE_NANOSECONDS)
    stepping.split_short_steps()
    found = digest((case.title, case.compute(2)) for case in CASES)
    assert found == verify.WHOLE


def test_the_published_hashes_are_those_of_the_oracle(expected: list[Any]) -> None:
    pairs = list(zip(CASES, expected, strict=True))
    assert digest((c.title, e) for c, e in pairs) == verify.WHOLE
    assert digest((c.title, e) for c, e in pairs if c.is_quick) == verify.QUICK


def test_the_hash_is_as_defined() -> None:
    array = np.array([[1, -2]], ">i4")
    text = b"kernel: name int32 1x2\n\x01\0\0\0\xfe\xff\xff\xff"
    assert digest([("kernel: name", array)]) == hashlib.sha256(text).hexdigest()


def test_numbers_come_from_names() -> None:
    stream = hashlib.shake_256(b"mdtensor certificate 1: x").digest(12)
    words = [int.from_bytes(stream[i : i + 4], "little") for i in (0, 4, 8)]
    found = draw.integers("x", (3,), -128, 127)
    assert found.tolist() == [w % 256 - 128 for w in words]
    assert set(draw.ends("x", (50,), -128, 127).tolist()) == {-128, 127}


def test_the_page_shows_the_published_hash() -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "verify.md"
    assert page.read_text().count(verify.WHOLE) == 2


def of_results(results: list[Any], problem: str = "") -> verify.Run:
    return verify.Run("generic", 1, tuple(results), problem, 0.0)


def small(expected: list[Any]) -> tuple[Case, ...]:
    """Two cases with known results."""
    return tuple(
        replace(CASES[i], kernel=f"k{i}", name="n", oracle=lambda e=e: e)
        for i, e in enumerate(expected)
    )


GOOD = [np.array([[1, 2], [3, 4]], np.uint8), np.array([5.0, np.nan], np.float32)]


def judged(*given: verify.Run) -> verify.Verdict:
    two = small(GOOD)
    known = digest(zip([c.title for c in two], GOOD, strict=True))
    return verify.judge(two, given, known)


def test_equal_results_conform() -> None:
    found = judged(of_results(GOOD), of_results(GOOD))
    assert found.conforms and found.first is None
    assert [t.mismatches for t in found.tallies] == [(0, 0), (0, 0)]
    assert [(t.kernel, t.elements) for t in found.tallies] == [("k0", 4), ("k1", 2)]


def test_the_first_difference_is_named() -> None:
    bad = [np.array([[1, 2], [9, 9]], np.uint8), GOOD[1]]
    found = judged(of_results(GOOD), of_results(bad))
    assert not found.conforms
    assert found.first == verify.Difference("k0: n", 1, (1, 0), "3", "9")
    assert [t.mismatches for t in found.tallies] == [(0, 2), (0, 0)]


@pytest.mark.parametrize(
    ("wrong", "got"),
    [(GOOD[0].astype(np.int8), "int8[2,2]"), (GOOD[0][:1], "uint8[1,2]")],
)
def test_type_and_shape_count(wrong: Any, got: str) -> None:
    found = judged(of_results([wrong, GOOD[1]]))
    assert found.first == verify.Difference("k0: n", 0, (), "uint8[2,2]", got)


def test_zeros_of_both_signs_differ() -> None:
    assert verify.unequal(np.array([-0.0]), np.array([0.0])).all()
    assert not verify.unequal(np.zeros(0), np.zeros(0)).any()


def test_a_process_that_fails_does_not_conform() -> None:
    found = judged(of_results(GOOD), of_results([], "the process ended with -6"))
    assert not found.conforms and found.first is None
    assert found.hashes[1] == ""


def test_a_runway_that_cannot_run_says_why() -> None:
    for threads, found in enumerate(verify.compute(["sve"], True), 1):
        assert (found.runway, found.threads, found.results) == ("sve", threads, ())
        assert found.problem.startswith(
            "the process ended with 1: mdtensor.errors.OptionError"
        )
        assert "no such ISA" in found.problem


def test_each_case_is_told_when_it_is_computed() -> None:
    told: list[int | None] = []
    code = "import sys; print('a'); print('b'); sys.stderr.write('no'); sys.exit(3)"
    ended = verify.run_and_watch(
        [sys.executable, "-c", code], {}, lambda: told.append(None)
    )
    assert (ended, len(told)) == ((3, "no"), 2)
    verify.judge(cases.select_cases(True)[:2], (), "", told.append)
    assert len(told) == 4


def test_the_shares_of_a_certificate_come_to_its_cost() -> None:
    """Of a process that fails at once, too: a bar always ends where it should."""
    quick, told = cases.select_cases(True), list[int]()
    verify.compute(["sve"], True, told.append)
    assert sum(told) == sum(cases.costs(quick, 2))
    each, oracle = sum(told), cases.ORACLE * len(quick)
    assert verify.total_cost(True, False) == len(verify.runways(False)) * each + oracle


def test_a_kernel_costs_most_at_its_first_case() -> None:
    one, other = (replace(CASES[0], kernel=kernel) for kernel in ("k0", "k1"))
    given = (one, replace(one, name="m"), other)
    assert cases.costs(given, 2) == [200, 100, 1, 100, 1, 1, 1]


def test_runways_are_those_of_this_cpu() -> None:
    names = verify.runways(False)
    assert names[0] == "generic"
    assert all(not isa.lacking(name, isa.FEATURES) for name in names)
    emulated = set(verify.runways(True)) - set(names)
    lacking = set(isa.DOT_ISAS) - set(names)
    expected = set() if isa.IS_JIT_DISABLED else lacking
    assert emulated == {f"{name}-emulated" for name in expected}


def verified(environment: dict[str, str], *options: str) -> Any:
    """What `mdtensor verify` says in a process with these variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MDTENSOR_")}
    ended = subprocess.run(
        [sys.executable, "-m", "mdtensor", "verify", "--json", *options],
        env=clean | environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr or ended.stdout
    return json.loads(ended.stdout)


#: CPUs that numba is told to compile for: no vectors beyond SSE2; SSE4.2; AVX; AVX2
#: without fused multiply-add.
CPUS = {
    "generic": ("generic", ""),
    "nehalem": ("nehalem", "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"),
    "sandybridge": ("sandybridge", "+sse4.1,+sse4.2,+popcnt,+avx"),
    "haswell without fma": ("haswell", "+sse4.2,+popcnt,+avx,+avx2,-fma"),
}
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def as_cpu(name: str) -> dict[str, str]:
    if not IS_X86 and name != "generic":
        pytest.skip("a CPU of another kind")
    cpu, features = CPUS[name]
    return {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features}


@pytest.mark.compiled
def test_quick_hash_on_another_cpu() -> None:
    """The others, and all cases, are below: each compiles all kernels once more."""
    found = verified(as_cpu("generic"), "--quick")
    kinds = [(run["runway"], run["threads"]) for run in found["runs"]]
    assert kinds == [("generic", 1), ("generic", 2)]
    assert {run["hash"] for run in found["runs"]} == {verify.QUICK}


@pytest.mark.slow
@pytest.mark.parametrize("name", CPUS)
def test_hash_on_other_cpus(name: str) -> None:
    found = verified(as_cpu(name))
    assert {run["hash"] for run in found["runs"]} == {verify.WHOLE}


@pytest.mark.slow
def test_hash_of_every_runway_emulated_ones_too() -> None:
    found = verified({}, "--emulated")
    names = [run["runway"] for run in found["runs"] if run["threads"] == 2]
    assert names[0] == "generic"
    assert {name.removesuffix(isa.EMULATED) for name in names} >= {*isa.DOT_ISAS}
    assert {run["hash"] for run in found["runs"]} == {verify.WHOLE}
