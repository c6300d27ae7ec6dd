/* weft tokenize - text to ids and back, with the tokenizer of a model. */
#include "cli.h"
#include "json.h"
#include "token_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static text_list files;
static const char *pre, *pair;
static bool json, no_special, parse_special, count, check, decode, keep_special, fit, pieces, steps;

static const option options[] = {
    { 'm', "model", OPT_TEXT, &load.path, "PATH", SETTING,
      "model, tokenizer.json, .model, vocabulary, directory" },
    OPTION_HF,
    { 'f', "file", OPT_LIST, &files, "FILE", 0, "read the text from FILE; may be repeated" },
    { 0, "no-special", OPT_FLAG, &no_special, NULL, 0,
      "do not add BOS, EOS or other special tokens" },
    { 0, "parse-special", OPT_FLAG, &parse_special, NULL, 0, "parse special tokens in the text" },
    { 0, "pieces", OPT_FLAG, &pieces, NULL, 0, "print one line per token: id, bytes, offset" },
    { 0, "steps", OPT_FLAG, &steps, NULL, 0,
      "print how the text becomes tokens: words, merges, paths" },
    { 0, "count", OPT_FLAG, &count, NULL, 0, "print the number of tokens" },
    { 0, "check", OPT_FLAG, &check, NULL, 0, "check that decoding gives back the text" },
    { 0, "pair", OPT_TEXT, &pair, "TEXT", 0, "second text of a pair" },
    { 0, "fit", OPT_FLAG, &fit, NULL, 0, "truncate and pad as the tokenizer file says" },
    { 'd', "decode", OPT_FLAG, &decode, NULL, 0, "decode: TEXT is ids" },
    { 0, "keep-special", OPT_FLAG, &keep_special, NULL, 0, "show special tokens when decoding" },
    OPTION_TOKENIZER(load),
    OPTION_PRE(pre),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft tokenize models/shakespeare.gguf \"Hello world\"\n"
                               "  weft tokenize tokenizer.json --pieces - < text.txt\n"
                               "  weft tokenize model.gguf --steps \"The cat sat on\"\n"
                               "  weft tokenize model.gguf --decode 15496,995\n";

/* ---- input ----------------------------------------------------------------------------------- */

/* The text of a file, or without one that was given, which the caller frees. Returns 0, or an exit
 * code after printing an error. */
static int take_text(const char *path, const char *given, char **text, size_t *n)
{
    if (!path && given && strcmp(given, "-") != 0) {
        *n = strlen(given);
        *text = cli_alloc(*n + 1, 1, "the text");
        if (!*text)
            return cli_no_memory();
        memcpy(*text, given, *n + 1);
        return 0;
    }
    return cli_read(path ? path : "-", CLI_MAX_TEXT, text, n);
}

/* ---- output ---------------------------------------------------------------------------------- */

/* The bytes of a token: in quotes, or hexadecimal as an element of a JSON list. */
static void print_piece(const weft_tokenizer *t, int32_t id)
{
    char room[256], *bytes = room;
    int64_t n = weft_tokenizer_piece(t, id, room, sizeof room);
    if (n > (int64_t)sizeof room) {
        bytes = cli_alloc((size_t)n, 1, "a token");
        n = bytes ? weft_tokenizer_piece(t, id, bytes, (size_t)n) : 0;
    }
    const size_t length = n > 0 ? (size_t)n : 0;
    if (json)
        cli_json_hex(NULL, bytes, length);
    else
        cli_print_bytes(bytes, length);
    if (bytes != room)
        cli_free(bytes);
}

static void print_pieces(const weft_tokenizer *t, const weft_tokens *k)
{
    for (int64_t i = 0; i < k->n; i++) {
        size_t length = 0;
        const char *token = weft_tokenizer_token(t, k->ids[i], &length);
        printf("%d\t", (int)k->ids[i]);
        if (weft_tokenizer_is_special(t, k->ids[i]))
            fwrite(token, 1, length, stdout);
        else
            print_piece(t, k->ids[i]);
        printf("\t%u-%u\n", k->spans[i].from, k->spans[i].to);
    }
}

static void json_pieces(const weft_tokenizer *t, const weft_tokens *k)
{
    cli_json_list("tokens");
    for (int64_t i = 0; i < k->n; i++) {
        size_t n = 0;
        const char *token = weft_tokenizer_token(t, k->ids[i], &n);
        cli_json_text(NULL, token, n);
    }
    cli_json_end();
    cli_json_list("bytes");
    for (int64_t i = 0; i < k->n; i++)
        print_piece(t, k->ids[i]);
    cli_json_end();
    cli_json_spans("offsets", k->spans, k->n);
}

static void json_tokens(const weft_tokenizer *t, const weft_tokens *k)
{
    cli_json_ids("ids", k->ids, k->n);
    if (k->types) {
        cli_json_list("types");
        for (int64_t i = 0; i < k->n; i++)
            cli_json_int(NULL, k->types[i]);
        cli_json_end();
    }
    if (pieces)
        json_pieces(t, k);
}

static void print_json(const weft_tokenizer *t, const weft_tokens *k)
{
    cli_json_object(NULL);
    cli_json_int("n", k->n);
    if (!count)
        json_tokens(t, k);
    cli_json_end();
}

static void print_ids(const weft_tokens *k)
{
    for (int64_t i = 0; i < k->n; i++)
        printf("%s%d", i ? "," : "", (int)k->ids[i]);
    putchar('\n');
}

/* ---- the ways -------------------------------------------------------------------------------- */

/* All of ids as text, which the caller frees. */
static char *decode_all(const weft_tokenizer *t, const int32_t *ids, int64_t n, size_t *length,
                        weft_error *err)
{
    weft_decoder *d = weft_decoder_new(t, keep_special, err);
    size_t room = 256, more = 0;
    char *text = d ? cli_alloc(room, 1, "the text") : NULL;
    *length = 0;
    for (int64_t i = 0; text && i <= n; i++) {
        const char *bytes = "";
        if (i == n)
            weft_decoder_flush(d, &bytes, &more);
        else if (weft_decoder_push(d, ids[i], &bytes, &more, err) != WEFT_OK) {
            cli_free(text);
            text = NULL;
            break;
        }
        char *longer = text;
        while (longer && room - *length < more + 1)
            longer = cli_grow(text, room *= 2, "the text"), text = longer ? longer : text;
        if (!longer) {
            cli_free(text);
            text = NULL;
            break;
        }
        memcpy(text + *length, bytes, more);
        *length += more;
    }
    weft_decoder_free(d);
    return text;
}

static int do_decode(const weft_tokenizer *t, const char *text)
{
    weft_error err = { 0 };
    size_t room = strlen(text) / 2 + 1, length;
    int32_t *ids = cli_alloc(room, sizeof *ids, "ids");
    int64_t n = 0;
    if (!ids)
        return cli_no_memory();
    for (const char *s = text; *s;) {
        char *end;
        errno = 0;
        const long id = strtol(s, &end, 10);
        if (end == s || errno || id < 0 || id > INT32_MAX) {
            cli_free(ids);
            return cli_usage(&command_tokenize,
                             "--decode: \"%.40s\" is not a list such as 15496,995", s);
        }
        ids[n++] = (int32_t)id;
        s = end + strspn(end, ", \t\r\n");
    }
    char *out = decode_all(t, ids, n, &length, &err);
    cli_free(ids);
    if (!out)
        return err.code ? cli_fail(&err) : cli_no_memory();
    if (json) {
        cli_json_object(NULL);
        cli_json_text("text", out, length);
        cli_json_end();
    } else {
        fwrite(out, 1, length, stdout);
        putchar('\n');
    }
    cli_free(out);
    return 0;
}

static int do_check(const weft_tokenizer *t, const weft_tokens *k, const char *text, size_t n)
{
    weft_error err = { 0 };
    size_t length, same = 0;
    char *back = decode_all(t, k->ids, k->n, &length, &err);
    if (!back)
        return err.code ? cli_fail(&err) : cli_no_memory();
    while (same < n && same < length && text[same] == back[same])
        same++;
    const bool equal = same == n && same == length;
    if (equal)
        printf("%zu bytes, %lld tokens: round trip exact\n", n, (long long)k->n);
    else
        printf("%zu bytes, %lld tokens: round trip differs at byte %zu\n", n, (long long)k->n,
               same);
    cli_free(back);
    return equal ? 0 : 1;
}

static int do_encode(const weft_tokenizer *t, const char *text, size_t n)
{
    weft_error err = { 0 };
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .no_special = no_special || check,
                                      .parse_special = parse_special,
                                      .spans = pieces,
                                      .fit = fit,
                                      .pair = pair,
                                      .pair_length = pair ? strlen(pair) : 0 };
    if (steps) {
        const weft_status status = json ? token_steps_json(t, text, n, &o, &err)
                                        : token_steps_print(t, text, n, &o, &err);
        return status == WEFT_OK ? 0 : cli_fail(&err);
    }
    weft_tokens *k = weft_tokenizer_encode(t, text, n, &o, &err);
    int code = 0;
    if (!k)
        return cli_fail(&err);
    if (check)
        code = do_check(t, k, text, n);
    else if (json)
        print_json(t, k);
    else if (count)
        printf("%lld\n", (long long)k->n);
    else if (pieces)
        print_pieces(t, k);
    else
        print_ids(k);
    weft_tokens_free(k);
    return code;
}

/* Each file is a text of its own; without one, there is the text that was given. */
static int each_text(const weft_tokenizer *t, const char *given)
{
    int code = 0, worst = 0;
    for (int i = 0; (i == 0 || i < files.n) && !code; i++) {
        char *text = NULL;
        size_t n = 0;
        code = take_text(files.n ? files.at[i] : NULL, given, &text, &n);
        if (!code && n == 0 && !given && files.n == 0)
            code = cli_usage(&command_tokenize, "standard input is empty; expected text");
        const bool taken = !code;
        if (taken)
            code = decode ? do_decode(t, text) : do_encode(t, text, n);
        cli_free(text);
        if (taken && check) { /* one text that comes back different does not end it */
            worst = code ? code : worst;
            code = 0;
        }
    }
    return code ? code : worst;
}

static int tokenize_main(void)
{
    weft_error err = { 0 };
    /* A single argument is the text, where an option or a setting names the tokenizer and no file the
     * text. */
    const bool named = load.path || load.tokenizer;
    const bool only_text = named && !positional[1] && files.n == 0 && !cli_is_piped();
    load.path = positional[0] && !only_text ? positional[0] : load.path;
    const char *given = only_text ? positional[0] : positional[1];
    if (!load.path && !load.tokenizer)
        return cli_usage(&command_tokenize, "no tokenizer; give a model or a tokenizer.json");
    if (steps && (pieces || count || check || decode))
        return cli_usage(&command_tokenize, "both --steps and %s; give one of them",
                         pieces  ? "--pieces"
                         : count ? "--count"
                         : check ? "--check"
                                 : "--decode");
    if (given && files.n > 0)
        return cli_usage(&command_tokenize, "both a text and --file; give one of them");
    if (!given && files.n == 0 && !cli_is_piped())
        return cli_usage(&command_tokenize, "no text; give it, or - for standard input");
    weft_tokenizer *t = cli_tokenizer(&load, pre, &err);
    if (!t)
        return cli_fail(&err);
    const int code = each_text(t, given);
    weft_tokenizer_free(t);
    return code;
}

const command command_tokenize = {
    .name = "tokenize",
    .arguments = "MODEL [TEXT|-]",
    .summary = "encode text to token ids, or decode ids",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = tokenize_main,
};
