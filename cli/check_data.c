/* check_data.c - what a run would learn from: counts, and samples in which the tokens that are
 * learned are green, or between brackets where there is no colour. */
#include "cli.h"

#include <stdio.h>

/* ---- samples --------------------------------------------------------------------------------- */

typedef struct painter {
    bool colour;
    int32_t sequence;
    bool begun, learned; /* what the last token was */
} painter;

static void change(painter *p, bool learned)
{
    if (p->colour)
        printf("%s%s", cli_style(stdout, STYLE_PLAIN),
               cli_style(stdout, learned ? STYLE_GREEN : STYLE_PALE));
    else if (p->learned != learned)
        fputs(learned ? "\xE2\x9F\xA6" : "\xE2\x9F\xA7", stdout); /* U+27E6, U+27E7 */
    p->learned = learned;
}

/* Text as it is, but nothing that a terminal could take for a command. */
static void put_bytes(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

static void end_sequence(painter *p)
{
    if (p->colour)
        fputs(cli_style(stdout, STYLE_PLAIN), stdout);
    else if (p->learned)
        change(p, false);
    p->learned = false;
    putchar('\n');
}

static void paint(void *ud, const weft_data_token *t)
{
    painter *p = ud;
    if (p->begun && t->sequence != p->sequence)
        end_sequence(p);
    if (!p->begun || t->sequence != p->sequence) {
        printf("--- text %d\n", t->sequence + 1);
        if (p->colour)
            change(p, false);
    }
    p->begun = true;
    p->sequence = t->sequence;
    if (t->learned != p->learned)
        change(p, t->learned);
    put_bytes(t->text, t->length);
}

static int show_samples(weft_data *d, uint64_t seed, int64_t n)
{
    const bool colour = *cli_style(stdout, STYLE_GREEN);
    weft_error err = { 0 };
    for (int64_t i = 0; i < n; i++) {
        painter p = { .colour = colour };
        printf("\nsample %lld\n", (long long)i);
        if (weft_data_show(d, seed, i, paint, &p, &err) != WEFT_OK)
            return cli_fail(&err);
        end_sequence(&p);
    }
    return 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void print_part(const char *name, const weft_data_counts *c)
{
    printf("%-13s %lld sequences, %lld tokens (%.1f %% trained on), %lld end-of-text tokens\n",
           name, (long long)c->n_sample, (long long)c->n_row,
           c->n_row > 0 ? 100 * (double)c->n_target / (double)c->n_row : 0, (long long)c->n_end);
}

/* A line only where there is something to say. */
static void print_some(const char *name, int64_t n, const char *what)
{
    if (n > 0)
        printf("%-13s %lld %s\n", name, (long long)n, what);
}

static void print_info(const weft_data_info *i)
{
    if (i->n_image > 0) {
        printf("data          %lld images of %lld classes", (long long)i->n_image,
               (long long)i->n_class);
        if (i->height > 0)
            printf(", %lld x %lld", (long long)i->height, (long long)i->width);
        putchar('\n');
        return;
    }
    printf("data          %lld documents, %lld tokens, vocabulary %d\n", (long long)i->n_document,
           (long long)i->n_token, i->n_vocab);
    printf("sequences     up to %lld tokens, %s\n", (long long)i->n_ctx,
           i->windows ? "windows of one text"
                      : "documents packed together, masked from each other");
    print_part("training", &i->train);
    if (i->validation.n_sample > 0)
        print_part("validation", &i->validation);
    print_some("labels", i->n_label, "of texts");
    if (i->end_id < 0 && i->n_label == 0)
        printf("ends          none: the tokenizer has no end-of-text token\n");
    print_some("preferences", i->n_preference, "pairs of a chosen and a rejected answer");
    print_some("empty", i->n_empty, "documents are left out");
    print_some("prompts", i->n_prompt, "documents with a part that is not trained on");
    if (i->n_conversation > 0)
        printf("conversations %lld, %lld answers are trained on\n", (long long)i->n_conversation,
               (long long)i->n_answer);
    print_some("unprompted", i->n_unprompted,
               "answers do not follow the generation prompt: trained on from their first byte");
    print_some("endless", i->n_endless,
               "answers have no special token at their end: the model does not learn to stop");
    print_some("thinking", i->n_thought_dropped, "messages whose thinking the template leaves out");
    print_some("straddling", i->n_straddling,
               "documents with a token that spans prompt and completion");
    print_some("cut", i->train.n_cut + i->validation.n_cut,
               "documents continue in another sequence");
    print_some("truncated", i->train.n_truncated + i->validation.n_truncated,
               "documents are truncated");
    print_some("skipped", i->train.n_skipped + i->validation.n_skipped,
               i->n_preference > 0 ? "documents are left out: pairs longer than a sequence"
                                   : "documents are left out: no token to train on");
}

int cli_check_data(const weft_train_options *o, int64_t n_show, const char *ids)
{
    weft_error err = { 0 };
    weft_data_info info = { .struct_size = sizeof info };
    weft_data *d = weft_data_open(o, &err);
    cli_progress_end();
    if (!d)
        return cli_fail(&err);
    weft_data_get_info(d, &info);
    print_info(&info);
    int code = show_samples(d, o->seed,
                            n_show < info.train.n_sample ? n_show : info.train.n_sample);
    if (code == 0 && ids && weft_data_save(d, ids, &err) != WEFT_OK)
        code = cli_fail(&err);
    weft_data_close(d);
    return code;
}
