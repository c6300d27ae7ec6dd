/* adapter.c - the end of an adapter. */
#include "adapt/adapter.h"

void adapter_close(adapter *a)
{
    arena_free(&a->store);
    container_close(&a->file);
    *a = (adapter){ 0 };
}
