"""Large compiled kernels are shared: their callers call a symbol and hold no copy.

numba links the code of every callee into each caller and optimizes all of it again, so
a product would be compiled for itself, for its step and for the loop over steps. Here a
kernel of a module that is too large to be inlined gets a symbol of its own. Compiled
code in the cache names the symbols that it calls, so that they are there before it is.
"""

import copy
import importlib
import sys

import llvmlite.binding as llvm

LARGE = 8192  # bytes of an object file, of which the call from Python takes some 3,000
PREFIX = "mdtensor.kernel."
_published: dict = {}  # symbol: (module, name, argument types)


def is_large(compiled):
    """Whether a function just compiled is too large to be inlined.

    Raises:
        KeyboardInterrupt: one came while LLVM handed over the code, where ctypes
            drops it; all that is left of it is that there is no code.
    """
    try:
        code = compiled.library._get_compiled_object()
    except RuntimeError as error:
        raise KeyboardInterrupt from error
    return len(code) >= LARGE


# A large kernel gets a symbol, because numba would compile it again in each caller
# (decision 0030).
def publish(dispatcher, compiled, key):
    """Let callers reach this compiled signature by the symbol of `key`.

    Not a function that no module holds: another process could not find it again.

    Args: key: text that is the same in every process that compiles the same code.
    """
    function, target = dispatcher.py_func, dispatcher.targetctx
    module = sys.modules.get(function.__module__)
    if getattr(module, function.__name__, None) is not dispatcher:
        return
    described = copy.copy(compiled.fndesc)
    name = described.mangled_name = PREFIX + key
    place = compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name)
    llvm.add_symbol(name, place)
    _published[name] = function.__module__, function.__name__, compiled.signature.args
    target.remove_user_function(compiled.entry_point)
    target.insert_user_function(compiled.entry_point, described)


def needed_by(compiled):
    """{symbol: (module, name, argument types)} of the kernels that the code calls."""
    functions = compiled.library._final_module.functions
    called = [f.name for f in functions if f.is_declaration]
    return {name: _published[name] for name in called if name.startswith(PREFIX)}


# Symbols are loaded before the code that calls them, since a missing one ends the
# process (decision 0030).
def require(needed):
    """Compile or load what `needed_by` found; whether all its symbols are there now."""
    for module, name, arguments in needed.values():
        getattr(importlib.import_module(module), name).compile(arguments)
    return needed.keys() <= _published.keys()
