/* A user of goldentrace.h in plain C99: it must compile without warnings, and work. */
#include <stdio.h>
#include <stdlib.h>

#include "src/capi/goldentrace.h"

int write_and_read_in_c99(const char* path);

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, goldentrace_message());
  return 1;
}

int write_and_read_in_c99(const char* path) {
  const float values[2] = {1.0f, 2.0f};
  const int64_t sizes[1] = {2};
  float back[2] = {0.0f, 0.0f};
  goldentrace_writer* writer;
  goldentrace_reader* reader;
  const goldentrace_record* record;
  goldentrace_writer_options options;
  goldentrace_tensor tensor;

  goldentrace_writer_options_init(&options);
  options.engine = "c99";
  if (goldentrace_writer_open(path, &options, &writer)) return fail("open");
  goldentrace_tensor_init(&tensor);
  tensor.name = "x";
  tensor.dtype = GOLDENTRACE_FLOAT32;
  tensor.rank = 1;
  tensor.sizes = sizes;
  tensor.data = values;
  if (goldentrace_writer_tensor(writer, &tensor, NULL)) return fail("tensor");
  if (goldentrace_writer_close(writer)) return fail("close");
  goldentrace_writer_destroy(writer);

  if (goldentrace_reader_open(path, &reader)) return fail("open");
  if (goldentrace_reader_next(reader, &record) || record == NULL) return fail("next");
  if (goldentrace_reader_value(reader, record->hash, back, record->value_size))
    return fail("value");
  goldentrace_reader_destroy(reader);
  return back[0] == 1.0f && back[1] == 2.0f ? 0 : 1;
}
