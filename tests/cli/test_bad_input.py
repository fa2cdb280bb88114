"""Bad input: exit code 2, one clear line on stderr, nothing on stdout, no half a file.

Each line names the file or the part that is wrong; none holds what is in an array.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from mdtensor.cli.errors import _usage, option
from mdtensor.errors import writing, written

Call = Callable[..., Any]

MODELS = [
    ("gone.onnx", "ModelError: there is no file gone.onnx. Check the path."),
    ("folder", "ModelError: folder cannot be read: Is a directory."),
    ("cut.onnx", "ModelError: cut.onnx is not an ONNX model, or is truncated: "),
    ("garbage.onnx", "ModelError: garbage.onnx is not an ONNX model, or is trunc"),
    ("text.npy", "ModelError: text.npy is not an ONNX model, or is truncated: 6 bytes"),
    ("empty.onnx", "ModelError: empty.onnx does not contain an ONNX graph"),
    ("outside.onnx", "tensor 'w' is at '../weights.bin', outside the folder"),
    (
        "unknown.onnx",
        (
            "operator 'Softmaxx' of node 'odd one', operator set 17, is not supported. "
            "The nearest that is supported is 'Softmax'."
        ),
    ),
]
ARRAYS = [
    ("gone.npy", "DataError: gone.npy: No such file or directory. Check the path."),
    (
        "cut.npy",
        "DataError: cut.npy does not hold a plain NumPy array, or is cut short",
    ),
    ("text.npy", "DataError: text.npy does not hold a plain NumPy array"),
    ("empty.npy", "DataError: empty.npy does not hold a plain NumPy array"),
    ("pickled.npy", "DataError: pickled.npy does not hold a plain NumPy array"),
    ("pickled.npz", "DataError: pickled.npz does not hold a plain NumPy array"),
    ("cut.npz", "DataError: cut.npz does not hold a plain NumPy array"),
    ("narrow.npy", "input 'x' must be Float32Tensor[1,3,8,8], but is Float32Tensor["),
    ("double.npy", "but is Float64Tensor[1,3,8,8]. Give an array of float32."),
    ("complex.npy", "but is Complex64Tensor[1,3,8,8]. Give an array of float32."),
]
FEEDS = [
    (["folder"], "DataError: folder: Is a directory"),
    (["samples.npz"], "expected one array in samples.npz, not 2 named arrays"),
    (["samples.npy"], "but is Float32Tensor[4,3,8,8]. Give 1 at a time, or leave"),
    ([], "the model takes 1 input, 'x', and got none"),
    (["x.npy", "x.npy"], "2 inputs given, but the model has 1. It has 'x'."),
]
SAMPLES = [
    ("folder", "DataError: no .npy or .npz file in folder. Pass another folder."),
    ("nan.npy", "nan.npy, sample 2: input 'x' holds a NaN or an infinity"),
    ("infinite.npy", "infinite.npy, sample 4: input 'x' holds a NaN or an infinity"),
    ("large.npy", "sample 1: 'c' becomes NaN or infinite"),
    ("none.npy", "there are no samples in none.npy. Pass at least one."),
    ("nothing.npz", "there are no samples in nothing.npz. Pass at least one."),
    (
        "narrow.npy",
        "narrow.npy, sample 1: input 'x' must be Float32Tensor[1,3,8,8], but",
    ),
    ("pair.npy", "pair.npy, sample 1: input 'x' must be Float32Tensor[1,3,8,8], but"),
]
OPTIONS = [
    (["--shape", "1,a"], "not '1,a'. Pass --shape such as 1,3,48,192."),
    (["--shape", ""], "expected positive sizes, not ''."),
    (["--shape", "1,-3,8,8"], "expected positive sizes, not '1,-3,8,8'."),
    (["--shape", "1,3"], "input 'x' has shape (1, 3, 8, 8), you chose (1, 3)"),
    (["--shape", "1,3,9,9"], "you chose (1, 3, 9, 9). Only sizes of -1"),
    (["--shape", "z=1,3,8,8"], "the model does not have an input 'z'. Inputs are 'x'."),
    (["--shape", "x=1", "--shape", "2"], "Pass --shape NAME=SIZES for each."),
]


def refused(ended: Any, words: str) -> None:
    """One line on stderr with these words, and nothing else anywhere."""
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("mdtensor: ")
    assert ended.err.count("\n") == 1 and ended.err.endswith(".\n")
    assert words in ended.err


def quantize(call: Call, model: str, data: str, *options: str) -> Any:
    return call("quantize", model, "--data", data, "-o", "out.onnx", *options)


@pytest.fixture
def untouched(files: Path) -> Any:
    """An output that is there already; afterwards it is as it was, and alone."""
    target = files / "out.onnx"
    target.write_bytes(b"precious")
    before = sorted(files.iterdir())
    yield target
    assert target.read_bytes() == b"precious"
    assert sorted(files.iterdir()) == before
    target.unlink()


def test_a_file_for_one_shape_needs_the_shape(call: Call, untouched: Path) -> None:
    ended = call("quantize", "sizes.onnx", "--data", "samples.npy", "-o", untouched)
    refused(
        ended, "has auto_pad=SAME_UPPER on a dynamic size. Give --shape x=1,3,64,64."
    )


def test_a_run_takes_the_shape_of_its_input(call: Call, files: Path) -> None:
    assert call("run", "sizes.onnx", "x.npy").code == 0


@pytest.mark.parametrize(("model", "words"), MODELS)
def test_models(call: Call, untouched: Path, model: str, words: str) -> None:
    refused(call("run", model, "x.npy", "-o", untouched), words)
    refused(quantize(call, model, "samples.npy"), words)


@pytest.mark.parametrize(("name", "words"), ARRAYS)
def test_arrays(call: Call, untouched: Path, name: str, words: str) -> None:
    refused(call("run", "net.onnx", name, "-o", untouched), words)
    refused(quantize(call, "net.onnx", name), words)


@pytest.mark.parametrize(("names", "words"), FEEDS)
def test_inputs(call: Call, files: Path, names: list[str], words: str) -> None:
    refused(call("run", "net.onnx", *names), words)


@pytest.mark.parametrize(("data", "words"), SAMPLES)
def test_samples(call: Call, untouched: Path, data: str, words: str) -> None:
    refused(quantize(call, "net.onnx", data), words)


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_shapes(call: Call, untouched: Path, options: list[str], words: str) -> None:
    refused(call("run", "net.onnx", "x.npy", *options), words)
    refused(quantize(call, "net.onnx", "x.npy", *options), words)


def test_several_inputs(call: Call, untouched: Path) -> None:
    words = (
        "the model has the inputs 'a', 'b', but got 'a'. "
        "Give each of them once, in this order."
    )
    refused(call("run", "two.onnx", "pair.npy"), words)
    words = (
        "pair.npy, sample 1: got one array, but the model has 2 inputs. Give an array"
    )
    refused(quantize(call, "two.onnx", "pair.npy"), words)
    words = (
        "got one shape, but the inputs are 'a', 'b'. Give a shape for each, by name."
    )
    refused(call("run", "two.onnx", "pair.npy", "pair.npy", "--shape", "2,2"), words)


def test_no_inputs(call: Call, untouched: Path) -> None:
    refused(quantize(call, "fixed.onnx", "x.npy"), "the model has no inputs")


def test_observers_and_nodes(call: Call, untouched: Path) -> None:
    ended = quantize(call, "net.onnx", "x.npy", "--observer", "best")
    refused(
        ended, "no observer 'best'. Use mse, minmax, average, percentile or entropy."
    )
    ended = quantize(call, "net.onnx", "x.npy", "--method", "awq")
    words = (
        "--method awq quantizes weights only. Use it with `mdtensor quantize-weights`; "
        "or use --smooth and one of rtn, mse, hqq, gptq."
    )
    refused(ended, words)
    ended = quantize(call, "net.onnx", "x.npy", "--keep-float", "convv")
    words = "--keep-float: no node is called 'convv'. The nearest is 'conv'."
    refused(ended, words)
    ended = quantize(call, "net.onnx", "x.npy", "--keep-float", "Z")
    words = "The names are in `mdtensor run --plan`, such as 'conv' and 'soft'."
    refused(ended, words)
    ended = quantize(call, "net.onnx", "x.npy", "--rounding", "ort")
    refused(
        ended, "--rounding is 'ort'. Did you mean 'ort_cpu'? There are exact, onnx,"
    )
    ended = quantize(call, "net.onnx", "x.npy", "--smooth", "2")
    refused(ended, "--smooth is 2.0. Use a number from 0 to 1.")


WEIGHTS = [
    ("--method=gptq", "--method gptq needs samples. Pass them as --data."),
    ("--data=samples.npy", "--method rtn does not need samples. Omit --data."),
    ("--method=best", "--method is 'best'. Use one of rtn, mse, hqq, gptq, awq."),
    ("--weight-dtype=int4", "no element type int4. Use qint4. Known are bool,"),
    ("--weight-dtype=quint4", "quint4 is unsigned. Use --asymmetric or a signed type."),
    ("--block-size=0", "--block-size is 0. Use an integer of 1 or more."),
]


@pytest.mark.parametrize(("option", "words"), WEIGHTS)
def test_weights_alone(call: Call, untouched: Path, option: str, words: str) -> None:
    refused(call("quantize-weights", "net.onnx", "-o", "out.onnx", option), words)


QUOTED = (
    """--keep-float 'a b' --keep-float 'it'"'"'s' --keep-float 'c[0]' """
    "--keep-float block_size"
)


@pytest.mark.parametrize(
    ("argument", "in_python", "here"),
    [
        (("block_size",), "block_size", "--block-size"),
        (("input_shapes",), "input_shapes", "--shape"),
        (("correct_bias", True), "correct_bias=True", "--correct-bias"),
        (("symmetric", False), "symmetric=False", "--asymmetric"),
        (("symmetric", True), "symmetric=True", "no --asymmetric"),
        (("rounding", "exact"), "rounding='exact'", "--rounding exact"),
        (
            ("keep_float", ["a b", "it's", "c[0]", "block_size"]),
            """keep_float=['a b', "it's", 'c[0]', 'block_size']""",
            QUOTED,
        ),
    ],
)
def test_arguments_are_written_as_options(
    argument: tuple[Any, ...], in_python: str, here: str
) -> None:
    assert written(*argument) == in_python
    with writing(option):
        assert written(*argument) == here
    assert written(*argument) == in_python


def test_names_of_users_stay(call: Call, untouched: Path) -> None:
    ended = quantize(call, "net.onnx", "weight_dtype", "--keep-float", "block_size")
    refused(ended, "--keep-float: no node is called 'block_size'.")
    refused(quantize(call, "net.onnx", "weight_dtype.npy"), "weight_dtype.npy: No such")


def test_a_quantized_model_is_not_quantized_again(
    call: Call, files: Path, tmp_path: Path
) -> None:
    once = tmp_path / "once.onnx"
    assert call("quantize", "net.onnx", "--data", "x.npy", "-o", once).code == 0
    refused(
        call("quantize", once, "--data", "x.npy", "-o", tmp_path / "twice.onnx"),
        "the model is quantized already. Pass the float model.",
    )
    assert [p.name for p in tmp_path.iterdir()] == ["once.onnx"]


def test_labels(call: Call, files: Path, tmp_path: Path) -> None:
    few, binary = tmp_path / "few.txt", tmp_path / "binary.txt"
    few.write_text("up\ndown\n")
    binary.write_bytes(b"\xff\xfe\x00")
    run = ("run", "net.onnx", "x.npy", "--labels")
    refused(call(*run, few), "expected 5 labels, one for each class, not 2")
    refused(call(*run, binary), "binary.txt is not a UTF-8 text file")
    refused(call(*run, "gone.txt"), "gone.txt: No such file or directory")


# --- outputs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gone/out", "gone/out cannot be written: No such file or directory. Choose"),
        (
            "folder",
            "folder cannot be written: it is a folder. Pass the name of",
        ),
        ("net.onnx/out", "net.onnx/out cannot be written: Not a directory."),
    ],
)
def test_unwritable_outputs(call: Call, files: Path, place: str, words: str) -> None:
    before = sorted(files.rglob("*"))
    refused(call("run", "net.onnx", "x.npy", "-o", place), words)
    refused(call("quantize", "net.onnx", "--data", "x.npy", "-o", place), words)
    assert sorted(files.rglob("*")) == before


def test_a_folder_that_is_read_only(
    call: Call, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any user but root meets it; root may write everywhere, so it is played."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    target = tmp_path / "out.onnx"
    target.write_bytes(b"precious")
    monkeypatch.setattr("os.open", refuse)
    ended = call("quantize", "net.onnx", "--data", "x.npy", "-o", target)
    refused(ended, "out.onnx cannot be written: Permission denied. Choose a folder")
    refused(call("run", "net.onnx", "x.npy", "-o", target), "Permission denied")
    assert target.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]


def test_a_disk_that_fills_up(
    call: Call, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "out.onnx"
    target.write_bytes(b"precious")
    monkeypatch.setattr(Path, "replace", fail)
    ended = call("quantize", "net.onnx", "--data", "x.npy", "-o", target)
    refused(ended, "out.onnx cannot be written: No space left on device.")
    assert target.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]


def test_the_model_is_never_its_own_output(call: Call, files: Path) -> None:
    before = (files / "net.onnx").read_bytes()
    for same in ("net.onnx", "./net.onnx", "folder/../net.onnx"):
        ended = call("quantize", "net.onnx", "--data", "x.npy", "-o", same)
        refused(ended, "is the model itself, which would be lost")
    assert (files / "net.onnx").read_bytes() == before


@pytest.fixture
def with_external_data(files: Path, tmp_path: Path) -> Path:
    """net.onnx with its weights in net.data."""
    model = onnx.load(files / "net.onnx")
    options = {"location": "net.data", "size_threshold": 0}
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, **options)
    assert (tmp_path / "net.data").exists()
    return tmp_path


LOST = [
    ("run {0}/net.onnx {1}/x.npy -o {0}/net.onnx", "net.onnx is the model itself"),
    ("run {0}/net.onnx {1}/x.npy -o {0}/net.data", "net.data is data of the model"),
    ("run {0}/net.onnx {1}/x.npy -o {1}/x.npy", "x.npy is an input itself"),
    (
        "run {0}/net.onnx {1}/x.npy --labels {0}/labels -o {0}/labels",
        "labels is the file of labels",
    ),
    (
        "quantize {0}/net.onnx --data {1}/samples.npy -o {0}/net.data",
        "net.data is data of the model",
    ),
    (
        "quantize {0}/net.onnx --data {1}/samples.npy -o {1}/samples.npy",
        "samples.npy is a file of samples",
    ),
    (
        "quantize {0}/net.onnx --data {0}/some -o {0}/some/a.npy",
        "a.npy is a file of samples",
    ),
    (
        "quantize {0}/net.onnx --data {1}/x.npy --held-out {0}/some -o {0}/some/a.npy",
        "a.npy is a file of samples",
    ),
    (
        "quantize-weights {0}/net.onnx --method gptq --data {0}/some -o {0}/link",
        "link is a file of samples",
    ),
    ("quantize-weights {0}/net.onnx -o {0}/net.data", "net.data is data of the model"),
]


@pytest.mark.parametrize(("line", "words"), LOST)
def test_no_command_replaces_what_it_reads(
    call: Call, files: Path, with_external_data: Path, line: str, words: str
) -> None:
    folder = with_external_data
    (folder / "some").mkdir()
    (folder / "some/a.npy").write_bytes((files / "samples.npy").read_bytes())
    (folder / "link").symlink_to("some/a.npy")
    (folder / "labels").write_text("\n".join("abcde"))
    places = [*folder.rglob("*"), *files.rglob("*")]
    before = {p: p.read_bytes() for p in places if p.is_file()}
    ended = call(*line.format(folder, files).split())
    refused(ended, f"{words}, which would be lost. Choose another name.")
    places = [*folder.rglob("*"), *files.rglob("*")]
    assert {p: p.read_bytes() for p in places if p.is_file()} == before


def test_an_output_that_links_to_itself(call: Call, files: Path) -> None:
    (files / "loop").symlink_to("loop")
    ended = call("run", "net.onnx", "x.npy", "-o", "loop")
    refused(ended, "loop cannot be written: Too many levels of symbolic links. Remove")
    (files / "loop").unlink()


# --- usage ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("No such command 'q'.", "no such command 'q'. See `mdtensor --help`."),
        ("No such command. Did you mean r?", "no such command. Did you mean r? See `"),
    ],
)
def test_a_sentence_ends_once(message: str, line: str) -> None:
    """Newer versions of typer ask the second."""

    class UsageError(Exception):
        def format_message(self) -> str:
            return message

    assert _usage(UsageError()).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nope"], "no such command 'nope'. See `mdtensor --help`."),
        (["info", "--nope"], "no such option: --nope. See `mdtensor info --help`."),
        (["run"], "missing argument 'MODEL'. See `mdtensor run --help`."),
        (
            ["quantize", "net.onnx", "-o", "out.onnx"],
            "missing option '--data'. See `mdtensor quantize --help`.",
        ),
        (["info", "more"], "See `mdtensor info --help`."),
    ],
)
def test_usage(call: Call, files: Path, arguments: list[str], line: str) -> None:
    refused(call(*arguments), line)


def test_a_name_of_several_lines_is_one_line(call: Call, files: Path) -> None:
    refused(call("run", "two\nlines.onnx", "x.npy"), "there is no file two lines.onnx")
