"""The commands when all is well: what they print, in words and as JSON."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mdtensor
from mdtensor import quant
from mdtensor.cli.models import require_array_name
from mdtensor.errors import OptionError
from mdtensor.quant import load

Call = Callable[..., Any]


def as_json(ended: Any) -> Any:
    """What is on stdout, which is JSON and nothing else; stderr is silent."""
    assert (ended.code, ended.err) == (0, "")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(ended.out, parse_constant=refuse)


COMMANDS = ["info", "support", "demo", "quantize", "quantize-weights", "run"]
COMMANDS += ["compare", "profile"]


def test_alone_it_says_what_there_is(call: Call) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        ended = call(*arguments)
        assert (ended.code, ended.err) == (0, "")
        assert "Usage: mdtensor [OPTIONS] COMMAND" in ended.out
        for command in COMMANDS:
            assert f"\n  {command} " in ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(call: Call, command: str) -> None:
    ended = call(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Usage: mdtensor {command} [OPTIONS]" in ended.out
    assert "--json" in ended.out


def test_version(call: Call) -> None:
    assert call("--version").out == f"mdtensor {mdtensor.__version__}\n"


def test_info(call: Call) -> None:
    facts = as_json(call("info", "--json"))
    assert facts["mdtensor"] == mdtensor.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["cpu"]["isa"] == facts["cpu"]["runway"]
    lines = [line.split() for line in call("info").out.splitlines()]
    assert ["ISA", f"{facts['cpu']['isa']}:"] in [line[:2] for line in lines]


def test_info_without_a_package(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from mdtensor.cli import host

    monkeypatch.setattr(host, "PACKAGES", ("no-such-package",))
    assert as_json(call("info", "--json"))["packages"] == {"no-such-package": None}
    assert "no-such-package  not installed" in " ".join(call("info").out.split(" "))


# --- quantize -------------------------------------------------------------------------


def quantize(call: Call, model: str, data: str, out: Path, *options: str) -> Any:
    arguments = ("quantize", model, "--data", data, "-o", out, "--json", *options)
    return as_json(call(*arguments))


@pytest.mark.parametrize("data", ["samples.npy", "samples.npz", "parts"])
def test_samples_come_from_files_and_folders(
    call: Call, files: Path, tmp_path: Path, data: str
) -> None:
    out = tmp_path / "out.onnx"
    facts = quantize(call, "net.onnx", data, out)
    assert facts["samples"] == 4
    assert facts["file_bytes"]["float"] == (files / "net.onnx").stat().st_size
    assert facts["file_bytes"]["int8"] == out.stat().st_size
    assert facts["weight_bytes"]["float"] == 4 * (8 * 27 + 5 * 8)
    assert facts["weight_bytes"]["int8"] < 0.3 * facts["weight_bytes"]["float"]
    assert facts["seconds"] > 0 and facts["check"] is None
    why = "probabilities stay float"
    assert facts["float_nodes"] == [
        {"node": "soft", "operation": "softmax", "why": why}
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["out.onnx"]


def test_every_split_of_the_samples_gives_the_same_file(
    call: Call, files: Path, tmp_path: Path
) -> None:
    written = []
    for data in ("samples.npy", "samples.npz", "parts"):
        quantize(call, "net.onnx", data, tmp_path / "out.onnx")
        written.append((tmp_path / "out.onnx").read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("model", ["batch.onnx", "dynamic.onnx"])
def test_dynamic_models(call: Call, files: Path, tmp_path: Path, model: str) -> None:
    """Their plan is made for the samples' shape, so float nodes are told here too."""
    facts = quantize(call, model, "samples.npy", tmp_path / "out.onnx")
    assert [n["node"] for n in facts["float_nodes"]] == ["soft"]
    fixed = quantize(
        call, model, "samples.npy", tmp_path / "out.onnx", "--shape", "1,3,8,8"
    )
    assert fixed["float_nodes"] == facts["float_nodes"]
    assert as_json(call("run", tmp_path / "out.onnx", "x.npy", "--json", "--plan"))


def test_nodes_that_are_kept_float(call: Call, files: Path, tmp_path: Path) -> None:
    facts = quantize(
        call,
        "net.onnx",
        "samples.npy",
        tmp_path / "out.onnx",
        "--keep-float=conv",
        "--observer=minmax",
    )
    found = {n["node"]: n["why"] for n in facts["float_nodes"]}
    assert found["conv"] == "kept float"


@pytest.mark.parametrize("option", ["--method=hqq", "--method=gptq", "--correct-bias"])
def test_algorithms_for_weights(
    call: Call, files: Path, tmp_path: Path, option: str
) -> None:
    out = tmp_path / "out.onnx"
    facts = quantize(call, "net.onnx", "samples.npy", out, option, "--check")
    assert facts["check"]["y"]["same_argmax"] == 4
    plain = quantize(call, "net.onnx", "samples.npy", tmp_path / "plain.onnx")
    assert facts["weight_bytes"] == plain["weight_bytes"]
    assert out.read_bytes() != (tmp_path / "plain.onnx").read_bytes()


def test_scales_are_moved_first(call: Call, files: Path, tmp_path: Path) -> None:
    """The file that the library writes with the same options."""
    out, wanted = tmp_path / "out.onnx", tmp_path / "wanted.onnx"
    options = ("--equalize", "--smooth=0.25", "--rounding=onnx", "--observer=minmax")
    quantize(call, "net.onnx", "samples.npy", out, *options)
    samples = [x[None] for x in np.load("samples.npy")]
    model = load("net.onnx").equalize().smooth(samples, strength=0.25)
    seen = model.calibrate(samples, quant.MinMaxObserver)
    model.quantize(seen, rounding="onnx").save(wanted)
    assert out.read_bytes() == wanted.read_bytes()


def test_what_a_rule_does_not_compute(call: Call, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    asked = ("quantize", "net.onnx", "--data", "samples.npy", "-o", out)
    ended = call(*asked, "--rounding=ort_cpu", "--json")
    assert as_json(ended)["nodes"] == 7
    assert load(out).rounding == "ort_cpu"


def test_weights_of_4_bits(call: Call, files: Path, tmp_path: Path) -> None:
    out, plain = tmp_path / "out.onnx", tmp_path / "plain.onnx"
    small = quantize(call, "net.onnx", "samples.npy", out, "--weight-dtype=qint4")
    wide = quantize(call, "net.onnx", "samples.npy", plain)
    assert small["weight_bytes"]["int8"] < wide["weight_bytes"]["int8"]
    asked = ("quantize", "net.onnx", "--data", "samples.npy", "-o", out)
    ended = call(*asked, "--weight-dtype=qint2")
    assert "no element type qint2" in ended.err
    assert "--weight-dtype is qint16. Use qint8 or qint4." in (
        call(*asked, "--weight-dtype=qint16").err
    )


def test_weights_alone(call: Call, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    asked = ("quantize-weights", "net.onnx", "-o", out, "--weight-dtype=qint4")
    facts = as_json(call(*asked, "--block-size=4", "--keep-float=conv", "--json"))
    assert facts["float_layers"] == [{"node": "conv", "why": "kept float"}]
    assert facts["layers"] == 2
    assert [(k["weights"], k["layers"]) for k in facts["kinds"]] == [
        ("float32", 1),
        ("qint4, blocks of 4 on axis 1", 1),
    ]
    assert facts["kinds"][0]["bits"] == 32
    assert facts["weight_bytes"]["codes"] < facts["weight_bytes"]["float"]
    assert facts["file_bytes"]["codes"] == out.stat().st_size
    found = as_json(call("run", out, "x.npy", "--json", "--plan"))
    kinds = {node["weights"] for node in found["plan"]}
    assert "qint4, blocks of 4 on axis 1" in kinds
    words = call(*asked, "--method=gptq", "--data=samples.npy").out
    assert "layers   2, 0 in float" in words
    assert "2 of qint4, axis 0, " in words
    ended = call(*asked, "--method=gptq")
    assert "--method gptq needs samples. Pass them as --data." in ended.err
    facts = as_json(call(*asked[:4], "--weight-dtype=quint4", "--asymmetric", "--json"))
    assert facts["float_layers"] == []
    same = call("quantize-weights", "net.onnx", "-o", files / "net.onnx")
    assert "is the model itself, which would be lost" in same.err


def test_the_check_compares_with_float(call: Call, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    found = quantize(call, "net.onnx", "samples.npy", out, "--check")["check"]["y"]
    assert (found["rows"], found["same_argmax"]) == (4, 4)
    assert found["sqnr_db"] > 20
    assert 0 < found["largest_difference"] < 0.05
    ended = call("quantize", "net.onnx", "--data", "samples.npy", "-o", out, "--check")
    assert "4 of 4 have the same class as float, signal to noise" in ended.out
    assert "soft (softmax) stays float: probabilities stay float" in ended.out


def test_several_inputs_by_name(call: Call, files: Path, tmp_path: Path) -> None:
    pair = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez(tmp_path / "pairs.npz", a=pair, b=-pair)
    out, data = tmp_path / "out.onnx", str(tmp_path / "pairs.npz")
    facts = quantize(call, "two.onnx", data, out)
    assert facts["samples"] == 3 and facts["weight_bytes"]["float"] == 0
    ended = call("run", out, "pair.npy", "pair.npy", "--plan", "--json")
    assert as_json(ended)["outputs"]["y"]["shape"] == [3, 2]
    np.savez(tmp_path / "pairs.npz", a=pair, b=pair[:2])
    ended = call("quantize", "two.onnx", "--data", data, "-o", out)
    assert "different numbers of samples: 3 for 'a', 2 for 'b'" in ended.err


# --- run ------------------------------------------------------------------------------


def test_run_says_what_onnxruntime_says(
    call: Call, files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.npz"
    facts = as_json(call("run", "net.onnx", "x.npy", "-o", out, "--json"))
    session = onnxruntime.InferenceSession("net.onnx")
    wanted = session.run(None, {"x": np.load("x.npy")})[0]
    np.testing.assert_allclose(np.load(out)["y"], wanted, rtol=1e-4)
    found = facts["outputs"]["y"]
    assert found["shape"] == [1, 5] and found["dtype"] == "float32"
    assert found["argmax"] == [int(wanted.argmax())]
    assert [c["class"] for c in found["top"][0]] == np.argsort(-wanted[0]).tolist()
    np.testing.assert_allclose(found["first"], wanted[0], rtol=1e-4)
    assert facts["seconds"] > 0 and facts["plan"] is None


def test_run_writes_one_array_or_all_by_the_name(
    call: Call, files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.npy"
    ended = call("run", "net.onnx", "x.npy", "--output", out)
    assert ended.code == 0 and f"written {out}\n" in ended.out
    assert np.load(out).shape == (1, 5)
    ended = call("run", "net.onnx", "x.npy", "-o", tmp_path / "out.txt")
    assert "out.txt is neither a .npz nor a .npy file. Use out.npz." in ended.err


@pytest.mark.parametrize("outputs", [(), ("a", "b")])
def test_a_file_of_one_array_does_not_hold_several(outputs: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match=r"one array, .* Use out.npz"):
        require_array_name(Path("out.npy"), outputs)
    require_array_name(Path("out.npz"), outputs)


def test_a_quantized_model_is_not_written_under_a_name_of_tflite(
    call: Call, files: Path
) -> None:
    ended = call("quantize", "net.onnx", "--data", "samples.npy", "-o", "new.tflite")
    assert ended.code == 2 and "this is an ONNX file. Write new.onnx." in ended.err
    assert not Path("new.tflite").exists()


@pytest.mark.parametrize("command", ["quantize", "compile", "profile"])
def test_a_file_does_not_get_the_name_of_a_folder(
    call: Call, files: Path, command: str
) -> None:
    data = ("--data", "samples.npy") if command == "quantize" else ()
    ended = call(command, "net.onnx", *data, "--output", "new/")
    assert ended.code == 2 and "the name of a folder. Add the name of a" in ended.err
    assert not Path("new").exists()


def test_a_batch_has_an_argmax_for_each_row(call: Call, files: Path) -> None:
    found = as_json(call("run", "batch.onnx", "samples.npy", "--json"))
    assert len(found["outputs"]["y"]["argmax"]) == 4
    text = call("run", "batch.onnx", "samples.npy").out
    assert all(f"  row {row}: class " in text for row in range(4))


def test_labels_name_the_classes(call: Call, files: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("ant\nbee\ncat\ndog\neel\n", encoding="utf-8")
    arguments = ("run", "net.onnx", "x.npy", "--labels", names)
    best = as_json(call(*arguments, "--json"))["outputs"]["y"]["top"][0][0]
    assert best["label"] == ["ant", "bee", "cat", "dog", "eel"][best["class"]]
    assert f"row 0: {best['label']} {best['score']:.6g}, " in call(*arguments).out


def test_what_is_not_finite_is_told_and_is_json(call: Call, files: Path) -> None:
    found = as_json(call("run", "net.onnx", "large.npy", "--json"))["outputs"]["y"]
    assert found["not_finite"] == 5 and found["range"] is None
    assert found["first"] == [None] * 5
    assert "5 NaN or infinite" in call("run", "net.onnx", "large.npy").out


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_give_the_same(call: Call, files: Path, threads: str) -> None:
    wanted = as_json(call("run", "net.onnx", "x.npy", "--json"))["outputs"]
    found = call("run", "net.onnx", "x.npy", "--threads", threads, "--json")
    assert as_json(found)["outputs"] == wanted


def test_no_threads_are_refused(call: Call, files: Path) -> None:
    ended = call("run", "net.onnx", "x.npy", "--threads", "0")
    assert ended.code and "the number of threads is 0. Use an integer from 1 to" in (
        ended.err
    )


def test_a_fixed_shape_is_told_how_to_be_left(call: Call, files: Path) -> None:
    ended = call("run", "batch.onnx", "samples.npy", "--shape", "1,3,8,8")
    assert ended.code and ended.err.rstrip().endswith(
        "Give 1 at a time, or leave the first size open, in the file and in --shape."
    )


def test_a_model_without_inputs_runs(call: Call, files: Path) -> None:
    assert as_json(call("run", "fixed.onnx", "--json"))["outputs"]["y"]["first"] == [
        1.0,
        1.0,
        1.0,
    ]


def test_the_classifier(call: Call, classifier: tuple[Path, Path]) -> None:
    facts = as_json(call("run", *classifier, "--plan", "--json"))
    (output,) = facts["outputs"].values()
    assert output["argmax"] == [0]  # the first crop is upright
    integer = [n for n in facts["plan"] if n["arithmetic"] == "integer"]
    assert len(integer) > 100
    assert [n["operation"] for n in facts["plan"] if n["arithmetic"] == "float"] == [
        "softmax"
    ]


def test_the_page_of_weights_names_what_the_commands_have(call: Call) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "weights.md").read_text()
    rows = page.split("| algorithm | methods of `model` | command |")[1].split("\n\n")[
        0
    ]
    commands = [row.rsplit("|", 2)[1] for row in rows.splitlines()[2:]]
    assert len(commands) == 9
    helps = {n: call(n, "--help").out for n in ("quantize", "quantize-weights")}
    for command in commands:
        words = " ".join(re.findall("`(.*?)`", command)).split()
        for name in [word for word in words if word in helps] or helps:
            told = [word for word in words if word not in (*helps, "0.5")]
            assert all(word in helps[name] for word in told)
