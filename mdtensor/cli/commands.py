"""The commands, their options and their exit codes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Typed tensors with multiple dispatch, and quantized inference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shape = Annotated[
    str | None,
    typer.Option("--shape", help="Input shape, such as 1,3,48,192.", metavar="SIZES"),
]


def emit(result: dict[str, Any], as_json: bool, show: Any) -> None:
    """`result` as JSON, or as `show` renders it."""
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        show(result)


@app.command()
def info(as_json: AsJson = False) -> None:
    """Versions, this CPU, and the kernels it gets."""
    from mdtensor.cli import report
    from mdtensor.cli.info import describe_host

    emit(describe_host(), as_json, report.show_info)


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Quantize a real network, run it on a real page, and compare with its peers."""
    from mdtensor.cli import report
    from mdtensor.cli.demo import run_demo

    emit(run_demo(report.progress()), as_json, report.show_demo)


@app.command()
def quantize(
    model: Annotated[Path, typer.Argument(help="A float ONNX model.")],
    data: Annotated[
        list[Path],
        typer.Option("--data", help=".npy or .npz files, or folders of them."),
    ],
    out: Annotated[Path, typer.Option("-o", "--output", help="QDQ ONNX to write.")],
    shape: Shape = None,
    observer: Annotated[
        str, typer.Option(help="How ranges are chosen: mse or minmax.")
    ] = "mse",
    keep_float: Annotated[
        list[str] | None, typer.Option(help="Name of a node to leave as it is.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Calibrate MODEL on data, quantize it, write QDQ ONNX."""
    from mdtensor.cli import report
    from mdtensor.cli.inference import quantize_file

    result = quantize_file(
        model, data, out, shape, observer, keep_float or (), report.progress()
    )
    emit(result, as_json, report.show_quantized)


@app.command()
def run(
    model: Annotated[Path, typer.Argument(help="A float or QDQ ONNX model.")],
    inputs: Annotated[list[Path], typer.Argument(help=".npy files, one an input.")],
    shape: Shape = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help=".npz file for the results.")
    ] = None,
    plan: Annotated[
        bool, typer.Option(help="Show what runs each node, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run MODEL on inputs from files."""
    from mdtensor.cli import report
    from mdtensor.cli.inference import run_file

    emit(run_file(model, inputs, shape, out, plan), as_json, report.show_run)
