"""Methods of models of other libraries, and what to write here."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CALL = "Call it: model(x)"
#: Methods of models of PyTorch, Keras, scikit-learn, ONNX Runtime and LiteRT.
RENAMED = {
    **dict.fromkeys(("run", "predict", "forward", "invoke", "infer", "apply"), _CALL),
    "stream": "Use quant.Stream(model)",
    "reset_states": "Use quant.Stream(model), and its reset()",
    "eval": "Omit it: a model does not train",
    "cuda": "Use model.to('cuda')",
    "cpu": "Use model.to('cpu')",
    "get_inputs": "Use model.inputs",
    "get_outputs": "Use model.outputs",
    "export": "Use model.save(path)",
    "load": "Use quant.load(path)",
    "nodes": "Use model.graph.nodes",
    "summary": "Print model.plan()",
}


def hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that a model does not have; empty without one.

    Example:
        >>> hint("predict", []), hint("calibate", ["calibrate"]), hint("q", [])
        (' Call it: model(x).', ' Use model.calibrate.', '')
    """
    if name in RENAMED:
        return f" {RENAMED[name]}."
    public = [each for each in known if not each.startswith("_")]
    near = [] if name.startswith("_") else get_close_matches(name, public, 1, 0.75)
    return f" Use model.{near[0]}." if near else ""
