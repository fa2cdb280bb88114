"""Loops over users' functions are cached on disk by what their functions are."""

import math
import os
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from support.forks import Forks

from mdtensor.kernels.cpu.user import cache
from mdtensor.kernels.cpu.user.identity import content, identity

PRELUDE = "import mdtensor as md, numba; numba.njit(lambda x: x + 1)(1)"
#: One process: define functions from a text, call them, print results and counts.
CALLS = """
import sys, types
import mdtensor as md
from mdtensor.kernels.cpu.compilation import Watch
module = types.ModuleType(sys.argv[1])
exec(compile(sys.argv[2], "user.py", "exec"), vars(module))
with Watch() as watch:
    print(*module.run())
print(watch.counts.compiled, watch.counts.loaded)
"""
ELEMENTWISE = """
import mdtensor as md
FACTOR = {factor}
@md.elementwise
def scaled(x, y):
    return FACTOR * x + int(y)
def run():
    x = md.asarray([1.0, 2.0, 3.0])
    return scaled(x, x).tolist()
"""
FOR_EACH = """
import mdtensor as md
def run():
    steps = {factor}
    def move(i, x, y):
        y[i] = x[i] * steps
    x, y = md.asarray([[1.0, 2.0], [3.0, 4.0]]), md.zeros((2, 2))
    md.for_each(x.size, move, md.flat_in(x), md.flat_out(y))
    return [v for row in y.tolist() for v in row]
"""
WITH_HELPER = """
import mdtensor as md, numba
@numba.njit
def helper(x):
    if x < 0:
        raise ValueError("negative")
    return x * {factor}
@md.elementwise
def scaled(x):
    return helper(x)
def run():
    return scaled(md.asarray([1.0, 2.0])).tolist()
"""
UNKNOWN = """
import mdtensor as md, collections
P = collections.namedtuple("P", "a")
p = P(1)
@md.elementwise
def scaled(x):
    return x * {factor} * p.a
def run():
    return scaled(md.asarray([1.0, 2.0])).tolist()
"""


@pytest.fixture(scope="module")
def forks():
    with Forks(PRELUDE) as server:
        yield server


@pytest.fixture
def run(forks, tmp_path):
    """`run(text)`: (results, compiled functions, loaded ones) of a new process."""

    def run(text, factor=2.0, module="made_up"):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        given = [module, text.format(factor=factor)]
        code, words, log = forks.run(CALLS, given, environment)
        assert code == 0, log
        results, counts = words.splitlines()
        return [float(x) for x in results.split()], *map(int, counts.split())

    return run


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("module", ["made_up", "__main__"])
@pytest.mark.parametrize("text", [ELEMENTWISE, FOR_EACH], ids=["elementwise", "index"])
def test_a_second_process_compiles_nothing(text, module, run):
    first, compiled, _ = run(text, module=module)
    assert compiled
    second, compiled, loaded = run(text, module=module)
    assert second == first
    assert compiled == 0
    assert loaded


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize(
    "text", [ELEMENTWISE, FOR_EACH, WITH_HELPER], ids=["global", "closure", "helper"]
)
def test_another_constant_is_another_loop(text, run):
    first, *_ = run(text, 2.0)
    second, compiled, _ = run(text, 4.0)
    assert compiled
    assert second != first
    assert run(text, 2.0)[0] == first


@pytest.mark.compiled
def test_a_helper_of_a_module_that_nobody_can_import(run):
    first, *_ = run(WITH_HELPER)
    assert run(WITH_HELPER)[0] == first == [2.0, 4.0]


@pytest.mark.compiled
def test_what_bytes_do_not_describe_is_compiled_in_each_process(run, tmp_path):
    assert run(UNKNOWN)[0] == [2.0, 4.0]
    assert not list(tmp_path.rglob(f"{cache.PREFIX}*"))


@pytest.mark.compiled
def test_damaged_files_are_compiled_again(run, tmp_path):
    first, *_ = run(ELEMENTWISE)
    for file in tmp_path.rglob(f"{cache.PREFIX}*"):
        file.write_bytes(file.read_bytes()[:-9])
    second, compiled, _ = run(ELEMENTWISE)
    assert second == first
    assert compiled
    assert run(ELEMENTWISE)[1] == 0


@pytest.mark.compiled
def test_the_oldest_files_go(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "MOST_FILES", 3)
    monkeypatch.setattr(cache.jit, "cache_folder", lambda: tmp_path)
    for number in range(5):
        (tmp_path / f"{cache.PREFIX}{number}").write_bytes(b"")
        os.utime(tmp_path / f"{cache.PREFIX}{number}", (number, number))
    (tmp_path / "kernel").write_bytes(b"")
    dynamic = SimpleNamespace(lifted=True)
    cache.LoopCache(scale, b"").save_overload((), dynamic)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "kernel",
        *(f"{cache.PREFIX}{number}" for number in (2, 3, 4)),
    ]


def test_a_folder_that_this_user_may_not_enter(monkeypatch):
    plain = os.stat

    def stat(path, *arguments, **options):
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(cache.jit, "read_folders", lambda: (Path("/locked"),))
    codegen = SimpleNamespace(magic_tuple=lambda: ())
    assert not cache.LoopCache(scale, b"").holds((), codegen)


FACTOR = 2


def scale(x):
    return FACTOR * x


def of(text, **values):
    """The function `f` that a text defines, where `values` are global."""
    space = {"np": np, "math": math, "numba": numba, **values}
    exec(compile(text, "user.py", "exec"), space)
    return space["f"]


#: Pairs of (text, values) whose functions compile to different code.
DIFFERENT = {
    "code": (("def f(x): return x + 1", {}), ("def f(x): return x - 1", {})),
    "constant": (("def f(x): return x + 1", {}), ("def f(x): return x + 1.0", {})),
    "zero": (("def f(x): return x * 0.0", {}), ("def f(x): return x * -0.0", {})),
    "global": (("def f(x): return a", {"a": 1}), ("def f(x): return a", {"a": True})),
    "array": (
        ("def f(x): return a[0]", {"a": np.array([1, 2])}),
        ("def f(x): return a[0]", {"a": np.array([1, 3])}),
    ),
    "shape": (
        ("def f(x): return a[0]", {"a": np.zeros((2, 3))}),
        ("def f(x): return a[0]", {"a": np.zeros((3, 2))}),
    ),
    "tuple": (
        ("def f(x): return a[0]", {"a": (1, 2)}),
        ("def f(x): return a[0]", {"a": (1, 2.0)}),
    ),
    "default": (("def f(x, y=1): return x", {}), ("def f(x, y=2): return x", {})),
    "name": (("def f(x): return np.sin(x)", {}), ("def f(x): return np.cos(x)", {})),
    "function": (
        ("def f(x): return g(x)", {"g": math.sin}),
        ("def f(x): return g(x)", {"g": math.cos}),
    ),
    "inner": (
        ("def f(x):\n def g(y): return y + 1\n return g(x)", {}),
        ("def f(x):\n def g(y): return y + 2\n return g(x)", {}),
    ),
    "options": (
        ("@numba.njit\ndef g(x): return x\ndef f(x): return g(x)", {}),
        ("@numba.njit(fastmath=True)\ndef g(x): return x\ndef f(x): return g(x)", {}),
    ),
    "helper": (
        ("@numba.njit\ndef g(x): return x\ndef f(x): return g(x)", {}),
        ("@numba.njit\ndef g(x): return -x\ndef f(x): return g(x)", {}),
    ),
    "line": (("def f(x): return x", {}), ("\ndef f(x): return x", {})),
}


@pytest.mark.compiled
@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_different_functions_have_different_content(pair):
    (one, ones), (other, others) = pair
    assert content(of(one, **ones)) not in (None, content(of(other, **others)))
    assert content(of(one, **ones)) == content(of(one, **ones))
    # Within a process the caller gives the defaults as arguments.
    if one.replace("y=1", "y=2") != other:
        assert identity(of(one, **ones)) != identity(of(other, **others))


@pytest.mark.parametrize(
    "value",
    [object(), SimpleNamespace(a=1), {1: 2}, np.array([None]), lambda: SimpleNamespace],
    ids=["object", "instance", "dict", "objects", "function"],
)
def test_values_that_bytes_do_not_describe(value):
    space = {"a": value, "SimpleNamespace": SimpleNamespace}
    assert content(of("def f(x): return a", **space)) is None


@pytest.mark.compiled
def test_a_function_that_calls_itself():
    text = "@numba.njit\ndef f(x): return 1 if x < 1 else f(x - 1)"
    assert content(of(text).py_func) == content(of(text).py_func) is not None


def test_a_name_that_was_replaced_in_a_module_is_not_known(monkeypatch):
    function = of("def f(x): return math.sin(x)")
    assert content(function) is not None
    monkeypatch.setattr(math, "sin", SimpleNamespace())
    assert content(function) is None
