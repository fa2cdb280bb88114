/* What Bochs' CPU needs of its host before Python can load it.

   The package runs a Core i3 without the 8-bit dot product. A function of that name,
   found first, makes the CPU that MDTENSOR_X86 names. The other functions are those of
   a newer C library than Debian 12 has. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef void *(*maker)(void *);

/* Return the features of the CPU whose maker has the symbol in MDTENSOR_X86. */
void *_Z23create_corei3_cnl_cpuidP8BX_CPU_C(void *cpu)
{
    const char *package = getenv("MDTENSOR_X86_PACKAGE"), *name = getenv("MDTENSOR_X86");
    void *code = package ? dlopen(package, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    maker make = code && name ? (maker)dlsym(code, name) : NULL;
    if (!make) {
        fprintf(stderr, "no CPU %s in %s\n", name ? name : "", package ? package : "");
        abort();
    }
    return make(cpu);
}

unsigned long long __isoc23_strtoull(const char *text, char **end, int base)
{
    return strtoull(text, end, base);
}

int __isoc23_sscanf(const char *text, const char *format, ...)
{
    va_list places;
    va_start(places, format);
    int count = vsscanf(text, format, places);
    va_end(places);
    return count;
}
