/* preference.c - the two documents of a line with a preferred and another answer. */
#include "train/preference.h"

#include "formats/json.h"

static const char *const side_name[] = { "chosen", "rejected" };

bool preference_is(const json_t *line)
{
    return json_object_get(line, "chosen") || json_object_get(line, "rejected");
}

static json_t *no_room(weft_error *err)
{
    weft_fail(err, WEFT_ENOMEM, "no memory for a preference");
    return NULL;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static json_t *text_side(const json_t *line, const json_t *answer, int side, weft_error *err)
{
    const json_t *prompt = json_object_get(line, "prompt");
    if (!json_is_string(prompt) || json_string_length(answer) == 0) {
        weft_fail(err, WEFT_EFORMAT,
                  !json_is_string(prompt) ? "\"%s\" is a text; expected a text as \"prompt\" too"
                                          : "\"%s\" is empty",
                  side_name[side]);
        return NULL;
    }
    json_t *made = json_pack("{s:O,s:O}", "prompt", prompt, "completion", answer);
    return made ? made : no_room(err);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Messages at the beginning of both conversations that are equal. */
static size_t common_messages(const json_t *a, const json_t *b)
{
    size_t n = 0;
    while (n < json_array_size(a) && n < json_array_size(b) &&
           json_equal(json_array_get(a, n), json_array_get(b, n)))
        n++;
    return n;
}

/* Appends message i of a list; one of the prompt is not learned. */
static bool append_message(json_t *to, const json_t *list, size_t i, bool prompt)
{
    json_t *one = json_array_get(list, i);
    if (!prompt || !json_is_object(one))
        return json_array_append(to, one) == 0;
    json_t *copy = json_copy(one);
    return copy && json_object_set_new(copy, "weight", json_integer(0)) == 0 &&
           json_array_append_new(to, copy) == 0;
}

static json_t *join_messages(const json_t *prompt, const json_t *answer, size_t n_common)
{
    json_t *all = json_array();
    bool good = all;
    for (size_t i = 0; good && i < json_array_size(prompt); i++)
        good = append_message(all, prompt, i, true);
    for (size_t i = 0; good && i < json_array_size(answer); i++)
        good = append_message(all, answer, i, i < n_common);
    return good ? all : NULL;
}

static json_t *message_side(const json_t *line, const json_t *answer, const json_t *other, int side,
                            weft_error *err)
{
    static const char *const more[] = { "tools", "chat_template_kwargs" };
    const json_t *prompt = json_object_get(line, "prompt");
    const size_t n_common = prompt ? 0 : common_messages(answer, other);
    if ((prompt && !json_is_array(prompt)) || json_array_size(answer) == n_common) {
        weft_fail(err, WEFT_EFORMAT,
                  prompt && !json_is_array(prompt)
                      ? "\"%s\" has messages; expected messages in \"prompt\" too"
                      : "\"%s\" has no message that the other has not",
                  side_name[side]);
        return NULL;
    }
    json_t *list = join_messages(prompt, answer, n_common);
    json_t *made = list ? json_pack("{s:o}", "messages", list) : NULL;
    for (int i = 0; made && i < 2; i++) {
        json_t *value = json_object_get(line, more[i]);
        if (value && json_object_set(made, more[i], value) != 0)
            made = NULL;
    }
    return made ? made : no_room(err);
}

json_t *preference_side(const json_t *line, int side, weft_error *err)
{
    const json_t *answer = json_object_get(line, side_name[side]);
    const json_t *other = json_object_get(line, side_name[!side]);
    if (!answer || !other || json_typeof(answer) != json_typeof(other) ||
        (!json_is_string(answer) && !json_is_array(answer))) {
        weft_fail(err, WEFT_EFORMAT,
                  "expected \"chosen\" and \"rejected\", both texts or both lists of messages");
        return NULL;
    }
    return json_is_string(answer) ? text_side(line, answer, side, err)
                                  : message_side(line, answer, other, side, err);
}
