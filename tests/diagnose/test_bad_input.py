"""Whatever the checker is given: an answer, or one sentence of ours."""

import sys
import typing
from typing import Any

import numpy as np
import plum
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import diagnose
from mdtensor.errors import MdtensorError, OptionError


class Speechless:
    def __repr__(self):
        raise ValueError("no words")


class Opaque:
    def __getattr__(self, name):
        raise RuntimeError("nothing is bound to this proxy")


class Fickle(type):
    def __subclasscheck__(cls, other):
        raise ValueError("who knows")


class Undecided(metaclass=Fickle): ...


class Unhashable:
    __hash__ = None


dispatch = plum.Dispatcher()


@dispatch
def known(a: int, *b: str): ...


endless: list[Any] = []
endless.append(endless)
deep: Any = md.add
for _ in range(5000):
    deep = [deep]

ODD = [None, True, -1, float("nan"), 10**5000, "", "add", "\ud800", "x" * 9999, b"\xff"]
ODD += [object(), Speechless(), Opaque(), Undecided, Undecided(), Unhashable()]
ODD += [endless, deep, [None], ["add"], {}, {"add": 1}, (), {int}, range(10**12)]
ODD += [np.zeros(3), np.float32(1), md.ones(2), np.array([md.add], object), ...]
ODD += [int, type, type(None), Exception, md.Tensor, md.Float32Tensor, diagnose.Report]
ODD += [Any, int | str, list[int], typing.Literal[1]]
ODD += [typing.TypeVar("T"), typing.Callable[[int], str], typing.ForwardRef("int")]
ODD += [typing.Union[int, "Undecided"], list["list[int]"], "Union[int, 'R']"]
ODD += [print, lambda: 0, sys, plum, property(), md.add.operation, md.add.select]
ODD += [md.neg, md.concat, known, dispatch, plum.Dispatcher(), [md.neg, known]]


def promised(function, *types):
    promise = diagnose.contract(function, *types)
    try:
        diagnose.analyze(function)
    finally:
        promise.withdraw()


def frozen(functions):
    try:
        diagnose.freeze(functions)
    finally:
        diagnose.thaw()


QUESTIONS = {
    "analyze": lambda x, y: str(diagnose.analyze(x)),
    "analyze over": lambda x, y: str(diagnose.analyze([md.neg, known], x)),
    "analyze over several": lambda x, y: str(diagnose.analyze(known, [x, y])),
    "which": lambda x, y: diagnose.which(x, y),
    "which of": lambda x, y: diagnose.which(md.add, x, y),
    "explain": lambda x, y: str(diagnose.explain(x, y)),
    "explain of": lambda x, y: str(diagnose.explain(known, x, y)),
    "explain a sequence": lambda x, y: str(diagnose.explain(md.concat, x, y)),
    "suggest": lambda x, y: str(diagnose.suggest(x, y)),
    "suggest of": lambda x, y: str(diagnose.suggest(known, x, y)),
    "methods": lambda x, y: diagnose.methods(x),
    "methods with": lambda x, y: diagnose.methods_with(x, [md.neg]),
    "coverage": lambda x, y: str(diagnose.coverage(x)),
    "coverage over": lambda x, y: str(diagnose.coverage(md.neg, [x, y])),
    "plan": lambda x, y: diagnose.plan(x),
    "plan over": lambda x, y: diagnose.plan(known, x),
    "contract": lambda x, y: promised(x, y),
    "contract of": lambda x, y: promised(known, x, y),
    "freeze": lambda x, y: frozen(x),
    "thaw": lambda x, y: diagnose.thaw(x),
    "rule": lambda x, y: diagnose.rule(x),
    "level": lambda x, y: diagnose.analyze(md.neg).at_least(x),
    "of": lambda x, y: diagnose.analyze(md.neg).of(x, y),
}
#: What is answered for none of these things, and what for all: values have types.
NEVER = {"level", "rule"}
ALWAYS = {"of", "explain of", "suggest of", "explain a sequence"}
odd = st.sampled_from(ODD)


def asked(question, x, y):
    """True if it was answered; of a refusal the text is a sentence."""
    try:
        QUESTIONS[question](x, y)
    except MdtensorError as error:
        text = str(error)
        assert text.endswith(".") and len(text) < 2000 and "\n" not in text
        assert " at 0x" not in text and error.problem
        return False
    return True


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_odd_thing(question):
    answers = [asked(question, x, int) for x in ODD]
    assert any(answers) != (question in NEVER)
    assert all(answers) == (question in ALWAYS)


@given(st.sampled_from(list(QUESTIONS)), odd, odd | st.lists(odd, max_size=3))
def test_odd_things_together(question, x, y):
    asked(question, x, y)
    asked(question, y, x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: diagnose.analyze([[md.add]]),
            "expected an operation or a plum function, not [<function add>]",
        ),
        (
            lambda: diagnose.analyze(md.neg, 3),
            "a universe is a list of classes, not 3. Pass a list of classes.",
        ),
        (
            lambda: diagnose.analyze(md.neg, known),
            "not the function known. Pass several functions as one list: analyze([neg,",
        ),
        (lambda: diagnose.rule(3), "no rule 3. There are MDT001, "),
        (lambda: diagnose.contract(known, "int"), "not 'int'. Pass the plain class"),
    ],
)
def test_words(call, words):
    with pytest.raises(OptionError) as caught:
        call()
    assert words in str(caught.value)


def test_what_comes_one_by_one_is_frozen_too():
    try:
        diagnose.freeze(function for function in [md.neg])
        assert md.neg.operation.frozen
    finally:
        diagnose.thaw(md.neg)
