"""Files that commands write: complete or not at all, and never over an input."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from mdtensor import files
from mdtensor.errors import OptionError
from mdtensor.spec.options import file_path

Inputs = Mapping[str, Iterable[Path]]


def file_name(text: str) -> Path:
    """Return an option as the path of a file.

    Raises:
        BadParameter: the text is the name of a folder.
    """
    # As a method of options: typer turns other errors into "invalid value".
    try:
        return file_path(text, "the output")
    except OptionError as error:
        raise typer.BadParameter(str(error)) from None


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text in UTF-8.

    Raises:
        OptionError: the file cannot be written.
    """
    # In UTF-8 whatever the locale, because the files are shared.
    try:
        files.write_text(path, text)
    except OSError as error:
        raise OptionError(*files.write_problem(path, error)) from None


def require_writable(path: Path) -> None:
    """Raise before the work if a file cannot be written after it.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        files.require_writable(path)
    except OSError as error:
        raise OptionError(*files.write_problem(path, error)) from None


def check_apart(out: Path | None, inputs: Inputs) -> None:
    """Raise if an output cannot be written, or would replace an input.

    Args:
        out: the output; None for stdout.
        inputs: the files that the command reads, by what they are: "the model itself".

    Raises:
        OptionError: `out` is one of `inputs`, or cannot be written.
    """
    if out is None:
        return
    require_writable(out)
    if not out.exists():
        return
    for what, paths in inputs.items():
        # `samefile` and not the paths, which may reach one file by a link or another
        # spelling.
        if any(path.exists() and out.samefile(path) for path in paths):
            raise OptionError(
                f"{out} is {what}, which would be lost", "Choose another name"
            )


def model_inputs(model: Path) -> Inputs:
    """Return a model file and the files of its external data, for `check_apart`."""
    return {"the model itself": [model], "data of the model": _data_files(model)}


def _data_files(model: Path) -> Iterator[Path]:
    """Yield the files of external data, in the folder of the model."""
    # Imported and read only if the output exists, which is rare.
    from mdtensor.quant.model.onnx.files import read_model
    from mdtensor.quant.model.tflite.identifier import is_tflite

    if is_tflite(model):
        return

    for tensor in _tensors(read_model(model).graph):
        for entry in tensor.external_data:
            if entry.key == "location":
                yield model.parent / entry.value


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield the tensors of a GraphProto and of the graphs in it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def source_inputs(*more: Path | None) -> Inputs:
    """Return the sources of all imported modules, and other files that exist."""
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    return {
        "the baseline itself": [path for path in more if path is not None],
        "the source of a module": [Path(name) for name in modules if name],
    }
