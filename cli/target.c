/* target.c - what the decoder of an encoder-decoder reads when it is given, not generated. */
#include "cli.h"

int cli_check_target(const command *c, const target_options *o, const load_options *load,
                     const weft_model_info *info)
{
    if ((o->text || o->ids) && info->n_layer_src == 0)
        return cli_usage(c, "--target: %s has no decoder beside an encoder", load->path);
    if (o->text && o->ids)
        return cli_usage(c, "--target and --target-ids exclude each other");
    return 0;
}

int cli_target(const command *c, const target_options *o, const prompt_options *source,
               const load_options *load, int32_t start, id_list *to, weft_tokenizer **t)
{
    const prompt_options p = { .text = o->text,
                               .pre = source->pre,
                               .parse_special = source->parse_special,
                               .goes_on = true,
                               .side = WEFT_SIDE_TARGET };
    weft_error err = { 0 };
    int32_t *ids = NULL;
    int64_t n = 0;
    if (!cli_add_ids(to, &start, 1))
        return cli_no_memory();
    int code = 0;
    if (o->ids)
        code = cli_parse_ids(c, "--target-ids", o->ids, &ids, &n);
    else if (o->text)
        code = cli_prompt(c, &p, load, t, &ids, &n);
    else if (!source->ids && !(*t = cli_tokenizer_of(load->tokenizer ? load->tokenizer : load->path,
                                                     WEFT_SIDE_TARGET, source->pre, &err)))
        code = cli_fail(&err);
    if (!code && !cli_add_ids(to, ids, n))
        code = cli_no_memory();
    cli_free(ids);
    return code;
}
