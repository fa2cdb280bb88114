"""What docs/how-to/weights.md says is what is measured, on any machine nearly."""

import re

import pytest

FIGURE = re.compile(r"\d+\.\d+")


@pytest.fixture(scope="module")
def measured(generator):
    return {name: generator.output_errors(**f) for name, f in generator.FORMATS.items()}


def rows(text, name):
    """The figures of each row of a generated table."""
    block = re.search(rf"<!-- begin: {name} -->(.*?)<!-- end -->", text, re.DOTALL)
    lines = [line.split("|") for line in block[1].strip().splitlines()[2:]]
    return {cells[1].strip(): [float(x) for x in FIGURE.findall(" ".join(cells[2:]))]
            for cells in lines}  # fmt: skip


@pytest.mark.long
def test_the_errors_of_outputs_are_those_of_the_page(generator, measured):
    said = rows(generator.PAGE.read_text(), "outputs")
    assert list(said) == list(measured)
    for name, found in measured.items():
        wanted = [100 * x for x in found.values()]
        assert said[name] == pytest.approx(wanted, rel=0.03, abs=0.06)


@pytest.mark.parametrize("block", ["observers8", "observers4"])
def test_the_levels_of_observers_are_those_of_the_page(generator, block):
    said = rows(generator.PAGE.read_text(), block)
    assert list(said) == list(generator.DISTRIBUTIONS)
    for name, levels in said.items():
        found = generator.observed(name, generator.OBSERVED[block])
        assert levels == pytest.approx(list(found.values()), abs=0.06)
        assert found["mse"] >= found["minmax"]


def test_a_generated_page_is_read_back(generator):
    text = generator.PAGE.read_text()
    assert rows(text, "outputs")["4 bits, per row"][0] > 20
    assert generator.table({"a": {"b": 0.5}}, ".1%")


@pytest.mark.long
@pytest.mark.parametrize(
    "format", ["4 bits, per row", "4 bits, blocks of 128", "4 bits, blocks of 32"]
)
def test_the_methods_keep_what_they_promise(measured, format):
    """Each in parts of rounding to nearest, on samples that none has seen."""
    found = measured[format]
    plain = found["rtn"]
    assert found["gptq"] <= 0.40 * plain
    assert found["awq"] <= 0.80 * plain
    assert found["hqq"] <= plain
    assert found["mse"] <= plain
    assert found["gptq"] < found["gptq, in order"] < plain
