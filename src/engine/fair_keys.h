/* fair_keys.h - the keys that requests carry: who sends them. Each has a counter of what it was
 * served, by which the least served goes first, and a salt for its cached prefixes.
 *
 * A key without requests is remembered while there is room: it must not lose what it was served by
 * pausing. Nor may it save up: when it returns, its counter is raised to that of the least
 * served key with requests, or if there is none to that of the last one that had any. */
#ifndef WEFT_ENGINE_FAIR_KEYS_H
#define WEFT_ENGINE_FAIR_KEYS_H

#include "base/mem.h"

#define KEY_BYTES 256 /* with the terminator */

typedef struct fair_key {
    char name[KEY_BYTES];
    uint64_t salt; /* never used again */
    int64_t n_request;
} fair_key;

typedef struct fair_keys {
    fair_key *key;
    double *served; /* of each */
    int n, room;
    uint64_t last_salt;
    double last_served; /* of the key that was the last to lose its requests */
} fair_keys;

/* room: keys at a time; more than there can be requests. */
weft_status fair_keys_init(fair_keys *k, int room, mem *m, weft_error *err);
void fair_keys_free(fair_keys *k, mem *m);

/* A request of this key arrives, and ends. Returns the key's index, which is valid until then. */
int fair_keys_enter(fair_keys *k, const char *name);
void fair_keys_leave(fair_keys *k, int key);

#endif
