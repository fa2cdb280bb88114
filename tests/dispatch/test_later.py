"""Modules of methods that are imported when an operation is first asked."""

import ast
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mdtensor as md
from mdtensor import extend, registry
from mdtensor.dispatch.checks import check_rule
from mdtensor.dispatch.later import methods_later
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import OptionError, RegistrationError


def in_process(code: str) -> str:
    """Return what `code` prints in a process in which nothing was called yet."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


ALL = """
import importlib, pkgutil, sys
import mdtensor as md
{first}
def methods():
    listed = sorted(md.operations().items())
    return {{name: sorted(map(str, f.operation.methods)) for name, f in listed}}
asked = methods()
for package in {packages}:
    home = importlib.import_module(package)
    for found in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"{{package}}.{{found.name}}")
assert methods() == asked
print(sum(map(len, asked.values())))
"""


@pytest.mark.parametrize(
    ("first", "packages"),
    [
        ("", ["mdtensor.ops"]),
        ("import mdtensor.quant", ["mdtensor.ops", "mdtensor.quant.ops"]),
    ],
    ids=["dense", "quant"],
)
def test_each_operation_names_all_modules_of_its_methods(
    first: str, packages: list[str]
) -> None:
    assert int(in_process(ALL.format(first=first, packages=packages))) > 200


def test_import_loads_no_methods_and_no_kernels() -> None:
    code = """
import sys, mdtensor as md
families = [n for n in sys.modules if n.startswith(("mdtensor.ops.",))]
loops = [n for n in sys.modules if n.startswith("mdtensor.kernels.loops.")]
assert families == loops == [], (families, loops)
md.neg(md.full((2,), 1))
assert "mdtensor.ops.arithmetic" in sys.modules
assert "mdtensor.ops.reduction" not in sys.modules
"""
    in_process(code)


#: What the import of mdtensor leaves to its first use.
LATER = (
    *("ml_dtypes", "numba", "mdtensor.dispatch.call_errors", "mdtensor.trial"),
    *("mdtensor.dispatch.introspect", "mdtensor.compositions", "mdtensor.checking"),
    "mdtensor.support_table",
)
#: What the import of quant leaves to its first use, as prefixes of names.
LATER_IN_QUANT = (
    *("numba", "mdtensor.checking", "mdtensor.graph", "mdtensor.kernels.loops"),
    *("mdtensor.quant.gguf", "mdtensor.quant.losses", "mdtensor.quant.observers"),
    *("mdtensor.quant.presets.table", "mdtensor.quant.weights", "difflib"),
)


def test_import_leaves_to_others_what_most_programs_do_not_use() -> None:
    code = f"""
import sys, mdtensor as md
assert not {{*{LATER}}} & {{*sys.modules}}, {{*{LATER}}} & {{*sys.modules}}
assert md.bfloat16.bits == 16 and "ml_dtypes" not in sys.modules
assert md.bfloat16.storage.name == "bfloat16" and "ml_dtypes" in sys.modules
assert md.split and md.which and md.why
"""
    in_process(code)


def test_import_of_quant_leaves_what_an_inference_does_not_use() -> None:
    code = f"""
import sys
from mdtensor import quant
early = [name for name in sys.modules if name.startswith({LATER_IN_QUANT})]
assert not early, early
assert all(getattr(quant, name) is not None for name in dir(quant))
"""
    in_process(code)


def test_extend_has_its_names_later() -> None:
    code = """
import sys
from mdtensor import extend
assert not [n for n in sys.modules if n.startswith("mdtensor.kernels.loops")]
assert {*extend.__all__} <= {*dir(extend)}
assert all(hasattr(extend, name) for name in dir(extend))
try:
    extend.lunch
except AttributeError as error:
    assert "has no attribute 'lunch'. Use mdtensor.extend.launch." in str(error)
"""
    in_process(code)


def test_the_stub_of_extend_has_its_names() -> None:
    stub = Path(extend.__file__).with_suffix(".pyi").read_text()
    exported = next(x for x in ast.parse(stub).body if isinstance(x, ast.Assign))
    assert ast.literal_eval(exported.value) == sorted(extend.__all__)


def test_our_shape_rules_take_the_declared_parameters() -> None:
    """`generic` checks those of other packages only."""
    for function in md.operations().values():
        check_rule(function.operation, function.operation.rule)


def test_a_second_method_for_a_signature_raises_before_any_call() -> None:
    code = """
import mdtensor as md
try:
    @md.method(md.glu)
    def glu(x: md.FloatingTensor, /, *, axis=-1): ...
except md.RegistrationError as error:
    print(error)
"""
    assert "mdtensor/ops/activation.py" in in_process(code)


def test_threads_may_ask_first_together() -> None:
    code = """
import threading, mdtensor as md
x = md.from_numpy(__import__("numpy").ones(3, "float32"))
calls = [md.add, md.matmul, md.sum, md.exp] * 4
gate, found = threading.Barrier(len(calls)), []
def run(call):
    gate.wait()
    found.append(call(x, x) if call in (md.add, md.matmul) else call(x))
threads = [threading.Thread(target=run, args=(call,)) for call in calls]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(found))
"""
    assert in_process(code) == "16\n"


@pytest.fixture
def twice() -> Any:
    with registry.restored():

        @md.generic
        def twice(x: Any, /) -> Any:
            """Twice `x`."""

        yield twice


def write(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)


METHODS = """
import mdtensor as md
from mdtensor import Int8Tensor
import {holder}
@md.method({holder}.twice)
def twice(x: Int8Tensor, /):
    return x + x
"""


def test_methods_of_a_package_come_with_the_first_call(
    twice: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "twice", twice)
    monkeypatch.setitem(sys.modules, "holder_of_twice", sys.modules[__name__])
    text = METHODS.format(holder="holder_of_twice")
    write(tmp_path, monkeypatch, "later_methods", text)
    methods_later("later_methods", twice)
    assert "later_methods" not in sys.modules
    assert twice(md.full((1,), 3, dtype=md.int8)).tolist() == [6]


def test_a_call_before_makes_no_difference(
    twice: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @md.method(twice)
    def run(x: md.Tensor, /) -> Any:
        return None

    x = md.full((1,), 3, dtype=md.int8)
    assert twice(x) is None
    monkeypatch.setattr(sys.modules[__name__], "twice", twice)
    monkeypatch.setitem(sys.modules, "holder_of_twice", sys.modules[__name__])
    text = METHODS.format(holder="holder_of_twice")
    write(tmp_path, monkeypatch, "later_methods", text)
    before = Operation.changes
    methods_later("later_methods", twice)
    assert Operation.changes > before  # compiled functions look again
    assert twice(x).tolist() == [6]


def test_a_module_that_fails_is_named_and_tried_again(
    twice: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods_later("later_missing", twice)
    for _ in range(2):
        with pytest.raises(RegistrationError, match="later_missing has methods"):
            twice(md.full((1,), 3))
    write(tmp_path, monkeypatch, "later_missing", "")
    with pytest.raises(md.NoMethodError):
        twice(md.full((1,), 3))


def test_the_order_of_methods_does_not_depend_on_calls() -> None:
    code = """
import mdtensor as md, mdtensor.quant
{first}
print([str(m) for f in (md.relu, md.sort, md.equal) for m in f.operation.methods])
"""
    asked = [in_process(code.format(first=f)) for f in ("", "md.sum(md.ones((2,)))")]
    assert asked[0] == asked[1]


def test_our_own_methods_change_nothing_for_compiled_functions() -> None:
    code = """
import mdtensor as md
from mdtensor.dispatch.operation import Operation
before = Operation.changes
md.neg(md.full((2,), 1)), md.sum(md.full((2,), 1))
print(Operation.changes - before)
"""
    assert in_process(code) == "0\n"


@pytest.mark.parametrize("module", ["", "a b", 3, "a..b"])
def test_names_of_modules_are_checked(twice: Any, module: Any) -> None:
    with pytest.raises(OptionError, match="is not the name of a module"):
        methods_later(module, twice)


def test_frozen_operations_take_no_modules(twice: Any) -> None:
    twice.operation.frozen = True
    with pytest.raises(RegistrationError, match="is frozen"):
        methods_later("later_methods", twice)


def test_the_lock_is_free_while_a_module_is_imported(
    twice: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []

    def look() -> None:
        free = twice.operation.lock.acquire(timeout=5)
        held.append(not free)
        if free:
            twice.operation.lock.release()

    def ask() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    monkeypatch.setattr(sys, "ask_for_the_lock", ask, raising=False)
    write(tmp_path, monkeypatch, "later_look", "import sys; sys.ask_for_the_lock()")
    methods_later("later_look", twice)
    with pytest.raises(md.NoMethodError):
        twice(md.full((1,), 3))
    assert held == [False]
