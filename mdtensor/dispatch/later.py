"""Modules with methods, imported when one of their operations is first asked.

    methods_later("mine.methods", md.add, md.sub)

Most programs call a few of the hundreds of operations, so the import of a package only
names the modules that have its methods. Whatever looks at the methods of an operation,
a call, `which`, a new method, a list, imports its modules before. So nobody can see
that some are missing.
"""

from __future__ import annotations

import importlib
from typing import Any

from mdtensor.errors import OptionError, RegistrationError, shown


# A module is imported without the lock of its operation: the import of another thread
# holds the module's lock and waits for ours (decision 0091).
def import_methods(operation: Any) -> None:
    """Import the modules that have methods of `operation`, one after the other.

    Raises:
        RegistrationError: a module cannot be imported. The next call tries it again.
    """
    modules = operation.later
    while operation.later:
        module = operation.later[0]
        try:
            importlib.import_module(module)
        except ImportError as error:
            problem = f"the module {module} has methods, and its import fails: {error}"
            fix = "Mend the module, or do not register it"
            raise RegistrationError(problem, fix, operation.name) from error
        with operation.lock:
            operation.later = tuple(n for n in operation.later if n != module)
    if modules:
        _sort(operation, modules)


def _sort(operation: Any, modules: tuple[str, ...]) -> None:
    """Put the methods of `modules` in the order of their modules, after the others.

    Another operation may have imported one of the modules before, and errors and lists
    must not depend on that.
    """

    def rank(method: Any) -> int:
        home = operation.homes.get(method.implementation)
        return modules.index(home) if home in modules else -1

    with operation.lock:
        found = sorted(operation.known_methods, key=rank)
        # The choice among methods does not depend on their order, so caches stay.
        operation._methods = {method.implementation: method for method in found}


def methods_later(module: str, /, *functions: Any) -> None:
    """Import `module` when one of these operations is first asked for its methods.

    Args:
        module: the full name of a module whose import adds methods to the operations.
            It may add methods to other operations too, if it is named for them.
        functions: the operations.

    Raises:
        OptionError: `module` is not a name, or a function is not an operation.
        RegistrationError: an operation is frozen.

    Example:
        >>> import mdtensor as md
        >>> methods_later("mine.methods", len)
        Traceback (most recent call last):
        mdtensor.errors.OptionError: methods_later: len is not an operation. See ...

    Source: Julia, package extensions.
    """
    if not isinstance(module, str) or not all(map(str.isidentifier, module.split("."))):
        problem = f"{shown(module)} is not the name of a module"
        raise OptionError(problem, "Give it in full: package.module", "methods_later")
    for function in functions:
        if not hasattr(function, "operation"):
            name = getattr(function, "__name__", None) or shown(function)
            problem = f"{name} is not an operation"
            raise OptionError(problem, "See md.operations()", "methods_later")
    for function in functions:
        function.operation.import_later(module)
