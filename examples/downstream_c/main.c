/* An engine that is not PyTorch, recorded by the C interface: `engine OUT.fb [GOLDEN.fb]`.
 *
 * The engine is a toy: a table of vectors, and a product with the same table. What matters is what
 * it tells: its weights, its prompt, a tensor after each operation, the logits of each step. With a
 * golden trace it is fed the golden's prompt and tokens, so that the two compare step by step. */
#include <goldentrace/goldentrace.h>
#include <stdio.h>
#include <stdlib.h>

enum { kVocabulary = 8, kWidth = 4, kSteps = 2, kMaxTokens = 64 };

static float table[kVocabulary][kWidth];

static void check(goldentrace_status status) {
  if (status == GOLDENTRACE_OK) return;
  fprintf(stderr, "engine: %s\n", goldentrace_message());
  exit(2);
}

/* The golden's prompt and the tokens that went on in it; how many of each. */
static void follow(const char* path, int64_t* prompt, size_t* prompt_count, int64_t* output,
                   size_t* output_count) {
  goldentrace_reader* golden = NULL;
  const goldentrace_request* request = NULL;
  check(goldentrace_reader_open(path, &golden));
  check(goldentrace_reader_request(golden, 0, &request));
  if (request == NULL || request->prompt_count == 0 || request->prompt_count > kMaxTokens ||
      request->output_count > kMaxTokens) {
    fprintf(stderr, "engine: %s has no request that fits\n", path);
    exit(2);
  }
  *prompt_count = request->prompt_count;
  *output_count = request->output_count;
  memcpy(prompt, request->prompt_ids, request->prompt_count * sizeof *prompt);
  memcpy(output, request->output_ids, request->output_count * sizeof *output);
  goldentrace_reader_destroy(golden);
}

static uint64_t give(goldentrace_writer* trace, const char* name, const char* op,
                     const float* numbers, int64_t rows, int64_t columns, uint64_t made_from) {
  const int64_t sizes[2] = {rows, columns};
  goldentrace_tensor tensor;
  uint64_t id = 0;
  goldentrace_tensor_init(&tensor);
  tensor.name = name;
  tensor.op = op;
  tensor.data = numbers;
  tensor.dtype = GOLDENTRACE_FLOAT32;
  tensor.rank = 2;
  tensor.sizes = sizes;
  tensor.inputs = &made_from;
  tensor.inputs_count = 1;
  check(goldentrace_writer_tensor(trace, &tensor, &id));
  return id;
}

static uint64_t give_weights(goldentrace_writer* trace) {
  const int64_t sizes[2] = {kVocabulary, kWidth};
  goldentrace_parameter weights;
  uint64_t id = 0;
  goldentrace_parameter_init(&weights);
  weights.name = "table";
  weights.data = table;
  weights.dtype = GOLDENTRACE_FLOAT32;
  weights.rank = 2;
  weights.sizes = sizes;
  check(goldentrace_writer_parameter(trace, &weights, &id));
  return id;
}

/* One forward pass over the last token of `count` new ones; returns the likeliest next token. */
static int64_t forward(goldentrace_writer* trace, uint64_t weights, int64_t token, int64_t position,
                       uint32_t count) {
  const goldentrace_row row = {0, 0, count, 0, position};
  float logits[kVocabulary] = {0};
  goldentrace_logits found;
  int64_t best = 0;
  uint64_t embedded = give(trace, "embedding", "GET_ROW", table[token], 1, kWidth, weights);
  for (int i = 0; i < kVocabulary; ++i) {
    for (int j = 0; j < kWidth; ++j) logits[i] += table[i][j] * table[token][j];
    if (logits[i] > logits[best]) best = i;
  }
  give(trace, "head", "MUL_MAT", logits, 1, kVocabulary, embedded);
  goldentrace_logits_init(&found);
  found.data = logits;
  found.count = kVocabulary;
  found.dtype = GOLDENTRACE_FLOAT32;
  found.rows = &row;
  found.rows_count = 1;
  check(goldentrace_writer_logits(trace, &found));
  return best;
}

int main(int argc, char** argv) {
  int64_t prompt[kMaxTokens] = {3, 1};
  int64_t output[kMaxTokens] = {0};
  size_t prompt_count = 2;
  size_t output_count = 0;
  const int forced = argc > 2;
  if (argc < 2) {
    fprintf(stderr, "usage: engine OUT.fb [GOLDEN.fb]\n");
    return 2;
  }
  if (forced) follow(argv[2], prompt, &prompt_count, output, &output_count);
  for (int i = 0; i < kVocabulary * kWidth; ++i) table[i / kWidth][i % kWidth] = (float)(i * 7 % 5);

  goldentrace_writer_options options;
  goldentrace_writer* trace = NULL;
  goldentrace_writer_options_init(&options);
  options.engine = "toy";
  options.engine_version = goldentrace_version();
  options.dtype = "float32";
  check(goldentrace_writer_open(argv[1], &options, &trace));
  const uint64_t weights = give_weights(trace);

  const size_t steps = forced ? output_count : kSteps;
  int64_t token = prompt[prompt_count - 1];
  for (size_t step = 0; step < steps; ++step) {
    const uint32_t count = step == 0 ? (uint32_t)prompt_count : 1;
    const int64_t position = step == 0 ? 0 : (int64_t)(prompt_count + step - 1);
    check(goldentrace_writer_step(trace, (uint32_t)step));
    const int64_t row = (token % kVocabulary + kVocabulary) % kVocabulary; /* whatever a file says */
    const int64_t chosen = forward(trace, weights, row, position, count);
    if (!forced) output[step] = chosen;
    token = output[step];
  }

  const goldentrace_setting sampling[2] = {{"do_sample", "false", "default"},
                                           {"forced", forced ? "true" : "false", "request"}};
  goldentrace_request request;
  goldentrace_request_init(&request);
  request.prompt_ids = prompt;
  request.prompt_count = prompt_count;
  request.output_ids = output;
  request.output_count = steps;
  request.sampling = sampling;
  request.sampling_count = forced ? 2 : 1;
  request.finish_reason = "length";
  check(goldentrace_writer_request(trace, &request));
  check(goldentrace_writer_close(trace));
  goldentrace_writer_destroy(trace);
  printf("%s: %d steps%s\n", argv[1], (int)steps, forced ? ", forced" : "");
  return 0;
}
