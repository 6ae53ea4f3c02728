/* The C interface under the Python layer. Every function returns 0 on success and another number on
 * failure, when goldentrace_last_error() says why, unless its comment says otherwise. Texts are
 * UTF-8; structured arguments are JSON with the field names of src/event/run.h. `tensor_impl` is a
 * c10::TensorImpl*, torch.Tensor._cdata in Python. One recording at a time and process. */
#pragma once

#include <stdint.h>

#if defined(__cplusplus)
#define GOLDENTRACE_EXTERN extern "C" __attribute__((visibility("default")))
#else
#define GOLDENTRACE_EXTERN __attribute__((visibility("default")))
#endif

/* The last failure's message on this thread; valid until the next call on it. */
GOLDENTRACE_EXTERN const char* goldentrace_last_error(void);

/* header_json: engine, engine_version, device, dtype, model_config (a string), environment (an
 * object of strings), command (a list), rank, world. options_json: rules (a list of --rule texts),
 * compress (as --compress takes it), fail_at_call, check_reads. Absent fields have their defaults;
 * unknown ones are refused. */
GOLDENTRACE_EXTERN int goldentrace_start(const char* path, const char* header_json,
                                         const char* options_json);
/* Closes the trace. A failure means that the file is not whole. */
GOLDENTRACE_EXTERN int goldentrace_stop(void);
/* Counters of the running or last recording as JSON; valid until the next call on this thread. */
GOLDENTRACE_EXTERN const char* goldentrace_summary(void);

/* Not recording calls of this thread; pairs nest. */
GOLDENTRACE_EXTERN void goldentrace_pause(void);
GOLDENTRACE_EXTERN void goldentrace_resume(void);
/* The same for all threads. */
GOLDENTRACE_EXTERN void goldentrace_pause_all(void);
GOLDENTRACE_EXTERN void goldentrace_resume_all(void);
GOLDENTRACE_EXTERN int goldentrace_set_step(uint32_t step);

/* kind: 0 parameter, 1 buffer. recipe and sources_json (a list of names): see Recipe. hash: of the
 * tensor as it is now, low and high half, where the caller knows it; NULL to have it computed. */
GOLDENTRACE_EXTERN int goldentrace_parameter(const char* name, int kind, void* tensor_impl,
                                             int recipe, const char* sources_json,
                                             const uint64_t* hash);
/* The run ended early, and why; counted in the trace. */
GOLDENTRACE_EXTERN int goldentrace_cut_short(const char* why);
/* {"requests": [...], "steps": [...]}. */
GOLDENTRACE_EXTERN int goldentrace_text(const char* text_json);
/* The `hash` digest of a tensor's dense bytes: low and high half. */
GOLDENTRACE_EXTERN int goldentrace_hash(void* tensor_impl, uint64_t hash[2]);

/* The id of a module path in this recording; 0, the root, when none runs. */
GOLDENTRACE_EXTERN uint32_t goldentrace_scope(const char* path);
/* The id of `name` below the scope that this thread is in: "model.layers.0" and "<SiLU>" make
 * "model.layers.0.<SiLU>". */
GOLDENTRACE_EXTERN uint32_t goldentrace_scope_below(const char* name);
GOLDENTRACE_EXTERN void goldentrace_scope_enter(uint32_t scope);
GOLDENTRACE_EXTERN void goldentrace_scope_exit(uint32_t scope);
/* How many scopes this thread is in, and the innermost of them, 0 when there is none. */
GOLDENTRACE_EXTERN uint32_t goldentrace_scope_depth(void);
GOLDENTRACE_EXTERN uint32_t goldentrace_scope_current(void);
