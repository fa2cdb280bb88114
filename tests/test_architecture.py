"""The arrows and limits of the house, read from the source.

Every rule is a function from a checkout to findings, `path:line: what is wrong`. It
runs on this checkout, where it must find nothing, and on small sinning checkouts,
where it must find the sin: a rule that cannot fail protects nothing.
"""

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Packages and their folders; a package of another checkout, see `read`.
FOLDERS = (("mdtensor.kernels", "kernels"), ("mdtensor.quant", "quant"))
FOLDERS += (("mdtensor", "mdtensor"),)
#: A package of its own, `mdtensor_run`: it runs where mdtensor is not installed.
RUNNER, RUNNER_FOLDER = "mdtensor_run", "quant/run_plan"

# A package of its own, `pytest_mdtensor`: pytest loads it before it loads mdtensor.
PYTEST_PLUGIN = "mdtensor/diagnose/pytest_plugin"

# The core from the ground up. A part imports what stands strictly lower.
LAYERS = (
    {"audited", "spelling"},
    {
        "files",
        "host_memory",
        "html",
        "printing",
        "reloading",
        "dispatch.annotations",
        "dispatch.settings",
        "dispatch.suggestions",
    },
    {"errors"},
    {"device", "dtypes", "foreign", "dispatch.declaration", "dispatch.call"},
    {"dispatch.classes"},
    {
        "ledger",
        "promotion",
        "type_info",
        "dispatch.checks",
        "dispatch.placed_options",
        "dispatch.remedies",
    },
    {"coercion", "spec", "dispatch.call_errors"},
    {"interop", "dispatch.composed", "dispatch.later", "dispatch.method"},
    {"dispatch.method_set"},
    {"dispatch.operation"},
    {"dispatch", "dispatch.builder", "generics"},
    {"ufuncs", "dispatch.catalog"},
    {"operators", "dispatch.introspect"},
    {"infer"},
    {"tensor"},
    {"types", "registry", "siblings"},
    {"ops"},
    {"compositions", "fft", "support_table", "tables", "checking", "wide"},
    {
        "choices",
        "closeness",
        "contraction",
        "covariance",
        "least_squares",
        "log_sums",
        "matrix_parts",
        "nan_reductions",
        "order_statistics",
        "piecewise_lines",
        "safetensors",
        "turns",
    },
    {"linalg"},
    {"rendered"},
    {"extend", "gpu"},
    {"trial", "graph"},
    {"stubs"},
    {"cuda", "emucuda", "diagnose", "conformance"},
    {"cli"},
    {"__main__"},
)
CORE = {name: level for level, layer in enumerate(LAYERS) for name in layer}
#: Every other file of quant stands at 0.
QUANT = {
    "losses": 1,
    "ops": 1,
    "rendered": 2,
    "observers": 2,
    "weights": 2,
    "certificate": 3,
    "model": 3,
    "onnx_backend": 4,
}
LEAVES = {
    "quant",
    "cuda",
    "emucuda",
    "diagnose",
    "cli",
    "stubs",
}  # imported by entry points
ENTRIES = {"cli", "__main__"}
DECLARES_LEAVES = {"cuda"}  # the package imports it: its leaves exist everywhere
CALLS_KERNELS = {
    "rendered",
    "ops",
    "extend",
    "checking",
    "graph",
    "wide",
    "gpu",
    "emucuda",
    "diagnose",
    "cli",
}
CALLS_KERNELS |= {"dispatch.introspect", "trial"}  # they observe what runs
#: The public modules that quant imports; all else comes from `mdtensor` itself.
QUANT_MAY_NAME = {"errors", "extend", "dtypes", "graph"}

# Who may name what is not ours; numpy and the standard library are for everybody.
THIRD_PARTY = {
    "plum": (
        "mdtensor.errors",
        "mdtensor.dispatch",
        "mdtensor.diagnose",
    ),
    "beartype": ("mdtensor.dispatch", "mdtensor.diagnose"),
    "ml_dtypes": (
        "mdtensor.dtypes",
        "mdtensor.safetensors",
        "mdtensor.type_info",
        "mdtensor.kernels",
        "mdtensor.quant",
    ),
    "mdtensor_run": ("mdtensor.quant.plans",),
    "numba": ("mdtensor.kernels",),
    "llvmlite": ("mdtensor.kernels",),
    "cupy": ("mdtensor.kernels.cuda",),
    "cupy_backends": ("mdtensor.kernels.cuda.blas",),
    "gguf": ("mdtensor.quant.gguf",),
    "safetensors": ("mdtensor.safetensors",),
    "onnx": ("mdtensor.cli", "mdtensor.quant.model", "mdtensor.quant.onnx_backend"),
    "onnxruntime": ("mdtensor.cli", "mdtensor.quant.model"),
    "tflite": ("mdtensor.quant.model.tflite",),
    "PIL": ("mdtensor.cli",),
    "distributed": ("mdtensor.cli.partitions.dask",),
    "h11": ("mdtensor.cli.serve",),
    "starlette": ("mdtensor.cli.serve",),
    "uvicorn": ("mdtensor.cli.serve",),
    "rapidocr_onnxruntime": ("mdtensor.cli",),
    "skimage": ("mdtensor.cli",),
    "threadpoolctl": ("mdtensor.cli",),
    "typer": ("mdtensor.cli",),
    "rich": ("mdtensor.cli",),
    "jinja2": ("mdtensor.cli",),
    "markupsafe": ("mdtensor.cli",),
}
BANNED = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
#: Words that the glossary of docs/style.md replaces; no name of ours contains them.
RETIRED = {"account", "certain", "claim", "crew", "deduction", "ruled", "seeds", "team"}
#: Files of methods for one kind of operand, whose operations come from many families.
BY_KIND = {"float8", "refusals", "scalars", "weight_only"}
#: Families without a file of their own in quant/ops, and the file that has them.
WITHIN = {"linalg": "manipulation", "resize": "manipulation"}
#: Test folders for what is not one folder of the source.
ACROSS = {
    "applications",
    "bench",
    "extension",
    "interop",
    "requirements",
    "standard",
    "support",
}
ACROSS |= {"typing"}
FILE_LINES = 600
FUNCTION_LINES = 40
KERNEL_LINES = 60


@dataclass(frozen=True)
class Module:
    """One source file: its import name, where it lies, and its tree."""

    name: str
    path: Path
    shown: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of the tree, for all rules at once."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def naming(self) -> tuple[ast.AST, ...]:
        """The nodes that may name a module."""
        kinds = ast.Import | ast.ImportFrom | ast.Call
        return tuple(node for node in self.nodes if isinstance(node, kinds))

    @cached_property
    def lazy_lines(self) -> frozenset[int]:
        """Those inside of functions."""
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        return frozenset(
            line
            for node in self.nodes
            if isinstance(node, functions)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        )

    @property
    def package(self) -> str:
        """What a relative import starts from."""
        if self.path.name == "__init__.py":
            return self.name
        return self.name.rpartition(".")[0]

    @property
    def part(self) -> str:
        """`ops` for mdtensor.ops.conv; empty for the package mdtensor itself."""
        return part(self.name)

    def at(self, line: int, text: str) -> str:
        return f"{self.shown}:{line}: {text}"


@dataclass(frozen=True)
class Import:
    """One imported thing: the module, the name taken from it, and the place."""

    module: str
    name: str
    line: int
    lazy: bool


Checkout = dict[str, Module]
Rule = Callable[[Checkout], Iterator[str]]


@cache
def read(root: Path, folders: tuple[tuple[str, str], ...] = FOLDERS) -> Checkout:
    """Every module of a checkout by its import name."""
    modules = {}
    for package, folder in folders:
        start = root / folder
        others = {root / PYTEST_PLUGIN, root / RUNNER_FOLDER} - {start}
        for path in sorted(start.rglob("*.py")):
            if others.intersection(path.parents):
                continue
            parts = path.relative_to(start).with_suffix("").parts
            below = [part for part in parts if part != "__init__"]
            name = ".".join([package, *below])
            shown = path.relative_to(root).as_posix()
            tree = ast.parse(path.read_text(), filename=str(path))
            modules[name] = Module(name, path, shown, tree)
    return modules


def imports(module: Module, checkout: Checkout) -> Iterator[Import]:
    """All imports of a file, those inside functions and by literal name included."""
    for node in module.naming:
        for target, name in _targets(node, module, checkout):
            yield Import(target, name, node.lineno, node.lineno in module.lazy_lines)


def _targets(
    node: ast.AST, module: Module, checkout: Checkout
) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ""
    elif isinstance(node, ast.ImportFrom):
        source = node.module or ""
        if node.level:
            above = module.package.split(".")
            above = above[: len(above) - node.level + 1]
            source = ".".join([*above, *filter(None, [source])])
        for alias in node.names:
            inner = f"{source}.{alias.name}"
            yield (inner, "") if inner in checkout else (source, alias.name)
    elif isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        first = node.args[0]
        if called in {"import_module", "__import__"} and isinstance(
            first, ast.Constant
        ):
            yield str(first.value), ""


def part(name: str, depth: int = 1) -> str:
    """Return `ops` for mdtensor.ops.conv; empty where the name ends before.

    Files of mdtensor.dispatch are parts of their own: types, shape rules and operations
    stand between them.
    """
    names = [*name.split("."), "", ""]
    if depth == 1 and names[1] == "dispatch" and names[2]:
        return f"dispatch.{names[2]}"
    return names[depth]


def is_inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


# --- the arrows -----------------------------------------------------------------------


def core_arrows(checkout: Checkout) -> Iterator[str]:
    """errors <- dtypes <- promotion <- device, dispatch <- generics <- tensor <- ops"""
    for module in checkout.values():
        if module.part in {"kernels", "quant"}:
            continue
        if module.part and module.part not in CORE:
            yield module.at(1, f"{module.part} has no place among the arrows")
            continue
        for found in imports(module, checkout):
            if is_inside(found.module, "mdtensor") and module.part:
                yield from _core_import(module, found)


def _core_import(module: Module, found: Import) -> Iterator[str]:
    target = part(found.module)
    mine = CORE[module.part]
    if target == module.part or target == "quant":
        return  # inside one part; quant is the rule of entry points
    if target == "kernels":
        if module.part not in CALLS_KERNELS:
            yield module.at(found.line, f"{module.part} imports kernels")
    elif not target:
        if module.part not in LEAVES:
            yield module.at(found.line, f"{module.part} imports the package mdtensor")
    elif CORE.get(target, 99) >= mine:
        yield module.at(found.line, f"{module.part} imports {target}, against arrows")


def leaves_are_imported_by_entry_points_only(checkout: Checkout) -> Iterator[str]:
    """Nobody imports quant, cuda, diagnose or cli: they are extensions."""
    for module in checkout.values():
        for found in imports(module, checkout):
            target = part(found.module)
            if not is_inside(found.module, "mdtensor") or target not in LEAVES:
                continue
            opens = found.lazy or target in DECLARES_LEAVES
            is_entry = module.part in ENTRIES or (not module.part and opens)
            if module.part != target and not is_entry:
                yield module.at(found.line, f"{module.name} imports {target}")


def kernels_stand_alone(checkout: Checkout) -> Iterator[str]:
    """kernels import numpy, numba and each other; the oracle not even the fast ones."""
    for module in checkout.values():
        if module.part != "kernels":
            continue
        for found in imports(module, checkout):
            ours = is_inside(found.module, "mdtensor")
            if ours and not is_inside(found.module, "mdtensor.kernels"):
                yield module.at(found.line, f"a kernel imports {found.module}")
            if is_inside(module.name, "mdtensor.kernels.reference") and (
                is_inside(found.module, "mdtensor.kernels.cpu")
                or is_inside(found.module, "mdtensor.kernels.cuda")
                or is_inside(found.module, "numba")
            ):
                yield module.at(found.line, f"the oracle imports {found.module}")


def quant_is_a_stranger(checkout: Checkout) -> Iterator[str]:
    """quant uses what any extension may use, and kernels; nothing behind them."""
    for module in checkout.values():
        if module.part != "quant":
            continue
        for found in imports(module, checkout):
            if not is_inside(found.module, "mdtensor"):
                continue
            target = part(found.module)
            if target and target not in QUANT_MAY_NAME | {"kernels", "quant"}:
                yield module.at(found.line, f"quant imports {found.module}")
            elif target not in {"kernels", "quant"} and _is_private(found):
                yield module.at(found.line, f"quant imports private {found.name}")


def _is_private(found: Import) -> bool:
    names = [*found.module.split("."), found.name]
    return any(name.startswith("_") for name in names)


def quant_arrows(checkout: Checkout) -> Iterator[str]:
    """Inside quant: qparams, types <- ops <- observers <- model."""

    def place(name: str) -> int:
        return QUANT.get(part(name, 2), 0)

    for module in checkout.values():
        if module.part != "quant" or module.name == "mdtensor.quant":
            continue
        for found in imports(module, checkout):
            if not is_inside(found.module, "mdtensor.quant"):
                continue
            if place(found.module) > place(module.name):
                yield module.at(found.line, f"{module.name} imports {found.module}")


def strangers_are_named_where_they_belong(checkout: Checkout) -> Iterator[str]:
    """Only dispatch and selection name plum, only kernels numba ..."""
    for module in checkout.values():
        for found in imports(module, checkout):
            top = found.module.split(".")[0]
            if top in {"numpy", "mdtensor"} or top in sys.stdlib_module_names:
                continue
            owners = THIRD_PARTY.get(top, ())
            if not any(is_inside(module.name, owner) for owner in owners):
                yield module.at(found.line, f"{module.name} imports {found.module}")


def the_runner_is_alone(checkout: Checkout) -> Iterator[str]:
    """It imports NumPy, the standard library and itself; mdtensor is not installed."""
    for module in checkout.values():
        for found in imports(module, checkout):
            top = found.module.split(".")[0]
            if top not in {"numpy", RUNNER} and top not in sys.stdlib_module_names:
                yield module.at(found.line, f"the runner imports {found.module}")


def no_cycles(checkout: Checkout) -> Iterator[str]:
    """Tarjan over all modules; only the entry point's lazy imports are left out."""
    graph = {
        module.name: sorted(
            {
                found.module
                for found in imports(module, checkout)
                if found.module in checkout
                and found.module != module.name
                and (module.part or not found.lazy)
            }
        )
        for module in checkout.values()
    }
    for cycle in strong_components(graph):
        if len(cycle) > 1:
            first = checkout[min(cycle)]
            yield first.at(1, "cycle of " + ", ".join(sorted(cycle)))


def strong_components(graph: dict[str, list[str]]) -> Iterator[list[str]]:
    """Tarjan 1972: a component ends where a node reaches nothing older than itself."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        number[node] = low[node] = len(number)
        stack.append(node)
        for after in graph[node]:
            if after not in number:
                yield from visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], number[after])
        if low[node] == number[node]:
            at = stack.index(node)
            component, stack[at:] = stack[at:], []
            yield component

    for node in graph:
        if node not in number:
            yield from visit(node)


# --- the limits -----------------------------------------------------------------------


def names_say_something(checkout: Checkout) -> Iterator[str]:
    for module in checkout.values():
        for part in module.name.split("."):
            if part.strip("_") in BANNED:
                yield module.at(1, f"the name {part} says nothing")


def retired_words_stay_away(checkout: Checkout) -> Iterator[str]:
    """No module, class, function or variable has a retired word in its name."""
    for module in checkout.values():
        if RETIRED & set(re.split(r"[._]", module.name)) - {"deduction"}:
            yield module.at(1, f"the module is named {module.name}")
    for module, node in _walk(checkout):
        for name in _new_names(node):
            if RETIRED & set(name.lower().split("_")):
                yield module.at(getattr(node, "lineno", 1), f"{name}: a retired word")


def _new_names(node: ast.AST) -> Iterator[str]:
    """The names that a node introduces."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def families_have_one_name(checkout: Checkout) -> Iterator[str]:
    """Methods are in a file of the name of the one that declares their operation."""
    families = {
        node.name: module.path.stem
        for module, node in _walk(checkout)
        if module.part == "generics" and isinstance(node, ast.FunctionDef)
        if any(_is_generic(each) for each in node.decorator_list)
    }
    for module, function, _ in _methods(checkout):
        if not is_inside(module.name, "mdtensor.ops") and not is_inside(
            module.name, "mdtensor.quant.ops"
        ):
            continue
        own, family = module.path.stem, families.get(function.name)
        if family is None or own in BY_KIND or own == family:
            continue
        if module.part != "quant" or WITHIN.get(family) != own:
            text = f"{function.name} belongs to {family}"
            yield module.at(function.lineno, text)


def _is_generic(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "generic"


def each_folder_has_tests(checkout: Checkout) -> Iterator[str]:
    """Folders of tests and folders of the source have the same names."""
    root = checkout["mdtensor"].path.parents[1]
    sources = {
        module.path.parent.relative_to(root).as_posix() for module in checkout.values()
    }
    wanted = {name.removeprefix("mdtensor/") for name in sources} - {"mdtensor"}
    tested = {
        path.parent.relative_to(root / "tests").as_posix()
        for path in (root / "tests").rglob("test_*.py")
    }
    for name in sorted(tested - wanted - {"."}):
        if name.split("/")[0] not in ACROSS:
            yield f"tests/{name}: no folder of the source has this name"
    # Below these, a folder may be tested together with the one above it.
    for name in sorted(wanted):
        above = name.rpartition("/")[0]
        if above in {"", "kernels", "quant"} and not _is_tested(name, tested):
            yield f"{name}: tests/{name} does not exist"


def _is_tested(name: str, tested: set[str]) -> bool:
    return name == "kernels/reference" or any(
        each == name or each.startswith(name + "/") for each in tested
    )


def files_are_short(checkout: Checkout) -> Iterator[str]:
    for module in checkout.values():
        lines = len(module.path.read_text().splitlines())
        if lines > FILE_LINES:
            yield module.at(lines, f"{lines} lines, more than {FILE_LINES}")


def functions_are_short(checkout: Checkout) -> Iterator[str]:
    for module, node in _walk(checkout):
        if not isinstance(node, ast.FunctionDef):
            continue
        body = node.body[1:] if ast.get_docstring(node) else node.body
        if not body:
            continue
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
        limit = KERNEL_LINES if module.part == "kernels" else FUNCTION_LINES
        if lines > limit:
            yield module.at(node.lineno, f"{node.name}: {lines} lines")


def no_star_imports(checkout: Checkout) -> Iterator[str]:
    """But the package itself shows all that a module lists in `__all__`."""
    for module in checkout.values():
        for found in imports(module, checkout):
            listed = not module.part and _lists_its_names(checkout.get(found.module))
            if found.name == "*" and not listed:
                yield module.at(found.line, f"from {found.module} import *")


def _lists_its_names(module: Module | None) -> bool:
    return module is not None and any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for node in module.tree.body
    )


def no_types_behind_type_checking(checkout: Checkout) -> Iterator[str]:
    """plum resolves annotations at the first call, so types must really be there."""
    for module, node in _walk(checkout):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield module.at(node.lineno, "if TYPE_CHECKING")


def no_isinstance_on_leaves(checkout: Checkout) -> Iterator[str]:
    """In ops/ the choice by type is dispatch's, whatever it is spelled like."""
    for module, node in _walk(checkout):
        if not re.match(r"mdtensor\.(quant\.)?ops\b", module.name):
            continue
        for name in _tested_types(node):
            if is_leaf(name):
                yield module.at(node.lineno, f"asks for {name} instead of dispatching")


def _tested_types(node: ast.AST) -> Iterator[str]:
    """The names that `isinstance`, `issubclass`, `type(x) is` or `case` asks for."""
    for side in _asked(node):
        for inner in ast.walk(side):
            if isinstance(inner, ast.Name):
                yield inner.id
            elif isinstance(inner, ast.Attribute):
                yield inner.attr


def _asked(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.MatchClass):
        return [node.cls]
    if isinstance(node, ast.Call):
        asks = ast.unparse(node.func) in {"isinstance", "issubclass"}
        return node.args[1:] if asks else []
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        asks = any(ast.unparse(side).startswith("type(") for side in sides)
        return sides if asks else []
    return []


def is_leaf(name: str) -> bool:
    """A class with a bit width is final; so are the booleans."""
    return bool(re.fullmatch(r"\w*(\d\w*|Bool)Tensor", name))


def declarations_stand_alone(checkout: Checkout) -> Iterator[str]:
    """generics/ says what operations promise; what they do stands elsewhere."""
    for module, node, operation in _methods(checkout):
        if module.part == "generics":
            yield module.at(node.lineno, f"a method of {operation} among declarations")


def methods_bear_the_operation_name(checkout: Checkout) -> Iterator[str]:
    """So that `grep -rn "^def add("` is the whole truth about add."""
    for module, node, operation in _methods(checkout):
        if node.name != operation.rpartition(".")[2]:
            yield module.at(
                node.lineno, f"a method of {operation} is called {node.name}"
            )


def methods_have_plain_signatures(checkout: Checkout) -> Iterator[str]:
    """One `A | B`, `type[A]` or `Literal` costs the function plum's cache."""
    for module, node, operation in _methods(checkout):
        arguments = [*node.args.posonlyargs, *node.args.args]
        for argument in arguments:
            if argument.annotation is None:
                continue
            for inner in ast.walk(argument.annotation):
                bad = isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.BitOr)
                if isinstance(inner, ast.Subscript):
                    subscripted = ast.unparse(inner.value).rpartition(".")[2]
                    bad = subscripted not in {"Union", "Tag"}  # a tag is a class
                if bad:
                    shown = ast.unparse(argument.annotation)
                    yield module.at(
                        node.lineno, f"{operation}({argument.arg}: {shown})"
                    )
                    break


def no_precedence(checkout: Checkout) -> Iterator[str]:
    """An ambiguity is resolved by the method that is missing, not by a number."""
    for module, node in _walk(checkout):
        if isinstance(node, ast.keyword) and node.arg == "precedence":
            yield module.at(node.value.lineno, "precedence=")


def _methods(
    checkout: Checkout,
) -> Iterator[tuple[Module, ast.FunctionDef, str]]:
    """Every `@method(operation)` with the function below it."""
    for module, node in _walk(checkout):
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and mark.args:
                called = ast.unparse(mark.func).rpartition(".")[2]
                first = mark.args[0]
                if called == "method" and isinstance(first, ast.Name | ast.Attribute):
                    yield module, node, ast.unparse(first)


def _walk(checkout: Checkout) -> Iterator[tuple[Module, ast.AST]]:
    for module in checkout.values():
        for node in module.nodes:
            yield module, node


RULES: list[Rule] = [
    core_arrows,
    leaves_are_imported_by_entry_points_only,
    kernels_stand_alone,
    quant_is_a_stranger,
    quant_arrows,
    strangers_are_named_where_they_belong,
    no_cycles,
    names_say_something,
    retired_words_stay_away,
    families_have_one_name,
    each_folder_has_tests,
    files_are_short,
    functions_are_short,
    no_star_imports,
    no_types_behind_type_checking,
    no_isinstance_on_leaves,
    declarations_stand_alone,
    methods_bear_the_operation_name,
    methods_have_plain_signatures,
    no_precedence,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_this_checkout_keeps(rule: Rule) -> None:
    assert list(rule(read(ROOT))) == []


OF_RUNNER: list[Rule] = [
    *(the_runner_is_alone, no_cycles, names_say_something, retired_words_stay_away),
    *(files_are_short, functions_are_short, no_star_imports),
    no_types_behind_type_checking,
]


@pytest.mark.parametrize("rule", OF_RUNNER, ids=lambda rule: rule.__name__)
def test_the_runner_keeps(rule: Rule) -> None:
    found = read(ROOT, ((RUNNER, RUNNER_FOLDER),))
    assert f"{RUNNER}.runner" in found
    assert list(rule(found)) == []


def test_a_runner_that_is_not_alone_is_seen(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("import numpy, json, mdtensor_run, mdtensor")
    found = read(tmp_path, ((RUNNER, "."),))
    assert len(list(the_runner_is_alone(found))) == 1


def test_the_rules_see_the_whole_house() -> None:
    seen = read(ROOT)
    for name in ("mdtensor", "mdtensor.kernels", "mdtensor.quant"):
        assert name in seen
    inside = {edge.module for module in seen.values() for edge in imports(module, seen)}
    assert "numpy" in inside


# --- the rules can fail ---------------------------------------------------------------

CLEAN = {
    "mdtensor/__init__.py": """
        from mdtensor.tensor import Tensor as Tensor
        def __getattr__(name):
            from mdtensor import quant
            return quant
    """,
    "mdtensor/errors.py": "class MdtensorError(Exception): pass",
    "mdtensor/dtypes.py": "from mdtensor.errors import MdtensorError",
    "mdtensor/promotion.py": "from . import dtypes",
    "mdtensor/device.py": "from .errors import MdtensorError",
    "mdtensor/dispatch/operation.py": "import plum\nimport mdtensor.errors",
    "mdtensor/generics/__init__.py": "from .elementwise import add as add",
    "mdtensor/generics/elementwise.py": """
        import mdtensor.dispatch.operation
        @generic(deduce=None)
        def add(x1, x2, /): pass
    """,
    "mdtensor/coercion.py": "from mdtensor import dtypes",
    "mdtensor/operators.py": "from mdtensor.generics import add",
    "mdtensor/tensor.py": "from mdtensor.operators import Operators",
    "mdtensor/ops/__init__.py": "",
    "mdtensor/ops/elementwise.py": """
        import numpy as np
        from typing import Union
        from mdtensor.kernels.cpu.generic import elementwise as cpu
        @method(add)
        def add(x: Union[Float32Tensor, Int8Tensor], y: Tensor, /):
            return isinstance(x, Tensor) or type(x) is type(y)
    """,
    "mdtensor/cli/__init__.py": "import typer\nimport mdtensor\nimport mdtensor.quant",
    "mdtensor/__main__.py": "from mdtensor.cli import main",
    "kernels/__init__.py": "",
    "kernels/rescale.py": "from fractions import Fraction",
    "kernels/cpu/__init__.py": "",
    "kernels/cpu/generic/elementwise.py": "import numba",
    "kernels/reference/__init__.py": "",
    "kernels/reference/elementwise.py": "import numpy",
    "quant/__init__.py": "from mdtensor.quant import qparams, ops",
    "quant/qparams.py": "from mdtensor.errors import MdtensorError",
    "quant/ops/__init__.py": "import mdtensor as md\nfrom ..qparams import QParams",
    "quant/model/__init__.py": "import onnx\nfrom mdtensor.quant.ops import conv",
    "tests/cli/test_commands.py": "",
    "tests/dispatch/test_operation.py": "",
    "tests/generics/test_elementwise.py": "",
    "tests/kernels/cpu/test_isa.py": "",
    "tests/ops/test_elementwise.py": "",
    "tests/quant/model/test_model.py": "",
    "tests/quant/ops/test_conv.py": "",
    "tests/typing/test_checkers.py": "",
}

SINS: dict[Rule, list[tuple[str, str]]] = {
    core_arrows: [
        ("mdtensor/errors.py", "import mdtensor.dtypes"),
        ("mdtensor/dtypes.py", "from . import promotion"),
        ("mdtensor/dtypes.py", "import mdtensor"),
        ("mdtensor/promotion.py", "from .tensor import Tensor"),
        ("mdtensor/dispatch/operation.py", "from mdtensor import tensor"),
        ("mdtensor/generics/elementwise.py", "from ..tensor import Tensor"),
        ("mdtensor/operators.py", "from mdtensor.tensor import Tensor"),
        ("mdtensor/tensor.py", "from mdtensor.ops.elementwise import add"),
        ("mdtensor/tensor.py", "def f():\n    import mdtensor.ops"),
        ("mdtensor/tensor.py", "import mdtensor.kernels.cpu"),
        ("mdtensor/tensor.py", 'import_module("mdtensor.ops")'),
        ("mdtensor/novelty.py", ""),
    ],
    leaves_are_imported_by_entry_points_only: [
        ("mdtensor/__init__.py", "import mdtensor.quant"),
        ("mdtensor/tensor.py", "def f():\n    from mdtensor import quant"),
        ("mdtensor/ops/elementwise.py", "from .. import cli"),
        ("quant/ops/__init__.py", "import mdtensor.diagnose"),
    ],
    kernels_stand_alone: [
        ("kernels/cpu/generic/elementwise.py", "import mdtensor"),
        (
            "kernels/cpu/generic/elementwise.py",
            "from mdtensor.errors import ShapeError",
        ),
        ("kernels/cpu/generic/elementwise.py", "def f():\n    import mdtensor.tensor"),
        (
            "kernels/reference/elementwise.py",
            "from mdtensor.kernels.cpu.generic import elementwise",
        ),
    ],
    quant_is_a_stranger: [
        ("quant/qparams.py", "from mdtensor.ops.elementwise import add"),
        ("quant/qparams.py", "from mdtensor.dispatch.operation import _table"),
        ("quant/qparams.py", "from mdtensor import _secret"),
        ("quant/qparams.py", "from mdtensor.spec.shapes import normalize_axis"),
    ],
    quant_arrows: [
        ("quant/qparams.py", "from .ops import conv"),
        ("quant/ops/__init__.py", "def f():\n    from mdtensor.quant import model"),
    ],
    strangers_are_named_where_they_belong: [
        ("mdtensor/tensor.py", "import plum"),
        ("mdtensor/ops/elementwise.py", "def f():\n    import numba"),
        ("kernels/cpu/generic/elementwise.py", "import scipy"),
    ],
    no_cycles: [
        ("mdtensor/errors.py", "def f():\n    import mdtensor.dtypes"),
        ("quant/qparams.py", "import mdtensor.quant"),
    ],
    names_say_something: [
        ("quant/utils.py", ""),
        ("kernels/common/__init__.py", ""),
    ],
    retired_words_stay_away: [
        ("kernels/cpu/crew.py", ""),
        ("quant/qparams.py", "def ruled(grid): pass"),
        ("quant/qparams.py", "def f(team): pass"),
        ("quant/qparams.py", "certain_sum = 1"),
    ],
    families_have_one_name: [
        ("mdtensor/ops/conv.py", "@method(add)\ndef add(x): pass"),
        ("quant/ops/conv.py", "@method(add)\ndef add(x): pass"),
    ],
    each_folder_has_tests: [
        ("tests/core/test_dtypes.py", ""),
        ("quant/weights/quantize.py", ""),
    ],
    files_are_short: [
        ("mdtensor/ops/conv.py", "pass\n" * (FILE_LINES + 1)),
        ("mdtensor/generics/conv.py", "pass\n" * (FILE_LINES + 1)),
    ],
    functions_are_short: [
        ("mdtensor/ops/conv.py", "def f():\n" + "    pass\n" * 41),
        ("kernels/cpu/generic/conv.py", "def f():\n" + "    pass\n" * 61),
    ],
    no_star_imports: [
        ("mdtensor/ops/elementwise.py", "from numpy import *"),
        ("mdtensor/__init__.py", "from mdtensor.dtypes import *"),
    ],
    no_types_behind_type_checking: [
        ("mdtensor/tensor.py", "if TYPE_CHECKING:\n    pass"),
    ],
    no_isinstance_on_leaves: [
        ("mdtensor/ops/conv.py", "isinstance(x, Float32Tensor)"),
        ("quant/ops/conv.py", "isinstance(x, (int, md.QInt8Tensor))"),
        ("quant/ops/conv.py", "type(x) is BoolTensor"),
        ("mdtensor/ops/conv.py", "match x:\n    case Int8Tensor():\n        pass"),
    ],
    declarations_stand_alone: [
        ("mdtensor/generics/elementwise.py", "@method(add)\ndef add(x): pass"),
    ],
    methods_bear_the_operation_name: [
        ("mdtensor/ops/conv.py", "@method(md.add)\ndef _(x): pass"),
    ],
    methods_have_plain_signatures: [
        ("quant/ops/conv.py", "@method(add)\ndef add(x: A | B): pass"),
        ("quant/ops/conv.py", "@method(add)\ndef add(x: type[A]): pass"),
    ],
    no_precedence: [
        ("quant/ops/conv.py", "@method(add, precedence=1)\ndef add(x): pass"),
    ],
}


def build(root: Path, files: dict[str, str]) -> Checkout:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return read(root)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_clean_checkout_passes(rule: Rule, tmp_path: Path) -> None:
    assert list(rule(build(tmp_path, CLEAN))) == []


@pytest.mark.parametrize(
    ("rule", "path", "sin"),
    [(rule, path, sin) for rule, rows in SINS.items() for path, sin in rows],
)
def test_a_sin_is_found(rule: Rule, path: str, sin: str, tmp_path: Path) -> None:
    before = textwrap.dedent(CLEAN.get(path, ""))
    found = list(rule(build(tmp_path, {**CLEAN, path: f"{before}\n{sin}\n"})))
    assert found, f"{rule.__name__} overlooks it"
    assert all(finding.startswith(path.split("/")[0]) for finding in found)


def test_every_rule_has_a_sin() -> None:
    assert set(SINS) == set(RULES)


# --- what an import brings ------------------------------------------------------------

HEAVY = {"numba", "llvmlite", "cupy", "onnx", "onnxruntime", "typer", "rich", "scipy"}
HEAVY |= {"gguf", "safetensors"}


def test_import_mdtensor_is_light(tmp_path: Path) -> None:
    """Beyond numpy and plum: no compiler, no file format, no command line."""
    script = """
import sys, numpy, plum
before = set(sys.modules)
import mdtensor
print(*(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "mdtensor" in loaded
    assert loaded & HEAVY == set()
    later = {"mdtensor.quant", "mdtensor.cli", "mdtensor.tables", "mdtensor.diagnose"}
    later |= {"mdtensor.wide", "mdtensor.safetensors", "mdtensor.kernels.loops.wgsl"}
    later |= {"mdtensor.extend", "mdtensor.checking", "difflib"}
    later |= {"numpy.ma"}  # it takes longer than any module of ours
    # What a GPU needs, and OpenSSL.
    later |= {"mdtensor.kernels.cuda.gpu", "mdtensor.rendered.arithmetic", "_hashlib"}
    assert later & set(done.stdout.split()) == set()
