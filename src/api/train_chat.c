/* train_chat.c - finds the chat template of a run. */
#include "api/train_chat.h"

#include "text/sources/chat_file.h"

weft_status take_run_template(run_template *r, const weft_train_options *o, const char *from,
                              host *h, weft_error *err)
{
    const char *path = o->chat_template ? o->chat_template : from;
    *r = (run_template){ 0 };
    if (!path)
        return WEFT_OK;
    weft_status status = arena_init(&r->store, ARENA_GROWING, &h->mem, 0, "a template", err);
    if (status == WEFT_OK)
        status = chat_load(&r->chat, path, "default", &r->store, h, &r->why);
    r->found = status == WEFT_OK;
    if (r->found || (!o->chat_template && status != WEFT_ENOMEM))
        return WEFT_OK;
    *err = r->why;
    drop_run_template(r);
    return status;
}

void drop_run_template(run_template *r)
{
    if (r->found)
        chat_close(&r->chat);
    arena_free(&r->store);
    *r = (run_template){ 0 };
}
