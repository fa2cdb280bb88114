"""The commands and their options."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import mdtensor
from mdtensor.cli.cache.commands import app as cache
from mdtensor.cli.dispatch.commands import app as dispatch
from mdtensor.cli.options import AnyModel, AsJson, KeepFloat, Shapes, output
from mdtensor.cli.outputs import file_name

app = typer.Typer(
    help="Quantize, run and serve ONNX and TFLite models, and inspect dispatch.",
    add_completion=False,
    # Help is plain text, the same in every terminal and pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dispatch, name="dispatch")
app.add_typer(cache, name="cache")


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
        str, typer.Argument(help="Name or pattern, such as add, linalg.* or log*.")
    ] = "*",
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show one device only, such as cpu."),
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
    """Show which element types each operation takes."""
    from mdtensor.cli import host as view

    facts = view.describe_support(operation, device, modules or ())
    emit(facts, as_json, view.show_markdown if as_markdown else view.show_support)


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Compare int8 networks with ONNX Runtime: a demo.

    It quantizes an image classifier, compares classes and times, and reads a scanned
    page. That takes a few minutes.
    """
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
            "--data",
            metavar="PATH",
            help=".npy or .npz files with samples, or folders of them.",
        ),
    ],
    out: Annotated[Path, output("ONNX file to write.")],
    shape: Shapes = None,
    observer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How to choose the ranges of activations: mse, minmax, average, "
            "percentile or entropy.",
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
            help="Use 7-bit weights, for ONNX Runtime on CPUs without VNNI.",
        ),
    ] = False,
    correct_bias: Annotated[
        bool,
        typer.Option(
            "--correct-bias",
            help="Correct biases for the mean error of rounded weights.",
        ),
    ] = False,
    equalize: Annotated[
        bool,
        typer.Option(
            "--equalize", help="First equalize the channel ranges of adjacent layers."
        ),
    ] = False,
    smooth: Annotated[
        float | None,
        typer.Option(
            metavar="STRENGTH",
            help="First apply SmoothQuant with this strength: 0 to 1, such as 0.5.",
        ),
    ] = None,
    rounding: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Rounding rule: exact (half to even), or the one of another library: "
            "onnx, ort_cpu, tflite_ref, tflite_opt, xnnpack_x86 or xnnpack_arm.",
        ),
    ] = "exact",
    keep_float: KeepFloat = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Largest relative error of outputs on --held-out, such as 0.01. "
            "Keeps nodes in float until the error is at most this.",
        ),
    ] = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Samples for --budget; other ones than those of --data.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare with the float model on --data."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Quantize MODEL to 8-bit integers; write an ONNX file.

    The samples in --data are typical inputs, from which the ranges of activations are
    measured (calibration); a few dozen are enough. The first axis of an array counts
    samples. For a model with one input, all arrays in a .npz file are samples, whatever
    their names; for a model with several inputs, a .npz file has an array for each, by
    name. The result is in QDQ format. `mdtensor run MODEL --plan` shows the names of
    nodes.
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
        Path, typer.Argument(metavar="INT8", help="The file that `quantize` wrote.")
    ],
    data: Annotated[
        list[Path],
        typer.Option(
            "--data",
            metavar="PATH",
            help=".npy or .npz files with samples, or folders of them.",
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
    """Show the error of each node of a quantized model.

    Prints the worst nodes and what helps; --json has all nodes. Use samples that
    calibration has not seen.
    """
    from mdtensor.cli import compare as view

    result = view.compare_files(model, quantized, data, shape or (), html)
    emit(result, as_json, view.show_comparison)


@app.command()
def quantize_weights(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A float ONNX or TFLite file.")
    ],
    out: Annotated[Path, output("ONNX file to write.")],
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
            metavar="N", help="Number of neighbouring inputs that share a scale."
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="Samples for gptq and awq, as for `quantize`.",
        ),
    ] = None,
    shape: Shapes = None,
    keep_float: KeepFloat = None,
    as_json: AsJson = False,
) -> None:
    """Quantize only the weights of MODEL; write an ONNX file."""
    from mdtensor.cli import models as view

    how = {"method": method, "weight_dtype": weight_dtype, "block_size": block_size}
    how["symmetric"] = not asymmetric
    result = view.quantize_weights_file(
        model, data or (), out, shape or (), how, keep_float or ()
    )
    emit(result, as_json, view.show_weights)


@app.command()
def run(
    model: AnyModel,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INPUT]...",
            help=".npy or .npz files with one array, one for each input.",
        ),
    ] = None,
    shape: Shapes = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help=".npz or .npy file for the results; with --data, a folder.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="GLOB",
            help="Pattern of .npy and .npz files with samples, such as 'in/*.npy', in "
            "quotes. Each gets a file of results. If interrupted, repeat the command.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where --data runs: local, or a cluster, dask://host:port.",
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
        typer.Option(metavar="PATH", help="Text file with one class name per line."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show which kernel runs each node, and why.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Threads for each call; by default MDTENSOR_NUM_THREADS, or 1.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run MODEL on one input, or with --data on many files."""
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
    """Measure the time of each node of MODEL.

    Each node runs by itself, on one thread. Also shows its kernel, and why a node
    computes in float.
    """
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
            help="Also run instruction sets that this CPU lacks, emulated (slow).",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that integer kernels give the published bytes.

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
    """Write type stubs (.pyi) for mypy, pyright and editors."""
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
    """Compile the kernels of models before their first call.

    They are stored on disk for all later processes.
    """
    from mdtensor.cli.models import show_warmup, warm_up

    emit(warm_up(models or (), operation or (), shape or ()), as_json, show_warmup)


@app.command(name="compile")
def compile_model(
    model: AnyModel,
    out: Annotated[Path, output("File to write, such as net.mdt.", "--out")],
    shape: Shapes = None,
    isa: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Instruction set of a machine: vnni, avx512, avxvnni, avx2, neon or "
            "generic; may be repeated, fastest first. By default that of this CPU.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile MODEL to a file that needs only NumPy to run.

    Run it with `python -m mdtensor_run`, or load it with `quant.load_plan`.
    """
    from mdtensor.cli.plans import compile_file, show_compiled

    emit(compile_file(model, out, shape or (), isa or ()), as_json, show_compiled)


@app.command()
def serve(
    model: AnyModel,
    shape: Shapes = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the model in URLs; by default that of the file.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="NAME")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535)] = 8000,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads of the model.")
    ] = 1,
    max_batch: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Most samples in one call, if the batch size is not fixed.",
        ),
    ] = 8,
    delay: Annotated[
        float,
        typer.Option(metavar="MS", help="Milliseconds to wait for more requests."),
    ] = 2.0,
    max_megabytes: Annotated[
        int, typer.Option(metavar="N", help="Largest size of a request in megabytes.")
    ] = 64,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="S", help="Seconds for a request to arrive, and for its result."
        ),
    ] = 30.0,
    queue: Annotated[
        int, typer.Option(metavar="N", help="Largest number of waiting requests.")
    ] = 64,
) -> None:
    """Serve MODEL over HTTP.

    It implements the Open Inference Protocol, version 2.
    """
    from mdtensor.cli.serve.server import Limits, serve_file

    limits = Limits(max_batch, delay / 1e3, max_megabytes, timeout, queue)
    serve_file(model, shape or (), name, host, port, threads, limits)
