"""Special cases that the standard lists: where arguments are 0, infinite or NaN.

A case is a line of words: what each argument is, then what the result is. `~` before a
result leaves its sign open, `any` is every argument, `fin` a finite one, `nz` one that
is not 0 either. Of `sqrt` at infinity see docs/reference/array-api.md.

Source: array API 2024.12, "Special cases" of each function.
"""

import math

inf, nan, pi = math.inf, math.nan, math.pi

EXACT = {"+0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "+inf": inf, "-inf": -inf}
ABOUT = {"pi": pi, "pi/2": pi / 2, "pi/4": pi / 4, "3pi/4": 3 * pi / 4}
POSITIVE = [1.0, 0.5, 2.5]
NEGATIVE = [-x for x in POSITIVE]
FINITE = [0.0, -0.0, *POSITIVE, *NEGATIVE]
ARGUMENTS = {
    **{word: [value] for word, value in EXACT.items()},
    "0": [0.0, -0.0],
    "inf": [inf, -inf],
    "nan": [nan],
    "pos": POSITIVE,
    "neg": NEGATIVE,
    "fin": FINITE,
    "nz": POSITIVE + NEGATIVE,
    "any": [*FINITE, inf, -inf, nan],
    "number": [*FINITE, inf, -inf],
    "finnan": [*FINITE, nan],
    ">0": [*POSITIVE, inf],
    "<0": [*NEGATIVE, -inf],
    ">1": [2.5, inf],
    "<1": [0.5, *NEGATIVE, 0.0, -inf],
    "<-1": [-2.5, -inf],
    "not0": [*POSITIVE, *NEGATIVE, inf, -inf, nan],
    "not1": [0.0, 2.5, -1.0, inf, -inf, nan],
    "odd>0": [1.0, 3.0],
    "odd<0": [-1.0, -3.0],
    "even>0": [2.0, 0.5, 2.5, inf],
    "even<0": [-2.0, -0.5, -2.5, -inf],
    "fraction": [0.5, -2.5],
    "|1|": [1.0, -1.0],
    ">|1|": [2.5, -2.5, inf, -inf],
    "<|1|": [0.5, -0.5, 0.0, -0.0],
}

_ODD = ["nan nan", "+0 +0", "-0 -0"]
_WHOLE = [*_ODD, "+inf +inf", "-inf -inf"]
_LOG = ["nan nan", "<0 nan", "0 -inf", "1 +0", "+inf +inf"]
_ARC = ["nan nan", ">1 nan", "<-1 nan"]
REAL = {
    "abs": ["nan nan", "-0 +0", "-inf +inf"],
    "acos": [*_ARC, "1 +0"],
    "acosh": ["nan nan", "<1 nan", "1 +0", "+inf +inf"],
    "asin": [*_ARC, *_ODD],
    "asinh": _WHOLE,
    "atan": [*_ODD, "+inf pi/2"],
    "atanh": [*_ARC, *_ODD, "-1 -inf", "1 +inf"],
    **dict.fromkeys(("ceil", "floor", "trunc", "round"), _WHOLE),
    "cos": ["nan nan", "0 1", "inf nan"],
    "cosh": ["nan nan", "0 1", "inf +inf"],
    "exp": ["nan nan", "0 1", "+inf +inf", "-inf +0"],
    "expm1": [*_ODD, "+inf +inf", "-inf -1"],
    **dict.fromkeys(("log", "log2", "log10"), _LOG),
    "log1p": [*_ODD, "<-1 nan", "-1 -inf", "+inf +inf"],
    "sign": ["nan nan", "<0 -1", "0 ~0", ">0 1"],
    "sin": [*_ODD, "inf nan"],
    "tan": [*_ODD, "inf nan"],
    "sinh": _WHOLE,
    "sqrt": [*_ODD, "<0 nan", "+inf +inf"],
    "tanh": [*_ODD, "+inf 1", "-inf -1"],
}

_NAN = ["nan any nan", "any nan nan"]
_SIGNS = ["+0 >0 +0", "-0 >0 -0", "+0 <0 -0", "-0 <0 +0", "0 0 nan", "inf inf nan"]
_SIGNS += [">0 +0 +inf", ">0 -0 -inf", "<0 +0 -inf", "<0 -0 +inf"]
_SIGNS += ["+inf pos +inf", "+inf neg -inf", "-inf pos -inf", "-inf neg +inf"]
_SIGNS += ["pos +inf +0", "pos -inf -0", "neg +inf -0", "neg -inf +0"]
BINARY = {
    "add": [
        *_NAN,
        *("+inf -inf nan", "-inf +inf nan", "+inf +inf +inf", "-inf -inf -inf"),
        *("+inf fin +inf", "-inf fin -inf", "fin +inf +inf", "fin -inf -inf"),
        *("-0 -0 -0", "-0 +0 +0", "+0 -0 +0", "+0 +0 +0"),
    ],
    "atan2": [
        *_NAN,
        *(">0 0 pi/2", "+0 >0 +0", "+0 +0 +0", "+0 -0 pi", "+0 <0 pi", "-0 >0 -0"),
        *("-0 +0 -0", "pos +inf +0", "pos -inf pi", "neg +inf -0", "+inf fin pi/2"),
        *("+inf +inf pi/4", "+inf -inf 3pi/4"),
    ],
    "divide": [*_NAN, *_SIGNS],
    "floor_divide": [*_NAN, *_SIGNS],
    "hypot": ["inf any +inf", "any inf +inf", "finnan nan nan", "nan finnan nan"],
    "logaddexp": [*_NAN, "+inf number +inf", "number +inf +inf"],
    "maximum": _NAN,
    "minimum": _NAN,
    "multiply": [*_NAN, "inf 0 nan", "0 inf nan"],
    "nextafter": [*_NAN, "-0 +0 +0", "+0 -0 -0"],
    "pow": [
        *("not1 nan nan", "any 0 1", "nan not0 nan", "1 number 1", "|1| inf 1"),
        *(">|1| +inf +inf", ">|1| -inf +0", "<|1| +inf +0", "<|1| -inf +inf"),
        *("+inf >0 +inf", "+inf <0 +0", "-inf odd>0 -inf", "-inf even>0 +inf"),
        *("-inf odd<0 -0", "-inf even<0 +0", "+0 >0 +0", "+0 <0 +inf"),
        *("-0 odd>0 -0", "-0 even>0 +0", "-0 odd<0 -inf", "-0 even<0 +inf"),
        "neg fraction nan",
    ],
    "remainder": [
        *_NAN,
        *("inf inf nan", "inf fin nan", "any 0 nan", "pos -inf -inf", "neg +inf +inf"),
        *("+0 >0 +0", "-0 >0 +0", "+0 <0 -0", "-0 <0 -0"),
    ],
}

_POLAR = ["fin +inf +inf pi/2", "fin nan nan nan", "-inf pos +inf pi"]
_POLAR += ["+inf pos +inf +0", "-inf +inf +inf 3pi/4", "+inf +inf +inf pi/4"]
_POLAR += [
    "inf nan +inf nan",
    "nan fin nan nan",
    "nan +inf +inf nan",
    "nan nan nan nan",
]
#: Real and imaginary part of the argument, then of the result.
COMPLEX = {
    "acos": [
        *("0 +0 pi/2 -0", "0 nan pi/2 nan", "fin +inf pi/2 -inf", "nz nan nan nan"),
        *("-inf pos pi -inf", "+inf pos +0 -inf", "-inf +inf 3pi/4 -inf"),
        *("+inf +inf pi/4 -inf", "inf nan nan ~inf", "nan fin nan nan"),
        *("nan +inf nan -inf", "nan nan nan nan"),
    ],
    "acosh": [
        *("0 +0 +0 pi/2", "fin +inf +inf pi/2", "nz nan nan nan", "+0 nan nan ~pi/2"),
        *("-inf pos +inf pi", "+inf pos +inf +0", "-inf +inf +inf 3pi/4"),
        *("+inf +inf +inf pi/4", "inf nan +inf nan", "nan fin nan nan"),
        *("nan +inf +inf nan", "nan nan nan nan"),
    ],
    "asinh": [
        *("+0 +0 +0 +0", "pos +inf +inf pi/2", "fin nan nan nan", "+inf pos +inf +0"),
        *("+inf +inf +inf pi/4", "nan +0 nan +0", "nan nz nan nan"),
        *("nan +inf ~inf nan", "nan nan nan nan"),
    ],
    "atanh": [
        *("+0 +0 +0 +0", "+0 nan +0 nan", "1 +0 +inf +0", "pos +inf +0 pi/2"),
        *("nz nan nan nan", "+inf pos +0 pi/2", "+inf +inf +0 pi/2", "+inf nan +0 nan"),
        *("nan fin nan nan", "nan +inf ~0 pi/2", "nan nan nan nan"),
    ],
    "cosh": [
        *("+0 +0 1 +0", "+0 +inf nan ~0", "+0 nan nan ~0", "nz +inf nan nan"),
        *("nz nan nan nan", "+inf +0 +inf +0", "+inf +inf ~inf nan"),
        *("+inf nan +inf nan", "nan 0 nan ~0", "nan nz nan nan", "nan nan nan nan"),
    ],
    "exp": [
        *("0 +0 1 +0", "fin +inf nan nan", "fin nan nan nan", "+inf +0 +inf +0"),
        *("-inf +inf ~0 ~0", "+inf +inf ~inf nan", "-inf nan ~0 ~0"),
        *("+inf nan ~inf nan", "nan +0 nan +0", "nan not0 nan nan"),
    ],
    "expm1": [
        *("0 +0 ~0 +0", "fin +inf nan nan", "fin nan nan nan", "+inf +0 +inf +0"),
        *("-inf +inf -1 ~0", "+inf +inf ~inf nan", "-inf nan -1 ~0"),
        *("+inf nan ~inf nan", "nan +0 nan +0", "nan not0 nan nan"),
    ],
    "log": [*_POLAR, "-0 +0 -inf pi", "+0 +0 -inf +0"],
    "log1p": [*_POLAR, "-1 +0 -inf +0"],
    "sign": ["0 0 ~0 ~0", "nan any nan nan", "any nan nan nan"],
    "sinh": [
        *("+0 +0 +0 +0", "+0 +inf ~0 nan", "+0 nan ~0 nan", "pos +inf nan nan"),
        *("pos nan nan nan", "+inf +0 +inf +0", "+inf +inf ~inf nan"),
        *("+inf nan ~inf nan", "nan +0 nan +0", "nan nz nan nan", "nan nan nan nan"),
    ],
    "sqrt": [
        *("0 +0 +0 +0", "any +inf +inf +inf", "fin nan nan nan", "-inf pos +0 +inf"),
        *("+inf pos +inf +0", "-inf nan nan ~inf", "+inf nan +inf nan"),
        *("nan fin nan nan", "nan nan nan nan"),
    ],
    "tanh": [
        *("+0 +0 +0 +0", "nz +inf nan nan", "+0 +inf +0 nan", "nz nan nan nan"),
        *("+0 nan +0 nan", "+inf pos 1 +0", "+inf +inf 1 ~0", "+inf nan 1 ~0"),
        *("nan +0 nan +0", "nan nz nan nan", "nan nan nan nan"),
    ],
}
#: Functions of z that are -j · another of j · z.
TURNED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh"}
