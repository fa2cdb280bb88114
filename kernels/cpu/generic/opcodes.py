"""Numbers of activations and of elementwise instructions, and what they read.

`activation.py` and `float_elementwise.py` say what each computes.
"""

# Activations that products apply, and the first instructions.
KEEP, RELU, CLAMP, LEAKY_RELU, HARDSIGMOID, HARDSWISH = range(6)
# A product may also round to narrow floats: 1 for float16 and 2 for bfloat16, in two
# bits each of the number of its activation, before it adds a value, before it
# activates, and at its end.
KINDS = 8
BEFORE_ADDING, BEFORE_ACTIVATING, AT_THE_END, BITS = 3, 5, 7, 9
# Next come operations on two values, then operations on one value, some of them with
# the number `low`.
ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM = range(6, 12)
EXP, SIGMOID, NEGATIVE, ABS, SQRT, SQUARE, RECIPROCAL = range(12, 19)
ADD_NUMBER, MUL_NUMBER, DIV_NUMBER, SUB_FROM, DIV_INTO = range(19, 24)
ERF, TANH, LOG, GELU, GELU_TANH, ROOT, SILU = range(24, 31)
FLOOR, CEIL, TRUNC, ROUND = range(31, 35)
# Roundings to the numbers of a narrower type; the result stays a float32.
TO_FLOAT16, TO_BFLOAT16 = 35, 36
# Comparisons give 1 or 0. KEEP_IF gives x where y is not 0, KEEP_UNLESS where y is 0,
# else 0; EITHER joins the bits of two such values (decision 0069).
EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, KEEP_IF, KEEP_UNLESS, EITHER = range(37, 44)
# Functions that came later; SOFTPLUS reads `low` and `high`.
SIN, COS, SOFTPLUS = range(44, 47)
# Last come reductions of each row of a block; the result is repeated along the row.
ROW_SUM, ROW_MAX, ROW_MIN = range(47, 50)
CHOICES = (EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, KEEP_IF, KEEP_UNLESS, EITHER)
BINARY = (ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, *CHOICES)
REDUCTIONS = (ROW_SUM, ROW_MAX, ROW_MIN)

#: What `reduce_f32` computes.
SUM, MEAN, MAX, MIN = range(4)

#: Elements of a block.
BLOCK = 1024
#: Values of an instruction that are inputs; registers follow.
INPUTS = 4
#: Columns of an operand, and where its elements are: inputs are the sources 0 to 3.
SOURCE, PLACE, IS_PERIODIC, SIZES, JUMPS = 0, 1, 2, 3, 7
AXES, FIELDS = 4, 11
#: The columns of the last axis.
LENGTH, LAST_JUMP = SIZES + AXES - 1, JUMPS + AXES - 1
NOTHING, CONSTANTS, BLOCKS = -1, INPUTS, INPUTS + 1
