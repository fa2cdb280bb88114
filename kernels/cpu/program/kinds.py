"""Kinds of steps: the number of each, and the compiled function that runs it."""

ALIGN = 64
# Kernels read whole vectors, so this many bytes after every input are readable.
SLACK = 64
#: Codes of a strip of an Extreme, so that its buffers stay in the first cache.
STRIP = 4096
#: Bytes of a float32.
ITEM = 4

# Kinds are plain ints, so that compiled code holds them as constants.
CONV, DEPTHWISE, LOOKUP, ADD, MUL, MEAN, MAX_POOL, AVG_POOL = range(8)
QUANTIZE, QUANTIZE_NCHW, DEQUANTIZE = range(8, 11)
MOVE, TAKE, CONCAT = range(11, 14)
MATMUL, SOFTMAX, EXTREME, NORMALIZE, LOOKUP_CHANNELS = range(14, 19)
CONV_F32, DEPTHWISE_F32, MAX_POOL_F32, AVG_POOL_F32 = range(19, 23)
MEAN_F32, ELEMENTWISE_F32, TRANSPOSE_F32, SOFTMAX_F32 = range(23, 27)
NORMALIZE_F32, MATMUL_F32, WINDOWS_F32 = range(27, 30)
RESAMPLE_F32 = 30
LSTM_F32, GRU_F32, RNN_F32 = range(31, 34)
REDUCE_F32 = 34
DYNAMIC_LINEAR = 35
WINDOWS = 36
WORD_LINEAR = 37
# Steps on few elements of any type.
PLAIN_INT64, PLAIN_FLOAT32, PLAIN_FLOAT64, PLAIN_BITS = range(38, 42)
PICK, HOLD, CHOOSE, TAKE_AT, OUTSIDE, SCATTER, TRUTHS = range(42, 49)
CAST_BOOL, CAST_INT8, CAST_INT32, CAST_INT64, CAST_FLOAT32, CAST_FLOAT64 = range(49, 55)
ORDER_INT64, ORDER_FLOAT32, ORDER_FLOAT64 = range(55, 58)
TREES_FLOAT32, TREES_FLOAT64 = range(58, 60)
#: What the header of a recurrent layer says if its lengths are inputs, float32 behind
#: the states.
COMPUTED = 2
#: Kinds whose input and result are codes.
OF_BYTES = (*range(CONV_F32), WINDOWS)

#: The functions of `interpret`, `interpret_floats` and `interpret_recurrent`, in the
#: order of the kinds; then come those of `interpret_reductions`, `interpret_dynamic`,
#: `interpret_windows` and `interpret_row_words`.
OF_CODES = (
    *("convolve", "convolve_depthwise", "look_up", "add", "multiply", "mean"),
    *("max_pool", "avg_pool", "quantize", "quantize_nchw", "dequantize", "move"),
    *("take", "concat", "multiply_matrices", "softmax", "choose", "normalize"),
    "look_up_channels",
)
OF_FLOATS = (
    *("convolve_floats", "convolve_depthwise_floats", "max_pool_floats"),
    *("avg_pool_floats", "mean_floats", "run_elementwise", "transpose_floats"),
    *("softmax_floats", "normalize_floats", "multiply_matrices_floats"),
    *("convolve_windows", "resample_floats"),
)
OF_SEQUENCES = ("run_lstm", "run_gru", "run_rnn")
DYNAMIC = ("run_dynamic_linear",)
OF_WORDS = ("run_word_linear",)
OF_PLAIN = (
    *("run_plain_int64", "run_plain_float32", "run_plain_float64", "run_plain_bits"),
    *("run_pick", "run_hold", "run_choose", "run_take", "run_outside", "run_scatter"),
    *("run_truths", "run_cast_bool", "run_cast_int8", "run_cast_int32"),
    *("run_cast_int64", "run_cast_float32", "run_cast_float64"),
    *("run_order_int64", "run_order_float32", "run_order_float64"),
    *("run_trees_float32", "run_trees_float64"),
)
#: Where each kind's function is: (module, name).
FUNCTIONS = (
    *(("program.interpret", name) for name in OF_CODES),
    *(("program.interpret_floats", name) for name in OF_FLOATS),
    *(("program.interpret_recurrent", name) for name in OF_SEQUENCES),
    ("program.interpret_reductions", "reduce_floats"),
    *(("program.interpret_dynamic", name) for name in DYNAMIC),
    ("program.interpret_windows", "convolve_code_windows"),
    *(("program.interpret_row_words", name) for name in OF_WORDS),
    *(("program.interpret_plain", name) for name in OF_PLAIN),
)
