"""Models of one operator of ai.onnx.ml, here and in ONNX Runtime."""

from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

from mdtensor.quant import load

ML = "ai.onnx.ml"
#: The operator set of estimators, and the standard one.
VERSION, STANDARD = 3, 21


def model(
    kind: str,
    feeds: dict[str, Any],
    outputs: tuple[str, ...] = ("y",),
    version: int = VERSION,
    sizes: Any = None,
    **attributes: Any,
) -> Any:
    """A ModelProto with one operator, whose inputs have dynamic rows."""
    node = helper.make_node(kind, [*feeds], [*outputs], domain=ML, **attributes)
    entered = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype),
            sizes or [None, *np.shape(x)[1:]],
        )
        for name, x in feeds.items()
    ]
    left = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "g", entered, left)
    opsets = [helper.make_opsetid(ML, version), helper.make_opsetid("", STANDARD)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def peer(proto: Any, feeds: dict[str, Any]) -> list[Any]:
    """The outputs of ONNX Runtime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def ours(proto: Any, feeds: dict[str, Any], **options: Any) -> list[np.ndarray]:
    """The outputs here."""
    found = load(proto, **options)(feeds)
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def compare(found: Any, wanted: Any, rtol: float = 1e-5, atol: float = 2e-6) -> None:
    """Equal integers, and floats that are near; types and shapes are equal."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol, atol)
        else:
            assert one.tolist() == other.tolist()


def agree(
    kind: str, feeds: dict[str, Any], outputs: tuple[str, ...] = ("y",), **options: Any
) -> list[np.ndarray]:
    """Compare with ONNX Runtime, and return our outputs."""
    proto = model(kind, feeds, outputs, **options)
    found = ours(proto, feeds)
    compare(found, peer(proto, feeds))
    return found
