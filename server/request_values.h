/* request_values.h - how the values of a request are read; request.c has the table of fields. */
#ifndef WEFT_SERVER_REQUEST_VALUES_H
#define WEFT_SERVER_REQUEST_VALUES_H

#include "request.h"

#include <jansson.h>

/* What is being read, and where a refusal goes. */
typedef struct reading {
    request *to;
    const char *name; /* of the field */
    refusal *why;
} reading;

/* "a string", "3.5": a value in an error message, in at most `size` bytes of text. */
const char *value_text(const json_t *value, char *text, size_t size);

/* Refuses the field, or a place in it such as "[2].role": found; expected. Returns false. */
bool refuse_value(const reading *r, const char *place, const json_t *found, const char *expected);
bool refuse_memory(const reading *r);

/* Adds an object of variables for the template to those of other fields. */
bool add_variables(const reading *r, const char *json);

/* Is it this string? */
bool value_is(const json_t *value, const char *text);

/* Each takes the value of a field; false after a refusal. */
typedef bool value_fn(const reading *r, const json_t *value);

value_fn read_prompt, read_text_prompt, read_input, read_text_1, read_text_2, read_query,
    read_documents, read_ids, read_messages, read_stop, read_bias, read_stop_ids,
    read_stream_options, read_template_variables, read_effort, read_encoding, read_logprobs_flag,
    read_seed, read_response_format, read_tool_choice, read_no_store, read_user, read_service_tier,
    read_structured_outputs, read_guided_json, read_guided_regex, read_guided_grammar,
    read_guided_choice, read_tools, read_flat_tools, read_responses_choice, read_messages_choice,
    read_text_format, read_reasoning, read_thinking, read_later, read_no_previous, read_truncation,
    read_list, read_object;

/* Writes the conversation of Responses or Messages as that of chat completions. */
bool talk_translate(request *to, const json_t *root, refusal *why);

#endif
