"""Models: what users call."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant import MinMaxObserver, quantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model


def test_weights_shrink_to_a_quarter_and_their_scales(classifier, small_classifier):
    assert classifier.weight_bytes == 4 * 124072
    assert small_classifier.weight_bytes <= 0.27 * classifier.weight_bytes
    assert small_classifier.is_quantized and not classifier.is_quantized


def test_int8_decides_as_float_does(classifier, small_classifier, crops):
    for crop in crops[1]:
        real, coded = (
            np.asarray(m(crop.pixels)) for m in (classifier, small_classifier)
        )
        if real.max() > 0.8:
            assert real.argmax() == coded.argmax()


def test_inputs_go_by_place_or_by_name(small_classifier, crops):
    x = crops[1][0].pixels
    by_place, by_name = small_classifier(x), small_classifier(x=md.asarray(x))
    assert by_place.tolist() == by_name.tolist()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda x: x[..., :100],
            (
                "input 'x' must be Float32Tensor[1,3,48,192], but is "
                "Float32Tensor[1,3,48,100]. Give an array of that shape."
            ),
        ),
        (
            lambda x: np.concatenate([x, x]),
            (
                "input 'x' must be Float32Tensor[1,3,48,192], but is "
                "Float32Tensor[2,3,48,192]. Give 1 at a time, or leave the first size "
                "open, in the file and in input_shapes."
            ),
        ),
        (
            lambda x: x.astype(np.float64),
            (
                "input 'x' must be Float32Tensor[1,3,48,192], but is "
                "Float64Tensor[1,3,48,192]. Give an array of float32."
            ),
        ),
    ],
)
def test_a_wrong_input_is_named_with_what_is_wanted(classifier, crops, make, text):
    with pytest.raises(md.DataError) as raised:
        classifier(make(crops[1][0].pixels))
    assert str(raised.value) == text


def test_too_many_inputs_are_refused(classifier, crops):
    x = crops[1][0].pixels
    with pytest.raises(md.DataError, match="2 inputs given, but the model has 1"):
        classifier(x, x)


def test_inputs_as_a_dict_are_inputs_by_name(classifier, crops):
    x = crops[1][0].pixels
    found = classifier(dict.fromkeys(classifier.inputs, x))
    assert found.tolist() == classifier(x).tolist()
    with pytest.raises(md.DataError, match="2 inputs given, but the model has 1"):
        classifier({}, x)
    with pytest.raises(md.DataError, match="and got 'no_such_input'"):
        classifier({"no_such_input": x})


def of_inputs(**shapes):
    """A model that adds up inputs of these shapes."""
    specs = {n: md.TensorSpec(md.Float32Tensor, s) for n, s in shapes.items()}
    first, *others = specs
    nodes = [Node("n", md.relu, (first,), "n")]
    nodes += [
        Node(f"n{i}", md.add, (nodes[-1].output, n), f"n{i}")
        for i, n in enumerate(others)
    ]
    return Model(Graph(specs, tuple(nodes), {}, (nodes[-1].output,)))


@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("wrap", [np.asarray, md.asarray])
def test_one_array_of_samples_is_split_along_its_first_axis(first, wrap, rng):
    """As the command line splits a file."""
    x = rng.standard_normal((6, 3), np.float32)
    model = of_inputs(x=(first, 3))
    wanted = model.calibrate([x[i : i + 1] for i in range(6)])
    for samples in (wrap(x), {"x": wrap(x)}, wrap(x[:, None]), wrap(x)[:, None]):
        assert model.calibrate(samples) == wanted


def test_an_array_of_one_sample_of_fixed_size_is_that_sample(rng):
    x = rng.standard_normal((4, 3), np.float32)
    model = of_inputs(x=(4, 3))
    assert model.calibrate(x) == model.calibrate({"x": x}) == model.calibrate([x])
    assert model.calibrate(np.stack([x, -x])) == model.calibrate([x, -x])
    with pytest.raises(md.DataError, match="sample 1: input 'x' must be Float32"):
        model.calibrate(x.T)


def test_arrays_of_samples_by_name(rng):
    a, b = rng.standard_normal((2, 5, 3), np.float32)
    model = of_inputs(a=(-1, 3), b=(-1, 3))
    pairs = [{"a": a[i : i + 1], "b": b[i : i + 1]} for i in range(5)]
    assert model.calibrate({"b": b, "a": a}) == model.calibrate(pairs)
    with pytest.raises(
        md.DataError, match=r"samples: 5 for 'a', 4 for 'b'\. Pass the same number"
    ):
        model.calibrate({"a": a, "b": b[:4]})
    with pytest.raises(md.DataError, match="has the inputs 'a', 'b', but got 'a'"):
        model.calibrate({"a": a})
    with pytest.raises(md.DataError, match=r"and the model has 2 inputs\. Give a dict"):
        model.calibrate(a)


def test_a_vector_may_be_one_sample_or_many():
    with pytest.raises(md.DataError) as raised:
        of_inputs(x=(-1,)).calibrate(np.ones(3, np.float32))
    assert "Give [x] for one sample, or a list of arrays." in str(raised.value)


@pytest.mark.long
def test_every_call_that_reads_samples_takes_one_array(classifier, crops):
    x = crops[0][0].pixels
    for call in (
        lambda samples: classifier.smooth(samples),
        lambda samples: classifier.quantize_weights(method="awq", samples=samples),
    ):
        found = [
            call(s)(x).tolist() for s in ([x], x, dict.fromkeys(classifier.inputs, x))
        ]
        assert found[0] == found[1] == found[2]


def test_shapes_are_planned_as_they_come():
    spec = md.TensorSpec(md.Float32Tensor, (-1, 3))
    node = Node("n", md.relu, ("x",), "y")
    model = Model(Graph({"x": spec}, (node,), {}, ("y",)))
    for rows in (1, 4):
        assert model(np.ones((rows, 3), np.float32)).shape == (rows, 3)
    with pytest.raises(md.DataError, match="has the dynamic shape"):
        model.plan()
    assert model.plan((2, 3)).nodes[0].shape == (2, 3)
    assert model.plan((np.int64(2), -1)).nodes[0].shape == (2, 3)


#: What is said of each, behind the name of the input.
WRONG_SHAPES = [
    ((2,), " has shape (-1, 3), you chose (2,). Give 2 sizes, not 1."),
    (
        (2, 4),
        " has shape (-1, 3), you chose (2, 4). Only sizes of -1 can be chosen.",
    ),
    (
        (-2, 3),
        " has shape (-1, 3), you chose (-2, 3). Only sizes of -1 can be chosen.",
    ),
    (5, " has shape (-1, 3), you chose 5. Give 2 integers."),
    ((1.5, 3), " has shape (-1, 3), you chose (1.5, 3). Give 2 integers."),
    ("ab", " has shape (-1, 3), you chose 'ab'. Give 2 integers."),
    ((True, 3), " has shape (-1, 3), you chose (True, 3). Give 2 integers."),
    (
        np.ones((2, 3), np.float32),
        (
            " has shape (-1, 3), you chose ndarray[2,3]. "
            "Give the shape of the array, (2, 3)."
        ),
    ),
    (
        md.ones((2, 4)),
        (
            " has shape (-1, 3), you chose Float32Tensor[2,4]. "
            "Give 2 integers, the sizes, not an array."
        ),
    ),
    (
        (-1, 3),
        (
            " has the dynamic shape (-1, 3). Give the sizes to plan for, such as "
            "input_shapes={'x': (1, 3)}."
        ),
    ),
]


@pytest.mark.parametrize(("shape", "text"), WRONG_SHAPES)
def test_a_plan_for_other_sizes_is_refused(shape, text):
    spec = md.TensorSpec(md.Float32Tensor, (-1, 3))
    model = Model(Graph({"x": spec}, (Node("n", md.relu, ("x",), "y"),), {}, ("y",)))
    with pytest.raises(md.DataError) as caught:
        model.plan(shape)
    assert str(caught.value) == f"input 'x'{text}"
    with pytest.raises(md.DataError) as caught:
        model.plan({"z": (2, 3)})
    assert str(caught.value) == "the model does not have an input 'z'. Inputs are 'x'."


def test_an_operation_names_the_methods_of_a_model(classifier):
    with pytest.raises(md.NoMethodError) as caught:
        quantize(classifier, [np.ones((1, 3, 48, 192), np.float32)])
    advice = "Use methods of the model, such as x.quantize(x.calibrate(samples))."
    assert advice in str(caught.value)


def two_inputs() -> Model:
    spec = md.TensorSpec(md.Float32Tensor, (-1, 2))
    node = Node("n", md.add, ("self", "other"), "y")
    return Model(Graph({"self": spec, "other": spec}, (node,), {}, ("y",)))


def test_several_inputs_have_their_own_shapes_and_samples():
    model, x = two_inputs(), np.ones((1, 2), np.float32)
    assert model(x, other=x).tolist() == model(self=x, other=x).tolist()
    assert model.plan({"self": (1, 2), "other": (3, 2)}).nodes[0].shape == (3, 2)
    with pytest.raises(
        md.DataError, match="got one shape, but the inputs are 'self', 'other'"
    ):
        model.plan((1, 2))
    with pytest.raises(
        md.DataError, match="sample 1: got one array, but the model has 2 inputs"
    ):
        model.calibrate([x])
    assert model.calibrate([{"self": x, "other": x}]).samples == 1


def test_min_max_is_an_observer_too(classifier, crops):
    seen = classifier.calibrate([crops[0][0].pixels], MinMaxObserver)
    assert seen.samples == 1
    assert classifier.quantize(seen).is_quantized


def test_a_quantized_model_without_weights_is_quantized():
    spec = md.TensorSpec(md.Float32Tensor, (2, 3))
    model = Model(Graph({"x": spec}, (Node("n", md.relu, ("x",), "y"),), {}, ("y",)))
    small = model.quantize(model.calibrate([np.ones((2, 3), np.float32)]))
    assert small.is_quantized and not model.is_quantized
    assert repr(small).startswith("Model(quantized, ")


def test_repr_is_short(small_classifier):
    assert repr(small_classifier).startswith(
        "Model(quantized, Graph(x: Float32Tensor[1,3,48,192]; "
    )


def test_an_input_is_given_once(classifier, crops):
    x = crops[1][0].pixels
    with pytest.raises(md.DataError) as raised:
        classifier(x, x=x)
    assert str(raised.value) == "input 'x' is given twice. Give it once."


MISTAKES = {
    "samples for a calibration": (
        lambda model, x: model.quantize([x]),
        "calibration is list, not Calibration. Give model.calibrate(samples).",
    ),
    "a name for an observer": (
        lambda model, x: model.calibrate([x], "percentile"),
        (
            "observer is 'percentile', which cannot be called. Give a class, such as "
            "quant.PercentileObserver."
        ),
    ),
    "a number for samples": (
        lambda model, _: model.calibrate(3),
        "the samples are 3. Give an array, or a list of arrays or dicts.",
    ),
    "a name for names": (
        lambda model, x: model.quantize(model.calibrate([x]), keep_float="f"),
        "keep_float is 'f'. Give a list of names of nodes.",
    ),
    "nothing for a path": (
        lambda *_: load(None),
        "None is neither a path nor an onnx.ModelProto. Give load('model.onnx').",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_easily_mistaken(mistake):
    call, text = MISTAKES[mistake]
    spec = md.TensorSpec(md.Float32Tensor, (2,))
    model = Model(Graph({"x": spec}, (Node("f", md.tanh, ("x",), "y"),), {}, ("y",)))
    with pytest.raises(md.MdtensorError) as caught:
        call(model, np.array([0.5, -0.5], np.float32))
    assert str(caught.value) == text
