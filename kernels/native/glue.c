/* Calls of compiled kernels from Python, one binary for CPython 3.11 and newer.

   call(address, kinds, *arguments) runs a kernel without the GIL. `kinds` has a letter
   for each argument and one for the result:

       i  an int, or what has __index__          d  float64      f  float32
       a digit and a letter: a C-contiguous array of that many axes, whose elements have
                 the format of the letter in `struct`; V is any record
       w  a tuple of ints
       n  no result     b  bool

   A kernel takes its arguments as 64-bit words: a number is one word, a tuple a word for
   each number, an array its address and then its sizes. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define MOST_ARRAYS 16
#define MOST_WORDS 96
#define MOST_AXES 3
/* What a kernel returns: it succeeded, with or without a result, or it raised. */
enum { DONE = 0, NO_RESULT = -2, RAISED = 1 };

typedef int32_t (*kernel)(const int64_t *, int64_t *, void **);

/* An exception as compiled code describes it: a pickle of (class, arguments, place). */
typedef struct {
    const char *pickled;
    int32_t size;
    void *hash;
    void *make_arguments;
} Raised;

typedef struct {
    int64_t words[MOST_WORDS];
    Py_buffer views[MOST_ARRAYS];
    int count, open;
} Arguments;

/* Set the exception of a kernel. */
static void set_exception(const Raised *raised)
{
    if (!raised || raised->make_arguments) {
        PyErr_SetString(PyExc_RuntimeError, "a kernel failed");
        return;
    }
    PyObject *pickle = PyImport_ImportModule("pickle");
    PyObject *found = pickle ? PyObject_CallMethod(pickle, "loads", "y#", raised->pickled,
                                                   (Py_ssize_t)raised->size)
                             : NULL;
    PyObject *kind = found ? PyTuple_GetItem(found, 0) : NULL;
    PyObject *values = kind ? PyTuple_GetItem(found, 1) : NULL;
    if (values)
        PyErr_SetObject(kind, values);
    Py_XDECREF(found);
    Py_XDECREF(pickle);
}

/* Set a TypeError and return -1. */
static int refuse(const char *problem)
{
    PyErr_SetString(PyExc_TypeError, problem);
    return -1;
}

/* Return whether elements have a format; NumPy writes int64 as l. */
static int has_format(const Py_buffer *view, char kind)
{
    char found = view->format && !view->format[1] ? view->format[0] : '\0';
    return kind == 'V' || found == kind || (kind == 'q' && found == 'l') ||
           (kind == 'Q' && found == 'L');
}

/* Add the address and the sizes of an array; return -1 with an exception. */
static int add_array(Arguments *to, PyObject *array, char kind, int axes)
{
    Py_buffer *view = to->views + to->open;
    /* The format of a record is long, and takes NumPy long to write. */
    if (PyObject_GetBuffer(array, view, kind == 'V' ? PyBUF_ND : PyBUF_ND | PyBUF_FORMAT))
        return -1;
    to->open++;
    if (view->ndim != axes || !has_format(view, kind)) {
        PyErr_Format(PyExc_TypeError, "a kernel takes %d axes of %c, not %d of %s", axes,
                     kind, view->ndim, view->format ? view->format : "records");
        return -1;
    }
    to->words[to->count++] = (int64_t)(intptr_t)view->buf;
    for (int i = 0; i < axes; i++)
        to->words[to->count++] = view->shape[i];
    return 0;
}

static int add_integer(Arguments *to, PyObject *number)
{
    int64_t value = PyLong_AsLongLong(number);
    to->words[to->count++] = value;
    return value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int add_float(Arguments *to, PyObject *number, int is_single)
{
    double value = PyFloat_AsDouble(number);
    float single = (float)value;
    to->words[to->count] = 0;
    memcpy(to->words + to->count++, is_single ? (void *)&single : (void *)&value,
           is_single ? sizeof single : sizeof value);
    return value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int add_tuple(Arguments *to, PyObject *numbers)
{
    Py_ssize_t size = PyTuple_Size(numbers);
    if (size > MOST_WORDS - to->count)
        return refuse("too large a tuple for a kernel");
    for (Py_ssize_t i = 0; i < size; i++)
        if (add_integer(to, PyTuple_GetItem(numbers, i)))
            return -1;
    return size < 0 ? -1 : 0;
}

/* Add one argument and move `kinds` past its letters. */
static int add(Arguments *to, PyObject *value, const char **kinds)
{
    char kind = *(*kinds)++;
    if (!kind || to->open == MOST_ARRAYS || to->count + 1 + MOST_AXES > MOST_WORDS)
        return refuse("too many arguments of a kernel");
    switch (kind) {
    case 'i': return add_integer(to, value);
    case 'd': return add_float(to, value, 0);
    case 'f': return add_float(to, value, 1);
    case 'w': return add_tuple(to, value);
    default: return add_array(to, value, *(*kinds)++, kind - '0');
    }
}

static PyObject *run(kernel function, const Arguments *given, char result)
{
    int64_t found = 0;
    void *raised = NULL;
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = function(given->words, &found, &raised);
    Py_END_ALLOW_THREADS
    if (status != DONE && status != NO_RESULT) {
        set_exception(status == RAISED ? raised : NULL);
        return NULL;
    }
    switch (result) {
    case 'i': return PyLong_FromLongLong(found);
    case 'b': return PyBool_FromLong(found & 1);
    default: return Py_NewRef(Py_None);
    }
}

static PyObject *call(PyObject *self, PyObject *const *values, Py_ssize_t count)
{
    Arguments given;
    given.count = given.open = 0;
    PyObject *result = NULL;
    if (count < 2 && refuse("call(address, kinds, *arguments)"))
        return NULL;
    kernel function = (kernel)PyLong_AsVoidPtr(values[0]);
    const char *kinds = PyBytes_AsString(values[1]);
    int failed = !function || !kinds;
    for (Py_ssize_t i = 2; i < count && !failed; i++)
        failed = add(&given, values[i], &kinds);
    if (!failed && (kinds[0] == '\0' || kinds[1] != '\0'))
        failed = refuse("wrong number of arguments of a kernel");
    if (!failed)
        result = run(function, &given, kinds[0]);
    while (given.open)
        PyBuffer_Release(given.views + --given.open);
    return result;
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
     "Call a kernel: call(address, kinds, *arguments)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_glue", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__glue(void) { return PyModuleDef_Init(&definition); }
