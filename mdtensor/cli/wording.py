"""What the library says of its keywords, in the options of the command line.

method='gptq' needs samples. Pass samples=[x, ...].
--method gptq needs samples. Give --data PATH.
"""

import re
from ast import literal_eval
from collections.abc import Callable
from shlex import quote

#: What the library calls its keywords, and what they are called here.
KEYWORDS = {
    "input_shapes": "--shape",
    "keep_float": "--keep-float",
    "correct_bias": "--correct-bias",
    "weight_dtype": "--weight-dtype",
    "block_size": "--block-size",
}
Match = re.Match[str]
#: A keyword, or what looks like one and is a name: in quotes, of a node, in a path.
KEYWORD = re.compile(
    r"'[^']*'|--keep-float (?:'[^']*'|\S+)|"
    rf"(?<![\w./-])({'|'.join(KEYWORDS)})(?![\w/-]|\.\w)"
)


def _nodes(found: Match) -> str:
    return " ".join(f"--keep-float {quote(name)}" for name in literal_eval(found[1]))


#: Calls and values, before the keywords alone.
PHRASES: tuple[tuple[str, str | Callable[[Match], str]], ...] = (
    (r"Pass samples=\[x, \.\.\.\]", "Give --data PATH"),
    (r"Leave samples= away", "Leave --data away"),
    (r"Use symmetric=False", "Use --asymmetric"),
    (r"Use symmetric=True or", "Leave --asymmetric away or use"),
    (r"keep_float=(\['.*'\])", _nodes),
    (r"\bcorrect_bias=True", "--correct-bias"),
    (r"\b(method|rounding)='(\w+)'", r"--\1 \2"),
    (r"\b(method|rounding) is (?=')", r"--\1 is "),
    (r"\bstrength is\b", "--smooth is"),
    (r"\buse 'exact'", "use --rounding exact"),
    (r"model\.graph\.nodes", "`mdtensor run --plan`"),
    (r"Give each input once, by its name", "Give a .npy file for each, in this order"),
)


def in_options(text: str) -> str:
    """An error of the library, as what was typed has it."""
    for pattern, said in PHRASES:
        text = re.sub(pattern, said, text)
    return KEYWORD.sub(lambda found: KEYWORDS.get(found[1], found[0]), text)
