#include "small_model.h"

#include "base/rng.h"

const llama_shape small_shape = { .n_layer = 2,
                                  .d_model = 64,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .d_ff = 96,
                                  .n_vocab = 61,
                                  .n_ctx = 320 };

void open_llama(fixture_model *f, llama_shape s)
{
    weft_error err = { 0 };
    bytes b = gguf_llama(&s);
    const char *path = temp_file("model.gguf", b.at, b.n);
    free(b.at);
    host_plain(&f->host);
    if (model_open(&f->model, path, WEFT_LOAD_COPY, &f->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void open_typed(fixture_model *f, const dtype *type)
{
    llama_shape s = small_shape;
    s.type = type;
    open_llama(f, s);
}

void close_llama(fixture_model *f)
{
    model_close(&f->model);
    assert_int_equal(f->host.mem.used, 0);
}

engine *make_engine(fixture_model *f, engine_options o)
{
    weft_error err = { 0 };
    engine *e = engine_new(&f->model, &o, &err);
    if (!e)
        fail_msg("%s", err.message);
    return e;
}

session *make_session(engine *e)
{
    weft_error err = { 0 };
    session *s = session_new(e, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

void must_eval(engine *e, work *w, int n)
{
    weft_error err = { 0 };
    if (engine_eval(e, w, n, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void must_feed(session *s, const int32_t *ids, int64_t n)
{
    must_eval(s->engine, &(work){ .session = s, .ids = ids, .n = n }, 1);
}

uint32_t draw(uint64_t seed, uint64_t i)
{
    return rng_draw(77, seed, i).word[0];
}

void story(int32_t *ids, int n, uint64_t who)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(draw(1000 + who, (uint64_t)i) % (uint32_t)small_shape.n_vocab);
}
