"""weft.h for ctypes. Made by tools/make_binding.py; do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32,
                    c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p)

WEFT_VERSION = "0.1.0"
WEFT_ABI_VERSION = 1
WEFT_MAX_END = 256
WEFT_MAX_TOP = 20
WEFT_MAX_KNOT = 18
WEFT_MAX_BEAM = 256
WEFT_EXPLAIN_STEPS = 8
WEFT_EXPLAIN_TOKENS = 1024
WEFT_EXPLAIN_POINTS = 256

# weft_status
WEFT_OK = 0
WEFT_EINVAL = 1
WEFT_EIO = 2
WEFT_EFORMAT = 3
WEFT_EUNSUPPORTED = 4
WEFT_ENOMEM = 5
WEFT_ELIMIT = 6
WEFT_ECONTEXT = 7
WEFT_ESYSTEM = 8
WEFT_ENUMERIC = 9
WEFT_ESTOPPED = 10
WEFT_EBUSY = 11


class weft_error(Structure):
    """Every call that takes a weft_error clears it first: code is WEFT_OK after success."""

# weft_log_level
WEFT_LOG_INFO = 0
WEFT_LOG_WARN = 1


class weft_budget(Structure):
    """A memory limit shared by several objects and the host itself. Objects opened with a budget count
against it and against their own ram_max; either may refuse with WEFT_ELIMIT before memory is
allocated. Threads may share a budget."""


class weft_model(Structure):
    """weft_model"""

# weft_load
WEFT_LOAD_COPY = 0
WEFT_LOAD_MAP = 1

# weft_compute
WEFT_COMPUTE_DEFAULT = 0
WEFT_COMPUTE_BF16 = 1


class weft_model_options(Structure):
    """weft_model_options"""

# weft_task
WEFT_TASK_GENERATE = 0
WEFT_TASK_FILL = 1
WEFT_TASK_CLASSIFY = 2
WEFT_TASK_TAG = 3
WEFT_TASK_ANSWER = 4
WEFT_TASK_EMBED = 5

# weft_labels
WEFT_LABELS_ONE = 0
WEFT_LABELS_SEVERAL = 1
WEFT_LABELS_VALUE = 2


class weft_model_info(Structure):
    """weft_model_info"""


class weft_tensor_info(Structure):
    """weft_tensor_info"""


class weft_find_options(Structure):
    """weft_find_options"""


class weft_model_entry(Structure):
    """A model that was found; the strings are valid during the call."""

# weft_format
WEFT_FORMAT_OTHER = 0
WEFT_FORMAT_GGUF = 1
WEFT_FORMAT_HF = 2


class weft_converted_tensor(Structure):
    """A tensor that has been written."""


class weft_convert_options(Structure):
    """weft_convert_options"""


class weft_convert_info(Structure):
    """weft_convert_info"""


class weft_tokenizer(Structure):
    """Follows the tokenizer file exactly. A step that weft does not support is an error that names it,
never an approximation. Immutable; threads may share it."""

# weft_side
WEFT_SIDE_ANY = 0
WEFT_SIDE_SOURCE = 1
WEFT_SIDE_TARGET = 2


class weft_tokenizer_options(Structure):
    """weft_tokenizer_options"""


class weft_tokenizer_info(Structure):
    """weft_tokenizer_info"""


class weft_span(Structure):
    """The bytes [from, to) of the text, or of the pair's second text if the type is 1."""


class weft_tokenize_options(Structure):
    """weft_tokenize_options"""


class weft_tokens(Structure):
    """weft_tokens"""

# weft_step_kind
WEFT_STEP_NORMALIZED = 0
WEFT_STEP_ADDED = 1
WEFT_STEP_WORD = 2
WEFT_STEP_SYMBOLS = 3
WEFT_STEP_MERGE = 4
WEFT_STEP_PATH = 5
WEFT_STEP_MATCH = 6
WEFT_STEP_PIECES = 7
WEFT_STEP_TOKENS = 8


class weft_piece(Structure):
    """The bytes [from, to) of a word."""


class weft_tokenizer_step(Structure):
    """Valid during the call. Fields that a kind does not name are 0."""


class weft_decoder(Structure):
    """Streaming decoder: returns complete code points only. Skips special tokens unless keep_special.
Use from one thread at a time."""


class weft_template(Structure):
    """A chat model was trained on conversations in one exact form. Its template, a Jinja program in the
model's files, writes that form. weft executes it as transformers does, byte for byte, and refuses
what transformers refuses. It also knows who wrote each byte, so that a user who types <|im_end|>
cannot end a turn."""


class weft_template_options(Structure):
    """weft_template_options"""


class weft_template_info(Structure):
    """weft_template_info"""


class weft_render_options(Structure):
    """weft_render_options"""


class weft_origin(Structure):
    """Who wrote the bytes [from, to): field `field` of message `message`, or the template (-1) or the
tools and variables (-2). In trusted bytes, special tokens count."""


class weft_rendered(Structure):
    """weft_rendered"""

# weft_token_model
WEFT_TOKENS_BPE = 0
WEFT_TOKENS_WORDPIECE = 1
WEFT_TOKENS_CHARACTERS = 2

# weft_ties
WEFT_TIES_IDS = 0
WEFT_TIES_BYTES = 1


class weft_tokenizer_train_options(Structure):
    """weft_tokenizer_train_options"""


class weft_tokenizer_train_info(Structure):
    """weft_tokenizer_train_info"""


class weft_adapter(Structure):
    """An adapter (LoRA, rsLoRA, DoRA) for one model: what it adds to weights, and weights and biases in
place of the model's. path: a directory as PEFT saves it, with adapter_config.json and
adapter_model.safetensors, or a GGUF file of type "adapter". Its numbers are copied, so its files
may change afterwards; their memory is counted by the model. It is never changed, and any thread may open, use and close it."""


class weft_adapter_info(Structure):
    """weft_adapter_info"""


class weft_engine(Structure):
    """weft_engine"""

# weft_kv_type
WEFT_KV_DEFAULT = 0
WEFT_KV_F32 = 1
WEFT_KV_F16 = 2
WEFT_KV_BF16 = 3
WEFT_KV_Q8_0 = 4


class weft_engine_options(Structure):
    """weft_engine_options"""


class weft_engine_info(Structure):
    """The options of an engine, defaults filled in, and the free part of its cache."""


class weft_memory_plan(Structure):
    """Memory that an engine with these options will need, found by a dry run."""


class weft_part(Structure):
    """Parameters, size and FLOPs per token of a part of a model. A tied head has FLOPs but no
parameters."""


class weft_model_cost(Structure):
    """weft_model_cost"""


class weft_speed(Structure):
    """weft_speed"""


class weft_trace_tensor(Structure):
    """Called for every named tensor of a forward that has rows, in the order of computation, on the
thread that evaluates; the data is valid during the call. With `attention_maps`, also for
attention scores and probabilities, which need rows x keys of memory."""


class weft_trace_options(Structure):
    """What a trace shows besides the outputs of all ops, each at the cost of memory and time. None of
it changes a bit of the logits."""


class weft_encoder(Structure):
    """Encodes texts or images. Many run in one batch without padding, and each gets the same bits as
alone. All memory is allocated by weft_encoder_new. Use from one thread at a time."""

# weft_encoder_output
WEFT_OUTPUT_HEAD = 0
WEFT_OUTPUT_STATES = 1
WEFT_OUTPUT_POOLED = 2

# weft_pooling
WEFT_POOLING_MODEL = 0
WEFT_POOLING_MEAN = 1
WEFT_POOLING_MAX = 2
WEFT_POOLING_FIRST = 3
WEFT_POOLING_LAST = 4


class weft_encoder_options(Structure):
    """weft_encoder_options"""


class weft_input(Structure):
    """One text or image, and the buffer for its output."""


class weft_image(Structure):
    """A preprocessed image, the input of an encoder."""


class weft_score(Structure):
    """Accuracy and loss of a classifier."""

# weft_kernel
WEFT_KERNEL_GAUSSIAN = 0
WEFT_KERNEL_BOXCAR = 1
WEFT_KERNEL_EPANECHNIKOV = 2
WEFT_KERNEL_CONSTANT = 3


class weft_session(Structure):
    """Sessions of an engine share cache pages copy-on-write: a fork needs none until it diverges, and
a page is freed when the last session drops it."""


class weft_eval_request(Structure):
    """Tokens to append to a session. A call takes at most 1024 requests for sessions of one engine."""


class weft_logprob(Structure):
    """Log-probability of a next token in nats, over the whole vocabulary, without temperature."""


class weft_sampler(Structure):
    """A sampler is a chain of steps. The first steps change the scores, which start as the logits; the others
remove tokens. Then one of the remaining tokens is drawn by its probability among them.

    bias         score += bias                                         of the tokens listed
    penalties    score = score < 0 ? score * repetition : score / repetition, then
                 score -= frequency * times + presence                 of tokens in the history
    dry          score -= multiplier * base^(length - dry_length)      of tokens that would extend
                 a repetition of the last `length` tokens
    temperature  score /= temperature; 0 keeps only the best token
    top_k        keeps the k best tokens, and ties with the last
    top_p        keeps the smallest set of best tokens with total probability p
    min_p        keeps tokens with at least p times the probability of the best
    typical      keeps the tokens whose surprise is closest to the entropy, with total
                 probability p
    xtc          with a given probability, removes all tokens above the threshold but the least
                 probable one
    mirostat     keeps tokens with a surprise of at most mu bits; mu starts at 2 tau and, after
                 the draw, mu -= eta * (surprise of the token - tau)

That is the default chain. top_k, top_p, min_p, typical and penalties keep the same tokens as
transformers' processors. Tokens are ordered by score, then by lower id.

The caller passes the history: all tokens of a session, prompt included. A draw depends on the seed,
the length of the history and the scores, not on earlier draws, except for mirostat, which remembers
mu. Use from one thread at a time."""


class weft_bias(Structure):
    """weft_bias"""


class weft_sampler_options(Structure):
    """All zero: greedy. A step whose option is 0 does nothing."""


class weft_token_prob(Structure):
    """The candidates of the last draw, best first, with their probabilities. Writes at most k and
returns their number; out may be NULL."""


class weft_candidate(Structure):
    """A token that remains after a stage."""


class weft_sampler_stage(Structure):
    """What a stage of a draw left; valid during the call."""


class weft_grammar(Structure):
    """A grammar says which texts may be generated. It is compiled for one tokenizer, and keeps what it
learns about its vocabulary, so compile it once: any number of texts and threads may use it."""

# weft_grammar_kind
WEFT_GRAMMAR_REGEX = 0
WEFT_GRAMMAR_GBNF = 1
WEFT_GRAMMAR_SCHEMA = 2


class weft_grammar_options(Structure):
    """weft_grammar_options"""


class weft_constraint(Structure):
    """One text under a grammar: its tokens so far. Use from one thread at a time."""


class weft_tool_options(Structure):
    """Every family of models calls tools in a syntax of its own. weft learns it from the template, by
rendering calls with it. `tools` is a JSON list as the OpenAI API has it:

    [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", ...}}}]"""


class weft_call_reader(Structure):
    """Finds calls in an answer while it is generated."""

# weft_call_event
WEFT_CALL_TEXT = 0
WEFT_CALL_BEGINS = 1
WEFT_CALL_ARGUMENTS = 2
WEFT_CALL_ENDS = 3


class weft_stop(Structure):
    """Ends a text at the first stop string, however the text is split into tokens. Of strings that end
at the same byte, the longest counts."""

# weft_finish
WEFT_FINISH_NONE = 0
WEFT_FINISH_END = 1
WEFT_FINISH_STOP = 2
WEFT_FINISH_LENGTH = 3
WEFT_FINISH_CONTEXT = 4
WEFT_FINISH_CALLER = 5


class weft_generated(Structure):
    """A new token, and text that can be shown now: whole code points, and nothing that may be the start
of a stop string. So text can be empty, and come later than its token. Text that is still held
back at the end comes in a last call with id -1."""


class weft_generate_options(Structure):
    """weft_generate_options"""


class weft_generation(Structure):
    """weft_generation"""


class weft_scheduler(Structure):
    """Runs many generations at once, a forward at a time, for servers. Every request gets the text and
the log-probabilities that weft_generate would give it alone, byte for byte: batching, cached
prefixes and preemption do not change a bit.

  - A forward has one row of each request that generates, and as many rows of prompts as keep it
    within step_ms.
  - Requests have keys, which name who sends them. The key that was served least goes first;
    within a key, by priority, then in order of arrival.
  - A request starts when the cache has room for its prompt and its next 256 tokens. If the cache
    is full later, the request that has computed least gives its pages back and continues when
    there is room, computing them again.
  - Pages of 64 tokens stay in the cache after a request, until their room is needed. A later
    prompt of the same key, or of any with share_prefixes, does not compute that prefix again.

weft_scheduler_step and weft_scheduler_free are for one thread; callbacks run in them. The other
functions may be called from any thread, and from callbacks. Use the engine for nothing else while
it has a scheduler."""


class weft_step(Structure):
    """A forward that a scheduler has run, and how long it took."""


class weft_scheduler_options(Structure):
    """weft_scheduler_options"""


class weft_request(Structure):
    """What to generate, for whom."""


class weft_scheduler_info(Structure):
    """State, and totals since the scheduler was made."""


class weft_load_part(Structure):
    """Tokens of a prompt: the same seed gives the same tokens, so that prompts which begin with equal
parts share their pages in the cache. Token i is weft_load_token(seed, i)."""


class weft_load_request(Structure):
    """A request of a load."""


class weft_load_result(Structure):
    """What became of it: the HTTP status that weft serve answers with, 200, 400, 429 or 503, and of those
with 200, what the client sees."""


class weft_simulation_options(Structure):
    """weft_simulation_options"""


class weft_simulation_info(Structure):
    """weft_simulation_info"""

# weft_beam_stop
WEFT_BEAM_STOP_GUESS = 0
WEFT_BEAM_STOP_FULL = 1
WEFT_BEAM_STOP_NEVER = 2


class weft_beam_node(Structure):
    """A token that a search kept after a step: a live beam of the next step, or the end of a text."""


class weft_beam_options(Structure):
    """weft_beam_options"""


class weft_beam(Structure):
    """weft_beam"""


class weft_beams(Structure):
    """weft_beams"""


class weft_document(Structure):
    """weft_document"""


class weft_evaluation(Structure):
    """weft_evaluation"""


class weft_evaluate_options(Structure):
    """weft_evaluate_options"""

# weft_schedule
WEFT_SCHEDULE_COSINE = 0
WEFT_SCHEDULE_LINEAR = 1
WEFT_SCHEDULE_CONSTANT = 2
WEFT_SCHEDULE_WSD = 3
WEFT_SCHEDULE_INVERSE_SQRT = 4

# weft_data_kind
WEFT_DATA_BY_NAME = 0
WEFT_DATA_TEXT = 1
WEFT_DATA_JSONL = 2
WEFT_DATA_IDS = 3
WEFT_DATA_RAW16 = 4
WEFT_DATA_TSV = 5
WEFT_DATA_CSV = 6


class weft_train_progress(Structure):
    """Reported before the first step and after every step. Missing values are NaN."""


class weft_train_tensor(Structure):
    """A weight after a step of training, with what the step was made of. Valid during the call."""

# weft_objective
WEFT_OBJECTIVE_BY_DATA = 0
WEFT_OBJECTIVE_PAIRS = 1
WEFT_OBJECTIVE_SPANS = 2
WEFT_OBJECTIVE_INFILL = 3

# weft_positions
WEFT_POSITIONS_OF_ARCH = 0
WEFT_POSITIONS_LEARNED = 1
WEFT_POSITIONS_ROTARY = 2
WEFT_POSITIONS_SINUSOIDAL = 3
WEFT_POSITIONS_NONE = 4


class weft_train_options(Structure):
    """weft_train_options"""


class weft_train_info(Structure):
    """weft_train_info"""


class weft_train_network(Structure):
    """weft_train_network"""


class weft_train_cost(Structure):
    """weft_train_cost"""


class weft_data(Structure):
    """weft_data"""


class weft_data_counts(Structure):
    """weft_data_counts"""


class weft_data_info(Structure):
    """weft_data_info"""


class weft_data_token(Structure):
    """A token of a sequence, valid during the call."""


class weft_explain_options(Structure):
    """weft_explain_options"""


class weft_explain_kernels_options(Structure):
    """weft_explain_kernels_options"""


class weft_alignment_options(Structure):
    """weft_alignment_options"""


class weft_report_options(Structure):
    """weft_report_options"""


class weft_report_info(Structure):
    """weft_report_info"""

weft_log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
weft_searched_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p, c_char_p)
weft_model_entry_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_model_entry))
weft_progress_fn = CFUNCTYPE(c_bool, c_void_p, c_uint64, c_uint64)
weft_converted_tensor_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_converted_tensor))
weft_tokenizer_step_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_tokenizer_step))
weft_trace_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_trace_tensor))
weft_hook_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_trace_tensor), POINTER(c_float))
weft_sampler_stage_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_sampler_stage))
weft_ignored_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
weft_call_fn = CFUNCTYPE(None, c_void_p, c_int, POINTER(c_char), c_size_t)
weft_generate_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_generated))
weft_step_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_step))
weft_prompt_fn = CFUNCTYPE(None, c_void_p, c_int64, c_int32, POINTER(weft_logprob))
weft_done_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_generation), POINTER(weft_error))
weft_beam_node_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_beam_node))
weft_evaluate_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_evaluation))
weft_train_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(weft_train_progress), POINTER(weft_model))
weft_sample_fn = CFUNCTYPE(c_char_p, c_void_p, POINTER(weft_model), POINTER(c_size_t))
weft_train_tensor_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_train_tensor))
weft_wait_fn = CFUNCTYPE(c_bool, c_void_p)
weft_train_cost_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_train_cost))
weft_data_fn = CFUNCTYPE(None, c_void_p, POINTER(weft_data_token))
weft_page_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t, POINTER(weft_error))

weft_error._fields_ = [
    ("code", c_int),
    ("message", c_char * 508),
]

weft_model_options._fields_ = [
    ("struct_size", c_size_t),
    ("load", c_int),
    ("ram_max", c_size_t),
    ("log", weft_log_fn),
    ("log_ud", c_void_p),
    ("budget", POINTER(weft_budget)),
    ("no_pack", c_bool),
    ("compute", c_int),
]

weft_model_info._fields_ = [
    ("struct_size", c_size_t),
    ("architecture", c_char_p),
    ("format", c_char_p),
    ("n_layer", c_int64),
    ("n_head", c_int64),
    ("n_head_kv", c_int64),
    ("d_model", c_int64),
    ("d_head", c_int64),
    ("d_ff", c_int64),
    ("n_vocab", c_int64),
    ("n_ctx", c_int64),
    ("n_tensor", c_int64),
    ("n_metadata", c_int64),
    ("n_parameter", c_int64),
    ("bytes_mapped", c_size_t),
    ("bytes_anonymous", c_size_t),
    ("eos_id", c_int32),
    ("task", c_int),
    ("n_out", c_int64),
    ("images", c_bool),
    ("n_layer_src", c_int64),
    ("n_vocab_src", c_int64),
    ("start_id", c_int32),
    ("n_feature", c_int64),
    ("n_left_out", c_int64),
    ("compute", c_int),
    ("labels", c_int),
]

weft_tensor_info._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("type", c_char_p),
    ("n_dim", c_int),
    ("shape", c_int64 * 4),
    ("bytes", c_size_t),
]

weft_find_options._fields_ = [
    ("struct_size", c_size_t),
    ("ram_max", c_size_t),
    ("budget", POINTER(weft_budget)),
    ("searched", weft_searched_fn),
    ("searched_ud", c_void_p),
]

weft_model_entry._fields_ = [
    ("struct_size", c_size_t),
    ("store", c_char_p),
    ("name", c_char_p),
    ("path", c_char_p),
    ("problem", c_char_p),
]

weft_converted_tensor._fields_ = [
    ("name", c_char_p),
    ("from", c_char_p),
    ("to", c_char_p),
    ("numbers", c_uint64),
    ("bytes", c_uint64),
    ("error", c_double),
    ("instead", c_bool),
]

weft_convert_options._fields_ = [
    ("struct_size", c_size_t),
    ("to", c_int),
    ("type", c_char_p),
    ("max_shard", c_uint64),
    ("force", c_bool),
    ("load", c_int),
    ("ram_max", c_size_t),
    ("progress", weft_progress_fn),
    ("progress_ud", c_void_p),
    ("log", weft_log_fn),
    ("log_ud", c_void_p),
    ("n_thread", c_int),
    ("converted", weft_converted_tensor_fn),
    ("converted_ud", c_void_p),
    ("budget", POINTER(weft_budget)),
    ("importance", c_char_p),
    ("adapter", c_char_p),
    ("strength", c_double),
    ("base", c_char_p),
]

weft_convert_info._fields_ = [
    ("struct_size", c_size_t),
    ("format", c_int),
    ("n_tensor", c_int64),
    ("n_file", c_int64),
    ("n_left_out", c_int64),
    ("bytes", c_uint64),
    ("bytes_peak", c_size_t),
    ("architecture", c_char * 64),
    ("type", c_char * 16),
    ("path", c_char * 4096),
]

weft_tokenizer_options._fields_ = [
    ("struct_size", c_size_t),
    ("load", c_int),
    ("ram_max", c_size_t),
    ("pre", c_char_p),
    ("budget", POINTER(weft_budget)),
    ("side", c_int),
]

weft_tokenizer_info._fields_ = [
    ("struct_size", c_size_t),
    ("source", c_char_p),
    ("model", c_char_p),
    ("n_vocab", c_int32),
    ("bos_id", c_int32),
    ("eos_id", c_int32),
    ("byte_level", c_bool),
    ("bytes_anonymous", c_size_t),
    ("mask_id", c_int32),
]

weft_span._fields_ = [
    ("from", c_uint32),
    ("to", c_uint32),
]

weft_tokenize_options._fields_ = [
    ("struct_size", c_size_t),
    ("no_special", c_bool),
    ("parse_special", c_bool),
    ("spans", c_bool),
    ("fit", c_bool),
    ("pair", POINTER(c_char)),
    ("pair_length", c_size_t),
    ("trusted", POINTER(weft_span)),
    ("n_trusted", c_size_t),
    ("gated", POINTER(c_int32)),
    ("n_gated", c_size_t),
]

weft_tokens._fields_ = [
    ("n", c_int64),
    ("ids", POINTER(c_int32)),
    ("spans", POINTER(weft_span)),
    ("types", POINTER(c_uint8)),
]

weft_piece._fields_ = [
    ("id", c_int32),
    ("from", c_uint32),
    ("to", c_uint32),
    ("score", c_double),
]

weft_tokenizer_step._fields_ = [
    ("struct_size", c_size_t),
    ("kind", c_int),
    ("type", c_int),
    ("span", weft_span),
    ("text", POINTER(c_char)),
    ("length", c_size_t),
    ("piece", weft_piece),
    ("left", weft_piece),
    ("right", weft_piece),
    ("rank", c_int64),
    ("score", c_double),
    ("pieces", POINTER(weft_piece)),
    ("n_piece", c_size_t),
    ("tokens", POINTER(weft_tokens)),
]

weft_template_options._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("ram_max", c_size_t),
    ("budget", POINTER(weft_budget)),
]

weft_template_info._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("source", POINTER(c_char)),
    ("source_length", c_size_t),
    ("system", c_bool),
    ("tools", c_bool),
    ("thinking", c_bool),
    ("think_begin", c_char_p),
    ("think_end", c_char_p),
    ("calls", c_bool),
    ("several", c_bool),
]

weft_render_options._fields_ = [
    ("struct_size", c_size_t),
    ("tools", c_char_p),
    ("variables", c_char_p),
    ("no_generation_prompt", c_bool),
    ("trust_all", c_bool),
    ("now", c_int64),
    ("continue_last", c_bool),
]

weft_origin._fields_ = [
    ("from", c_uint32),
    ("to", c_uint32),
    ("message", c_int32),
    ("field", c_char_p),
    ("trusted", c_bool),
]

weft_rendered._fields_ = [
    ("text", POINTER(c_char)),
    ("length", c_size_t),
    ("origins", POINTER(weft_origin)),
    ("n_origin", c_int64),
    ("generated", POINTER(weft_span)),
    ("n_generated", c_int64),
    ("tokens", POINTER(weft_tokens)),
]

weft_tokenizer_train_options._fields_ = [
    ("struct_size", c_size_t),
    ("model", c_int),
    ("ties", c_int),
    ("n_vocab", c_int32),
    ("min_frequency", c_int64),
    ("lines", c_bool),
    ("cased", c_bool),
    ("pattern", c_char_p),
    ("special", POINTER(c_char_p)),
    ("n_special", c_int),
    ("threads", c_int),
    ("load", c_int),
    ("ram_max", c_size_t),
    ("budget", POINTER(weft_budget)),
]

weft_tokenizer_train_info._fields_ = [
    ("struct_size", c_size_t),
    ("n_vocab", c_int32),
    ("n_merge", c_int64),
    ("n_word", c_int64),
    ("n_occurrence", c_int64),
    ("bytes_peak", c_size_t),
]

weft_adapter_info._fields_ = [
    ("struct_size", c_size_t),
    ("rank", c_int64),
    ("n_weight", c_int64),
    ("n_whole", c_int64),
    ("gains", c_bool),
    ("bytes", c_uint64),
]

weft_engine_options._fields_ = [
    ("struct_size", c_size_t),
    ("threads", c_int),
    ("n_session", c_int),
    ("n_batch", c_int),
    ("n_ctx", c_int64),
    ("kv_type", c_int),
    ("n_cache", c_int64),
    ("all_logits", c_bool),
    ("adapter_rank", c_int64),
]

weft_engine_info._fields_ = [
    ("struct_size", c_size_t),
    ("threads", c_int),
    ("n_session", c_int),
    ("n_batch", c_int),
    ("n_ctx", c_int64),
    ("kv_type", c_char_p),
    ("n_cache", c_int64),
    ("n_cache_free", c_int64),
]

weft_memory_plan._fields_ = [
    ("struct_size", c_size_t),
    ("kv_bytes", c_size_t),
    ("step_bytes", c_size_t),
    ("n_ctx", c_int64),
    ("session_bytes", c_size_t),
    ("total_bytes", c_size_t),
    ("position_bytes", c_size_t),
    ("panel_bytes", c_size_t),
]

weft_part._fields_ = [
    ("n_parameter", c_int64),
    ("bytes", c_size_t),
    ("flops", c_double),
]

weft_model_cost._fields_ = [
    ("struct_size", c_size_t),
    ("embedding", weft_part),
    ("attention", weft_part),
    ("feed_forward", weft_part),
    ("head", weft_part),
]

weft_speed._fields_ = [
    ("struct_size", c_size_t),
    ("n_prompt", c_int64),
    ("prompt", c_double),
    ("generate", c_double),
    ("read_rate", c_double),
    ("product_rate", c_double),
    ("seconds", c_double),
]

weft_trace_tensor._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("op", c_char_p),
    ("rows", c_int64),
    ("cols", c_int64),
    ("stride", c_int64),
    ("data", POINTER(c_float)),
    ("formula", c_char_p),
    ("inputs", POINTER(c_char_p)),
    ("n_input", c_int),
    ("flops", c_double),
]

weft_trace_options._fields_ = [
    ("struct_size", c_size_t),
    ("hook", weft_hook_fn),
    ("hook_ud", c_void_p),
    ("attention_maps", c_bool),
    ("open", c_bool),
    ("lens", c_bool),
    ("all_logits", c_bool),
]

weft_encoder_options._fields_ = [
    ("struct_size", c_size_t),
    ("threads", c_int),
    ("n_batch", c_int),
    ("n_ctx", c_int64),
    ("output", c_int),
    ("pooling", c_int),
    ("normalize", c_bool),
    ("adapter_rank", c_int64),
]

weft_input._fields_ = [
    ("ids", POINTER(c_int32)),
    ("features", POINTER(c_float)),
    ("types", POINTER(c_uint8)),
    ("n", c_int64),
    ("at", POINTER(c_int32)),
    ("n_at", c_int64),
    ("out", POINTER(c_float)),
]

weft_image._fields_ = [
    ("n", c_int64),
    ("features", POINTER(c_float)),
]

weft_score._fields_ = [
    ("struct_size", c_size_t),
    ("n", c_int64),
    ("n_right", c_int64),
    ("loss", c_double),
]

weft_eval_request._fields_ = [
    ("session", POINTER(weft_session)),
    ("ids", POINTER(c_int32)),
    ("n", c_int64),
    ("done", c_int64),
    ("status", c_int),
    ("message", c_char_p),
]

weft_logprob._fields_ = [
    ("id", c_int32),
    ("logprob", c_double),
]

weft_bias._fields_ = [
    ("id", c_int32),
    ("bias", c_float),
]

weft_sampler_options._fields_ = [
    ("struct_size", c_size_t),
    ("chain", c_char_p),
    ("seed", c_uint64),
    ("temperature", c_double),
    ("top_k", c_int64),
    ("top_p", c_double),
    ("min_p", c_double),
    ("typical", c_double),
    ("repetition", c_double),
    ("frequency", c_double),
    ("presence", c_double),
    ("penalty_last_n", c_int64),
    ("dry_multiplier", c_double),
    ("dry_base", c_double),
    ("dry_length", c_int64),
    ("dry_last_n", c_int64),
    ("xtc_probability", c_double),
    ("xtc_threshold", c_double),
    ("mirostat_tau", c_double),
    ("mirostat_eta", c_double),
    ("bias", POINTER(weft_bias)),
    ("n_bias", c_int64),
    ("breakers", POINTER(c_int32)),
    ("n_breaker", c_int64),
    ("n_vocab", c_int64),
]

weft_token_prob._fields_ = [
    ("id", c_int32),
    ("p", c_double),
]

weft_candidate._fields_ = [
    ("id", c_int32),
    ("score", c_double),
    ("p", c_double),
]

weft_sampler_stage._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("n", c_int64),
    ("best", POINTER(weft_candidate)),
    ("n_best", c_int64),
    ("u", c_double),
    ("id", c_int32),
]

weft_grammar_options._fields_ = [
    ("struct_size", c_size_t),
    ("model", POINTER(weft_model)),
    ("ends", POINTER(c_int32)),
    ("n_end", c_int),
    ("think_begin", c_char_p),
    ("think_end", c_char_p),
    ("thinking", c_bool),
    ("indent", c_bool),
    ("openai_strict", c_bool),
    ("ignored", weft_ignored_fn),
    ("ud", c_void_p),
]

weft_tool_options._fields_ = [
    ("struct_size", c_size_t),
    ("required", c_bool),
    ("single", c_bool),
    ("only", c_char_p),
]

weft_generated._fields_ = [
    ("id", c_int32),
    ("text", POINTER(c_char)),
    ("length", c_size_t),
    ("logprobs", POINTER(weft_logprob)),
    ("n_slide", c_int64),
]

weft_generate_options._fields_ = [
    ("struct_size", c_size_t),
    ("prompt", POINTER(c_int32)),
    ("n_prompt", c_int64),
    ("n_new", c_int64),
    ("stop", POINTER(c_char_p)),
    ("n_stop", c_int),
    ("ends", POINTER(c_int32)),
    ("n_end", c_int),
    ("ignore_end", c_bool),
    ("slide", c_bool),
    ("eval_last", c_bool),
    ("n_top", c_int64),
    ("progress", weft_progress_fn),
    ("progress_ud", c_void_p),
    ("n_min", c_int64),
    ("stop_ids", POINTER(c_int32)),
    ("n_stop_id", c_int),
    ("constraint", POINTER(weft_constraint)),
    ("draw_all", c_bool),
]

weft_generation._fields_ = [
    ("struct_size", c_size_t),
    ("finish", c_int),
    ("stop", c_int),
    ("end_id", c_int32),
    ("n_prompt", c_int64),
    ("n_reused", c_int64),
    ("n_new", c_int64),
    ("n_slide", c_int64),
    ("prompt_seconds", c_double),
    ("generate_seconds", c_double),
    ("queue_seconds", c_double),
    ("n_preempted", c_int64),
]

weft_step._fields_ = [
    ("struct_size", c_size_t),
    ("n_row", c_int64),
    ("n_draw", c_int64),
    ("prompt_context", c_double),
    ("new_context", c_double),
    ("seconds", c_double),
    ("before", c_double),
]

weft_scheduler_options._fields_ = [
    ("struct_size", c_size_t),
    ("step_ms", c_double),
    ("n_running", c_int),
    ("n_waiting", c_int),
    ("n_waiting_tokens", c_int64),
    ("share_prefixes", c_bool),
    ("step_fn", weft_step_fn),
    ("step_ud", c_void_p),
]

weft_request._fields_ = [
    ("struct_size", c_size_t),
    ("generate", POINTER(weft_generate_options)),
    ("sampler", POINTER(weft_sampler_options)),
    ("tokenizer", POINTER(weft_tokenizer)),
    ("source", POINTER(c_int32)),
    ("n_source", c_int64),
    ("key", c_char_p),
    ("priority", c_int),
    ("fn", weft_generate_fn),
    ("prompt_fn", weft_prompt_fn),
    ("done", weft_done_fn),
    ("ud", c_void_p),
    ("adapter", POINTER(weft_adapter)),
    ("strength", c_double),
]

weft_scheduler_info._fields_ = [
    ("struct_size", c_size_t),
    ("n_running", c_int64),
    ("n_waiting", c_int64),
    ("n_waiting_tokens", c_int64),
    ("n_page", c_int64),
    ("n_page_used", c_int64),
    ("n_page_idle", c_int64),
    ("n_done", c_int64),
    ("n_preempted", c_int64),
    ("n_prompt", c_int64),
    ("n_new", c_int64),
    ("n_queried", c_int64),
    ("n_reused", c_int64),
    ("n_step", c_int64),
    ("step_seconds", c_double),
]

weft_load_part._fields_ = [
    ("seed", c_uint64),
    ("n", c_int64),
]

weft_load_request._fields_ = [
    ("at", c_double),
    ("part", POINTER(weft_load_part)),
    ("n_part", c_int),
    ("n_new", c_int64),
    ("key", c_char_p),
]

weft_load_result._fields_ = [
    ("status", c_int),
    ("first", c_double),
    ("last", c_double),
    ("n_prompt", c_int64),
    ("n_reused", c_int64),
    ("n_new", c_int64),
]

weft_simulation_options._fields_ = [
    ("struct_size", c_size_t),
    ("steps", POINTER(weft_step)),
    ("n_steps", c_int64),
    ("n_running", c_int),
    ("n_waiting", c_int),
    ("n_batch", c_int),
    ("n_ctx", c_int64),
    ("n_cache", c_int64),
    ("step_ms", c_double),
    ("share_prefixes", c_bool),
    ("arrive_seconds", c_double),
    ("token_seconds", c_double),
    ("deliver_seconds", c_double),
    ("seed", c_uint64),
    ("replay", c_bool),
    ("budget", POINTER(weft_budget)),
    ("step_fn", weft_step_fn),
    ("step_ud", c_void_p),
]

weft_simulation_info._fields_ = [
    ("struct_size", c_size_t),
    ("seconds", c_double),
    ("busy_seconds", c_double),
    ("running", c_double),
    ("waiting", c_double),
    ("cached", c_double),
    ("most_cached", c_int64),
    ("n_step", c_int64),
    ("n_preempted", c_int64),
    ("n_prompt", c_int64),
    ("n_new", c_int64),
    ("n_reused", c_int64),
    ("n_page_left", c_int64),
    ("n_knot", c_int),
    ("knot_rows", c_double * 18),
    ("knot_seconds", c_double * 18),
    ("draw_seconds", c_double),
    ("prompt_position_seconds", c_double),
    ("new_position_seconds", c_double),
    ("step_variance", c_double),
]

weft_beam_node._fields_ = [
    ("struct_size", c_size_t),
    ("step", c_int64),
    ("parent", c_int),
    ("beam", c_int),
    ("id", c_int32),
    ("sum", c_double),
    ("score", c_double),
    ("ended", c_bool),
]

weft_beam_options._fields_ = [
    ("struct_size", c_size_t),
    ("n_beam", c_int),
    ("n_best", c_int),
    ("n_new", c_int64),
    ("length_penalty", c_double),
    ("stop", c_int),
    ("ends", POINTER(c_int32)),
    ("n_end", c_int),
    ("source", POINTER(c_int32)),
    ("n_source", c_int64),
    ("fn", weft_beam_node_fn),
    ("ud", c_void_p),
    ("session", POINTER(weft_session)),
    ("adapter", POINTER(weft_adapter)),
    ("strength", c_double),
]

weft_beam._fields_ = [
    ("ids", POINTER(c_int32)),
    ("n", c_int64),
    ("score", c_double),
    ("ended", c_bool),
]

weft_beams._fields_ = [
    ("n", c_int),
    ("beam", POINTER(weft_beam)),
]

weft_document._fields_ = [
    ("ids", POINTER(c_int32)),
    ("n", c_int64),
]

weft_evaluation._fields_ = [
    ("struct_size", c_size_t),
    ("n_token", c_int64),
    ("n_total", c_int64),
    ("stopped", c_bool),
    ("nll", c_double),
    ("perplexity", c_double),
    ("against_nll", c_double),
    ("against_perplexity", c_double),
    ("kl_mean", c_double),
    ("kl_max", c_double),
    ("kl_p99", c_double),
    ("same_top", c_double),
]

weft_evaluate_options._fields_ = [
    ("struct_size", c_size_t),
    ("threads", c_int),
    ("n_batch", c_int),
    ("n_ctx", c_int64),
    ("stride", c_int64),
    ("kv_type", c_int),
    ("progress", weft_evaluate_fn),
    ("progress_ud", c_void_p),
    ("against_kv_type", c_int),
    ("adapter", POINTER(weft_adapter)),
    ("strength", c_double),
]

weft_train_progress._fields_ = [
    ("struct_size", c_size_t),
    ("step", c_int64),
    ("n_step", c_int64),
    ("loss", c_double),
    ("smoothed", c_double),
    ("lr", c_double),
    ("grad_norm", c_double),
    ("val_loss", c_double),
    ("best_val_loss", c_double),
    ("best_step", c_int64),
    ("n_token", c_int64),
    ("tokens_per_second", c_double),
    ("share", c_double),
    ("seconds_left", c_double),
    ("skipped", c_bool),
    ("n_skipped", c_int64),
    ("saved", c_bool),
    ("bytes", c_size_t),
    ("val_accuracy", c_double),
    ("expert_least", c_double),
    ("expert_most", c_double),
    ("margin", c_double),
    ("right", c_double),
    ("logp_chosen", c_double),
    ("logp_rejected", c_double),
    ("adapter", POINTER(weft_adapter)),
]

weft_train_tensor._fields_ = [
    ("struct_size", c_size_t),
    ("name", c_char_p),
    ("step", c_int64),
    ("n_dim", c_int),
    ("shape", c_int64 * 4),
    ("n", c_int64),
    ("weight", POINTER(c_float)),
    ("grad", POINTER(c_float)),
    ("m", POINTER(c_float)),
    ("v", POINTER(c_float)),
    ("clip", c_double),
]

weft_train_options._fields_ = [
    ("struct_size", c_size_t),
    ("out", c_char_p),
    ("resume", c_bool),
    ("model", c_char_p),
    ("preset", c_char_p),
    ("arch", c_char_p),
    ("n_layer", c_int64),
    ("d_model", c_int64),
    ("n_head", c_int64),
    ("n_head_kv", c_int64),
    ("d_ff", c_int64),
    ("tied", c_int),
    ("tokenizer", c_char_p),
    ("characters", c_bool),
    ("n_vocab", c_int32),
    ("data", POINTER(c_char_p)),
    ("n_data", c_int),
    ("data_kind", c_int),
    ("separator", c_char_p),
    ("parse_special", c_bool),
    ("validation", c_double),
    ("n_ctx", c_int64),
    ("n_sample", c_int),
    ("n_part", c_int),
    ("n_step", c_int64),
    ("schedule", c_int),
    ("lr", c_double),
    ("lr_min", c_double),
    ("n_warmup", c_int64),
    ("n_decay", c_int64),
    ("beta1", c_double),
    ("beta2", c_double),
    ("eps", c_double),
    ("weight_decay", c_double),
    ("clip", c_double),
    ("dropout", c_double),
    ("smoothing", c_double),
    ("bf16", c_bool),
    ("recompute", c_bool),
    ("frozen", POINTER(c_char_p)),
    ("n_frozen", c_int),
    ("seed", c_uint64),
    ("eval_every", c_int64),
    ("save_every", c_int64),
    ("keep", c_int),
    ("patience", c_int),
    ("max_skipped", c_int),
    ("threads", c_int),
    ("ram_max", c_size_t),
    ("load", c_int),
    ("progress", weft_train_fn),
    ("progress_ud", c_void_p),
    ("log", weft_log_fn),
    ("log_ud", c_void_p),
    ("reading", weft_progress_fn),
    ("reading_ud", c_void_p),
    ("image_size", c_int64),
    ("patch_size", c_int64),
    ("shift", c_int64),
    ("objective", c_int),
    ("columns", c_char_p),
    ("validation_data", c_char_p),
    ("budget", POINTER(weft_budget)),
    ("waiting", weft_wait_fn),
    ("waiting_ud", c_void_p),
    ("positions", c_int),
    ("sample", weft_sample_fn),
    ("sample_ud", c_void_p),
    ("n_group", c_int),
    ("chat_template", c_char_p),
    ("tensor", weft_train_tensor_fn),
    ("tensor_ud", c_void_p),
    ("dpo_beta", c_double),
    ("lora", c_char_p),
    ("mpi", c_char_p),
    ("reduce_fast", c_bool),
    ("rank_limit", c_double),
    ("norm", c_char_p),
    ("act", c_char_p),
    ("attention", c_char_p),
]

weft_train_info._fields_ = [
    ("struct_size", c_size_t),
    ("step", c_int64),
    ("from_step", c_int64),
    ("n_parameter", c_int64),
    ("loss", c_double),
    ("smoothed", c_double),
    ("val_loss", c_double),
    ("best_val_loss", c_double),
    ("best_step", c_int64),
    ("n_skipped", c_int64),
    ("n_token", c_int64),
    ("stopped", c_bool),
    ("seconds", c_double),
    ("bytes_peak", c_size_t),
    ("val_accuracy", c_double),
    ("n_line_lost", c_int64),
    ("rank", c_int),
    ("n_rank", c_int),
    ("bytes_sent", c_uint64),
    ("reduce_hidden", c_double),
    ("reduce_exposed", c_double),
]

weft_train_network._fields_ = [
    ("struct_size", c_size_t),
    ("bandwidth", c_double),
    ("latency", c_double),
]

weft_train_cost._fields_ = [
    ("struct_size", c_size_t),
    ("n_rank", c_int),
    ("n_parameter", c_int64),
    ("n_token", c_int64),
    ("token_seconds", c_double),
    ("step_seconds", c_double),
    ("compute_seconds", c_double),
    ("reduce_hidden", c_double),
    ("reduce_exposed", c_double),
    ("seconds", c_double),
    ("bytes", c_uint64),
    ("bytes_sent", c_uint64),
]

weft_data_counts._fields_ = [
    ("n_sample", c_int64),
    ("n_document", c_int64),
    ("n_cut", c_int64),
    ("n_truncated", c_int64),
    ("n_skipped", c_int64),
    ("n_row", c_int64),
    ("n_target", c_int64),
    ("n_end", c_int64),
]

weft_data_info._fields_ = [
    ("struct_size", c_size_t),
    ("windows", c_bool),
    ("n_ctx", c_int64),
    ("n_vocab", c_int32),
    ("end_id", c_int32),
    ("n_token", c_int64),
    ("n_document", c_int64),
    ("n_empty", c_int64),
    ("n_prompt", c_int64),
    ("n_straddling", c_int64),
    ("train", weft_data_counts),
    ("validation", weft_data_counts),
    ("bytes", c_size_t),
    ("n_label", c_int64),
    ("n_image", c_int64),
    ("n_class", c_int64),
    ("height", c_int64),
    ("width", c_int64),
    ("n_conversation", c_int64),
    ("n_answer", c_int64),
    ("n_unprompted", c_int64),
    ("n_thought_dropped", c_int64),
    ("n_endless", c_int64),
    ("n_preference", c_int64),
]

weft_data_token._fields_ = [
    ("struct_size", c_size_t),
    ("sequence", c_int32),
    ("id", c_int32),
    ("text", POINTER(c_char)),
    ("length", c_size_t),
    ("special", c_bool),
    ("learned", c_bool),
]

weft_explain_options._fields_ = [
    ("struct_size", c_size_t),
    ("title", c_char_p),
    ("text", c_char_p),
    ("tokenizer", POINTER(weft_tokenizer)),
    ("only", c_char_p),
    ("layer", c_int64),
    ("head", c_int64),
    ("token", c_int64),
    ("json", c_bool),
    ("all", c_bool),
    ("threads", c_int),
    ("hook", weft_hook_fn),
    ("hook_ud", c_void_p),
    ("source", POINTER(c_int32)),
    ("n_source", c_int64),
    ("source_text", c_char_p),
    ("source_tokenizer", POINTER(weft_tokenizer)),
    ("image", POINTER(weft_image)),
    ("train", c_int),
    ("target", POINTER(c_int32)),
    ("n_target", c_int64),
]

weft_explain_kernels_options._fields_ = [
    ("struct_size", c_size_t),
    ("title", c_char_p),
    ("json", c_bool),
    ("ram_max", c_size_t),
    ("budget", POINTER(weft_budget)),
]

weft_alignment_options._fields_ = [
    ("struct_size", c_size_t),
    ("source", POINTER(c_int32)),
    ("n_source", c_int64),
    ("n_begin", c_int64),
    ("layer", c_int64),
    ("source_tokenizer", POINTER(weft_tokenizer)),
    ("target_tokenizer", POINTER(weft_tokenizer)),
    ("threads", c_int),
    ("kv_type", c_int),
]

weft_report_options._fields_ = [
    ("struct_size", c_size_t),
    ("title", c_char_p),
    ("ram_max", c_size_t),
    ("budget", POINTER(weft_budget)),
]

weft_report_info._fields_ = [
    ("struct_size", c_size_t),
    ("step", c_int64),
    ("n_point", c_int64),
    ("n_sample", c_int64),
    ("bytes", c_uint64),
    ("path", c_char * 4096),
]

structs = [weft_error, weft_model_options, weft_model_info, weft_tensor_info, weft_find_options, weft_model_entry, weft_converted_tensor, weft_convert_options, weft_convert_info, weft_tokenizer_options, weft_tokenizer_info, weft_span, weft_tokenize_options, weft_tokens, weft_piece, weft_tokenizer_step, weft_template_options, weft_template_info, weft_render_options, weft_origin, weft_rendered, weft_tokenizer_train_options, weft_tokenizer_train_info, weft_adapter_info, weft_engine_options, weft_engine_info, weft_memory_plan, weft_part, weft_model_cost, weft_speed, weft_trace_tensor, weft_trace_options, weft_encoder_options, weft_input, weft_image, weft_score, weft_eval_request, weft_logprob, weft_bias, weft_sampler_options, weft_token_prob, weft_candidate, weft_sampler_stage, weft_grammar_options, weft_tool_options, weft_generated, weft_generate_options, weft_generation, weft_step, weft_scheduler_options, weft_request, weft_scheduler_info, weft_load_part, weft_load_request, weft_load_result, weft_simulation_options, weft_simulation_info, weft_beam_node, weft_beam_options, weft_beam, weft_beams, weft_document, weft_evaluation, weft_evaluate_options, weft_train_progress, weft_train_tensor, weft_train_options, weft_train_info, weft_train_network, weft_train_cost, weft_data_counts, weft_data_info, weft_data_token, weft_explain_options, weft_explain_kernels_options, weft_alignment_options, weft_report_options, weft_report_info]

# name: (result, parameters, comment)
functions = {
    "weft_version": (c_char_p, [],
        """"""),
    "weft_abi_version": (c_int, [],
        """"""),
    "weft_build_parts": (c_char_p, [],
        """Features of this build in one line, the kernels in use, and the number of usable processors."""),
    "weft_kernels_name": (c_char_p, [],
        """"""),
    "weft_cpu_count": (c_int, [],
        """"""),
    "weft_memory_limit": (c_size_t, [],
        """The memory limit of this process's control groups (memory.max of cgroup v2), as containers set
it, in bytes; 0: none. A host may pass it as ram_max."""),
    "weft_budget_new": (POINTER(weft_budget), [c_size_t, POINTER(weft_error)],
        """ram_max: bytes; 0: no limit, only accounting."""),
    "weft_budget_free": (None, [POINTER(weft_budget)],
        """"""),
    "weft_budget_take": (c_int, [POINTER(weft_budget), c_size_t, c_char_p, POINTER(weft_error)],
        """Accounts for memory that the host is about to allocate (`what` names it in errors), and for
memory it has freed. Giving back more than was taken is clamped. A NULL budget accepts
everything."""),
    "weft_budget_give": (None, [POINTER(weft_budget), c_size_t],
        """"""),
    "weft_budget_used": (c_size_t, [POINTER(weft_budget)],
        """Bytes in use; 0 if NULL."""),
    "weft_model_open": (POINTER(weft_model), [c_char_p, POINTER(weft_model_options), POINTER(weft_error)],
        """path: a GGUF file (of a split model the first part), or a Hugging Face directory with
config.json and model.safetensors, or model.safetensors.index.json and the files it names."""),
    "weft_model_close": (None, [POINTER(weft_model)],
        """"""),
    "weft_model_get_info": (None, [POINTER(weft_model), POINTER(weft_model_info)],
        """"""),
    "weft_model_is_end": (c_bool, [POINTER(weft_model), c_int32],
        """Is this an end-of-text token? Chat models have several, listed in generation_config.json."""),
    "weft_model_label": (c_char_p, [POINTER(weft_model), c_int64],
        """The label of output i of n_out; NULL if the file has none."""),
    "weft_model_get_tensor": (c_int, [POINTER(weft_model), c_int64, POINTER(weft_tensor_info)],
        """Weight i of n_tensor."""),
    "weft_model_find_tensor": (c_int64, [POINTER(weft_model), c_char_p],
        """The number of the weight of this name, for weft_model_get_tensor and weft_model_get_rows; -1: the
model has none. A tied output matrix has the name of the embedding."""),
    "weft_model_get_rows": (c_int, [POINTER(weft_model), c_int64, c_int64, c_int64, POINTER(c_float), c_size_t, POINTER(weft_error)],
        """Rows [row, row + n) of weight i as floats, one after the other: a row has as many as the last
dimension of the shape, and a weight of one dimension is one row. Quantised weights are expanded.
size: floats that `out` has room for, at least all of these."""),
    "weft_model_get_metadata": (c_int, [POINTER(weft_model), c_int64, POINTER(POINTER(c_char)), POINTER(c_char), c_size_t],
        """Metadata entry i of n_metadata as text; value is truncated to `size` bytes, terminator included,
and may be NULL if size is 0."""),
    "weft_model_piece": (c_int64, [POINTER(weft_model), c_int32, POINTER(c_char), c_size_t],
        """The exact bytes of a token in running text, without terminator. Returns their number, or -1 if
the model has no vocabulary or no such token. If `size` is too small, `bytes` is not written; it
may be NULL. Control tokens have 0 bytes."""),
    "weft_model_find": (c_int, [c_char_p, POINTER(weft_find_options), POINTER(c_char), c_size_t, POINTER(weft_error)],
        """Resolves a name to a path for weft_model_open and weft_tokenizer_load. A name is NAME, ORG/NAME
or hf.co/ORG/NAME, followed by :TAG (a type such as Q4_K_M, or Ollama's tag) if there are
several. The first place with a model of that name wins. WEFT_EINVAL: ambiguous, or not a name;
WEFT_EIO: not found, or incomplete."""),
    "weft_model_list": (c_int, [weft_model_entry_fn, c_void_p, POINTER(weft_find_options), POINTER(weft_error)],
        """Calls fn for each model in all places."""),
    "weft_convert": (c_int, [c_char_p, c_char_p, POINTER(weft_convert_options), POINTER(weft_convert_info), POINTER(weft_error)],
        """Writes the model at `from` to `to`: a .gguf file, or a directory. In a directory, a GGUF file
gets a name made from its contents. Existing files are replaced atomically, after the new ones
have reached the disk. The GGUF file embeds the configuration, tokenizer and types of a
directory, so that converting back gives the same bytes of weights. info may be NULL.

With an adapter, what is written is W + s B A in place of W, in the file's type; in f16 where
that is quantised and no type is given. A head that shares the embedding gets a matrix of its own
if the adapter changes one of the two. With a base, the adapter at `from` is written as a GGUF
file if `to` ends in .gguf, and otherwise as a PEFT directory: with the same bytes of A, and of B
unless weights differ in alpha, of which GGUF has one for all. What GGUF has no form for (DoRA,
whole weights, biases) is an error."""),
    "weft_tokenizer_load": (POINTER(weft_tokenizer), [c_char_p, POINTER(weft_tokenizer_options), POINTER(weft_error)],
        """path: a GGUF file, a tokenizer.json, a SentencePiece .model, a tiktoken file, BERT's vocab.txt,
a vocab.json with merges.txt beside it, llama2.c's tokenizer.bin, or a directory with one of
them; or an OpenNMT vocabulary of letters (..._vocabulary.txt). Test vectors stored in the file
(weft.tokenizer.selftest) are checked."""),
    "weft_tokenizer_free": (None, [POINTER(weft_tokenizer)],
        """"""),
    "weft_tokenizer_get_info": (None, [POINTER(weft_tokenizer), POINTER(weft_tokenizer_info)],
        """"""),
    "weft_tokenizer_encode": (POINTER(weft_tokens), [POINTER(weft_tokenizer), c_char_p, c_size_t, POINTER(weft_tokenize_options), POINTER(weft_error)],
        """Adds the special tokens that the tokenizer's file puts around a text (BOS, EOS, [CLS] ...),
unless no_special; no other function adds any. Invalid UTF-8 is accepted: byte-level tokenizers
encode the bytes, others replace each bad byte by U+FFFD. Texts of 2^30 bytes or more are
WEFT_ELIMIT. Returns NULL on failure."""),
    "weft_tokens_free": (None, [POINTER(weft_tokens)],
        """"""),
    "weft_tokenizer_steps": (c_int, [POINTER(weft_tokenizer), c_char_p, c_size_t, POINTER(weft_tokenize_options), weft_tokenizer_step_fn, c_void_p, POINTER(weft_error)],
        """Encodes as weft_tokenizer_encode does, and calls fn for each step of it. The last step has the
tokens that weft_tokenizer_encode returns, with spans."""),
    "weft_tokenizer_piece": (c_int64, [POINTER(weft_tokenizer), c_int32, POINTER(c_char), c_size_t],
        """The exact bytes of a token in running text; as weft_model_piece."""),
    "weft_tokenizer_token": (POINTER(c_char), [POINTER(weft_tokenizer), c_int32, POINTER(c_size_t)],
        """A token as the file spells it ("\\xC4\\xA0world", "##ing", "<s>"), not terminated; NULL if there
is none. `length` may be NULL. And the id of a spelling, or -1."""),
    "weft_tokenizer_id": (c_int32, [POINTER(weft_tokenizer), c_char_p, c_size_t],
        """"""),
    "weft_tokenizer_is_special": (c_bool, [POINTER(weft_tokenizer), c_int32],
        """Special tokens have no text."""),
    "weft_decoder_new": (POINTER(weft_decoder), [POINTER(weft_tokenizer), c_bool, POINTER(weft_error)],
        """"""),
    "weft_decoder_free": (None, [POINTER(weft_decoder)],
        """"""),
    "weft_decoder_push": (c_int, [POINTER(weft_decoder), c_int32, POINTER(POINTER(c_char)), POINTER(c_size_t), POINTER(weft_error)],
        """*bytes, *length: the new text, valid until the next call; may be empty."""),
    "weft_decoder_flush": (None, [POINTER(weft_decoder), POINTER(POINTER(c_char)), POINTER(c_size_t)],
        """Call at the end: returns the bytes of an incomplete code point. Either pointer may be NULL."""),
    "weft_template_load": (POINTER(weft_template), [c_char_p, POINTER(weft_template_options), POINTER(weft_error)],
        """path: a model (GGUF file or Hugging Face directory), a tokenizer_config.json, or a file with the
template alone. Without a template in it: WEFT_EUNSUPPORTED; weft does not guess one. Returns NULL
on failure. May be shared between threads."""),
    "weft_template_free": (None, [POINTER(weft_template)],
        """"""),
    "weft_template_get_info": (None, [POINTER(weft_template), POINTER(weft_template_info)],
        """"""),
    "weft_template_render": (POINTER(weft_rendered), [POINTER(weft_template), POINTER(weft_tokenizer), c_char_p, c_size_t, POINTER(weft_render_options), POINTER(weft_error)],
        """messages: a JSON list, or an object with this list as "messages" and maybe "tools". A message
is an object with a role (system, developer, user, assistant or tool) and
content, as the OpenAI API has them: content is a string or a list of text parts, arguments of
tool calls are objects or strings. Where a template wants another of these forms, weft converts.
tokenizer: encodes the text, without adding tokens; NULL: text only. Returns NULL on failure:
WEFT_EINVAL if the template raises an exception, with its message."""),
    "weft_rendered_free": (None, [POINTER(weft_rendered)],
        """"""),
    "weft_is_compressed": (c_bool, [c_void_p, c_size_t],
        """True if the data starts like gzip or zstd data."""),
    "weft_decompress": (c_int, [c_char_p, c_void_p, c_size_t, POINTER(c_char), POINTER(c_size_t), POINTER(weft_budget), POINTER(weft_error)],
        """Decompresses all members or frames and verifies their checksums; data that is not compressed is
copied. `to` NULL: only counts the bytes. *n: on entry the size of `to`, on return the number of
bytes. It is an error if the data is truncated, damaged, followed by anything else, a tar
archive, or grows to more than 64 MiB and 256 times its size. name: of the data, in errors, or
NULL."""),
    "weft_tokenizer_train": (c_int, [POINTER(c_char_p), c_int, c_char_p, POINTER(weft_tokenizer_train_options), POINTER(weft_tokenizer_train_info), POINTER(weft_error)],
        """Trains a tokenizer on UTF-8 files and writes a tokenizer.json to `to`. The result depends on the
text and the options, not on threads. info may be NULL."""),
    "weft_adapter_open": (POINTER(weft_adapter), [POINTER(weft_model), c_char_p, POINTER(weft_error)],
        """"""),
    "weft_adapter_close": (None, [POINTER(weft_adapter)],
        """Sessions, encoders and requests that have it keep it until they are freed, done, or have another."""),
    "weft_adapter_get_info": (None, [POINTER(weft_adapter), POINTER(weft_adapter_info)],
        """All 0 if adapter is NULL."""),
    "weft_engine_new": (POINTER(weft_engine), [POINTER(weft_model), POINTER(weft_engine_options), POINTER(weft_error)],
        """"""),
    "weft_engine_free": (None, [POINTER(weft_engine)],
        """"""),
    "weft_engine_get_info": (None, [POINTER(weft_engine), POINTER(weft_engine_info)],
        """All 0 if engine is NULL."""),
    "weft_engine_plan": (c_int, [POINTER(weft_model), POINTER(weft_engine_options), POINTER(weft_memory_plan), POINTER(weft_error)],
        """"""),
    "weft_model_get_cost": (c_int, [POINTER(weft_model), c_int64, POINTER(weft_model_cost), POINTER(weft_error)],
        """FLOPs of the last token of a context of n_ctx tokens; 0: the engine's default."""),
    "weft_engine_estimate": (c_int, [POINTER(weft_model), POINTER(weft_engine_options), POINTER(weft_speed), POINTER(weft_error)],
        """Predicts the speed of an engine with these options. Measures this machine for part of a second
with synthetic weights of the model's types; the model's own weights are not read."""),
    "weft_engine_trace": (c_int, [POINTER(weft_engine), weft_trace_fn, c_void_p, c_bool, POINTER(weft_error)],
        """"""),
    "weft_engine_trace_with": (c_int, [POINTER(weft_engine), weft_trace_fn, c_void_p, POINTER(weft_trace_options), POINTER(weft_error)],
        """As weft_engine_trace, with options; NULL means none. fn may be NULL if there is a hook. Without
both, the engine is as it was made."""),
    "weft_encoder_new": (POINTER(weft_encoder), [POINTER(weft_model), POINTER(weft_encoder_options), POINTER(weft_error)],
        """"""),
    "weft_encoder_free": (None, [POINTER(weft_encoder)],
        """"""),
    "weft_encoder_plan": (c_int, [POINTER(weft_model), POINTER(weft_encoder_options), POINTER(weft_memory_plan), POINTER(weft_error)],
        """Memory that an encoder with these options will need; kv_bytes, session_bytes and position_bytes
are 0."""),
    "weft_encoder_adapt": (c_int, [POINTER(weft_encoder), POINTER(weft_adapter), c_double, POINTER(weft_error)],
        """From now on the encoder computes with the adapter, as in weft_session_adapt; NULL: without one."""),
    "weft_encoder_width": (c_int64, [POINTER(weft_encoder)],
        """Width and number of output rows of an input; 0 rows if eval would refuse it."""),
    "weft_encoder_rows": (c_int64, [POINTER(weft_encoder), POINTER(weft_input)],
        """"""),
    "weft_encoder_eval": (c_int, [POINTER(weft_encoder), POINTER(weft_input), c_int64, POINTER(weft_error)],
        """Fills `out` of all inputs. If one is too long, returns WEFT_ECONTEXT before computing anything."""),
    "weft_encoder_trace": (c_int, [POINTER(weft_encoder), weft_trace_fn, c_void_p, c_bool, POINTER(weft_error)],
        """As weft_engine_trace and weft_engine_trace_with; the rows of the output are those that the input
asks for, whatever all_logits says."""),
    "weft_encoder_trace_with": (c_int, [POINTER(weft_encoder), weft_trace_fn, c_void_p, POINTER(weft_trace_options), POINTER(weft_error)],
        """"""),
    "weft_image_open": (POINTER(weft_image), [POINTER(weft_model), c_char_p, POINTER(weft_error)],
        """Reads a PNG or JPEG from a file or from memory and preprocesses it (resize, crop, rescale,
normalise) as the model's preprocessor_config.json says, or its config.json if that has
image_mean, like transformers. Returns NULL on failure. weft_build_parts lists png and jpeg if
this build has them."""),
    "weft_image_decode": (POINTER(weft_image), [POINTER(weft_model), c_void_p, c_size_t, POINTER(weft_error)],
        """"""),
    "weft_image_free": (None, [POINTER(weft_image)],
        """"""),
    "weft_image_score": (c_int, [POINTER(weft_model), POINTER(c_char_p), c_int, c_int, POINTER(weft_score), POINTER(weft_error)],
        """data: [n_data] paths of labelled images, as for weft_train."""),
    "weft_kernel_pool": (c_int, [c_int, c_double, POINTER(c_float), c_int64, POINTER(c_float), POINTER(c_float), c_int64, POINTER(c_float), POINTER(weft_error)],
        """Nadaraya and Watson, 1964: for each query the mean of the values, weighted by how close their
keys are (width: the bandwidth): out[i] = sum_j K(t_ij) values[j] / sum_j K(t_ij). A query
without a key in reach gets 0. queries, out: [n_query]; keys, values: [n_key]."""),
    "weft_session_new": (POINTER(weft_session), [POINTER(weft_engine), POINTER(weft_error)],
        """"""),
    "weft_session_free": (None, [POINTER(weft_session)],
        """"""),
    "weft_session_fork": (POINTER(weft_session), [POINTER(weft_session), POINTER(weft_error)],
        """A second session with the same tokens and logits. The two are independent from then on."""),
    "weft_session_adapt": (c_int, [POINTER(weft_session), POINTER(weft_adapter), c_double, POINTER(weft_error)],
        """From now on the session computes with the adapter; NULL: without one. Drops the session's tokens
and its source, which were computed otherwise. strength multiplies what the adapter adds: 0 is
the model itself, bit by bit; an adapter with gains or whole weights takes 0 and 1 only. Sessions
with different adapters may be evaluated in one call; none changes another's logits by a bit.
Forks have the adapter too."""),
    "weft_session_source": (c_int, [POINTER(weft_session), POINTER(c_int32), c_int64, POINTER(weft_error)],
        """For encoder-decoders: encodes a source and drops the session's tokens. The decoder's tokens
begin with start_id. Keys and values of the source are computed once, and forks share them.
After an error, even for a bad argument, the session has neither source nor tokens, so it never
continues an old source. Other models return WEFT_EINVAL and keep their tokens."""),
    "weft_session_eval": (c_int, [POINTER(weft_session), POINTER(c_int32), c_int64, POINTER(weft_error)],
        """Appends n tokens and computes the logits after the last. On error the session keeps the tokens
it had before. If the context or the cache is too small, returns WEFT_ECONTEXT before computing
anything."""),
    "weft_session_sync": (c_int, [POINTER(weft_session), POINTER(c_int32), c_int64, POINTER(c_int64), POINTER(weft_error)],
        """Sets the session's tokens to ids and computes only the new ones. Reuses the longest cached
prefix: its own, or whole pages of 64 tokens of another session of the engine, which both then
share. Always computes the last token, unless the session already ends there with logits.
*reused (may be NULL): tokens not computed. On error the session has the reused prefix; after a
bad argument it is unchanged."""),
    "weft_session_match": (c_int64, [POINTER(weft_session), POINTER(c_int32), c_int64],
        """The first half of weft_session_sync: keeps or shares the cached prefix and returns its length,
so that the rest can be evaluated in a batch with other sessions. Returns -1 for a bad argument."""),
    "weft_session_rewind": (c_int, [POINTER(weft_session), c_int64, POINTER(weft_error)],
        """Drops all tokens from position `length` on."""),
    "weft_session_length": (c_int64, [POINTER(weft_session)],
        """"""),
    "weft_session_tokens": (POINTER(c_int32), [POINTER(weft_session), POINTER(c_int64)],
        """The tokens, valid until the next call that changes them; n may be NULL."""),
    "weft_session_logits": (POINTER(c_float), [POINTER(weft_session)],
        """n_vocab logits, valid until the next eval or rewind; NULL before the first eval and after a
rewind."""),
    "weft_session_greedy": (c_int32, [POINTER(weft_session)],
        """The most probable next token (the lowest id on ties), or -1 without logits."""),
    "weft_session_cancel": (None, [POINTER(weft_session)],
        """May be called from any thread. Stops the session's eval before its next forward, so within one
forward at most, and restores the tokens it had before. If the eval is already in its last
forward, it completes, and the next eval is stopped instead."""),
    "weft_session_save": (c_int, [POINTER(weft_session), c_char_p, POINTER(weft_error)],
        """Writes tokens, logits and KV cache of the session to a file, atomically."""),
    "weft_session_restore": (POINTER(weft_session), [POINTER(weft_engine), c_char_p, POINTER(weft_error)],
        """Restores a saved session, which continues with the same bits. The model must have the same
weights in the same types and the engine the same kv_type (WEFT_EINVAL otherwise), and the
tokens must fit the context (WEFT_ECONTEXT). A damaged file is WEFT_EFORMAT. Logs a warning if
other kernels computed it: between the scalar kernels and the others, the last bits differ."""),
    "weft_session_restore_adapted": (POINTER(weft_session), [POINTER(weft_engine), c_char_p, POINTER(weft_adapter), c_double, POINTER(weft_error)],
        """The same for a session that was saved with an adapter, which must have the same numbers and the
same strength (WEFT_EINVAL otherwise). weft_session_restore refuses such a file."""),
    "weft_engine_eval": (c_int, [POINTER(weft_engine), POINTER(weft_eval_request), c_int, POINTER(weft_error)],
        """Runs forwards until every request is done or has failed. A failed request does not affect the
others: its session keeps the tokens it had before, the others finish with the bits they would
get without it, and the call returns the first failure. Bad arguments fail the call before
anything happens."""),
    "weft_engine_step": (c_int, [POINTER(weft_engine), POINTER(weft_eval_request), c_int, POINTER(weft_error)],
        """Runs one forward of at most n_batch rows for at most n_session requests, for servers whose
requests come and go between forwards. Requests with one token left go first, so that long
prompts do not delay generation; the others share the remaining rows. Skips requests that are
done or have a status: their sessions keep the tokens appended so far. Returns the first failure
of this forward; cancellation is not a failure. Start with done and status 0."""),
    "weft_session_top": (c_int64, [POINTER(weft_session), c_int64, POINTER(weft_logprob)],
        """The k most probable tokens, best first, the lower id first on ties. Returns how many were
written: at most the vocabulary, 0 without logits or if k is below 1."""),
    "weft_session_logprobs": (c_int, [POINTER(weft_session), POINTER(weft_logprob), c_int64, POINTER(weft_error)],
        """For the n tokens in out[i].id."""),
    "weft_sampler_new": (POINTER(weft_sampler), [POINTER(weft_model), POINTER(weft_sampler_options), POINTER(weft_error)],
        """model: for its vocabulary and memory limit, or NULL with n_vocab set. It is an error if an
option is out of range, or set although its step is not in the chain."""),
    "weft_sampler_free": (None, [POINTER(weft_sampler)],
        """"""),
    "weft_sampler_break": (c_int, [POINTER(weft_sampler), POINTER(weft_tokenizer), POINTER(c_char_p), c_int, POINTER(weft_error)],
        """Every token whose bytes contain one of these strings ends a repetition for dry. Common choices:
"\\n", ":", "\\"" and "*"."""),
    "weft_sampler_describe": (c_char_p, [POINTER(weft_sampler)],
        """The active steps in order, valid as long as the sampler: "temperature 0.8; top_k 40; top_p 0.95;
seed 7"."""),
    "weft_sampler_pick": (c_int, [POINTER(weft_sampler), POINTER(c_float), c_int64, POINTER(c_int32), c_int64, POINTER(c_int32), POINTER(weft_error)],
        """Draws the next token from logits [n_vocab] and a history of n tokens, at most 2^31 - 1. NaN or
+inf logits are an error, and so are logits that are all -inf. Allocates nothing."""),
    "weft_sampler_next": (c_int, [POINTER(weft_sampler), POINTER(weft_session), POINTER(c_int32), POINTER(weft_error)],
        """Draws from a session's logits with all its tokens as history. Does not evaluate the token."""),
    "weft_sampler_kept": (c_int64, [POINTER(weft_sampler), c_int64, POINTER(weft_token_prob)],
        """"""),
    "weft_sampler_stages": (c_int, [POINTER(weft_sampler), POINTER(c_float), c_int64, POINTER(c_int32), c_int64, c_int64, weft_sampler_stage_fn, c_void_p, POINTER(weft_error)],
        """Calls fn after each stage of the draw that weft_sampler_pick would make now, with the best k
tokens. It is that draw, so the last stage is what weft_sampler_kept then reports, bit by bit, and
its token is the one that weft_sampler_pick returns. What the sampler draws next does not change."""),
    "weft_sampler_reset": (None, [POINTER(weft_sampler)],
        """Call before a new text: resets mirostat."""),
    "weft_grammar_new": (POINTER(weft_grammar), [POINTER(weft_tokenizer), c_int, c_char_p, c_size_t, POINTER(weft_grammar_options), POINTER(weft_error)],
        """Compiles n bytes. WEFT_EFORMAT: it is malformed; WEFT_EUNSUPPORTED: weft does not support it;
WEFT_ELIMIT: it is too large; WEFT_EINVAL: it matches no text."""),
    "weft_grammar_free": (None, [POINTER(weft_grammar)],
        """"""),
    "weft_constraint_new": (POINTER(weft_constraint), [POINTER(weft_grammar), POINTER(weft_error)],
        """"""),
    "weft_constraint_clone": (POINTER(weft_constraint), [POINTER(weft_constraint), POINTER(weft_error)],
        """"""),
    "weft_constraint_free": (None, [POINTER(weft_constraint)],
        """"""),
    "weft_constraint_allows": (c_bool, [POINTER(weft_constraint), c_int32],
        """May this token come next? An end-of-text token may where the text may end."""),
    "weft_constraint_mask": (c_int, [POINTER(weft_constraint), POINTER(c_uint64), c_int64, POINTER(weft_error)],
        """The same for all tokens below n_vocab: bit id % 64 of bits[id / 64], (n_vocab + 63) / 64 words."""),
    "weft_constraint_accept": (c_int, [POINTER(weft_constraint), c_int32, POINTER(weft_error)],
        """Appends a token. One that is not allowed is WEFT_EINVAL, and nothing changes."""),
    "weft_constraint_mark": (c_int64, [POINTER(weft_constraint)],
        """The number of tokens so far, to which weft_constraint_rewind can go back."""),
    "weft_constraint_rewind": (c_int, [POINTER(weft_constraint), c_int64, POINTER(weft_error)],
        """"""),
    "weft_constraint_reset": (None, [POINTER(weft_constraint)],
        """"""),
    "weft_constraint_forced": (c_size_t, [POINTER(weft_constraint), POINTER(c_char), c_size_t],
        """The bytes that every continuation begins with. Writes at most `size` and returns how many."""),
    "weft_constraint_may_end": (c_bool, [POINTER(weft_constraint)],
        """may_end: the text is complete as it is. done: it is, and nothing can follow."""),
    "weft_constraint_done": (c_bool, [POINTER(weft_constraint)],
        """"""),
    "weft_sampler_constrain": (c_int, [POINTER(weft_sampler), POINTER(weft_constraint), POINTER(weft_error)],
        """The sampler draws only tokens that the constraint allows; NULL: all. It looks at the best ones
first, and at the whole vocabulary only if a step of the chain needs that. The caller passes the
drawn token to weft_constraint_accept, and keeps the constraint alive. weft_generate does both for
the constraint in its options."""),
    "weft_tool_grammar_new": (POINTER(weft_grammar), [POINTER(weft_tokenizer), POINTER(weft_template), c_char_p, c_size_t, POINTER(weft_tool_options), POINTER(weft_grammar_options), POINTER(weft_error)],
        """The grammar of answers that call tools: their names, and arguments that match their parameters.
Of a function with "strict": true every keyword must be supported; of others what is not supported
is ignored. options may be NULL; grammar_options as for weft_grammar_new. WEFT_EUNSUPPORTED: weft
does not know the syntax of this template."""),
    "weft_call_reader_new": (POINTER(weft_call_reader), [POINTER(weft_template), c_char_p, c_size_t, weft_call_fn, c_void_p, POINTER(weft_error)],
        """tools: as above; NULL: a value that could be a number is one, where the template writes values
without quotes. Both may be freed afterwards, the template not before the reader."""),
    "weft_call_reader_free": (None, [POINTER(weft_call_reader)],
        """"""),
    "weft_call_reader_push": (c_int, [POINTER(weft_call_reader), c_char_p, c_size_t, POINTER(weft_error)],
        """Text that was generated, in pieces of any length. Special tokens must be in it as they are
spelled. What begins like a call, but is none, is text."""),
    "weft_call_reader_finish": (c_int, [POINTER(weft_call_reader), POINTER(weft_error)],
        """The end of the text: what was held back. A call that is not complete ends here, too."""),
    "weft_stop_new": (POINTER(weft_stop), [POINTER(c_char_p), c_int, POINTER(weft_error)],
        """"""),
    "weft_stop_free": (None, [POINTER(weft_stop)],
        """"""),
    "weft_stop_push": (c_int, [POINTER(weft_stop), c_char_p, c_size_t, POINTER(POINTER(c_char)), POINTER(c_size_t), POINTER(weft_error)],
        """*out, *out_length: text that can be printed now, valid until the next call. Text that may be the
start of a stop string is held back. The stop string and the text after it are never returned."""),
    "weft_stop_hit": (c_int, [POINTER(weft_stop)],
        """The index of the string that ended the text, or -1."""),
    "weft_stop_flush": (None, [POINTER(weft_stop), POINTER(POINTER(c_char)), POINTER(c_size_t)],
        """Call at the end: returns the text held back and resets for a new text. Either pointer may be
NULL."""),
    "weft_generate": (c_int, [POINTER(weft_session), POINTER(weft_sampler), POINTER(weft_tokenizer), POINTER(weft_generate_options), weft_generate_fn, c_void_p, POINTER(weft_generation), POINTER(weft_error)],
        """Evaluates the prompt, then draws tokens and calls fn for each until something ends the text.
sampler NULL: greedy. tokenizer NULL: text from the vocabulary in the model's file, if it has
one. fn and info may be NULL. A cancelled session is WEFT_ESTOPPED; on every error, info has what
was done until then, and the session keeps it."""),
    "weft_scheduler_new": (POINTER(weft_scheduler), [POINTER(weft_engine), POINTER(weft_scheduler_options), POINTER(weft_error)],
        """Allocates a session for each request that can run. The scheduler keeps the engine alive."""),
    "weft_scheduler_free": (None, [POINTER(weft_scheduler)],
        """Requests that are not done get their last call with WEFT_ESTOPPED first."""),
    "weft_scheduler_submit": (c_uint64, [POINTER(weft_scheduler), POINTER(weft_request), POINTER(weft_error)],
        """Copies the request and appends it to the queue. Returns its number, which is never used again, or
0 on failure: WEFT_EBUSY if the queue is full, WEFT_ECONTEXT if the prompt can never fit."""),
    "weft_scheduler_cancel": (c_bool, [POINTER(weft_scheduler), c_uint64],
        """The request takes no part in the next forward and gets its last call from the next step. False
if there is no such request (any more)."""),
    "weft_scheduler_step": (c_int, [POINTER(weft_scheduler), POINTER(c_bool), POINTER(weft_error)],
        """One forward, then the callbacks of its requests. *more (may be NULL): requests remain, so call it
again; otherwise wait until one is submitted. A request that fails does so alone, through its
callback. After an error (the system refused threads) no request is lost: call it again."""),
    "weft_scheduler_get_info": (None, [POINTER(weft_scheduler), POINTER(weft_scheduler_info)],
        """"""),
    "weft_load_token": (c_int32, [c_uint64, c_int64, c_int32],
        """A number that is below n_vocab, 1 or more."""),
    "weft_simulate": (c_int, [POINTER(weft_simulation_options), POINTER(weft_load_request), c_int64, POINTER(weft_load_result), POINTER(weft_simulation_info), POINTER(weft_error)],
        """Runs the scheduler itself on n requests, with a clock of its own and forwards that compute nothing:
each takes the time that a recorded one of its shape took. One thread; the same options give the
same results. result: [n]; info may be NULL. docs/SCALE.md says how close it comes."""),
    "weft_beam_search": (POINTER(weft_beams), [POINTER(weft_engine), POINTER(c_int32), c_int64, POINTER(weft_beam_options), POINTER(weft_error)],
        """With length_penalty 1, transformers' default, gives the texts and scores of its
generate(num_beams=n_beam, do_sample=False). Beams share the cache pages of their common prefix
and run in one forward per step; the engine needs cache for n_beam sessions that diverge after the
prompt. Returns NULL on failure."""),
    "weft_beams_free": (None, [POINTER(weft_beams)],
        """"""),
    "weft_evaluate": (c_int, [POINTER(weft_model), POINTER(weft_model), POINTER(weft_document), c_int64, POINTER(weft_evaluate_options), POINTER(weft_evaluation), POINTER(weft_error)],
        """Scores a model on documents and, unless `against` is NULL, compares it with another model of the
same vocabulary, such as the original of a quantised one; or with itself, with another
against_kv_type. A document longer than a window is read in overlapping windows; each token is
scored in the first window that contains it. The result depends on models, documents, n_ctx,
stride and kv_type, not on threads or n_batch. If the caller stops, returns WEFT_OK with the
result so far."""),
    "weft_train_defaults": (None, [POINTER(weft_train_options), c_size_t],
        """Fills in the defaults, which suit a small model. struct_size: sizeof(weft_train_options)."""),
    "weft_train": (c_int, [POINTER(weft_train_options), POINTER(weft_train_info), POINTER(weft_error)],
        """Trains up to step n_step, or until the caller or early stopping ends it; then writes a
checkpoint. The same options give the same bits on every processor with fused multiply-add,
whatever the number of threads and however often the run was stopped and resumed. info may be
NULL.

In a job of several ranks, a failure of one is logged and ends all processes: with exit code 75
if trying again may help (a lost rank, a full disk), otherwise with 1."""),
    "weft_train_plan": (c_int, [POINTER(weft_train_options), POINTER(weft_train_network), POINTER(c_int), c_int, weft_train_cost_fn, c_void_p, POINTER(weft_error)],
        """Says for each of n numbers of ranks what weft_train would take with these options, from a network's
speed and this machine's, which it measures by training on made-up tokens for some seconds. For a
new model on text, or for training all weights of `model`, which must fit into this machine; a new
one is measured on two with fewer layers. It needs no data; the vocabulary is the tokenizer's if
there is one, otherwise n_vocab. If options.waiting ends it, fn is not called."""),
    "weft_text_score": (c_int, [POINTER(weft_model), POINTER(weft_tokenizer), POINTER(weft_train_options), POINTER(weft_score), POINTER(weft_error)],
        """Accuracy of a text classifier on labelled data; only the options about data are used. Texts that
are too long are truncated, as in training."""),
    "weft_data_open": (POINTER(weft_data), [POINTER(weft_train_options), POINTER(weft_error)],
        """Reads the data as weft_train would with these options; only those about data, tokenizer and
model size matter. Writes nothing."""),
    "weft_data_close": (None, [POINTER(weft_data)],
        """"""),
    "weft_data_get_info": (None, [POINTER(weft_data), POINTER(weft_data_info)],
        """"""),
    "weft_data_show": (c_int, [POINTER(weft_data), c_uint64, c_int64, weft_data_fn, c_void_p, POINTER(weft_error)],
        """The tokens of training sequence `sample`, 0 to 2^40 - 1, in the order given by the seed."""),
    "weft_data_save": (c_int, [POINTER(weft_data), c_char_p, POINTER(weft_error)],
        """Writes all data as one file of token ids, which weft_train reads without tokenizing."""),
    "weft_explain": (c_int, [POINTER(weft_model), POINTER(c_int32), c_int64, POINTER(weft_explain_options), weft_page_fn, c_void_p, POINTER(weft_error)],
        """Evaluates the ids in one forward and makes a page of it: one self-contained HTML file with every
step of the model, drawn from its numbers; or the same numbers as JSON. They are those of
weft_engine_trace_with and weft_encoder_trace_with, bit by bit. Of an encoder-decoder, all rows of
the decoder are shown, and its layers; layer, head and token are the decoder's. The tokens of an
image are its rows: learned ones, then patches."""),
    "weft_explain_kernels": (c_int, [c_char_p, POINTER(weft_explain_kernels_options), weft_page_fn, c_void_p, POINTER(weft_error)],
        """Makes a page, or JSON, of kernel regression (weft_kernel_pool): where attention came from. path: a
CSV file of two columns of numbers, x and y, with or without a line of names. Each kernel's width
is learned from the points, each predicted from the others; the page has the curves, the weights of
every point for every other, and how the width was found."""),
    "weft_alignment": (c_int, [POINTER(weft_model), POINTER(c_int32), c_int64, POINTER(weft_alignment_options), weft_page_fn, c_void_p, POINTER(weft_error)],
        """Draws where an encoder-decoder looked in its source while it made a text, as an SVG: a row for
each token of the text, a column for each of the source, and in each cell the attention, the mean
over heads. ids: what the decoder began with, then what it made. They are evaluated once more, in
one forward."""),
    "weft_report": (c_int, [c_char_p, c_char_p, POINTER(weft_report_options), POINTER(weft_report_info), POINTER(weft_error)],
        """Makes an HTML report from RUN/metrics.jsonl: loss, validation, learning rate, gradient norm,
speed, samples. One self-contained file without scripts. to: its path; NULL: RUN/report.html.
info may be NULL."""),
}
