"""Keys of users' functions: which two compile to the same code.

`identity` is a key within a process. Two functions are equal if their code, their
closures and the values that they read are equal; an object equals only itself.

`content` is a key for all processes: bytes made of code and values. A function that
reads a value which bytes do not describe, such as an instance of a class, has none.
"""

import hashlib
import sys
from functools import cache
from itertools import chain
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType

import numpy as np

#: Values whose type and text say all.
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
#: A name in these modules means the same in all processes: the key has the versions of
#: Python and NumPy, and the stamp of the cache has the sources of the kernels.
KNOWN = ("builtins", "math", "cmath", "_operator", "numpy", "mdtensor.kernels")
VERSIONS = f"{sys.version} {np.__version__}".encode()


def identity(function):
    """Return the code of a function, and the values that it reads, by name."""
    code = function.__code__
    seen = set()
    closed, read = _spaces(function)
    return (
        code,
        *((name, _key(value)) for name, value in _values(closed, code, seen)),
        *((name, _key(value)) for name, value in _values(read, code, seen)),
    )


# A name may mean another value in the next process, so values are part of the key
# (decision 0059).
def content(function):
    """Return bytes that name the code of a function and what it reads, or None.

    They change with the name of the file and the first line, because a traceback shows
    both.
    """
    found = hashlib.sha256(VERSIONS)
    try:
        _add(found, function, [])
    except _Unknown:
        return None
    return found.digest()


@cache
def names_read(code):
    """Return the names that a code object, and code objects inside it, may read."""
    inner = [names_read(found) for found in code.co_consts if hasattr(found, "co_code")]
    return tuple(dict.fromkeys((*code.co_names, *chain(*inner))))


def _spaces(function):
    """Return the closure and the globals of a function as dictionaries."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    closed = dict(zip(function.__code__.co_freevars, cells, strict=True))
    return closed, function.__globals__


def _values(space, code, seen):
    """Yield (name, value) of what code reads from a namespace and its modules."""
    names = (*code.co_freevars, *names_read(code))
    for name in names:
        if name not in space:
            continue
        value = space[name]
        yield name, value
        if isinstance(value, ModuleType) and id(value) not in seen:
            seen.add(id(value))
            yield from _values(vars(value), code, seen)


def _key(value):
    """Return a key of a value: type and digits of a number, else the identity.

    So 1 differs from 1.0, and 0.0 from -0.0.
    """
    if isinstance(value, bool | int | float | complex):
        return type(value), repr(value)
    return _Same(value)


class _Same:
    """A key that equals only the same object.

    The key keeps the object alive, so that no other object gets its address.
    """

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self):
        return id(self.value)


class _Unknown(Exception):
    """A value that bytes do not describe."""


def _add(found, value, open_functions):
    """Add the content of a value to a hash.

    Args:
        open_functions: the functions around this value, since one may call itself.

    Raises:
        _Unknown: bytes do not describe the value.
    """
    found.update(f"({type(value).__module__}.{type(value).__qualname__}:".encode())
    if type(value) in PLAIN or isinstance(value, np.dtype):
        found.update(repr(value).encode())
    elif type(value) in (tuple, frozenset):
        _add_several(found, value, open_functions)
    elif isinstance(value, np.ndarray | np.generic):
        _add_array(found, np.asarray(value))
    elif isinstance(value, CodeType):
        _add_code(found, value, open_functions)
    elif isinstance(value, ModuleType):
        found.update(value.__name__.encode())
    elif _is_known(value):
        found.update(f"{value.__module__}.{value.__name__}".encode())
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
        # numba compiled it, with options such as fastmath.
        found.update(repr(sorted(value.targetoptions.items())).encode())
        _add_function(found, value.py_func, open_functions)
    elif isinstance(value, FunctionType):
        _add_function(found, value, open_functions)
    else:
        raise _Unknown
    found.update(b")")


def _add_several(found, values, open_functions):
    """Add the content of each of several values."""
    if isinstance(values, frozenset):
        # The order of a set differs between processes.
        values = sorted(values, key=repr)
    found.update(f"{len(values)}:".encode())
    for value in values:
        _add(found, value, open_functions)


def _add_array(found, array):
    """Add type, shape and bytes of an array."""
    if array.dtype.hasobject:
        raise _Unknown
    found.update(f"{array.dtype!r} {array.shape} {array.flags.c_contiguous}".encode())
    found.update(array.tobytes())


def _add_code(found, code, open_functions):
    """Add all of a code object that changes what is compiled or shown."""
    place = PurePath(code.co_filename).name, code.co_firstlineno
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    found.update(repr((code.co_qualname, place, counts, code.co_flags, names)).encode())
    found.update(code.co_code + code.co_linetable + code.co_exceptiontable)
    _add_several(found, code.co_consts, open_functions)


def _add_function(found, function, open_functions):
    """Add the code of a function, its defaults and what it reads."""
    if function in open_functions:
        found.update(f"outer {open_functions.index(function)}".encode())
        return
    inner = [*open_functions, function]
    found.update(function.__module__.encode() if function.__module__ else b"-")
    code = function.__code__
    _add_code(found, code, inner)
    _add(found, function.__defaults__ or (), inner)
    _add(found, tuple(sorted((function.__kwdefaults__ or {}).items())), inner)
    seen = set()
    for space in _spaces(function):
        for name, value in _values(space, code, seen):
            found.update(name.encode())
            _add(found, value, inner)


def _is_known(value):
    """Return whether a value is what a name in a module of `KNOWN` means."""
    module = getattr(value, "__module__", None) or ""
    name = getattr(value, "__name__", None) or ""
    roots = (f"{module}.".startswith(f"{known}.") for known in KNOWN)
    return any(roots) and getattr(sys.modules.get(module), name, None) is value
