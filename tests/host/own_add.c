/* own_add.c - a program whose functions have the same names as internal functions of weft. Built
 * against libweft.a and libweft.so: it links, and neither side calls the other's functions. */
#include "say.h"

static int stolen;

/* clang-format off */
#define OWN(name) int name(void); int name(void) { return ++stolen; }
OWN(add) OWN(row) OWN(rows) OWN(cols) OWN(view) OWN(apply) OWN(slice) OWN(embed) OWN(linear)
OWN(attention) OWN(rope) OWN(rmsnorm) OWN(layernorm) OWN(glu) OWN(act) OWN(softmax) OWN(residual)
OWN(take_rows) OWN(pool_rows) OWN(run_begin) OWN(run_init) OWN(run_free) OWN(arena_alloc)
OWN(arena_init) OWN(arena_free) OWN(mem_alloc) OWN(mem_free) OWN(mem_init) OWN(pool_new)
OWN(pool_run) OWN(pool_free) OWN(file_open) OWN(file_close) OWN(log_write) OWN(cpu_count)
OWN(utf8_decode) OWN(json_parse) OWN(gguf_parse) OWN(container_open) OWN(container_meta)
OWN(model_open) OWN(model_close) OWN(bind_int) OWN(engine_new) OWN(engine_eval) OWN(engine_free)
OWN(session_new) OWN(session_rewind) OWN(session_greedy) OWN(kernels_select) OWN(kernels_scalar)
OWN(dtype_f16) OWN(archs) OWN(llama_family) OWN(io_system) OWN(weft_fail);
/* clang-format on */

int main(void)
{
    weft_error err = { 0 };
    weft_model *model = weft_model_open(golden("llama-gqa"), NULL, &err);
    must(model, "own names: the model opens", &err);
    weft_engine *engine = weft_engine_new(model, NULL, &err);
    must(engine, "own names: the engine is made", &err);
    weft_session *session = weft_session_new(engine, &err);
    must(session, "own names: the session is made", &err);
    const int32_t ids[] = { 1, 5, 7 };
    must(weft_session_eval(session, ids, 3, &err) == WEFT_OK, "own names: evaluates", &err);
    const int32_t next = weft_session_greedy(session);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_model_close(model);

    check(stolen == 0 && next >= 0,
          "own names: the library (" WEFT_LINKED ") calls none of the program's",
          "%d calls, next token %d", stolen, (int)next);
    check(add() == 1 && arena_alloc() == 2,
          "own names: the program (" WEFT_LINKED ") calls its own", "%d calls counted", stolen);
    return n_failed > 0;
}
