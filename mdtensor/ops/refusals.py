"""What the compiler says of a function that it refuses, in words of this library."""

import re

from mdtensor.errors import OptionError
from mdtensor.kernels import refusal

refusal.error = OptionError  # for a MDTENSOR_ISA that kernels refuse, once loaded

#: What is refused, how it is said, and what would work.
WORDS = (
    (
        r"Untyped global name '(\w+)': .* <class 'function'>",
        "{0} is a function that is not compiled",
        "Decorate {0} with numba.njit",
    ),
    (
        r"Untyped global name '(\w+)': .* <class '(?:\w+\.)*(\w+)'>",
        "{0} is {1}, which compiled functions do not take",
        "Give it as an argument: numbers, and views of tensors",
    ),
    (
        r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'.*",
        "{1}.{0} is no function of numbers that can be compiled",
        "Use arithmetic, math, or NumPy's functions of numbers",
    ),
    (r"Unknown attribute '(\w+)' of type (\w+)", "{1} has no attribute '{0}'", ""),
    (
        r"OptionalType\(.*\) is written to elements of .*",
        "nothing is returned on one path, a number on another",
        "Let every path return a number",
    ),
    (
        r"Cannot unify (\S+) and (\S+) for '(\w+)[.\d]*'.*",
        "{2} is {0} in one place and {1} in another",
        "Use one name for each",
    ),
    (r"(.* is not supported)[. ]*Raised from None", "{0}", ""),
    (r"(the view is for reading.*)", "{0}", "Use flat_out(x) or ranked_out(x)"),
    (r"(nothing is written.*)", "{0}", "Let every path return a number"),
    (r"(NameError.*)", "{0}", "Define it before the call"),
    (r"(uint64 meets.*)", "{0}", "Write np.uint64(n) of the signed one"),
    (
        r"(.* to elements of u?int\d+)",
        "{0}",
        "Use astype(x, float32), or elementwise(dtype=float32)",
    ),
)
#: Names of numba's types that Python calls otherwise.
_TYPES = ((r"Literal\[(\w+)\]\([^)]*\)", r"\1"), (r"\bunicode_type\b", "str"))


def explained(reason: str) -> tuple[str, str]:
    """What is wrong, and what would work; empty where nothing is known.

    Example:
        >>> explained("Untyped global name 'f': Cannot determine Numba type of "
        ...           "<class 'function'>")
        ('f is a function that is not compiled', 'Decorate f with numba.njit')
    """
    for theirs, ours in _TYPES:
        reason = re.sub(theirs, ours, reason)
    for pattern, problem, fix in WORDS:
        found = re.fullmatch(pattern, reason)
        if found:
            parts = found.groups()
            return problem.format(*parts), fix.format(*parts)
    return reason, ""
