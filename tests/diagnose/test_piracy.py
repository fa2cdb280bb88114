"""MDT005: methods of a package that owns neither the function nor a type."""

import plum

import mdtensor as md
from mdtensor import diagnose
from mdtensor.diagnose.source import distribution


class Tower: ...


class House(Tower): ...


for cls in (Tower, House):
    cls.__module__ = "houses"


def extended(kind: type) -> diagnose.Finding:
    """The finding about a method for `kind` of a package without own types."""
    dispatch = plum.Dispatcher()

    @dispatch
    def build(a: Tower): ...

    build.__wrapped__.__module__ = "houses"

    def pirate(a: kind): ...  # type: ignore[valid-type]

    pirate.__module__ = "pirates"
    build.register(pirate)
    (found,) = diagnose.analyze(build, universe=[Tower, House, str]).of("MDT005")
    return found


def test_a_method_for_calls_that_failed_is_a_warning() -> None:
    found = extended(str)
    assert (found.level, found.count, found.witness) == ("warning", 0, ())
    assert "takes over" not in found.message


def test_a_method_that_takes_over_calls_is_an_error_with_their_number() -> None:
    found = extended(House)
    assert (found.level, found.count, found.total) == ("error", 1, 3)
    assert found.message.endswith("and takes over 1 call that worked")
    assert found.witness == ("House",)
    assert found.fix.endswith("a type of pirates, or ask houses for the method")


def test_a_suggestion_says_who_may_write_it() -> None:
    found = diagnose.suggest(md.mul, md.Int8Tensor, bytes)
    assert found.owners == ("mdtensor",)
    assert "Define in mdtensor\n  from mdtensor" in str(found)
    assert f"\n  @method(mul)\n  {found.header}\n" in str(found)
    assert str(found).endswith("In another package it is method piracy (MDT005).")


# The package of a type defines the method, with the names of its module.
def test_a_suggestion_for_an_own_type_is_written_for_its_module() -> None:
    kind = type("Text", (), {"__module__": __name__})
    found = diagnose.suggest(md.mul, md.Int8Tensor, kind)
    assert found.owners == (distribution(__name__),)
    assert "@md.method(md.mul)\n" in found.source
    assert "x1: md.Int8Tensor, x2: Text, /" in found.header


def test_a_suggestion_for_an_own_function_is_written_for_its_module() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def build(a: Tower): ...

    found = diagnose.suggest(build, md.Int8Tensor)
    assert found.owners == (distribution(__name__),)
    assert found.source == "@dispatch\ndef build(a: md.Int8Tensor): ..."
