"""Plans that `load` keeps on disk, so that a later process need not plan again.

A file is found by the content of the model, the options of `load`, the ISA, and the
sources of mdtensor. Everything in it is checked when it is read, as in any stored plan.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import MdtensorError, ModelError, OptionError
from mdtensor.graph import Graph
from mdtensor.graph.bound import Compiled
from mdtensor.graph.plan import Plan
from mdtensor.quant.plans.network import spec_of
from mdtensor.quant.plans.write import write_plan
from mdtensor_run.errors import PlanError
from mdtensor_run.fields import Fields
from mdtensor_run.layout import open_plan
from mdtensor_run.packing import PACKINGS
from mdtensor_run.runner import Value

#: `off`, or the folder of the plans.
VARIABLE = "MDTENSOR_PLANS"
OFF = "off"
#: The most bytes of a model that is kept, and of all plans.
LARGEST, MOST_BYTES = 128 << 20, 512 << 20
#: ONNX files name the files of weights outside of them by this key.
OUTSIDE = b"location"


class Kept(NamedTuple):
    """What a kept plan tells before its steps are read.

    Args:
        path: of the plan.
        inputs: type and shape of each input of the model; -1 stands for any size.
        planned: the spec of each input of the plan.
        outputs: the names of the results.
    """

    path: Path
    inputs: dict[str, TensorSpec]
    planned: dict[str, TensorSpec]
    outputs: tuple[str, ...]


def folder() -> Path | None:
    """Return the folder of the plans; None if there is none.

    Raises:
        OptionError: the variable is neither `off` nor the absolute path of a folder.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen == OFF:
        return None
    if chosen:
        if not Path(chosen).is_absolute():
            problem = f"{VARIABLE} is {chosen!r}"
            raise OptionError(problem, "Set it to off, or to an absolute path")
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # neither HOME nor an entry of the user in passwd
        return None
    # The standard of XDG ignores relative paths.
    return home / "mdtensor" / "plans" if home.is_absolute() else None


def may_keep() -> bool:
    """Return whether plans of this process are those of every other one.

    They are not if another package, or the program, has added methods to operations of
    mdtensor: a plan runs the methods that were there when it was made.
    """
    return not md.registry.contributors()


# A file that was copied or restored is the same model (decision 0084).
def place_of(path: Path, options: object, isa: str) -> Path | None:
    """Return where the plan of a model is kept; None if none is kept.

    Args:
        path: of the model.
        options: those of `load`; their text must tell them apart.
        isa: the ISA of the plan.
    """
    at = folder()
    try:
        if at is None or isa not in PACKINGS or path.stat().st_size > LARGEST:
            return None
        content = path.read_bytes()
    except (OSError, ValueError):  # no file, or a path with a zero byte
        return None
    # Weights in another file can change while the model does not.
    if OUTSIDE in content:
        return None
    text = hashlib.blake2b(content, digest_size=16)
    text.update(repr((options, isa, md.__version__, sources())).encode())
    return at / f"{text.hexdigest()}.mdt"


# In a checkout the version stays while the planner changes.
@cache
def sources() -> str:
    """Return a hash of names, sizes and times of the sources of mdtensor."""
    text = hashlib.blake2b(digest_size=16)
    for root in sorted({*md.__path__, str(Path(__file__).parents[1])}):
        for name, size, time in sorted(_sources_in(root)):
            text.update(f"{name[len(root) :]} {size} {time}\n".encode())
    return text.hexdigest()


def _sources_in(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield (path, size, time) of each Python file in a folder, in any order."""
    # Entries of a folder tell sizes and times without a `Path` for each file, which
    # would take most of the time.
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                facts = entry.stat()
                yield entry.path, facts.st_size, facts.st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from _sources_in(entry.path)


def find(path: Path) -> Kept | None:
    """Return the description of a kept plan; None if there is none that is whole."""
    try:
        header = open_plan(path).header
        fields = Fields(path, header, "")
        values = fields.each("inputs", Value.read)
        outputs = [value.name for value in fields.each("outputs", Value.read)]
        planned = {value.name: spec_of(value) for value in values}
        shapes = header["model"]["inputs"]
        inputs = {
            name: spec.with_shape(tuple(shapes[name])) for name, spec in planned.items()
        }
    except (PlanError, MdtensorError, KeyError, TypeError, ValueError):
        return None
    with suppress(OSError):  # the folder may be another user's
        os.utime(path)
    return Kept(path, inputs, planned, tuple(outputs))


def keep(path: Path, plan: Plan, isa: str, name: str, graph: Graph) -> None:
    """Keep a plan if it can be stored, and drop those that were used longest ago.

    Args:
        path: a result of `place_of`.
        plan: the plan for the input shapes of one call.
        isa: its ISA.
        name: of the model, for lists.
        graph: of the model, with its own input shapes.
    """
    shapes = {key: [*map(int, spec.shape)] for key, spec in graph.inputs.items()}
    facts = {"name": name, "inputs": shapes, "sources": sources()}
    # A result that no step writes is an input or a constant, which callers must not
    # share.
    written = [n for part in plan.parts for n in getattr(part, "writes", ())]
    if graph.states or any(written.count(n) != 1 for n in graph.outputs):
        return
    # A plan runs its calls and compiled parts as one call, a runner one by one.
    if not all(isinstance(part, Compiled) for part in plan.parts):
        return
    # A plan is not kept where nobody may write, or on a full disk.
    with suppress(ModelError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plan(path, {isa: plan}, facts)
        drop(path.parent, MOST_BYTES)


def entries() -> Iterator[Path]:
    """Yield the files of all kept plans."""
    at = folder()
    if at is not None:
        yield from sorted(at.glob("*.mdt"))


def about(path: Path) -> dict[str, str]:
    """Return the name of the model and the hash of the sources; empty if damaged."""
    try:
        found = open_plan(path).header["model"]
        return {key: str(found[key]) for key in ("name", "sources")}
    except (PlanError, KeyError, TypeError):
        return {}


def drop(place: Path, most: int) -> None:
    """Delete the plans used longest ago until the others have at most `most` bytes."""
    found = []
    for path in place.glob("*.mdt"):
        with suppress(OSError):  # another process deletes, too
            facts = path.stat()
            found.append((facts.st_mtime_ns, facts.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        with suppress(OSError):
            path.unlink(missing_ok=True)
        total -= size
