/* small_model.h - a small random Llama of any stored type, its engine and sessions, for tests of
 * their guarantees. A failure to make one fails the test. */
#ifndef WEFT_TESTS_SMALL_MODEL_H
#define WEFT_TESTS_SMALL_MODEL_H

#include "engine/session.h"
#include "gguf_build.h"
#include "support.h"
#include "train/init_model.h"

typedef struct fixture_model {
    host host;
    model model;
} fixture_model;

/* Two layers of width 64, 61 tokens, a context of 320; the caller sets the type. */
extern const llama_shape small_shape;

void open_llama(fixture_model *f, llama_shape s);
void open_typed(fixture_model *f, const dtype *type);

/* A random DeepSeek of three layers, two of which have experts, converted to the type: "f32",
 * "q8_0"; v is its version, 2 or 3. Returns the path of the GGUF file, which is its third form. */
const char *open_deepseek(fixture_model *f, int v, const char *type);

/* A random decoder of this config.json, whose values small_decoder completes to three layers of
 * width 64 and 61 tokens. */
void open_decoder(fixture_model *f, const char *config);

/* A random decoder as `weft train` designs it: two layers of width 64 with 4 heads, 61 tokens, a
 * context of 320; `words` has its design and attention. */
void open_design(fixture_model *f, const init_model_shape *words);

/* What can be chosen, each alone and some together; ends with one whose arch is NULL. */
extern const init_model_shape designs[];
const char *design_name(const init_model_shape *words);

/* The model of tests/golden/NAME. */
void open_golden(fixture_model *f, const char *name);

/* Also checks that all of its memory was freed. */
void close_llama(fixture_model *f);

engine *make_engine(fixture_model *f, engine_options o);
session *make_session(engine *e);
void must_eval(engine *e, work *w, int n);
void must_feed(session *s, const int32_t *ids, int64_t n);

void must_encode(engine *e, const source_text *s, int n);

#define MAX_RECOMPUTED 256

/* The last logits of one forward over everything, without a cache; the source may be empty. */
void recompute(const model *m, const kernels *kern, const int32_t *source, int n_source,
               const int32_t *ids, int n, float *logits);

/* Random numbers, and texts of tokens below 61. */
uint32_t draw(uint64_t seed, uint64_t i);
void story(int32_t *ids, int n, uint64_t who);

#endif
