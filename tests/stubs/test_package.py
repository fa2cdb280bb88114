"""The stubs that are committed are those that the registry gives."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mdtensor as md
from mdtensor import fft, linalg, operators, quant
from mdtensor.cli import execute

SPACES = [md, linalg, fft, quant]
CALLS = Path(md.__file__).with_name("_calls.pyi")


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.long
def test_nothing_is_out_of_date() -> None:
    """In a process of its own: other tests register operations, which it would list."""
    check = [sys.executable, "-m", "mdtensor", "stubs", "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def names_of(module: object) -> set[str]:
    """What a stub says that the module has."""
    path = Path(inspect.getfile(module)).with_suffix(".pyi")  # type: ignore[arg-type]
    found: set[str] = set()
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom):
            starred = any(alias.name == "*" for alias in node.names)
            if starred:
                found |= set(sys.modules[str(node.module)].__all__)
            found |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            found.add(ast.unparse(target))
    return found


@pytest.mark.parametrize("module", SPACES, ids=lambda module: module.__name__)
def test_the_stub_has_the_names_of_the_module(module: object) -> None:
    # pytest writes names with @ into modules whose asserts it explains.
    public = {name for name in dir(module) if not name.startswith(("_", "@"))}
    listed = {name for name in names_of(module) if not name.startswith("_")}
    assert listed == public


def call_classes() -> dict[str, list[ast.arguments]]:
    return {
        node.name: [
            inner.args
            for inner in node.body
            if isinstance(inner, ast.FunctionDef) and inner.name == "__call__"
        ]
        for node in parsed(CALLS).body
        if isinstance(node, ast.ClassDef)
    }


@pytest.mark.parametrize("module", SPACES, ids=lambda module: module.__name__)
def test_parameters_are_those_of_the_declaration(module: object) -> None:
    classes = call_classes()
    path = Path(inspect.getfile(module)).with_suffix(".pyi")  # type: ignore[arg-type]
    for node in parsed(path).body:
        text = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
        if not text.startswith("_calls."):
            continue
        operation = getattr(module, ast.unparse(node.target)).operation
        for given in classes[text.removeprefix("_calls.")]:
            real = operation.signature.parameters.values()
            assert [a.arg for a in given.posonlyargs] == ["self", *operation.dispatched]
            kinds = [(p.name, p.kind) for p in real if p.name in operation.options]
            assert kinds == [
                *((a.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a in given.args),
                *((a.arg, inspect.Parameter.KEYWORD_ONLY) for a in given.kwonlyargs),
            ]


def test_every_public_operation_has_a_type() -> None:
    for module in SPACES:
        path = Path(inspect.getfile(module)).with_suffix(".pyi")
        found = [getattr(value, "operation", None) for value in vars(module).values()]
        count = sum(isinstance(operation, md.Operation) for operation in found)
        assert path.read_text().count(": _calls.") == count


def test_others_do_not_change_our_own_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["stubs", "--import", "json"]) == 2
    assert capsys.readouterr().err == (
        "mdtensor: OptionError: --import would add other types to mdtensor's own "
        "files. Pass a folder as --output DIR.\n"
    )


def required(name: str) -> list[str]:
    """The parameters of a method of tensors that have no default."""
    parameters = inspect.signature(getattr(operators.Operators, name)).parameters
    return [p.name for p in parameters.values() if p.default is p.empty]


def test_operators_with_one_text_have_the_same_parameters() -> None:
    text = Path(operators.__file__).with_suffix(".pyi").read_text()
    pairs = re.findall(r"^    (__\w+__) = (__\w+__)$", text, re.MULTILINE)
    assert ("__gt__", "__lt__") in pairs
    for name, first in pairs:
        assert required(name) == required(first), name
