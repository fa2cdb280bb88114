"""Names and signatures are the standard's, as array_api_strict carries them.

A function of ours may take more, by keyword and with a default; nothing else differs.
"""

import inspect
from typing import Any

import array_api_strict as strict
from support.each import each

import mdtensor as md

#: What array_api_strict has beside the standard.
ITS_OWN = {"ArrayAPIStrictFlags", "Device", "__version__"}
SPACES = {
    "": (strict, md),
    "linalg": (strict.linalg, md.linalg),
    "fft": (strict.fft, md.fft),
}
NAMES = [
    (space, name)
    for space, (theirs, _) in SPACES.items()
    for name in sorted({*theirs.__all__} - ITS_OWN)
    if "array_api_strict_flags" not in name
] + [("linalg", "eig"), ("linalg", "eigvals")]
METHODS = [
    name
    for name, found in inspect.getmembers(strict.asarray(0).__class__)
    if inspect.isfunction(found)
    and name not in ("__init__", "__new__", "__buffer__", "__array__", "__iter__")
    and name.startswith("__")
]
Parameter = inspect.Parameter


def both(space: str, name: str) -> tuple[Any, Any]:
    theirs, ours = SPACES[space]
    return getattr(theirs, name), getattr(ours, name)


@each("space, name", NAMES)
def test_every_name_is_there(space: str, name: str) -> None:
    theirs, ours = both(space, name)
    assert callable(ours) == callable(theirs)
    if isinstance(theirs, float):
        assert ours == theirs or theirs != theirs


@each(
    "space, name",
    [
        pair
        for pair in NAMES
        if inspect.isfunction(getattr(SPACES[pair[0]][0], pair[1]))
    ],
)
def test_signature(space: str, name: str) -> None:
    theirs, ours = both(space, name)
    same_parameters(inspect.signature(theirs), inspect.signature(ours))


@each("name", METHODS)
def test_method(name: str) -> None:
    theirs = inspect.signature(getattr(strict.asarray(0).__class__, name))
    same_parameters(theirs, inspect.signature(getattr(md.Tensor, name)))


def same_parameters(theirs: inspect.Signature, ours: inspect.Signature) -> None:
    mine = dict(ours.parameters)
    wanted = list(theirs.parameters.values())
    positional = [p for p in wanted if p.kind is not Parameter.KEYWORD_ONLY]
    for place, parameter in enumerate(positional):
        same = list(mine.values())[place]
        by_name = parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        assert not by_name or same.name == parameter.name, parameter
        assert same.kind in (parameter.kind, Parameter.POSITIONAL_OR_KEYWORD)
        assert same_default(parameter, same)
    for parameter in wanted[len(positional) :]:
        same = mine[parameter.name]
        assert same.kind is Parameter.KEYWORD_ONLY or parameter.kind == same.kind
        assert same_default(parameter, same)
    for name in list(mine)[len(positional) :]:
        extra = name not in theirs.parameters
        assert not extra or mine[name].kind is Parameter.KEYWORD_ONLY
        assert not extra or mine[name].default is not Parameter.empty


def same_default(theirs: Parameter, ours: Parameter) -> bool:
    """Undef is their way to see whether an argument was given at all."""
    undefined = type(theirs.default).__name__ == "Undef" and ours.default is None
    return undefined or ours.default == theirs.default
