"""The commands and their options."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import mdtensor
from mdtensor.cli.cache.commands import app as cache
from mdtensor.cli.dispatch.commands import app as dispatch
from mdtensor.cli.outputs import file_name

app = typer.Typer(
    help="Typed tensors with multiple dispatch, and quantized inference.",
    add_completion=False,
    # Help is plain text, the same in every terminal and pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dispatch, name="dispatch")
app.add_typer(cache, name="cache")
# Options of several commands are declared once, so that their help is the same.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Input shape, such as 1,3,48,192; NAME=SIZES for each of several inputs.",
        metavar="SIZES",
    ),
]


def output(what: str, *more: str) -> Any:
    """Return the option for the file that a command writes."""
    names = "-o", "--output", *more
    return typer.Option(*names, metavar="PATH", parser=file_name, help=what)


def emit(result: dict[str, Any], as_json: bool, show: Any) -> None:
    """Print `result` as JSON, or as `show` renders it."""
    # Each command imports what it needs, so that `mdtensor --help` stays fast.
    from mdtensor.cli import report

    if as_json:
        # NaN is not valid JSON, so it must fail here and not at the reader.
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
    else:
        typer.echo(report.text_of(show, result))


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.")
    ] = False,
) -> None:
    """Print the version, or the list of commands."""
    if version:
        typer.echo(f"mdtensor {mdtensor.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def info(as_json: AsJson = False) -> None:
    """Show versions, this CPU, and the kernels that run on it."""
    from mdtensor.cli import report
    from mdtensor.cli.host import describe_host

    emit(describe_host(), as_json, report.show_info)


@app.command()
def support(
    operation: Annotated[
        str, typer.Argument(help="Pattern of names, such as add, linalg.* or log*.")
    ] = "*",
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="One device, such as cpu.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import", metavar="MODULE", help="Package with more types or operations."
        ),
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the element types that each operation takes, on each device."""
    from mdtensor.cli import host as view

    facts = view.describe_support(operation, device, modules or ())
    emit(facts, as_json, view.show_markdown if as_markdown else view.show_support)


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Quantize a real network, run it on a real page, and compare with ONNX Runtime."""
    from mdtensor.cli import report
    from mdtensor.cli.demo import run_demo

    emit(run_demo(report.progress()), as_json, report.show_demo)


@app.command()
def quantize(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A float ONNX or TFLite file.")
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            "--data", metavar="PATH", help=".npy or .npz files, or folders of them."
        ),
    ],
    out: Annotated[Path, output("QDQ ONNX to write.")],
    shape: Shapes = None,
    observer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Observer of ranges: mse, minmax, average, percentile or entropy.",
        ),
    ] = "mse",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Algorithm for the weights: rtn, mse, hqq or gptq; `quantize-weights` "
            "has awq too.",
        ),
    ] = "rtn",
    weight_dtype: Annotated[
        str, typer.Option(metavar="NAME", help="Type of the weights: qint8 or qint4.")
    ] = "qint8",
    reduce_range: Annotated[
        bool,
        typer.Option(
            "--reduce-range",
            help="Use 7 bits of qint8, for ONNX Runtime on CPUs without VNNI.",
        ),
    ] = False,
    correct_bias: Annotated[
        bool,
        typer.Option(
            "--correct-bias", help="Correct biases for the rounding of weights."
        ),
    ] = False,
    equalize: Annotated[
        bool,
        typer.Option(
            "--equalize", help="First equalize channel ranges of adjacent layers."
        ),
    ] = False,
    smooth: Annotated[
        float | None,
        typer.Option(
            metavar="STRENGTH",
            help="First move activation ranges into weights: 0 to 1, such as 0.5.",
        ),
    ] = None,
    rounding: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Preset whose bytes results have: exact (half to even), onnx, "
            "ort_cpu, tflite_ref, tflite_opt, xnnpack_x86 or xnnpack_arm.",
        ),
    ] = "exact",
    keep_float: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Name of a node to leave as it is."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Largest relative error on --held-out, such as 0.01; nodes stay "
            "float until it is met.",
        ),
    ] = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="Samples for --budget that --data does not have."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the float model on the same data."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Calibrate MODEL on data, quantize it, write QDQ ONNX.

    An array is split along its first axis into samples of the model's input. For a
    model with one input, all arrays in a .npz file are samples, whatever their names;
    for a model with several inputs, it holds an array for each, by name.
    """
    from mdtensor.cli import report
    from mdtensor.cli.models import quantize_file

    result = quantize_file(
        model,
        data,
        out,
        shape or (),
        observer,
        {"equalize": equalize, "smooth": smooth},
        {
            "method": method,
            "weight_dtype": weight_dtype,
            "reduce_range": reduce_range,
            "correct_bias": correct_bias,
            "rounding": rounding,
        },
        keep_float or (),
        check,
        budget,
        held_out or (),
    )
    emit(result, as_json, report.show_quantized)


@app.command()
def compare(
    model: Annotated[
        Path, typer.Argument(metavar="FLOAT", help="A float ONNX or TFLite file.")
    ],
    quantized: Annotated[
        Path, typer.Argument(metavar="INT8", help="What `quantize` made of it.")
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            "--data", metavar="PATH", help=".npy or .npz files, or folders of them."
        ),
    ],
    shape: Shapes = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=file_name,
            help="Page with the graph, errors, times and all nodes.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the error of each node of INT8, where it arises, and what helps.

    The worst nodes are printed, all with --json. Use data that calibration has not
    seen.
    """
    from mdtensor.cli import compare as view

    result = view.compare_files(model, quantized, data, shape or (), html)
    emit(result, as_json, view.show_comparison)


@app.command()
def quantize_weights(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A float ONNX or TFLite file.")
    ],
    out: Annotated[Path, output("ONNX to write.")],
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Algorithm for weights: rtn, mse, hqq, gptq or awq."
        ),
    ] = "rtn",
    weight_dtype: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Type of the weights: qint8, quint8, qint4 or quint4."
        ),
    ] = "qint8",
    asymmetric: Annotated[
        bool, typer.Option("--asymmetric", help="Allow zero points other than 0.")
    ] = False,
    block_size: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Inputs of one output channel that share a scale."
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data", metavar="PATH", help="Samples for gptq and awq, as in `quantize`."
        ),
    ] = None,
    shape: Shapes = None,
    keep_float: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Name of a node to leave as it is."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Quantize only the weights of MODEL, keep activations float, write ONNX."""
    from mdtensor.cli import models as view

    how = {"method": method, "weight_dtype": weight_dtype, "block_size": block_size}
    how["symmetric"] = not asymmetric
    result = view.quantize_weights_file(
        model, data or (), out, shape or (), how, keep_float or ()
    )
    emit(result, as_json, view.show_weights)


@app.command()
def run(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A float or quantized ONNX or TFLite model."
        ),
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INPUT]...", help="Files of one array each, one for each input."
        ),
    ] = None,
    shape: Shapes = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help=".npz or .npy file for the results; with --data a folder.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="GLOB",
            help="Pattern of .npy and .npz files with samples; each gets a file of "
            "results. Run the same command again to go on after a stop.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Where --data runs: local, or dask://host:port."
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Processes for --data; by default one for each CPU."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Text file with a class name on each line."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show which method runs each node, and why.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Threads; by default MDTENSOR_NUM_THREADS, or 1."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run MODEL on inputs from files, or on all files that fit a pattern."""
    from mdtensor.cli import report

    if data is not None:
        from mdtensor.cli.partitions import run as view

        view.require_alone(inputs or (), labels, plan)
        found = view.run_partitions(
            model, data, out, shape or (), engine, workers, threads
        )
        return emit(found, as_json, view.show_partitions)
    from mdtensor.cli.models import run_file

    result = run_file(model, inputs or (), shape or (), out, labels, plan, threads)
    emit(result, as_json, report.show_run)


@app.command()
def profile(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX or TFLite model.")
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help=".npy files, one for each input; by default zeros.",
        ),
    ] = None,
    shape: Shapes = None,
    out: Annotated[
        Path | None,
        output("Trace for chrome://tracing."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure each node of MODEL on one thread: time, kernel, and why it is float."""
    from mdtensor.cli import profile as view

    result = view.profile_file(model, inputs or (), shape or (), out)
    emit(result, as_json, view.show_profile)


@app.command()
def verify(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run only kernels that compile in a few seconds."),
    ] = False,
    emulated: Annotated[
        bool,
        typer.Option(
            "--emulated",
            help="Also run the ISAs that this CPU lacks, in its own instructions.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify that the integer kernels give the same bytes here as on every machine.

    The exit code is 1 if they do not.
    """
    from mdtensor.cli import host as view

    facts = view.describe_verdict(quick, emulated, as_json)
    emit(facts, as_json, view.show_verdict)
    # Printed first, so that a script that sees the exit code can show why.
    if not facts["conforms"]:
        raise typer.Exit(1)


@app.command()
def stubs(
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder; mdtensor's own by default."
        ),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import", metavar="MODULE", help="Package whose methods to include."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; exit with 1 if a file is outdated."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write .pyi files that give type checkers the exact class of every call."""
    from mdtensor.cli import report
    from mdtensor.cli.host import write_stubs

    result = write_stubs(out, tuple(modules or ()), check)
    emit(result, as_json, report.show_stubs)
    # Without --check, files that change are what the command is for.
    if check and result["changed"]:
        raise typer.Exit(1)


@app.command()
def warmup(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MODEL]...", help="Float or quantized ONNX or TFLite models."
        ),
    ] = None,
    operation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An operation, such as add; may be repeated."
        ),
    ] = None,
    shape: Shapes = None,
    as_json: AsJson = False,
) -> None:
    """Compile the kernels of models and operations for all later processes."""
    from mdtensor.cli.models import show_warmup, warm_up

    emit(warm_up(models or (), operation or (), shape or ()), as_json, show_warmup)


@app.command(name="compile")
def compile_model(
    model: Annotated[Path, typer.Argument(help="Float or quantized model.")],
    out: Annotated[Path, output("The plan, such as net.mdt.", "--out")],
    shape: Shapes = None,
    isa: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="avx2 or generic; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Store the plan of a model, which runs without the model, on NumPy alone."""
    from mdtensor.cli.plans import compile_file, show_compiled

    emit(compile_file(model, out, shape or (), isa or ()), as_json, show_compiled)


@app.command()
def serve(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A float or quantized ONNX or TFLite model."
        ),
    ],
    shape: Shapes = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name in paths; by default the file's."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="NAME")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535)] = 8000,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads of the model.")
    ] = 1,
    max_batch: Annotated[
        int,
        typer.Option(
            metavar="N", help="Most samples of a call, if the first size is open."
        ),
    ] = 8,
    delay: Annotated[
        float,
        typer.Option(metavar="MS", help="Milliseconds to wait for more samples."),
    ] = 2.0,
    max_megabytes: Annotated[
        int, typer.Option(metavar="N", help="Largest request.")
    ] = 64,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="S", help="Seconds for a request to arrive, and for its result."
        ),
    ] = 30.0,
    queue: Annotated[
        int, typer.Option(metavar="N", help="Requests that may wait.")
    ] = 64,
) -> None:
    """Serve MODEL over HTTP, by the Open Inference Protocol, version 2."""
    from mdtensor.cli.serve.server import Limits, serve_file

    limits = Limits(max_batch, delay / 1e3, max_megabytes, timeout, queue)
    serve_file(model, shape or (), name, host, port, threads, limits)
