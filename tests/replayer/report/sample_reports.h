// Reports filled by hand, for the tests of their text and JSON forms.
#pragma once

#include <limits>
#include <string>

#include "replayer/execute/verify.h"
#include "replayer/replay.h"

namespace goldentrace::testing {

inline constexpr Verdict kEveryVerdict[] = {
    Verdict::kIdentical,  Verdict::kInBand,    Verdict::kTie,      Verdict::kInputs,
    Verdict::kWeights,    Verdict::kConfig,    Verdict::kSampling, Verdict::kTokens,
    Verdict::kOps,        Verdict::kStructure, Verdict::kLogits,   Verdict::kUndecided,
    Verdict::kIncomplete, Verdict::kRounding};

// What a trace can contain to break a report: controls, quotes, bytes that are no UTF-8, length.
inline std::string nasty_text() {
  return "\n\r\t\x1b[31m'\"\\ \xff\xc2\x85\xe2\x80\xae \xe6\xb2\xb3 " + std::string(150, 'x');
}

inline CallDifference sample_difference(const std::string& scope, const std::string& op) {
  CallDifference difference;
  difference.oracle_call = 41;
  difference.candidate_call = 40;
  difference.step = 2;
  difference.scope = scope;
  difference.op = op;
  difference.tensor = "bfloat16 [1, 1, 64]";
  difference.evidence = Evidence::kStats;
  difference.distance = 0.31;
  difference.pooled = 0.12;
  difference.pooled_steps = 8;
  difference.band = 0.06;
  return difference;
}

inline OpsReport sample_ops() {
  OpsReport ops;
  ops.oracle_calls = 9583;
  ops.candidate_calls = 9169;
  ops.matched = 9133;
  ops.unmatched_oracle = 450;
  ops.unmatched_candidate = 36;
  ops.steps = 9;
  ops.outputs = 6412;
  ops.identical = 3425;
  ops.differing_calls = 2987;
  ops.in_band = 1000;
  ops.not_refuted = 1744;
  ops.not_judged = 243;
  ops.hash_only = 3;
  ops.decisions = 9;
  ops.decisions_differing = 1;
  ops.first_decision = sample_difference("model", "aten::topk");
  ops.worst_in_band = sample_difference("model.layers.4.linear_attn", "aten::mul.Tensor");
  ops.last_good = sample_difference("model.layers.2.mlp", "aten::mul");
  ops.compared_before_first = 1234;
  ops.identical_before_first = 1000;
  ops.missing_near = {{39, 2, "model.layers.3.mlp", "aten::add", "bfloat16 [1, 1, 64]"}};
  ops.extra_near = {{39, 2, "model.layers.3.mlp", "aten::neg", "view"}};
  return ops;
}

// Adds what re-execution found: a fault in many layers, and `others` more findings.
inline void add_local(ReplayReport& report, std::size_t others, const std::string& scope) {
  LocalReport local;
  local.outputs = local.compared = 6000;
  for (std::size_t i = 0; i < 3 + others; ++i) {
    LocalCut cut;
    cut.scope =
        i < 3 ? scope + std::to_string(i) + ".mlp" : "other." + scope + "x" + std::string(i, 'a');
    cut.op = "aten::linear";
    cut.tensor = "bfloat16 [1, 96, 128]";
    cut.oracle_call = 40 + i;
    cut.tokens = {0, 1, 2};
    cut.dirty_tokens = {1, 2};
    cut.sums.elements = 12288;
    cut.sums.wide = 100;
    cut.sums.candidate = {9, 1, 3};
    cut.sums.has_rounded = true;
    cut.zone = {i < 4 ? Zone::kFault : Zone::kRoundingPolicy, 9.5, 1.1, 8.5, 1.3, 40, 5, true};
    local.cuts.push_back(cut);
  }
  report.findings = findings_of(local);
  report.local = std::move(local);
}

inline void make_nasty(ReplayReport& report) {
  const std::string text = nasty_text();
  report.headline = text;
  for (Side* side : {&report.oracle, &report.candidate}) {
    side->path = text;
    side->description = text;
  }
  for (Rung* rung : {&report.inputs, &report.weights, &report.config, &report.sampling}) {
    rung->text = text;
    rung->details.assign(30, text);
  }
  report.tokens.oracle_piece = text;
  report.tokens.candidate_piece = text;
  OpsReport& ops = report.ops;
  for (auto* call : {&ops.first, &ops.first_decision, &ops.worst_in_band, &ops.last_good}) {
    if (!call->has_value()) continue;
    (*call)->scope = (*call)->op = (*call)->tensor = text;
  }
  if (ops.first_constant) ops.first_constant->call.scope = text;
  ops.missing_near.assign(20, {1, 0, text, text, text});
  ops.extra_near = ops.missing_near;
}

// A report with everything that its verdict can come with.
inline ReplayReport full_report(Verdict verdict, bool nasty) {
  ReplayReport report;
  report.verdict = verdict;
  report.headline = "what it comes to";
  report.oracle = {"gold.fb", "transformers 5.24.0 eager bfloat16, torch 2.15.0, cpu", 9583, 2};
  report.candidate = {"got.fb", "transformers 5.24.0 sdpa bfloat16, torch 2.15.0, cpu", 9169, 1};
  report.longest_position = 107;
  const Rung ok{RungStatus::kOk, "equal", {}};
  report.inputs = report.weights = report.config = report.sampling = ok;
  report.tokens.rung = {RungStatus::kOk, "", {}};
  report.tokens.compared = report.tokens.oracle_steps = report.tokens.candidate_steps = 4;
  report.tokens.smallest_gap_ulp = 6;
  report.ops_rung = {RungStatus::kOk, "6,412 outputs compared", {}};
  report.ops = sample_ops();
  if (exit_status(verdict) == 1 || verdict == Verdict::kTie) {
    report.tokens.rung.status = verdict == Verdict::kTie ? RungStatus::kTie : RungStatus::kDiff;
    report.tokens.first_step = 2;
    report.tokens.position = 11;
    report.tokens.oracle_token = 5;
    report.tokens.candidate_token = 6;
    report.tokens.oracle_piece = " bank";
    report.tokens.candidate_piece = " river";
  }
  const bool above = verdict >= Verdict::kInputs && verdict <= Verdict::kSampling;
  if (verdict == Verdict::kOps || verdict == Verdict::kStructure || above) {
    report.ops.out_of_band = 42;
    report.ops.first = sample_difference("model.layers.3.mlp", "aten::linear");
    report.ops_rung.status = RungStatus::kDiff;
  }
  if (verdict == Verdict::kStructure) {
    report.ops.constants_differing = 3;
    report.ops.first_constant = {sample_difference("model.norm", "aten::add.Scalar"), 1e-6, 1e-5};
    report.ops.first_constant->call.oracle_call = 40;
  }
  const Rung differs{RungStatus::kDiff, "other", {"a", "b", "c", "d", "e", "f", "g"}};
  if (verdict == Verdict::kInputs) {  // nothing below is compared then
    report.inputs = {RungStatus::kDiff, "prompt text differs", {"oracle", "candidate"}};
    report.tokens = {};
    report.ops = {};
    report.ops_rung = {};
  }
  // Every rung from the verdict's on may differ.
  if (above && verdict <= Verdict::kWeights) report.weights = differs;
  if (above && verdict <= Verdict::kConfig) report.config = differs;
  if (above) report.sampling = differs;
  if (nasty) make_nasty(report);
  return report;
}

inline VerifyReport sample_verify(bool reproduced, bool elsewhere, bool wrong_weights) {
  VerifyReport report;
  report.trace = "gold.fb";
  report.calls = report.executed = 100;
  report.hashes = 90;
  report.hashes_equal = reproduced ? 90 : 80;
  report.parameters = 12;
  if (!reproduced) report.findings = {{7, "aten::mul", "model.layers.0", 0, "bytes differ"}};
  if (elsewhere) {
    report.mode = VerifyMode::kElsewhere;
    report.environment = {"torch 2.15.0 when recorded, 2.16.0 here"};
    if (!reproduced) report.out_of_band = 10;
  }
  if (wrong_weights) report.wrong_parameters = {"lm_head.weight", "model.norm.weight"};
  return report;
}

// In the recorded environment; three calls had arguments that a trace can't hold.
inline VerifyReport sample_not_executable() {
  VerifyReport report = sample_verify(true, false, false);
  report.executed = 97;
  report.not_executable = 3;
  report.lost["quantized::linear"] = {3, "an argument was not stored"};
  return report;
}

// Ten of ninety outputs moved elsewhere, all in band.
inline VerifyReport sample_moved() {
  VerifyReport report = sample_verify(false, true, false);
  report.findings.clear();
  report.out_of_band = 0;
  report.in_band = 10;
  report.band = 0.06;
  report.worst = 0.024;
  report.worst_where = "model.layers.0, aten::mul";
  report.decisions = report.decisions_equal = 4;
  return report;
}

// The same, but one call in ten could not run.
inline VerifyReport sample_lossy() {
  VerifyReport report = sample_moved();
  report.executed = 90;
  report.not_executable = 10;
  report.lost["vendor::fused"] = {10, "this LibTorch has no such operator"};
  return report;
}

inline VerifyReport sample_promoted(std::uint64_t other_shapes) {
  VerifyReport report = sample_moved();
  report.mode = VerifyMode::kPromoted;
  report.promote = DType::kFloat32;
  report.other_shapes = other_shapes;
  return report;
}

}  // namespace goldentrace::testing
