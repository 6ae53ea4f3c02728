// The rungs above the calls: inputs, weights, configuration, sampling, tokens. Each answers whether
// the two runs agree there, in words.
#pragma once

#include <vector>

#include "replayer/replay.h"
#include "src/event/run.h"
#include "src/format/codec.h"

namespace goldentrace {

// Prompt text where both have it, and prompt ids.
Rung compare_inputs(const Text& oracle, const Text& candidate);
// Parameters and buffers by name and hash. In runs of two dtypes (`same_dtype` false) the hashes
// can't be equal; parameters that both made from the same checkpoint tensors are then not compared.
Rung compare_weights(const std::vector<Parameter>& oracle, const std::vector<Parameter>& candidate,
                     bool same_dtype);
// Field by field; fields that say how a model is run or where it came from, not what it is, are
// left out.
Rung compare_config(const std::string& oracle_json, const std::string& candidate_json);
// Of a forced run, which was fed given tokens, the rules that end a run say nothing.
// Which modules there are: missing and other layers are told before any number. Both are
// Header::modules.
using Modules = std::vector<std::pair<std::string, std::string>>;
Rung compare_modules(const Modules& oracle, const Modules& candidate);

Rung compare_sampling(const Text& oracle, const Text& candidate);
// The top logits of every step whose inputs are equal, against the default band: root mean square
// of the differences over that of the logits.
Rung compare_logits(const Text& oracle, const Text& candidate, double logits_band);
// Greedy tokens step by step, each side's own choice, as long as both were given the same tokens:
// of runs that feed their choice, up to where they part; of runs forced along the same tokens, all.
// A difference is a tie when the oracle's own gap between the two tokens is no more than
// `logits_band` lets the difference of two logits move; run_replay takes it back when the runs are
// not sound.
TokensReport compare_tokens(const Text& oracle, const Text& candidate, double logits_band);

// Leaves of `other` the steps between the first and the last one of a trace that was trimmed.
void keep_steps_of(const Text& trimmed, Text& other);

// "model_type" of a config, or "".
std::string model_type(const std::string& config_json);

}  // namespace goldentrace
