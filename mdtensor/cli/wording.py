"""What the library calls its arguments, in the options of the command line.

method='gptq' needs samples. Pass them as samples.
--method gptq needs samples. Pass them as --data.
"""

from shlex import quote

#: What has another name here, or is another command.
NAMES = {
    "input_shapes": "--shape",
    "samples": "--data",
    "strength": "--smooth",
    "Model.smooth": "--smooth",
    "Model.quantize_weights": "`mdtensor quantize-weights`",
    "model.graph.nodes": "`mdtensor run --plan`",
}


def option(name: str, *value: object) -> str:
    """An argument as an option, as `errors.written` asks for it."""
    if name == "symmetric":
        return option("asymmetric", *(not given for given in value))
    flag = NAMES.get(name, f"--{name.replace('_', '-')}")
    if not value:
        return flag
    (given,) = value
    if isinstance(given, bool):
        return flag if given else f"no {flag}"
    each = given if isinstance(given, list) else [given]
    return " ".join(f"{flag} {quote(str(one))}" for one in each)
