/* fair_keys.c - a small table of keys, searched by name. */
#include "engine/fair_keys.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

weft_status fair_keys_init(fair_keys *k, int room, mem *m, weft_error *err)
{
    *k = (fair_keys){ .room = room };
    k->key = mem_zalloc(m, (size_t)room, sizeof *k->key, "keys", err);
    k->served = mem_zalloc(m, (size_t)room, sizeof *k->served, "keys", err);
    return k->key && k->served ? WEFT_OK : WEFT_ENOMEM;
}

void fair_keys_free(fair_keys *k, mem *m)
{
    mem_free(m, k->key);
    mem_free(m, k->served);
    *k = (fair_keys){ 0 };
}

/* A new place, or that of the key without requests that was served least: what is forgotten of it
 * is the least. */
static int find_place(fair_keys *k)
{
    int least = -1;
    if (k->n < k->room)
        return k->n++;
    for (int i = 0; i < k->n; i++)
        if (k->key[i].n_request == 0 && (least < 0 || k->served[i] < k->served[least]))
            least = i;
    assert(least >= 0);
    return least;
}

static int find_key(fair_keys *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->key[i].name, name) == 0)
            return i;
    const int i = find_place(k);
    k->key[i] = (fair_key){ .salt = ++k->last_salt };
    snprintf(k->key[i].name, sizeof k->key[i].name, "%s", name);
    k->served[i] = 0;
    return i;
}

int fair_keys_enter(fair_keys *k, const char *name)
{
    const int i = find_key(k, name);
    if (k->key[i].n_request++ > 0)
        return i;
    double least = INFINITY;
    for (int j = 0; j < k->n; j++)
        if (j != i && k->key[j].n_request > 0)
            least = fmin(least, k->served[j]);
    k->served[i] = fmax(k->served[i], least < INFINITY ? least : k->last_served);
    return i;
}

void fair_keys_leave(fair_keys *k, int key)
{
    assert(k->key[key].n_request > 0);
    if (--k->key[key].n_request == 0)
        k->last_served = k->served[key];
}
