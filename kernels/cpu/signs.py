"""Where numba mixes uint64 with signed integers and the result may be wrong.

Quotients would be signed, and comparisons go through float64. Sums, products and bits
are the same modulo 2**64 whatever the sign.
"""

import operator

from numba import types

_QUOTIENTS = {
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
}
_COMPARISONS = {
    "==": (operator.eq,),
    "!=": (operator.ne,),
    "<": (operator.lt,),
    "<=": (operator.le,),
    ">": (operator.gt,),
    ">=": (operator.ge,),
}
_SYMBOLS = {
    function: symbol
    for symbol, functions in (_QUOTIENTS | _COMPARISONS).items()
    for function in functions
}


def mixture(annotation):
    """What is wrong in a function that numba has typed, and its line; "" and 0."""
    for expression in annotation.calltypes:
        if getattr(expression, "op", "") not in ("binop", "inplace_binop"):
            continue
        symbol = _SYMBOLS.get(expression.fn)
        if symbol is None:
            continue
        pair = [annotation.typemap[x.name] for x in (expression.lhs, expression.rhs)]
        is_exact = symbol in _COMPARISONS and any(map(_is_small, pair))
        if _is_mixed(pair) and not is_exact:
            problem = f"uint64 meets a signed integer in {symbol}"
            return problem, expression.loc.line
    return "", 0


def _is_mixed(pair):
    plain = [types.unliteral(kind) for kind in pair]
    is_integer = all(isinstance(kind, types.Integer) for kind in plain)
    return is_integer and types.uint64 in plain and any(kind.signed for kind in plain)


def _is_small(kind):
    """Whether it is one integer that float64 tells from all others."""
    is_literal = isinstance(kind, types.IntegerLiteral)
    return is_literal and abs(kind.literal_value) < 2**53
