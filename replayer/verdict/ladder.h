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
// Parameters and buffers by name and hash.
Rung compare_weights(const std::vector<Parameter>& oracle, const std::vector<Parameter>& candidate);
// Field by field; fields that say how a model is run or where it came from, not what it is, are
// left out.
Rung compare_config(const std::string& oracle_json, const std::string& candidate_json);
Rung compare_sampling(const Text& oracle, const Text& candidate);
// Greedy tokens step by step, up to where they part. That is a tie when the oracle's own gap
// between the two tokens is inside `logits_band`, relative to its top logit; run_replay takes it
// back when a call up to there is out of band.
TokensReport compare_tokens(const Text& oracle, const Text& candidate, double logits_band);

// "model_type" of a config, or "".
std::string model_type(const std::string& config_json);

}  // namespace goldentrace
