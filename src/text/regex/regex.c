/* regex.c - a small wrapper around PCRE2: memory is counted, searches are bounded, errors are
 * readable.
 *
 * PCRE2's own limit applies to one starting point, and counts a run of letters as one step: "a*b|a"
 * scans the rest of the text from every letter on and stays below the limit. So each pattern is
 * compiled twice. A search starts with the fast version, on a window of a kilobyte: whatever its
 * answer, it was cheap.
 *
 * If the fast version reaches the end of the window or passes a small limit, the counted version
 * takes over from there. It calls us at every item, and we count the items and how far the search
 * moved between them. All searches in one text draw on one budget. */
#include "text/regex/regex.h"

#include "base/utf8.h"
#include "text/regex/translate.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* Bounds of the fast, uncounted search: bytes of text, and PCRE2's limit. */
#define WINDOW      1024
#define MATCH_LIMIT 128u

/* PCRE2 keeps its backtracking points on a stack: a repeated class needs none, a repeated group
 * some dozens of bytes each time. The stack starts small and grows on demand. */
#define STACK_FIRST ((size_t)64 << 10)
#define STACK_MOST  ((size_t)1 << 27)

/* search() returns this after filling err; not one of PCRE2's codes. */
#define GAVE_UP (-10000)

/* State of PCRE2's allocator. `err` is set while a call may report. */
typedef struct lender {
    mem *mem;
    weft_error *err; /* of the call that makes the pattern; NULL in a search */
    weft_error why;  /* of a search: why memory was refused */
    bool refused;
} lender;

struct regex {
    lender lender;
    pcre2_general_context *general;
    pcre2_code *code;    /* the fast version */
    pcre2_code *counted; /* calls count_step() */
    bool from_start;     /* has \G: a search must not resume from another place */
    size_t jit_bytes;    /* charged to the cap; 0 if the interpreter runs */
};

struct regex_scratch {
    lender lender;
    pcre2_general_context *general;
    pcre2_match_context *fast, *counting;
    pcre2_match_data *data;
    const PCRE2_SIZE *span; /* in data: the last match */
    pcre2_jit_stack *stack;
    size_t stack_bytes; /* charged to the cap */
    uint64_t steps;     /* remaining for this text */
    size_t last;        /* position of the counted search one step ago */
};

static void *lend(size_t size, void *ud)
{
    lender *l = ud;
    void *block = mem_alloc(l->mem, size, "a pattern", l->err ? l->err : &l->why);
    l->refused = l->refused || !block;
    return block;
}

static void take_back(void *block, void *ud)
{
    lender *l = ud;
    mem_free(l->mem, block);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static weft_status say(weft_error *err, weft_status code, int pcre, const char *what)
{
    char why[160] = "";
    pcre2_get_error_message(pcre, (PCRE2_UCHAR *)why, sizeof why);
    return weft_fail(err, code, "%s: %s", what, why);
}

static weft_status compile(regex *re, const char *translated, size_t n, uint32_t counted,
                           pcre2_code **code, weft_error *err)
{
    pcre2_compile_context *how = pcre2_compile_context_create(re->general);
    if (!how)
        return WEFT_ENOMEM;
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    int why = 0;
    PCRE2_SIZE at = 0;
    *code = pcre2_compile((PCRE2_SPTR)translated, n,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                              counted,
                          &why, &at, how);
    pcre2_compile_context_free(how);
    if (*code)
        return WEFT_OK;
    if (re->lender.refused)
        return WEFT_ENOMEM;
    return say(err, WEFT_EUNSUPPORTED, why, "pattern refused by PCRE2");
}

/* PCRE2 allocates machine code from the system itself, so we charge it once its size is known. If
 * the system allows none, the interpreter finds the same matches. */
static weft_status compile_jit(regex *re, pcre2_code *code, uint32_t ways, weft_error *err)
{
    const int rc = pcre2_jit_compile(code, ways);
    if (rc != 0)
        return re->lender.refused ? WEFT_ENOMEM : WEFT_OK;
    size_t bytes = 0;
    pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &bytes);
    if (!mem_charge(re->lender.mem, bytes))
        return weft_fail(err, WEFT_ELIMIT, "a pattern: %zu bytes of code exceed the memory limit",
                         bytes);
    re->jit_bytes += bytes;
    return WEFT_OK;
}

static weft_status compile_both(regex *re, const char *translated, size_t n, weft_error *err)
{
    weft_status status = compile(re, translated, n, 0, &re->code, err);
    if (status == WEFT_OK)
        status = compile(re, translated, n, PCRE2_AUTO_CALLOUT, &re->counted, err);
    if (status == WEFT_OK)
        status = compile_jit(re, re->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD, err);
    if (status == WEFT_OK)
        status = compile_jit(re, re->counted, PCRE2_JIT_COMPLETE, err);
    return status;
}

static regex *compile_all(const char *translated, size_t n, mem *m, weft_error *err)
{
    regex *re = mem_zalloc(m, 1, sizeof *re, "a pattern", err);
    if (!re)
        return NULL;
    re->lender = (lender){ .mem = m, .err = err };
    re->general = pcre2_general_context_create(lend, take_back, &re->lender);
    re->from_start = memmem(translated, n, "\\G", 2);
    if (!re->general || compile_both(re, translated, n, err) != WEFT_OK) {
        regex_free(re);
        return NULL;
    }
    re->lender.err = NULL;
    return re;
}

regex *regex_new(const char *pattern, size_t length, mem *m, weft_error *err)
{
    regex_text out = { .mem = m, .err = err };
    regex *re = NULL;
    if (regex_translate(pattern, length, &out, m, err) == WEFT_OK)
        re = compile_all(out.text, out.n, m, err);
    regex_text_free(&out);
    return re;
}

void regex_free(regex *re)
{
    if (!re)
        return;
    mem_uncharge(re->lender.mem, re->jit_bytes);
    pcre2_code_free(re->code);
    pcre2_code_free(re->counted);
    pcre2_general_context_free(re->general);
    mem_free(re->lender.mem, re);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* Replaces the stack by one of `bytes`. The system backs it page by page as it is touched; it is
 * charged in full. */
static weft_status set_stack(regex_scratch *s, size_t bytes, weft_error *err)
{
    mem *m = s->lender.mem;
    pcre2_jit_stack_assign(s->fast, NULL, NULL);
    pcre2_jit_stack_assign(s->counting, NULL, NULL);
    pcre2_jit_stack_free(s->stack);
    mem_uncharge(m, s->stack_bytes);
    s->stack = NULL;
    s->stack_bytes = 0;
    if (!mem_charge(m, bytes))
        return weft_fail(err, WEFT_ELIMIT, "a pattern: %zu bytes of stack exceed the memory limit",
                         bytes);
    s->stack_bytes = bytes;
    s->stack = pcre2_jit_stack_create(STACK_FIRST / 2, bytes, s->general);
    if (!s->stack)
        return weft_fail(err, WEFT_ENOMEM, "a pattern: the system refused %zu bytes of stack",
                         bytes);
    pcre2_jit_stack_assign(s->fast, NULL, s->stack);
    pcre2_jit_stack_assign(s->counting, NULL, s->stack);
    return WEFT_OK;
}

/* The cost of one item: itself, and the distance to it, forward or back. */
static int count_step(pcre2_callout_block *at, void *ud)
{
    regex_scratch *s = ud;
    const size_t here = at->current_position;
    const uint64_t cost = 1 + (here > s->last ? here - s->last : s->last - here);
    if (cost > s->steps)
        return PCRE2_ERROR_CALLOUT;
    s->steps -= cost;
    s->last = here;
    return 0;
}

void regex_begin(regex_scratch *s, size_t n)
{
    s->steps = REGEX_STEPS;
    regex_add(s, n);
}

void regex_add(regex_scratch *s, size_t n)
{
    s->steps += (uint64_t)REGEX_STEPS_PER_BYTE * n; /* bounded: a text has less than 2^32 bytes */
}

regex_scratch *regex_scratch_new(mem *m, weft_error *err)
{
    regex_scratch *s = mem_zalloc(m, 1, sizeof *s, "scratch of patterns", err);
    if (!s)
        return NULL;
    s->lender = (lender){ .mem = m, .err = err };
    s->general = pcre2_general_context_create(lend, take_back, &s->lender);
    s->fast = s->general ? pcre2_match_context_create(s->general) : NULL;
    s->counting = s->fast ? pcre2_match_context_create(s->general) : NULL;
    s->data = s->counting ? pcre2_match_data_create(1, s->general) : NULL;
    int has_jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
    if (!s->data || (has_jit && set_stack(s, STACK_FIRST, err) != WEFT_OK)) {
        regex_scratch_free(s);
        return NULL;
    }
    s->lender.err = NULL;
    s->span = pcre2_get_ovector_pointer(s->data);
    pcre2_set_match_limit(s->fast, MATCH_LIMIT);
    pcre2_set_match_limit(s->counting, UINT32_MAX);
    pcre2_set_callout(s->counting, count_step, s);
    regex_begin(s, 0);
    return s;
}

void regex_scratch_free(regex_scratch *s)
{
    if (!s)
        return;
    mem *m = s->lender.mem;
    pcre2_jit_stack_free(s->stack);
    mem_uncharge(m, s->stack_bytes);
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->fast);
    pcre2_match_context_free(s->counting);
    pcre2_general_context_free(s->general);
    mem_free(m, s);
}

static inline int match(const regex *re, const pcre2_code *code, pcre2_match_context *how,
                        pcre2_match_data *data, const char *text, size_t n, size_t from,
                        uint32_t ways)
{
    ways |= PCRE2_NO_UTF_CHECK;
    if (re->jit_bytes == 0)
        return pcre2_match(code, (PCRE2_SPTR)text, n, from, ways, data, how);
    return pcre2_jit_match(code, (PCRE2_SPTR)text, n, from, ways, data, how);
}

/* Searches window after window, until there is an answer or the search must be counted; *from is
 * then where the counted search starts. A match that ends at the very end of a window is not final:
 * it has not seen the text that follows. */
static inline int search_windows(const regex *re, regex_scratch *s, const char *text, size_t n,
                                 size_t *from)
{
    while (n - *from > WINDOW) {
        size_t end = *from + WINDOW;
        while (((uint8_t)text[end] & 0xC0) == 0x80) /* do not cut a code point */
            end--;
        const int rc = match(re, re->code, s->fast, s->data, text, end, *from, PCRE2_PARTIAL_HARD);
        if (rc == PCRE2_ERROR_PARTIAL && s->span[0] > *from)
            *from = s->span[0];
        if (rc != PCRE2_ERROR_NOMATCH && (rc < 0 || s->span[0] < end))
            return rc;
        *from = end;
    }
    return match(re, re->code, s->fast, s->data, text, n, *from, 0);
}

/* Retries with a larger stack until the search fits. */
static int search_counted(const regex *re, regex_scratch *s, const char *text, size_t n,
                          size_t from, weft_error *err)
{
    for (;;) {
        s->last = from;
        const int rc = match(re, re->counted, s->counting, s->data, text, n, from, 0);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT || s->stack_bytes >= STACK_MOST)
            return rc;
        if (set_stack(s, s->stack_bytes > 0 ? s->stack_bytes * 4 : STACK_FIRST, err) != WEFT_OK)
            return GAVE_UP;
    }
}

/* Handles a search that was too much for the fast version, or another error from it. */
static __attribute__((noinline)) int search_on(const regex *re, regex_scratch *s, const char *text,
                                               size_t n, size_t from, int rc, weft_error *err)
{
    if (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_MATCHLIMIT ||
        rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = search_counted(re, s, text, n, from, err);
    if (rc != PCRE2_ERROR_CALLOUT)
        return rc;
    weft_fail(err, WEFT_EUNSUPPORTED,
              "a pattern is too slow: more than %d steps per byte of the text plus %d",
              REGEX_STEPS_PER_BYTE, REGEX_STEPS);
    return GAVE_UP;
}

static inline int search(const regex *re, regex_scratch *s, const char *text, size_t n, size_t from,
                         weft_error *err)
{
    const int rc = re->from_start ? PCRE2_ERROR_PARTIAL : search_windows(re, s, text, n, &from);
    return rc >= PCRE2_ERROR_NOMATCH ? rc : search_on(re, s, text, n, from, rc, err);
}

int regex_find(const regex *re, regex_scratch *s, const char *text, size_t n, size_t from,
               size_t *start, size_t *end, weft_error *err)
{
    const int rc = search(re, s, n > 0 ? text : "", n, from, err);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        /* The interpreter takes memory while it searches; machine code has its stack. */
        if (rc == PCRE2_ERROR_NOMEMORY && err)
            *err = s->lender.why;
        else if (rc != GAVE_UP)
            say(err, WEFT_EUNSUPPORTED, rc, "a pattern is too slow");
        return -1;
    }
    *start = s->span[0];
    *end = s->span[1];
    return 1;
}

int regex_next(const regex *re, regex_scratch *s, regex_walk *w, const char *text, size_t n,
               size_t *start, size_t *end, weft_error *err)
{
    while (w->at <= n) {
        const int rc = regex_find(re, s, text, n, w->at, start, end, err);
        if (rc <= 0)
            return rc;
        if (*start < *end || !w->matched || w->last_end != *end) {
            w->at = w->last_end = *end;
            w->matched = true;
            return 1;
        }
        uint32_t c;
        const size_t length = utf8_decode(text + w->at, n - w->at, &c);
        w->at += length > 0 ? length : 1;
    }
    return 0;
}
