#!/usr/bin/env python3
"""hostile_api.py - calls of every public function with hostile arguments, made from include/weft.h.

    tools/hostile_api.py            writes tests/unit/hostile_calls.inc
    tools/hostile_api.py --check    exit status 1 where that file is not what weft.h gives

For every parameter of every function, and every field of every struct that it reads, there is a line with one value out
of range while all others are valid, and for every two parameters a line with both. tests/unit/test_hostile_api.c has the
objects, the valid values and the lists of hostile ones, and runs the lines. A function, parameter or field about which
nothing is known here is an error, so that none is forgotten when the header grows.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADER = os.path.join(ROOT, "include", "weft.h")
TARGET = os.path.join(ROOT, "tests", "unit", "hostile_calls.inc")

# ---- the header ------------------------------------------------------------------------------------------------------


def read_header():
    text = open(HEADER).read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    structs = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\}\s*(\w+);", text, flags=re.S):
        structs[name] = [f for line in body.split(";") for f in declarators(line)]
    enums = set(re.findall(r"typedef enum (\w+)", text))
    callbacks = set(re.findall(r"typedef \w+ (\w+)\(", text))
    functions = []
    for returns, name, params in re.findall(r"WEFT_API\s+([\w\s*]+?)\s*(\bweft_\w+)\(([^)]*)\)\s*;", text):
        declared = [declarators(p)[0] for p in params.split(",") if p.strip() != "void"]
        functions.append((re.sub(r"\s*\*", " *", returns), name, declared))
    return functions, structs, enums, callbacks


def declarators(line):
    """"int64_t a, *b" as [("int64_t", "a"), ("int64_t *", "b")]."""
    line = " ".join(line.split())
    if not line:
        return []
    first, *more = line.split(",")
    m = re.match(r"(.*?)(\*(?:const )?\*?)?\s*(\w+)((?:\[\w+\])*)$", first.strip())
    base = m.group(1).strip()
    found = [((base + " " + m.group(2).strip() if m.group(2) else base) + m.group(4), m.group(3))]
    for d in more:
        m = re.match(r"\s*(\*?)(\w+)((?:\[\w+\])*)$", d)
        found.append(((base + " *" if m.group(1) else base) + m.group(3), m.group(2)))
    return found


# ---- what is known of its functions -----------------------------------------------------------------------------------
#
# A mode has two letters: what becomes of values that are too low (negative, NULL, a struct_size that was forgotten) and
# of those that are too high. R: they are refused. A: they may be accepted, but nothing breaks. -: they are left out,
# because the library cannot see how much memory a pointer has: the reason is beside it.

BUFFER = "the memory behind a pointer cannot be seen"

MODES = {
    # handles and places that a function can do without
    "weft_model_get_info.info": "AA", "weft_tokenizer_get_info.info": "AA", "weft_data_get_info.info": "AA",
    "weft_adapter_get_info.info": "AA", "weft_adapter_get_info.info.struct_size": "AA",
    "weft_session_adapt.adapter": "AA", "weft_session_adapt.strength": "AR", "weft_evaluate_options.adapter": "AA",
    "weft_session_restore_adapted.strength": "AR", "weft_encoder_adapt.adapter": "AA", "weft_encoder_adapt.strength": "AA",
    "weft_request.adapter": "AA", "weft_request.strength": "AA", "weft_beam_options.adapter": "AA", "weft_beam_options.strength": "AA",
    "weft_evaluate_options.strength": "AA", "weft_engine_get_info.info": "AA", "weft_engine_get_info.info.struct_size": "AA",
    "weft_model_get_info.info.struct_size": "AA", "weft_tokenizer_get_info.info.struct_size": "AA",
    "weft_data_get_info.info.struct_size": "AA", "weft_convert.info": "AA", "weft_tokenizer_train.info": "AA",
    "weft_train.info": "AA", "weft_report.info": "AA", "weft_evaluate.against": "AA", "weft_sampler_new.model": "AA",
    "weft_model_piece.bytes": "AA", "weft_tokenizer_piece.bytes": "AA", "weft_tokenizer_token.length": "AA",
    "weft_decoder_flush.bytes": "AA", "weft_decoder_flush.length": "AA", "weft_stop_flush.out": "AA",
    "weft_stop_flush.out_length": "AA", "weft_session_sync.reused": "AA", "weft_session_tokens.n": "AA",
    "weft_sampler_kept.out": "AA", "weft_sampler_kept.k": "AA", "weft_engine_trace.fn": "AA", "weft_encoder_trace.fn": "AA",
    "weft_engine_trace_with.fn": "AA", "weft_encoder_trace_with.fn": "AA", "weft_trace_options.hook": "AA",
    "weft_template_get_info.info": "AA", "weft_template_get_info.info.struct_size": "AA",
    "weft_template_render.tokenizer": "AA", "weft_render_options.tools": "AR", "weft_render_options.variables": "AR",
    "weft_render_options.now": "AA", "weft_template_options.name": "AR",
    "weft_template_render.length": ("R-", BUFFER),
    "weft_sampler_constrain.constraint": "AA", "weft_generate_options.constraint": "AA", "weft_grammar_new.n": "AR",
    "weft_grammar_options.model": "AA", "weft_grammar_options.ends": "AA", "weft_grammar_options.think_begin": "AR",
    "weft_grammar_options.think_end": "AA", "weft_constraint_mask.n_vocab": ("R-", BUFFER),
    "weft_call_reader_new.tools": "AR", "weft_call_reader_new.n": ("R-", BUFFER), "weft_tool_grammar_new.n": ("R-", BUFFER),
    "weft_call_reader_push.n": ("A-", BUFFER), "weft_tool_options.only": "AR",
    "weft_constraint_forced.bytes": "AA", "weft_constraint_forced.size": "AA",
    "weft_generate.sampler": "AA", "weft_generate.tokenizer": "AA", "weft_generate.fn": "AA", "weft_generate.info": "AA",
    "weft_scheduler_get_info.info": "AA", "weft_scheduler_get_info.info.struct_size": "AA", "weft_scheduler_step.more": "AA",
    "weft_request.sampler": "AA", "weft_request.tokenizer": "AA", "weft_request.key": "AA", "weft_request.priority": "AA",
    "weft_request.source": "f->source ? REFUSE : ACCEPT, ACCEPT", "weft_request.n_source": ("R-", BUFFER),
    "weft_scheduler_options.n_waiting_tokens": "RA", "weft_scheduler_options.step_fn": "AA",
    "weft_load_token.i": "AA", "weft_load_token.n_vocab": "AA", "weft_load_request.key": "AA", "weft_load_request.n_part": ("R-", BUFFER),
    "weft_simulate.n": ("R-", BUFFER), "weft_simulation_options.n_steps": ("R-", BUFFER), "weft_simulate.info": "AA",
    "weft_simulation_options.step_fn": "AA",
    "weft_train_defaults.options": "AA", "weft_train_defaults.struct_size": "AA", "weft_report.to": "AR",
    # counts of what lies in the caller's memory
    "weft_model_find.size": ("R-", BUFFER), "weft_model_get_metadata.size": ("A-", BUFFER), "weft_tokenizer_id.length": ("A-", BUFFER),
    "weft_tokenizer_train.n_path": ("R-", BUFFER), "weft_encoder_eval.n": ("R-", BUFFER),
    "weft_image_decode.size": ("R-", BUFFER), "weft_image_score.n_data": ("R-", BUFFER),
    "weft_session_logprobs.n": ("R-", BUFFER), "weft_sampler_break.n": ("R-", BUFFER), "weft_stop_new.n": ("R-", BUFFER),
    "weft_stop_push.length": ("A-", BUFFER), "weft_evaluate.n_document": ("R-", BUFFER), "weft_document.n": ("R-", BUFFER),
    "weft_is_compressed.size": ("A-", BUFFER), "weft_decompress.size": ("A-", BUFFER), "weft_decompress.to": "AA", "weft_decompress.name": "AA",
    "weft_train_plan.n": ("R-", BUFFER), "weft_train_plan.options.data": "AA", "weft_train_plan.options.n_data": "AA",
    "weft_train_plan.options.out": "AA", "weft_train_network.bandwidth": "RA", "weft_train_network.latency": "RA",
    "weft_train_options.n_data": ("R-", BUFFER), "weft_generate_options.n_prompt": ("R-", BUFFER),
    "weft_generate_options.n_stop": ("R-", BUFFER), "weft_generate_options.n_new": "AA",
    "weft_generate_options.n_min": "RA", "weft_generate_options.stop_ids": "AA", "weft_generate_options.stop": "AA", "weft_generate_options.progress": "AA", "weft_kernel_pool.n_query": ("R-", BUFFER),
    "weft_kernel_pool.n_key": ("R-", BUFFER),
    # sizes of buffers of which no more is written than there is to write
    "weft_model_piece.size": "AA", "weft_tokenizer_piece.size": "AA", "weft_model_get_rows.size": "RA",
    "weft_tokenizer_steps.length": "AR", "weft_tokenizer_encode.length": "AR",  # 2^30 bytes and more, before they are read
    "weft_tokenize_options.pair_length": "AR", "weft_tokenize_options.trusted": "AA", "weft_tokenize_options.gated": "AA",
    "weft_tokenize_options.n_trusted": "AR", "weft_tokenize_options.n_gated": "AR",
    # more than there is gives all there is
    "weft_session_match.n": "RA", "weft_session_top.k": "RA", "weft_sampler_stages.k": "RA", "weft_sampler_options.top_k": "RA",
    "weft_sampler_options.penalty_last_n": "RA", "weft_tokenizer_train_options.n_vocab": "RA",
    "weft_tokenizer_train_options.min_frequency": "RA", "weft_convert_options.max_shard": "AA",
    "weft_engine_plan.options.n_cache": "RA", "weft_engine_estimate.options.n_cache": "RA",
    "weft_train_options.n_step": "RA", "weft_train_options.n_group": "RR", "weft_train_options.eval_every": "RA", "weft_train_options.save_every": "RA",
    "weft_data_show.sample": "RA",
    # rows are counted, not read
    **{f"weft_encoder_rows.input.{field}": "AA" for field in ("ids", "features", "types", "out")},
    # every value means something
    "ram_max": "AA", "budget": "AA", "weft_budget_take.bytes": "AA", "weft_budget_take.what": "AA",
    "weft_budget_give.bytes": "AA", "seed": "AA", "weft_train_options.tied": "AR", "weft_train_options.n_warmup": "AR",
    "weft_train_options.n_decay": "AR", "weft_train_options.lr": "AR", "weft_train_options.lr_min": "AR",
    "weft_logprob.logprob": "AA", "weft_eval_request.status": "AA", "weft_eval_request.message": "AA", "weft_engine_eval.work.done": "AA",
    # optional texts and arrays; what a text says is judged where it is used
    "weft_convert_options.type": "AR", "weft_convert_options.importance": "AR", "weft_convert_options.adapter": "AR", "weft_convert_options.base": "AR",
    "weft_convert_options.strength": "AA", "weft_tokenizer_options.pre": "AA", "weft_tokenize_options.pair": "AA",
    "weft_tokenizer_train_options.pattern": "AA", "weft_tokenizer_train_options.special": "AA",
    "weft_sampler_options.chain": "AR", "weft_input.types": "AA", "weft_report_options.title": "AA", "weft_explain_options.title": "AA", "weft_explain_kernels_options.title": "AA",
    "weft_explain_options.text": "AA", "weft_explain_options.only": "AR", "weft_explain_options.tokenizer": "AA",
    "weft_explain_options.source": "AA", "weft_explain_options.source_text": "AA", "weft_explain_options.source_tokenizer": "AA", "weft_explain_options.image": "AR",
    "weft_explain_options.hook": "AA", "weft_explain_options.layer": "AR", "weft_explain_options.head": "AR", "weft_explain_options.token": "AR", "weft_explain_options.train": "AR", "weft_explain_options.target": "AA", "weft_explain_options.n_target": ("R-", BUFFER), "weft_explain.n": ("R-", BUFFER),
    "weft_alignment.n": ("R-", BUFFER), "weft_alignment_options.n_source": ("R-", BUFFER), "weft_alignment_options.n_begin": "AR",
    "weft_alignment_options.layer": "AR", "weft_alignment_options.source_tokenizer": "AA", "weft_alignment_options.target_tokenizer": "AA",
    "weft_train_options.frozen": "AA", "weft_train_options.sample": "AA", "weft_input.ids": "f->images ? ACCEPT : REFUSE, ACCEPT",
    "weft_input.features": "f->images ? REFUSE : ACCEPT, ACCEPT", "weft_beam_options.session": "AA", "weft_beam_options.source": "f->source ? REFUSE : ACCEPT, ACCEPT",
    **{f"weft_train_options.{text}": "AA" for text in ("model", "preset", "arch", "tokenizer", "separator", "columns",
                                                       "validation_data", "chat_template", "lora", "mpi", "norm", "act", "attention")},
    "weft_train.options.out": "RR", "weft_data_open.options.out": "AA", "weft_text_score.data.out": "AA",
}

STRUCT_READ = {"weft_engine_eval.work", "weft_engine_step.work", "weft_session_logprobs.out"}  # and written
BUFFERS = {"weft_session_top.out", "weft_sampler_kept.out", "weft_simulate.result"}  # arrays of structs that are only written
BYTES = {"weft_grammar_new.text", "weft_call_reader_new.tools", "weft_tool_grammar_new.tools", "weft_call_reader_push.text", "weft_template_render.messages", "weft_tokenizer_encode.text", "weft_tokenizer_steps.text", "weft_tokenizer_id.token", "weft_stop_push.bytes", "weft_tokenize_options.pair"}
NEEDS = {"weft_model": "model", "weft_engine": "engine", "weft_session": "session", "weft_encoder": "encoder",
         "weft_tokenizer": "tokenizer", "weft_sampler": "sampler", "weft_decoder": "decoder", "weft_stop": "stop",
         "weft_data": "data", "weft_budget": "budget", "weft_template": "chat", "weft_scheduler": "scheduler",
         "weft_grammar": "grammar", "weft_constraint": "constraint", "weft_call_reader": "calls",
         "weft_adapter": "adapter"}
ONLY = {  # kinds of models that a function is for
    "weft_image_open": "images", "weft_image_decode": "images", "weft_image_score": "images",
    "weft_session_source": "source", "weft_explain": "alone", "weft_alignment": "source", "weft_generate": "engine", "weft_session_save": "alone", "weft_session_restore": "alone",
    "weft_engine_new": "engine", "weft_engine_plan": "engine", "weft_adapter_open": "adapter", "weft_session_restore_adapted": "adapter",
    "weft_engine_estimate": "slow", "weft_evaluate": "alone", "weft_sampler_new": "engine", "weft_model_get_cost": "engine",
    "weft_encoder_new": "encoder", "weft_encoder_plan": "encoder", "weft_convert": "slow", "weft_train": "images",
    "weft_data_open": "slow", "weft_train_plan": "slow", "weft_text_score": "labels", "weft_tokenizer_train": "slow", "weft_report": "slow", "weft_explain_kernels": "slow",
}
VALID = {
    "weft_budget_new.ram_max": "CAP", "weft_budget_take.bytes": "8", "weft_budget_take.what": "f->text",
    "weft_budget_give.bytes": "8",
    "weft_adapter_open.path": "f->adapter_path", "weft_session_adapt.strength": "1",
    "weft_session_restore_adapted.path": "f->saved", "weft_session_restore_adapted.strength": "0",
    "weft_encoder_adapt.adapter": "NULL", "weft_encoder_adapt.strength": "1",
    "weft_model_find.name": "f->name", "weft_model_find.path": "f->found", "weft_model_find.size": "sizeof f->found",
    "weft_model_list.fn": "see_model", "weft_model_open.path": "f->path", "weft_model_label.i": "0", "weft_model_get_tensor.i": "0",
    "weft_model_find_tensor.name": "f->text", "weft_model_get_rows.row": "0", "weft_model_get_rows.n": "1",
    "weft_model_get_rows.out": "f->again", "weft_model_get_rows.size": "sizeof f->again / sizeof *f->again",
    "weft_model_get_metadata.i": "0", "weft_model_get_metadata.key": "&f->word", "weft_model_get_metadata.value":
    "f->bytes", "weft_convert.from": "f->path", "weft_convert.to": "f->gguf", "weft_tokenizer_load.path": "f->vocabulary",
    "weft_template_load.path": "f->jinja", "weft_template_render.messages": "f->messages",
    "weft_template_render.length": "strlen(f->messages)",
    "weft_tokenizer_steps.text": "f->text", "weft_tokenizer_steps.length": "8", "weft_tokenizer_steps.fn": "see_step",
    "weft_tokenizer_encode.text": "f->text", "weft_tokenizer_encode.length": "8", "weft_tokenizer_id.token": "f->text",
    "weft_tokenizer_id.length": "1", "weft_decoder_push.bytes": "&f->word", "weft_decoder_flush.bytes": "&f->word",
    "weft_tokenizer_train.paths": "f->data_paths", "weft_tokenizer_train.n_path": "1",
    "weft_tokenizer_train.to": "f->learned", "weft_model_get_cost.n_ctx": "4", "weft_encoder_eval.n": "1",
    "weft_image_open.path": "f->picture", "weft_image_decode.data": "f->picture_bytes",
    "weft_image_decode.size": "f->picture_size", "weft_image_score.data": "f->picture_paths",
    "weft_image_score.n_data": "1", "weft_session_source.n": "2", "weft_session_sync.reused": "&f->count",
    "weft_session_tokens.n": "&f->count", "weft_session_rewind.length": "1", "weft_session_save.path": "f->saved",
    "weft_session_restore.path": "f->saved", "weft_engine_eval.n": "1", "weft_engine_step.n": "1",
    "weft_session_top.k": "2", "weft_session_top.out": "f->logprobs", "weft_session_logprobs.n": "1",
    "weft_sampler_break.strings": "f->strings", "weft_sampler_break.n": "1", "weft_sampler_pick.logits": "f->logits",
    "weft_sampler_pick.n_vocab": "f->n_vocab", "weft_sampler_pick.id": "&f->id", "weft_sampler_next.id": "&f->id",
    "weft_sampler_stages.logits": "f->logits", "weft_sampler_stages.n_vocab": "f->n_vocab", "weft_sampler_stages.k": "2",
    "weft_sampler_stages.fn": "see_stage", "weft_sampler_kept.k": "2", "weft_sampler_kept.out": "f->chances", "weft_stop_new.strings": "f->strings",
    "weft_stop_new.n": "1", "weft_stop_push.bytes": "f->text", "weft_stop_push.length": "8",
    "weft_grammar_new.kind": "WEFT_GRAMMAR_REGEX", "weft_grammar_new.text": "f->text", "weft_constraint_accept.id": "3",
    "weft_call_reader_new.tools": "f->tools", "weft_tool_grammar_new.tools": "f->tools", "weft_call_reader_push.text": "f->text",
    "weft_call_reader_new.n": "strlen(f->tools)", "weft_tool_grammar_new.n": "strlen(f->tools)", "weft_call_reader_push.n": "8",
    "weft_call_reader_new.fn": "see_call",
    "weft_constraint_mask.bits": "(uint64_t[4]){ 0 }", "weft_constraint_mask.n_vocab": "200",
    "weft_constraint_rewind.mark": "0", "weft_generate.fn": "see_generated", "weft_stop_push.out": "&f->word", "weft_stop_flush.out": "&f->word", "weft_evaluate.against": "NULL",
    "weft_evaluate.n_document": "1", "weft_train_defaults.struct_size": "sizeof(weft_train_options)",
    "weft_load_token.n_vocab": "100", "weft_simulate.n": "1", "weft_simulate.result": "(weft_load_result[1]){ { 0 } }",
    "weft_train_plan.n_rank": "(int[]){ 1 }", "weft_train_plan.n": "1", "weft_train_plan.fn": "see_cost",
    "weft_data_show.sample": "0", "weft_data_show.fn": "show_token", "weft_data_save.path": "f->ids_file",
    "weft_explain.fn": "see_page", "weft_explain_kernels.fn": "see_page", "weft_explain_kernels.path": "f->points", "weft_alignment.fn": "see_page", "weft_report.run": "f->run", "weft_report.to": "f->page", "weft_engine_trace.fn": "see_tensor",
    "weft_encoder_trace.fn": "see_tensor", "weft_engine_trace_with.fn": "see_tensor",
    "weft_encoder_trace_with.fn": "see_tensor", "weft_kernel_pool.kernel": "WEFT_KERNEL_GAUSSIAN",
    "weft_kernel_pool.width": "1.0", "weft_kernel_pool.queries": "f->logits", "weft_kernel_pool.n_query": "2",
    "weft_kernel_pool.keys": "f->logits", "weft_kernel_pool.values": "f->logits", "weft_kernel_pool.n_key": "2",
    "weft_kernel_pool.out": "f->again", "weft_is_compressed.data": "f->text", "weft_is_compressed.size": "8",
    "weft_decompress.name": "f->path", "weft_decompress.data": "f->text", "weft_decompress.size": "8", "weft_decompress.to": "f->bytes",
    "weft_decompress.n": "(size_t[]){ 8 }", "weft_scheduler_cancel.request": "1", "weft_scheduler_step.more": "(bool[]){ false }",
}
BY_NAME = {"ids": "f->ids", "n": "3", "id": "1", "i": "0", "bytes": "f->bytes", "size": "sizeof f->bytes",
           "length": "&f->size", "out_length": "&f->size", "seed": "7", "threads": "1", "ud": "f", "err": "t.e"}
FREES = {"weft_model *": "weft_model_close", "weft_data *": "weft_data_close", "weft_adapter *": "weft_adapter_close"}
IGNORED = {"bool": "a bool is true or false", "void *": "user data is only handed on"}

# ---- the lines --------------------------------------------------------------------------------------------------------

functions, structs, enums, callbacks = read_header()
unknown = []


def name_of(ctype):
    return ctype.replace("const ", "").replace("*", "").split("[")[0].strip()


def values_of(ctype, name=""):
    """The list of hostile values for a type, or None where it is ignored."""
    if name in BYTES:
        return "pointer"
    if ctype in IGNORED:
        return None
    if ctype == "const char *":
        return "text"
    if "*" in ctype or "[" in ctype or ctype in callbacks:
        return "pointer"
    if ctype in enums:
        return "enum"
    known = {"int": "int", "int32_t": "int32", "int64_t": "int64", "size_t": "size", "uint64_t": "uint64",
             "double": "double", "float": "float"}
    if ctype not in known:
        unknown.append(f"the type {ctype}")
    return known.get(ctype)


def mode_of(*names):
    """The mode under the first of these names that is known; REFUSE otherwise."""
    for name in names:
        if name in MODES:
            mode = MODES[name][0] if isinstance(MODES[name], tuple) else MODES[name]
            used.add(name)
            return mode if " " in mode else f"MODE_{mode.replace('-', '_')}"
    return "MODE_RR"


used = set()


def is_read(fn, ctype, param):
    """A struct whose fields are looked at."""
    name = name_of(ctype)
    return name in structs and ctype.endswith("*") and (ctype.startswith("const") or f"{fn}.{param}" in STRUCT_READ) \
        and f"{fn}.{param}" not in BUFFERS


def is_written(fn, ctype, param):
    name = name_of(ctype)
    return name in structs and name != "weft_error" and not is_read(fn, ctype, param) \
        and any(f == "struct_size" for _, f in structs[name])


def valid(fn, ctype, param):
    if f"{fn}.{param}" in VALID:
        return VALID[f"{fn}.{param}"]
    name = name_of(ctype)
    if name in NEEDS and ctype.count("*") == 1:
        return f"f->{NEEDS[name]}"
    if name in structs and name != "weft_error" and ctype.endswith("*") and f"{fn}.{param}" not in BUFFERS:
        return f"({name}[]){{ valid_{name}(f) }}"
    if param in BY_NAME:
        return BY_NAME[param]
    if ctype == "bool":
        return "false"
    unknown.append(f"a valid value for {fn}: {ctype} {param}")
    return "0"


def result_of(returns, params):
    if returns == "void":
        return "VOID"
    if returns == "bool":
        return "BOOL"
    if returns == "weft_status":
        return "STATUS" if any(p == "err" for _, p in params) else "PLAIN"
    if returns in ("int64_t", "int32_t", "int", "size_t"):
        return "INTEGER"
    if returns == "uint64_t":
        return "NUMBER"
    if any(p == "err" for _, p in params):
        return "HANDLE"
    return "POINTER"


def call(fn, params, replaced):
    args = ", ".join(replaced.get(p) or valid(fn, t, p) for t, p in params)
    return f"{fn}({args})"


def line(returns, fn, what, before, loops, params, replaced, mode):
    kind = result_of(returns, params)
    made = call(fn, params, replaced)
    if kind == "HANDLE":
        handle = returns.replace("const ", "")
        made = f"{FREES.get(handle, handle[:-2] + '_free')}, {made}"
    return f'    {loops}, "{fn}", "{what}", {mode}) {{ {before}{kind}({made}); }}'


def lines_of(returns, fn, params):
    if fn.endswith("_free") or fn.endswith("_close"):
        return [f'    EACH(pointer, "{fn}", "{params[0][1]}", MODE_AA) {{ VOID({fn}(x)); }}']
    out, plain = [], []
    if result_of(returns, params) in ("STATUS", "PLAIN", "HANDLE", "NUMBER"):
        out.append(line(returns, fn, "valid", "", "EACH(none", params, {}, "MODE_VV"))
    for ctype, p in params:
        if p == "err":
            continue
        values = values_of(ctype, f"{fn}.{p}")
        name = name_of(ctype)
        read = is_read(fn, ctype, p)
        if values:
            mode = mode_of(f"{fn}.{p}", p)
            if name.endswith("_options") and read and name not in ("weft_train_options", "weft_alignment_options", "weft_simulation_options"):
                mode = "MODE_AA"  # NULL: all defaults
            out.append(line(returns, fn, p, "", f"EACH({values}", params, {p: "x"}, mode))
            plain.append((values, p, mode))
        fields = structs[name] if read else [("size_t", "struct_size")] if is_written(fn, ctype, p) else []
        for ftype, field in fields:
            fvalues = values_of(ftype, f"{name}.{field}")
            if not fvalues:
                continue
            mode = mode_of(f"{fn}.{p}.{field}", f"{name}.{field}", f"{p}.{field}", field)
            if ftype in callbacks or name_of(ftype) in callbacks:
                mode = "MODE_AA"  # no callback is called
            if field == "struct_size" and not read and mode == "MODE_RR":
                mode = "MODE_RA"
            cast = f"({ftype})" if ftype in enums else ""
            before = f"{name} s = valid_{name}(f); s.{field} = {cast}x; "
            out.append(line(returns, fn, f"{p}.{field}", before, f"EACH({fvalues}", params, {p: "&s"}, mode))
    for i, (v, p, m) in enumerate(plain):
        for w, q, k in plain[i + 1:]:
            out.append(line(returns, fn, f"{p}, {q}", "", f"PAIR({v}, {w}, {m}", params, {p: "x", q: "y"}, k))
    return out


def generate():
    text = ["/* Made by tools/hostile_api.py from include/weft.h: do not edit. */", ""]
    table, n_param = [], 0
    for returns, fn, params in functions:
        if not params:
            continue
        n_param += sum(1 for _, p in params if p != "err")
        needs = sorted({f"f->{NEEDS[name_of(t)]}" for t, _ in params if name_of(t) in NEEDS and t.count("*") == 1} |
                       ({f"f->{ONLY[fn]}"} if fn in ONLY else set()))
        if fn.endswith("_free") or fn.endswith("_close"):
            needs = []
        text += [f"static void hostile_{fn}(objects *f)", "{"]
        text += [f"    if ({' || '.join('!' + n for n in needs)})", "        return;"] if needs else []
        text += lines_of(returns, fn, params) + ["}", ""]
        table.append(f'    {{ "{fn}", hostile_{fn} }},')
    text += ["static const struct hostile_function {", "    const char *name;", "    void (*run)(objects *f);",
             "} hostile_functions[] = {"] + table + ["};", "", f"#define N_PARAMETER {n_param}", ""]
    for name in MODES:
        if name not in used:
            unknown.append(f"{name}, which weft.h does not have")
    if unknown:
        sys.exit("tools/hostile_api.py does not know " + "; nor ".join(sorted(set(unknown))))
    return "\n".join(text)


made = generate()
if sys.argv[1:] == ["--check"]:
    if not os.path.exists(TARGET) or open(TARGET).read() != made:
        sys.exit("tests/unit/hostile_calls.inc is not what weft.h gives: run tools/hostile_api.py")
elif sys.argv[1:]:
    sys.exit(__doc__)
else:
    open(TARGET, "w").write(made)
