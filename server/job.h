/* job.h - a request on its way through the server.
 *
 * Two sides hold a job: the HTTP loop, until the client has its answer or is gone, and the clerk or
 * the worker, until the answer is complete. Either may be the last. What both touch is under the
 * lock: the bytes to send and how far the answer is. */
#ifndef WEFT_SERVER_JOB_H
#define WEFT_SERVER_JOB_H

#include "answer.h"
#include "picture.h"
#include "server.h"
#include "think.h"

#define MAX_UNREAD ((size_t)1 << 20) /* bytes of a stream that a client has not taken */
#define ID_BYTES   129
#define MADE_BYTES 33

/* A prompt, ready for the scheduler or the encoder. */
typedef struct prompt {
    const int32_t *ids;
    int64_t n;
    weft_tokens *tokens; /* one of these owns the ids, or the request does */
    weft_rendered *rendered;
    picture picture;       /* in place of ids; of the request's store */
    weft_image *image;     /* decoded by the worker, until it has been computed */
    bytes echo;            /* its text, if it is wanted */
    bool inside;           /* it ends with the start of the model's thinking */
    const int32_t *source; /* of an encoder-decoder, whose ids are the text's beginning */
    int64_t n_source;
    int32_t *mask; /* [n_mask] where tokens are missing, to be filled in */
    int64_t n_mask;
} prompt;

#define MAX_MASK 32 /* of a text */

/* A token in place of a mask. */
typedef struct filling {
    int32_t id;
    double p;
} filling;

/* A text that is generated: choice `index` of the answer. */
typedef struct job_text {
    struct job *job;
    int index;
    uint64_t ticket; /* of the scheduler; 0: not submitted */
    thinking think;
    weft_constraint *constraint; /* of the form or the tools; or NULL */
    weft_call_reader *calls;     /* of the tools; or NULL */
    weft_decoder *decoder; /* of a translation, which is a whole text: it begins without a space */
    bool thinks, done;
    double last; /* when its last token came */
} job_text;

typedef struct job {
    server *server;
    atomic_int refs;
    atomic_bool cancelled; /* the client is gone, or the server stops */
    endpoint endpoint;
    char made[MADE_BYTES]; /* an id of our own */
    char id[ID_BYTES];     /* x-request-id: the client's, or ours */
    int key;               /* -1: there are no keys */
    bool counted;          /* by its model */
    double began;
    bytes body;

    pthread_mutex_t lock;
    bytes out, late; /* late: of an answer that was complete before; nobody gets it */
    size_t taken;    /* bytes of it that were sent */
    int status;      /* 0: not known yet */
    bool stream;     /* what follows are events */
    bool complete;   /* nothing follows */
    bool announced;
    int64_t n_prompt, n_new, n_cached; /* for the log */
    double first;                      /* when the first token came; 0: not yet */

    /* of the clerk, then of the worker */
    request request;
    instance *_Atomic instance; /* that answers, held; NULL: not known yet */
    served_adapter *adapter;    /* that the request names, held; or NULL */
    atomic_bool failed; /* an error was answered, also by the loop when the server stops; what still
                           comes is dropped */
    answer answer;
    prompt *prompts;
    job_text *parts;
    int n_part, n_submitted,
        n_done; /* texts: all, those that the scheduler has got, those it ended */
    uint64_t seed;

    /* of the worker's encoder */
    int64_t n_text, n_ready, n_encoded; /* prompts: all, those of tokens or a decoded image, and
                                           those that are done */
    int64_t *row;                       /* [n_text + 1] rows of the output before each */
    int64_t width;
    float *vectors; /* [row, width]; of masks: those of the texts that are computed now */
    filling *fills; /* [mask, top_k] */

    void *client; /* of the loop: whose it is; NULL: gone */
} job;

/* id: the client's, or NULL. NULL without memory. The caller holds it once. */
job *job_new(server *s, endpoint e, const char *id, int key);

/* The job is cancelled: whoever works on it finds out soon. */
void job_cancel(job *j);

/* Counts among the jobs of its model, which is known, or does so no longer. */
void job_count(job *j, bool counted);

/* The name of the model that the request gets, or of the adapter. */
const char *job_model(const job *j);

/* A random id of 32 letters. */
void job_make_id(char to[MADE_BYTES]);
job *job_hold(job *j);
void job_release(job *j);

/* ---- the answer, by the clerk or the worker -------------------------------------------------- */

/* Tells the loop that there is something to send. */
void job_announce(job *j);

/* The answer is an error: its status, or an event if the stream has begun. Does nothing to an answer
 * that is complete. */
void job_refuse(job *j, const refusal *why);
void job_refuse_error(job *j, const weft_error *err);

/* Bytes of the answer under the lock; complete: they are the last. */
void job_answer(job *j, bool complete);

/* Takes the lock, and a buffer that is already there. */
bytes *job_begin_write(job *j);
void job_end_write(job *j);

/* The clerk or the worker has nothing to do with it any more. */
void job_leave(job *j);

#endif
