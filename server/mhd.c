/* mhd.c - loads libmicrohttpd; see mhd.h. */
#include "mhd.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libmicrohttpd.so.12" /* the ABI of 0.9.60 to 1.0 */

mhd_library mhd;

bool mhd_load(char *why, size_t size)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
#define MHD_ENTRY(name) { "MHD_" #name, offsetof(mhd_library, name) },
        MHD_FUNCTIONS(MHD_ENTRY)
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, size, "%s; expected libmicrohttpd to be installed", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found) {
            snprintf(why, size, "%s has no %s; expected version 0.9.75 or newer", LIBRARY,
                     functions[i].name);
            return false;
        }
        memcpy((char *)&mhd + functions[i].at, &found, sizeof found);
    }
    return true;
}
