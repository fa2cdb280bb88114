"""Options that several commands have, declared once so that their help is the same."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mdtensor.cli.outputs import file_name

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Input shape, such as 1,3,48,192; NAME=SIZES for each of several inputs.",
        metavar="SIZES",
    ),
]
AnyModel = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A float or quantized ONNX or TFLite model."),
]
KeepFloat = Annotated[
    list[str] | None,
    typer.Option(metavar="NODE", help="Name of a node to keep in float; repeatable."),
]


def output(what: str, *more: str) -> Any:
    """Return the option for the file that a command writes."""
    names = "-o", "--output", *more
    return typer.Option(*names, metavar="PATH", parser=file_name, help=what)
