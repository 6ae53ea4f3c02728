/* goldentrace from any engine: write a trace, read one. Plain C99; link libgoldentrace.
 *
 * Writing: tensors under names, each with dtype and shape, and optionally its inputs, a note on its
 * layout, its placement among ranks and whose rows it has; steps; parameters; requests with
 * prompt, tokens, text and sampling record; and what each step chose, with logits and logprobs.
 * Reading: all of that, of traces of PyTorch too; a golden's forced tokens are a request's
 * output_ids.
 *
 * Answers. Every function that can fail returns a goldentrace_status; goldentrace_message() says
 * why, on the same thread. Nothing is thrown, printed or aborted. After a refused argument the
 * writer is as it was.
 *
 * Threads. One writer may be used from several threads at once; the calls of one thread keep their
 * order. A reader is used from one thread at a time; several readers work side by side. Closing and
 * destroying are for one thread, when the others are done.
 *
 * Structs. Those that you fill begin with `size`, which their *_init function sets together with
 * the defaults. Later versions only append fields, and their default is zero: programs built with
 * an older header keep working. A field that this library does not know must be zero. Structs
 * without `size` never change when you fill them, and are only read through pointers otherwise.
 *
 * Pointers that you give are read before the call returns, and may then be freed; only device
 * memory and what a goldentrace_device needs live on, as said there. NULL means "none" or
 * "unknown" for every text and array that may be absent. Texts are UTF-8; pieces of tokens may be
 * any bytes. */
#ifndef GOLDENTRACE_GOLDENTRACE_H_
#define GOLDENTRACE_GOLDENTRACE_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define GOLDENTRACE_API __attribute__((visibility("default")))
#else
#define GOLDENTRACE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- answers --------------------------------------------------------------------------------- */

typedef enum goldentrace_status {
  GOLDENTRACE_OK = 0,
  GOLDENTRACE_INVALID_ARGUMENT = 1, /* the call makes no sense; nothing was done */
  GOLDENTRACE_NOT_FOUND = 2,        /* no such file, tensor, value */
  GOLDENTRACE_IO = 3,               /* the operating system said no */
  GOLDENTRACE_CORRUPT = 4,          /* bytes that break the format's rules */
  GOLDENTRACE_UNSUPPORTED = 5,      /* of a later version than this library */
  GOLDENTRACE_INTERNAL = 6 /* out of memory, a device that failed, a fault of goldentrace */
} goldentrace_status;

/* Why the last call on this thread failed, one line; "" when it did not. Valid until the next call
 * on this thread. */
GOLDENTRACE_API const char* goldentrace_message(void);
/* "0.5.0", of the library. */
GOLDENTRACE_API const char* goldentrace_version(void);

/* ---- common types ---------------------------------------------------------------------------- */

/* Element types; the numbers are PyTorch's ScalarType. Blocks of quantized numbers have none: give
 * their values as floats. */
typedef enum goldentrace_dtype {
  GOLDENTRACE_UINT8 = 0,
  GOLDENTRACE_INT8 = 1,
  GOLDENTRACE_INT16 = 2,
  GOLDENTRACE_INT32 = 3,
  GOLDENTRACE_INT64 = 4,
  GOLDENTRACE_FLOAT16 = 5,
  GOLDENTRACE_FLOAT32 = 6,
  GOLDENTRACE_FLOAT64 = 7,
  GOLDENTRACE_COMPLEX32 = 8,
  GOLDENTRACE_COMPLEX64 = 9,
  GOLDENTRACE_COMPLEX128 = 10,
  GOLDENTRACE_BOOL = 11,
  GOLDENTRACE_BFLOAT16 = 15,
  GOLDENTRACE_FLOAT8_E5M2 = 23,
  GOLDENTRACE_FLOAT8_E4M3FN = 24,
  GOLDENTRACE_FLOAT8_E5M2FNUZ = 25,
  GOLDENTRACE_FLOAT8_E4M3FNUZ = 26,
  GOLDENTRACE_UINT16 = 27,
  GOLDENTRACE_UINT32 = 28,
  GOLDENTRACE_UINT64 = 29
} goldentrace_dtype;

/* Bytes of one element; 0 when `dtype` is none of the above. */
GOLDENTRACE_API size_t goldentrace_dtype_size(uint32_t dtype);
/* "bfloat16"; "unknown" when it is none. */
GOLDENTRACE_API const char* goldentrace_dtype_name(uint32_t dtype);

/* Bytes that may hold anything, zero too. */
typedef struct goldentrace_bytes {
  const char* data;
  size_t size;
} goldentrace_bytes;

typedef struct goldentrace_pair {
  const char* key;
  const char* value;
} goldentrace_pair;

/* A sampling setting and who chose it: "request", "model" (a file of the model) or "default". */
typedef struct goldentrace_setting {
  const char* name;
  const char* value;
  const char* origin;
} goldentrace_setting;

/* Rows first_row to first_row + count of a tensor are `request`, at `position` and on. */
typedef struct goldentrace_row {
  uint32_t request;
  uint32_t first_row;
  uint32_t count;
  uint32_t reserved; /* 0 */
  int64_t position;
} goldentrace_row;

enum { GOLDENTRACE_REPLICATED = 0, GOLDENTRACE_SHARD = 1, GOLDENTRACE_PARTIAL_SUM = 2 };

/* Which part of a logical tensor this rank holds: all of it, shard `index` of `count` along `dim`,
 * or summand `index` of `count`. index is below count. */
typedef struct goldentrace_placement {
  uint32_t kind;
  uint32_t dim;
  uint32_t index;
  uint32_t count;
} goldentrace_placement;

/* The digest of a tensor's dense bytes, see FORMAT.md. In text the high half comes first. */
typedef struct goldentrace_hash128 {
  uint64_t low;
  uint64_t high;
} goldentrace_hash128;

/* Of real floats (float16, bfloat16, float32, float64), see FORMAT.md. */
typedef struct goldentrace_stats {
  uint64_t count;
  uint64_t nan;
  uint64_t positive_infinity;
  uint64_t negative_infinity;
  uint64_t sentinel; /* finite, of size 1e30 and more */
  uint64_t zero;
  double min;
  double max;
  double sum;
  double sum_squares;
} goldentrace_stats;

/* The digest of `size` bytes, as every tensor's is. */
GOLDENTRACE_API goldentrace_status goldentrace_hash_bytes(const void* data, uint64_t size,
                                                          goldentrace_hash128* hash);

/* ---- device memory --------------------------------------------------------------------------- */

/* How tensors leave a device whose memory the host can't read. The thread that gives a tensor
 * never waits for the device (only, like all, for room when max_queued_bytes are on their way): it
 * enqueues a copy and goes on, and later work on the same stream may overwrite the tensor.
 * Functions and context must stay good until the writer is destroyed; the functions may be called
 * from several threads at once, and must not throw. */
typedef struct goldentrace_device {
  size_t size;
  void* context;
  /* On the thread that gives the tensor: enqueues a copy of `bytes` bytes from `source` (on the
   * device) to `destination` (on the host) behind what `stream` has been given so far, and returns
   * at once. `*ticket`, NULL before, is what done() is asked with. 0, or another number when
   * nothing was enqueued. */
  int (*copy)(void* context, void* destination, const void* source, uint64_t bytes, void* stream,
              void** ticket);
  /* On the writer's thread: 1 when that copy is complete, 0 when it is not yet, a negative number
   * when it failed. Not asked again after an answer other than 0. */
  int (*done)(void* context, void* ticket);
  /* Host memory that the device copies into well (page-locked); both or neither. allocate() may
   * return NULL. release() is called on any thread. */
  void* (*allocate)(void* context, uint64_t bytes);
  void (*release)(void* context, void* memory);
} goldentrace_device;

static inline void goldentrace_device_init(goldentrace_device* device) {
  memset(device, 0, sizeof *device);
  device->size = sizeof *device;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct goldentrace_writer goldentrace_writer;

enum {
  GOLDENTRACE_COMPRESS_FAST = 0,
  GOLDENTRACE_COMPRESS_SMALL = 1,
  GOLDENTRACE_COMPRESS_NONE = 2
};

typedef struct goldentrace_writer_options {
  size_t size;
  const char* engine; /* "llama.cpp"; must be given */
  const char* engine_version;
  const char* device;                  /* "cuda"; NULL: "cpu" */
  const char* dtype;                   /* of the weights as run: "bfloat16" */
  const char* model_config;            /* the model's whole configuration, JSON */
  const goldentrace_pair* environment; /* switches and versions; FORMAT.md lists keys */
  size_t environment_count;
  const char* const* command; /* the command line, one entry a word */
  size_t command_count;
  const char* mesh;
  uint32_t rank;
  uint32_t world;            /* of how many processes this one is `rank`; 0: 1 */
  uint32_t compression;      /* of values */
  uint32_t reserved;         /* 0 */
  uint64_t max_queued_bytes; /* given and not written yet; calls wait beyond it. 0: 256 MiB */
} goldentrace_writer_options;

static inline void goldentrace_writer_options_init(goldentrace_writer_options* options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

/* Creates or replaces the file. A thread of the writer's own digests, compresses and writes. Its
 * first failure (a full disk, a device that failed) latches: every later call returns it, and the
 * file ends there. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_open(
    const char* path, const goldentrace_writer_options* options, goldentrace_writer** writer);

/* The step that what follows belongs to: one forward pass, 0 is the prefill. 0 at first. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_step(goldentrace_writer* writer,
                                                           uint32_t step);

/* In a struct's `step`: the step of goldentrace_writer_step. */
#define GOLDENTRACE_CURRENT_STEP INT64_C(-1)

enum {
  GOLDENTRACE_TENSOR_NO_VALUE = 1, /* keep hash, stats and sketch, not the bytes */
  GOLDENTRACE_TENSOR_NO_STATS = 2, /* and no sketch */
  GOLDENTRACE_TENSOR_DECISION = 4  /* integers or booleans computed from floats */
};

typedef struct goldentrace_tensor {
  size_t size;
  const char* name; /* "blk.0.attn_q"; must be given */
  const char* op;   /* the engine's kind of operation, "GGML_OP_MUL_MAT"; NULL: "tensor" */
  /* The first element; with strides, the one at index 0, 0, ... May be NULL when there are no
   * elements. Complex numbers are (real, imaginary). */
  const void* data;
  uint32_t dtype;         /* goldentrace_dtype */
  uint32_t rank;          /* at most 64 */
  const int64_t* sizes;   /* `rank` of them, outermost first */
  const int64_t* strides; /* in elements, may be negative; NULL: row-major without gaps */
  int64_t step;
  uint32_t flags; /* GOLDENTRACE_TENSOR_* */
  uint32_t inputs_count;
  const uint64_t* inputs; /* ids of the tensors and parameters that it was made from */
  const char* layout;     /* "heads interleaved: query, gate" */
  goldentrace_placement placement;
  const goldentrace_row* rows; /* where they are not those of the step */
  size_t rows_count;
  const goldentrace_device* device; /* NULL: `data` is host memory */
  void* stream;
} goldentrace_tensor;

static inline void goldentrace_tensor_init(goldentrace_tensor* tensor) {
  memset(tensor, 0, sizeof *tensor);
  tensor->size = sizeof *tensor;
  tensor->step = GOLDENTRACE_CURRENT_STEP;
  tensor->placement.count = 1;
}

/* Copies the tensor, or enqueues its copy on a device, and returns. `*id` (may be NULL) receives a
 * number for `inputs` of later tensors; it is never 0. Of a device tensor with gaps between its
 * elements all memory from the first to the last of them is copied. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_tensor(goldentrace_writer* writer,
                                                             const goldentrace_tensor* tensor,
                                                             uint64_t* id);

enum { GOLDENTRACE_PARAMETER = 0, GOLDENTRACE_BUFFER = 1 };

enum {
  GOLDENTRACE_RECIPE_VALUE = 0,   /* the bytes are kept */
  GOLDENTRACE_RECIPE_SAME = 1,    /* equal to the checkpoint's tensor sources[0] */
  GOLDENTRACE_RECIPE_CAST = 2,    /* sources[0] converted to the parameter's dtype */
  GOLDENTRACE_RECIPE_TIED = 3,    /* the same memory as the parameter named sources[0] */
  GOLDENTRACE_RECIPE_STACK = 4,   /* the sources along a new first dimension */
  GOLDENTRACE_RECIPE_CONCAT = 5,  /* the sources' elements one after the other */
  GOLDENTRACE_RECIPE_COMPUTED = 6 /* in traces of PyTorch: recorded calls have made it */
};

typedef struct goldentrace_parameter {
  size_t size;
  const char* name; /* must be given */
  uint32_t kind;
  uint32_t dtype;
  uint32_t rank;
  uint32_t recipe;
  const int64_t* sizes;
  const int64_t* strides;
  const void* data;                /* as a tensor's; or, of any recipe but VALUE, */
  const goldentrace_hash128* hash; /* the hash of its dense bytes */
  const char* const* sources;
  size_t sources_count;
  goldentrace_placement placement;
  const goldentrace_device* device;
  void* stream;
} goldentrace_parameter;

static inline void goldentrace_parameter_init(goldentrace_parameter* parameter) {
  memset(parameter, 0, sizeof *parameter);
  parameter->size = sizeof *parameter;
  parameter->placement.count = 1;
}

/* Names match the oracle's best when they are those of the checkpoint. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_parameter(
    goldentrace_writer* writer, const goldentrace_parameter* parameter, uint64_t* id);

typedef struct goldentrace_request {
  size_t size;
  uint32_t id;
  uint32_t reserved;        /* 0 */
  goldentrace_bytes prompt; /* text as the tokenizer got it, after the chat template */
  const int64_t* prompt_ids;
  size_t prompt_count;
  const goldentrace_bytes* prompt_pieces; /* one an id, or NULL */
  const goldentrace_setting* sampling;    /* as in effect, "forced" = "true" among them */
  size_t sampling_count;
  const int64_t* stop_ids;
  size_t stop_count;
  const int64_t* output_ids; /* what went on as input; of a forced run, the tokens to feed */
  size_t output_count;
  const goldentrace_bytes* output_pieces; /* one an id, or NULL */
  goldentrace_bytes output;
  const char* finish_reason; /* "stop", "length", or the engine's own */
} goldentrace_request;

static inline void goldentrace_request_init(goldentrace_request* request) {
  memset(request, 0, sizeof *request);
  request->size = sizeof *request;
}

/* Of several with one id the last one counts: give it when the run begins, and again at its end. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_request(goldentrace_writer* writer,
                                                              const goldentrace_request* request);

enum {
  GOLDENTRACE_LOGPROB_RAW = 0,      /* of the model's logits: temperature 1, nothing filtered */
  GOLDENTRACE_LOGPROB_PROCESSED = 1 /* of what the sampler drew from */
};

/* What one step gave one request. */
typedef struct goldentrace_result {
  size_t size;
  int64_t step;
  const goldentrace_row* rows; /* all of one request */
  size_t rows_count;
  int64_t chosen; /* the model's or the sampler's choice; -1: none */
  size_t top_count;
  const int64_t* top_ids; /* the likeliest tokens; put in order by the library */
  const float* top_logits;
  const float* top_logprobs;
  const goldentrace_bytes* top_pieces;
  double gap_ulp;    /* of the two highest logits, in units of their last place; NaN: unknown */
  double logprob;    /* of `chosen`, natural logarithm; NaN: unknown */
  double logits_rms; /* root mean square of the finite logits; 0: unknown */
  uint32_t logprob_kind;
  uint32_t reserved; /* 0 */
} goldentrace_result;

static inline void goldentrace_result_init(goldentrace_result* result) {
  memset(result, 0, sizeof *result);
  result->size = sizeof *result;
  result->step = GOLDENTRACE_CURRENT_STEP;
  result->chosen = -1;
  result->gap_ulp = NAN;
  result->logprob = NAN;
}

GOLDENTRACE_API goldentrace_status goldentrace_writer_result(goldentrace_writer* writer,
                                                             const goldentrace_result* result);

/* The same from a whole row of logits: the library finds the highest ones, their gap, the root mean
 * square and the logprob as `record hf` does, so that they compare. */
typedef struct goldentrace_logits {
  size_t size;
  int64_t step;
  const goldentrace_row* rows;
  size_t rows_count;
  const void* data; /* `count` numbers in a row: the vocabulary */
  uint64_t count;
  uint32_t dtype; /* a real float */
  uint32_t top;   /* how many of the highest to keep; 0: 32 */
  int64_t chosen; /* -1: the highest, the lowest id among equals */
  const goldentrace_device* device;
  void* stream;
} goldentrace_logits;

static inline void goldentrace_logits_init(goldentrace_logits* logits) {
  memset(logits, 0, sizeof *logits);
  logits->size = sizeof *logits;
  logits->step = GOLDENTRACE_CURRENT_STEP;
  logits->chosen = -1;
}

GOLDENTRACE_API goldentrace_status goldentrace_writer_logits(goldentrace_writer* writer,
                                                             const goldentrace_logits* logits);

/* The run ended early, and why; readers are told. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_cut_short(goldentrace_writer* writer,
                                                                const char* why);

/* Waits until everything given so far is in the file, where it survives the death of this process.
 * Not needed otherwise. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_flush(goldentrace_writer* writer);

/* Waits until everything is written, and completes the file. Only when this returns GOLDENTRACE_OK
 * is the trace whole. The writer takes no more calls but goldentrace_writer_destroy. */
GOLDENTRACE_API goldentrace_status goldentrace_writer_close(goldentrace_writer* writer);

/* Frees the writer; NULL is ignored. Without close the file stays a cut one, which can be read as
 * far as it goes. */
GOLDENTRACE_API void goldentrace_writer_destroy(goldentrace_writer* writer);

/* ---- reading --------------------------------------------------------------------------------- */

/* What a reader hands out stays valid until it is destroyed, but for a goldentrace_record. Lists
 * have no count: an index past the end gives GOLDENTRACE_OK and NULL. */
typedef struct goldentrace_reader goldentrace_reader;

GOLDENTRACE_API goldentrace_status goldentrace_reader_open(const char* path,
                                                           goldentrace_reader** reader);
GOLDENTRACE_API void goldentrace_reader_destroy(goldentrace_reader* reader);

typedef struct goldentrace_info {
  const char* engine;
  const char* engine_version;
  const char* device;
  const char* dtype;
  const char* model_config;
  const goldentrace_pair* environment;
  size_t environment_count;
  const char* const* command;
  size_t command_count;
  const char* mesh;
  uint32_t rank;
  uint32_t world;
  int64_t started_unix_ns;
  uint64_t calls;
  uint64_t duration_ns;
  uint64_t file_size;
  uint16_t format_major;
  uint16_t format_minor;
  uint32_t whole; /* 1; 0 when the file was cut or its run ended early: see the counters */
} goldentrace_info;

/* NULL only for a NULL reader. */
GOLDENTRACE_API const goldentrace_info* goldentrace_reader_info(const goldentrace_reader* reader);
/* 1 when the trace holds all of its run. */
GOLDENTRACE_API int goldentrace_reader_whole(const goldentrace_reader* reader);

enum { GOLDENTRACE_COUNTER_INFO = 0, GOLDENTRACE_COUNTER_LOSS = 1, GOLDENTRACE_COUNTER_ERROR = 2 };

/* What was lost, or is worth knowing; FORMAT.md lists the names. `trace_cut`: the file ends early.
 */
typedef struct goldentrace_counter {
  const char* name;
  uint32_t severity;
  uint32_t reserved;
  uint64_t value;
  const char* first; /* where it happened first */
} goldentrace_counter;

GOLDENTRACE_API goldentrace_status goldentrace_reader_counter(const goldentrace_reader* reader,
                                                              size_t index,
                                                              const goldentrace_counter** counter);

GOLDENTRACE_API goldentrace_status goldentrace_reader_request(goldentrace_reader* reader,
                                                              size_t index,
                                                              const goldentrace_request** request);
/* 1 when the run was fed the request's output_ids, whatever the model chose. */
GOLDENTRACE_API int goldentrace_request_forced(const goldentrace_request* request);

GOLDENTRACE_API goldentrace_status goldentrace_reader_result(goldentrace_reader* reader,
                                                             size_t index,
                                                             const goldentrace_result** result);

/* In a value_size: no bytes are kept. */
#define GOLDENTRACE_NO_VALUE UINT64_MAX

typedef struct goldentrace_parameter_record {
  const char* name;
  uint32_t kind;
  uint32_t dtype;
  uint32_t rank;
  uint32_t recipe;
  const int64_t* sizes;
  goldentrace_hash128 hash;
  uint64_t value_size; /* bytes kept under `hash`, or GOLDENTRACE_NO_VALUE */
  const char* const* sources;
  size_t sources_count;
  goldentrace_placement placement;
  uint64_t id; /* as in `inputs` of records */
} goldentrace_parameter_record;

GOLDENTRACE_API goldentrace_status goldentrace_reader_parameter(
    goldentrace_reader* reader, size_t index, const goldentrace_parameter_record** parameter);

/* Sums of a sketch. The squared length of the difference of two sketches estimates that of the
 * difference of the tensors, with a relative standard error of 18 %. */
#define GOLDENTRACE_SKETCH_SUMS 64

/* A tensor that came into being: one write of one call. */
typedef struct goldentrace_record {
  uint64_t call; /* number of the call */
  uint32_t step;
  uint32_t write;   /* which of the call's writes */
  const char* name; /* what a writer called it; of PyTorch's calls, the module: "model.layers.0" */
  const char* op;   /* "aten::mul.Tensor" */
  uint64_t id;
  uint32_t dtype;
  uint32_t rank;
  const int64_t* sizes;
  uint32_t foreign; /* 1: given by an engine, not a call of PyTorch */
  uint32_t decision;
  const uint64_t* inputs; /* ids of the tensors among the call's arguments */
  size_t inputs_count;
  const char* layout; /* "" when nothing is said */
  goldentrace_placement placement;
  const goldentrace_row* rows;
  size_t rows_count;
  const goldentrace_hash128* hash; /* NULL: memory that nothing filled */
  const goldentrace_stats* stats;  /* NULL: not kept */
  uint64_t value_size;             /* in bytes, or GOLDENTRACE_NO_VALUE */
  const float* sketch;             /* GOLDENTRACE_SKETCH_SUMS of them; NULL: not kept */
} goldentrace_record;

/* The next tensor, in the order of calls; NULL after the last one. It and what it points to stay
 * valid until the next call of next, find or rewind on this reader. Memory grows with one chunk and
 * the names, not with the file. */
GOLDENTRACE_API goldentrace_status goldentrace_reader_next(goldentrace_reader* reader,
                                                           const goldentrace_record** record);
/* Begins again before the first tensor. */
GOLDENTRACE_API goldentrace_status goldentrace_reader_rewind(goldentrace_reader* reader);

typedef struct goldentrace_query {
  size_t size;
  const char* name;    /* must be given */
  const char* op;      /* NULL: any */
  int64_t step;        /* -1: any */
  uint64_t occurrence; /* of those that fit, which: 0 is the first */
} goldentrace_query;

static inline void goldentrace_query_init(goldentrace_query* query) {
  memset(query, 0, sizeof *query);
  query->size = sizeof *query;
  query->step = -1;
}

/* One tensor by its name; GOLDENTRACE_NOT_FOUND when there is none. Does not move next. The first
 * find reads the whole program once. */
GOLDENTRACE_API goldentrace_status goldentrace_reader_find(goldentrace_reader* reader,
                                                           const goldentrace_query* query,
                                                           const goldentrace_record** record);

/* The dense row-major bytes kept under `hash`, into your memory: `size` must be the value_size. */
GOLDENTRACE_API goldentrace_status goldentrace_reader_value(goldentrace_reader* reader,
                                                            const goldentrace_hash128* hash,
                                                            void* memory, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
