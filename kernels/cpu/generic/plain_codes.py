"""Numbers of the steps on few elements of any type, which need no compiler.

What is computed, and the places of a header; see `program/plain.py`.
"""

#: Operations of two operands, whose result has their type.
ADD, SUB, MUL, DIV, LEAST, MOST, AND, OR, XOR = range(9)
#: Operations of one operand, whose result has its type.
NEG, ABS, SQRT, SIGN = range(16, 20)
#: Comparisons, whose result is a bool.
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = range(32, 38)
IS_NAN, IS_FINITE, NOT = range(38, 41)
#: How a scatter joins an element with an update.
REPLACE, PLUS = range(2)
#: What a step that reads at indices does.
TAKE, ALONG = range(2)
#: What an Order does.
ARGMAX, ARGMIN, ARGSORT, ARGSORT_DOWN, ADD_UP, TOTAL, SEARCH, SEARCH_RIGHT = range(8)

# Numbers of a header: what is computed, how many elements there are, the strides of two
# operands, and where an operand lies in the constants, or 0 if it is an input.
OPERATION, COUNT, X_STRIDE, Y_STRIDE, CONSTANT = range(5)
# The sizes of steps along an axis, and the bytes of an element.
LENGTH, INNER, INDICES, BYTES = range(5, 9)
# Of trees: nodes, rows, places of their arrays, and whether these are wide.
NODES, ROWS, FEATURES, CHILDREN, ROOTS, IS_WIDE = range(9, 15)
#: The numbers of a header, and their bytes.
HEADER, HEADER_BYTES = 16, 128
#: What a step writes for each leaf if a path through a tree does not end.
NO_LEAF_AT = -(1 << 62)
