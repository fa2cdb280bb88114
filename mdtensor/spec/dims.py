"""Sizes that are unknown until an operation runs, with or without a name.

    a     b     broadcast                 made equal
    M     M     M                         M
    M     -1    -1: it may be 1           M
    M     1     M                         1
    M     4     4: M is 1 or 4            4
    M     N     -1: one may be 1          M

Sizes that are known only at run time are checked then: different ones raise ShapeError.

Source: PyPTO, `kDynamicDim` and `pl.dynamic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mdtensor.errors import OptionError, ShapeError, shown

Shape = tuple[int, ...]
#: An unknown size.
DYNAMIC = -1


# A named size is an int, -1, so that rules that ignore names need no change (decision
# 0010).
class Dim(int):
    """A size that is unknown but has a name: the same name is the same size.

    Code that does not look at names sees `DYNAMIC`, -1. A `Dim` equals -1 and any
    `Dim` of the same name. Arithmetic and ordering raise, because they would compute
    with -1 instead of the size.

    Args:
        name: any text.

    Raises:
        OptionError: `name` is not a str, or is empty.
        ShapeError: the size is computed with, or ordered.

    Example:
        >>> import mdtensor as md
        >>> x = md.TensorSpec(md.Float32Tensor, (md.Dim("M"), 8))
        >>> w = md.TensorSpec(md.Float32Tensor, (8, md.Dim("N")))
        >>> md.infer(md.matmul, x, w)
        TensorSpec(Float32Tensor[M,N])

    Source: PyPTO, `pl.dynamic("M")`.
    """

    name: str

    def __new__(cls, name: str) -> Dim:
        if not isinstance(name, str) or not name:
            raise OptionError(f"the name of a dimension is {shown(name)}", "Use a str")
        new = super().__new__(cls, DYNAMIC)
        new.name = name
        return new

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self.name == other.name
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__  # equal to -1, so it hashes as -1

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.name,)

    __array_ufunc__ = None  # or NumPy's arrays would compute with -1


def _refusing(form: str) -> Callable[..., Any]:
    """Return the special method for `form`, which raises for an unknown size x."""

    def refuse(x: Dim, *others: Any) -> Any:
        told = form.format(x=x, y=shown(*others[:1]) if others else "")
        fix = f"Use -1 where a size depends on {x}"
        raise ShapeError(f"{told} is not known before the operation runs", fix)

    return refuse


_NAMES = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor"
_SIGNS = "+ - * / // % ** @ << >> & | ^"
_INFIX = dict(zip(_NAMES.split(), _SIGNS.split(), strict=True))
_ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CALLS = ("abs", "round", "trunc", "floor", "ceil", "float", "complex")
_FORMS = {
    **{name: f"{{x}} {sign} {{y}}" for name, sign in (_INFIX | _ORDER).items()},
    **{f"r{name}": f"{{y}} {sign} {{x}}" for name, sign in _INFIX.items()},
    **{name: f"{name}({{x}})" for name in _CALLS},
    "neg": "-{x}",
    "pos": "+{x}",
    "invert": "~{x}",
    "divmod": "divmod({x}, {y})",
    "rdivmod": "divmod({y}, {x})",
}
# int would compute with -1 and give a wrong size without an error.
for _name, _form in _FORMS.items():
    setattr(Dim, f"__{_name}__", _refusing(_form))


def longer(size: int, by: int) -> int:
    """Return a size plus `by`; -1 if the size is unknown, unless `by` is 0.

    Example:
        >>> longer(4, -1), longer(4, -9), longer(Dim("M"), 0), longer(Dim("M"), 1)
        (3, 0, M, -1)
    """
    # A name survives only if the size surely stays the same.
    if by == 0:
        return size
    return DYNAMIC if size == DYNAMIC else max(size + by, 0)


def multiply_size(size: int, times: int) -> int:
    """Return a size times a count; -1 if unknown, unless the count is 0 or 1.

    Example:
        >>> multiply_size(4, 2), multiply_size(Dim("M"), 1), multiply_size(Dim("M"), 2)
        (8, M, -1)
    """
    # Repeating 0 times gives 0 even if the size is unknown.
    if times < 2:
        return size if times else 0
    return DYNAMIC if size == DYNAMIC else size * times


def common_size(sizes: Iterable[int]) -> int:
    """Return the one size of several equal ones: known, else named, else -1.

    Raises:
        ShapeError: two known sizes differ.

    Example:
        >>> common_size([-1, Dim("M")]), common_size([4, -1, Dim("M")])
        (M, 4)
    """
    found = DYNAMIC
    for size in sizes:
        if size != DYNAMIC:
            if found not in (DYNAMIC, size):
                raise ShapeError(f"sizes differ, {found} and {size}")
            found = size
        # A name says more than -1; of two names the first stays, as either may be
        # right.
        elif found == DYNAMIC and not isinstance(found, Dim):
            found = size
    return found


def bind_dims(specs: Iterable[Any], tensors: Iterable[Any]) -> dict[str, int]:
    """Find the sizes that tensors give to the named dimensions of their specs.

    Args:
        specs: the expected specs, each with a shape of sizes, -1 and `Dim`.
        tensors: the actual tensors, one for each spec.

    Returns:
        A size for each name.

    Raises:
        ShapeError: ranks differ, a known size differs, or a name gets two sizes.
        OptionError: `specs` and `tensors` are not lists of the same length.

    Example:
        >>> import mdtensor as md
        >>> rows = md.TensorSpec(md.Float32Tensor, (md.Dim("M"), 8))
        >>> md.bind_dims([rows, rows], [md.zeros((4, 8)), md.zeros((4, 8))])
        {'M': 4}
        >>> md.bind_dims([rows, rows], [md.zeros((4, 8)), md.zeros((3, 8))])
        Traceback (most recent call last):
        mdtensor.errors.ShapeError: M is 4 and 3. Use a name for one size only.
    """
    found: dict[str, int] = {}
    for spec, tensor in _pairs(specs, tensors):
        wanted, given = spec.shape, tensor.shape
        if len(wanted) != len(given):
            raise ShapeError(f"shape {given} is not of the form {wanted}")
        for size, actual in zip(wanted, given, strict=True):
            if isinstance(size, Dim):
                # Dims of one name may stand in several specs, so all of them must
                # agree.
                if found.setdefault(size.name, actual) != actual:
                    raise ShapeError(
                        f"{size} is {found[size.name]} and {actual}",
                        "Use a name for one size only",
                    )
            elif size not in (actual, DYNAMIC):
                raise ShapeError(f"shape {given} is not of the form {wanted}")
    return found


def _pairs(specs: object, tensors: object) -> Iterable[tuple[Any, Any]]:
    """Pair each spec with its tensor.

    Raises:
        OptionError: not lists, of different lengths, or an item without a shape.
    """
    listed = []
    for name, given in (("specs", specs), ("tensors", tensors)):
        if not isinstance(given, Iterable) or hasattr(given, "shape"):
            problem = f"{name} is {shown(given)}"
            raise OptionError(problem, "Give a list", "bind_dims")
        listed.append([*given])
        for one in listed[-1]:
            if not isinstance(getattr(one, "shape", None), tuple):
                problem = f"one of {name} is {shown(one)}, which does not have a shape"
                raise OptionError(problem, "Give specs and tensors", "bind_dims")
    if len(listed[0]) != len(listed[1]):
        problem = f"there are {len(listed[0])} specs and {len(listed[1])} tensors"
        raise OptionError(problem, "Give a tensor for each spec", "bind_dims")
    return zip(*listed, strict=True)
