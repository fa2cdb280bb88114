"""TFLite models of one operator, as bytes: what LiteRT is asked about presets.

    model = one_operator("ADD", [Value((4,), scale=0.5), Value((4,), scale=1.0)],
                         Value((4,), scale=0.25), AddOptions...)
    Session(model, "tflite_ref")(a, b)

Never build one with a scale that is no positive normal number: LiteRT ends the process.
"""

from typing import Any

from bench.rivals.tflite_file import Options, Step, Value, model, options_of

__all__ = ["Session", "Value", "one_operator", "options_of"]

RESOLVERS = {
    "tflite_ref": "BUILTIN_REF",
    "tflite_opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack_x86": "BUILTIN",
}


def one_operator(
    kind: str, inputs: list[Value], output: Value, options: Options | None = None
) -> bytes:
    """A model with one operator.

    Args:
        kind: its name in `tflite.BuiltinOperator`.
        options: of the operator.
    """
    step = Step(kind, range(len(inputs)), len(inputs), options)
    moving = [at for at, value in enumerate(inputs) if value.data is None]
    return model([*inputs, output], [step], moving, [len(inputs)])


class Session:
    """The model in LiteRT, by the kernels that a rule is named after."""

    def __init__(self, model: bytes, rule: str) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = getattr(OpResolverType, RESOLVERS[rule])
        self._run = Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=resolver,
        )
        self._run.allocate_tensors()

    def __call__(self, *arrays: Any) -> Any:
        for place, array in zip(self._run.get_input_details(), arrays, strict=True):
            self._run.set_tensor(place["index"], array)
        self._run.invoke()
        return self._run.get_tensor(self._run.get_output_details()[0]["index"])
