/* adapters.h - the adapters that are served beside the model, each under a name: those of --lora,
 * and those of the file of --lora-list, which SIGHUP reads again.
 *
 *     list file --adapters_load--> new set --lock--> the set --adapters_find--> a job
 *
 * A set is loaded as a whole or not at all; those of the old one that are listed and whose files
 * are unchanged stay as they are. A job holds its adapter, so one that leaves the set lives until
 * its last request has ended.
 *
 * adapters_load is for one thread at a time (reload.c); the other functions are for any thread, and
 * wait for no file. */
#ifndef WEFT_SERVER_ADAPTERS_H
#define WEFT_SERVER_ADAPTERS_H

#include "memory.h"
#include "serve_options.h"
#include "stamp.h"

#include <pthread.h>

#define MAX_ADAPTERS 256
#define LORA_FILES   5 /* whose change is a change of the adapter */

typedef struct served_adapter {
    atomic_int refs;
    char *name, *full, *path; /* "poet", "base:poet", its directory */
    double strength;
    weft_adapter *adapter;
    file_stamp stamp[LORA_FILES];
    atomic_llong n_request;
} served_adapter;

typedef struct adapters {
    serve_lora options;
    int64_t rank; /* the largest that one may have; -1: not known before the first load */

    pthread_mutex_t lock;
    served_adapter **at; /* [n] under the lock */
    int n;
    atomic_llong n_load, n_failed; /* of sets */
} adapters;

bool adapters_init(adapters *a, const serve_lora *options);
void adapters_free(adapters *a);

/* Loads the set that is listed now. False with the reason in `why`; then the old set stays. */
bool adapters_load(adapters *a, const serve_model *m, char *why, size_t room);

/* The adapter of this name, "poet" or "base:poet", held; or NULL. */
served_adapter *adapters_find(adapters *a, const char *base, const char *name);
void adapter_release(served_adapter *one); /* NULL is allowed */

/* Calls fn for each of the set. */
void adapters_each(adapters *a, void (*fn)(void *ud, const served_adapter *one), void *ud);

#endif
