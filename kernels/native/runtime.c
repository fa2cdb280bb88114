/* What compiled kernels need at run time: arrays with a count of references, and two
   functions of the C library. numba defines names, layouts and meaning.
   Source: numba/core/runtime/nrt.cpp, numba/_helperlib.c (BSD 2-Clause). */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define OWN __attribute__((visibility("hidden")))

typedef void (*destructor)(void *, size_t, void *);

typedef struct {
    size_t references;
    destructor destroy;
    void *destroy_with;
    void *data;
    size_t size;
    void *allocator;
} MemInfo;

/* Round an address up to a multiple of `align`; 0 leaves it. */
static void *aligned(char *place, unsigned align)
{
    uintptr_t at = (uintptr_t)place;
    return (void *)(align ? (at + align - 1) / align * align : at);
}

/* Return memory of `size` bytes with one reference, or NULL. */
OWN MemInfo *NRT_MemInfo_alloc_aligned(size_t size, unsigned align)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    MemInfo *found = malloc(sizeof(MemInfo) + size + align);
    if (!found)
        return NULL;
    void *data = aligned((char *)(found + 1), align);
    *found = (MemInfo){1, NULL, NULL, data, size, NULL};
    return found;
}

OWN MemInfo *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }

/* The last reference is gone. */
OWN void NRT_MemInfo_call_dtor(MemInfo *info)
{
    if (info->destroy)
        info->destroy(info->data, info->size, info->destroy_with);
    free(info);
}

OWN void *NRT_Allocate(size_t size) { return malloc(size); }

OWN void NRT_Free(void *place) { free(place); }

/* As in C, but the exponent of infinities and NaN is 0 rather than undefined. */
OWN double numba_frexp(double x, int *exponent)
{
    if (isfinite(x) && x != 0)
        return frexp(x, exponent);
    *exponent = 0;
    return x;
}

/* Set the strides of a new shape of a C-contiguous array; return whether that is
   possible without a copy. Kernels reshape no other arrays, so others return 0. */
OWN int numba_attempt_nocopy_reshape(intptr_t axes, const intptr_t *sizes,
                                     const intptr_t *strides, intptr_t new_axes,
                                     const intptr_t *new_sizes, intptr_t *new_strides,
                                     intptr_t itemsize, int is_fortran)
{
    intptr_t count = 1, new_count = 1, step = itemsize;
    for (intptr_t i = 0; i < axes; i++)
        count *= sizes[i];
    for (intptr_t i = 0; i < new_axes; i++)
        new_count *= new_sizes[i];
    if (count != new_count || is_fortran)
        return 0;
    for (intptr_t i = axes - 1; i >= 0; i--) {
        if (sizes[i] != 1 && count != 0 && strides[i] != step)
            return 0;
        step *= sizes[i];
    }
    step = itemsize;
    for (intptr_t i = new_axes - 1; i >= 0; i--) {
        new_strides[i] = step;
        step *= new_sizes[i];
    }
    return 1;
}
