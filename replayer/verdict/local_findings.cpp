#include "replayer/verdict/local_findings.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "replayer/band/band.h"

namespace goldentrace {
namespace {

// How far over what is allowed.
double excess(const LocalCut& cut) {
  const ZoneReport& zone = cut.zone;
  const double size =
      cut.sums.has_rounded ? zone.rounded_ratio / zone.rounded_band : zone.ratio / zone.band;
  return cut.sums.one_sided > 0 ? 1e30 : size;
}

// Fewer elements than this are judged together with the same call of other layers.
constexpr std::uint64_t kFewElements = 256;

JudgeOptions options_of(const LocalCut& cut, const LocalReport& report) {
  return {cut.exact, cut.noise_floor, unit_roundoff(report.working_dtype), report.alarm_rate};
}

// Those that are too small alone are what all layers' calls of their role are together; of a fault,
// the ones that have the error.
void judge_role(const std::vector<LocalCut*>& members, const LocalReport& report) {
  LocalCut all = *members.front();
  for (std::size_t i = 1; i < members.size(); ++i) {
    all.sums.add(members[i]->sums);
    all.noise_floor += members[i]->noise_floor;
  }
  const ZoneReport together = judge(all.sums, options_of(all, report));
  for (LocalCut* const cut : members) {
    ZoneReport& zone = cut->zone;
    if (zone.zone != Zone::kTooSmall) continue;
    zone.band = together.band;
    zone.rounded_band = together.rounded_band;
    const bool judged = together.zone != Zone::kTooSmall;
    zone.zone = judged && zone.ratio <= zone.band ? Zone::kInBand : together.zone;
  }
}

}  // namespace

void judge_cuts(std::span<LocalCut* const> cuts, const LocalReport& report) {
  using Role = std::tuple<bool, std::string, std::string, std::uint32_t, std::uint32_t>;
  std::map<Role, std::vector<LocalCut*>> roles;
  for (LocalCut* const cut : cuts) {
    cut->zone = judge(cut->sums, options_of(*cut, report));
    if (cut->sums.elements >= kFewElements || cut->exact) continue;
    roles[{cut->prefill, module_kind(cut->scope), cut->op, cut->ordinal, cut->output}].push_back(
        cut);
  }
  for (const auto& [role, members] : roles) judge_role(members, report);
}

std::string module_kind(const std::string& scope) {
  std::string kind;
  for (std::size_t begin = 0; begin <= scope.size();) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string part = scope.substr(begin, end - begin);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (begin > 0) kind += '.';
    kind += number ? "*" : part;
    begin = end + 1;
  }
  return kind;
}

namespace {

void count_later(const LocalReport& local, LocalFinding& finding) {
  const std::size_t first = *std::ranges::min_element(finding.cuts);
  for (std::size_t i = first + 1; i < local.cuts.size(); ++i) {
    if (std::ranges::find(finding.cuts, i) != finding.cuts.end()) continue;
    ++finding.later;
    const Zone zone = local.cuts[i].zone.zone;
    if (zone == Zone::kInBand || zone == Zone::kTooSmall) ++finding.later_in_band;
  }
}

}  // namespace

std::vector<LocalFinding> findings_of(const LocalReport& local) {
  std::map<std::pair<Zone, std::string>, LocalFinding> found;
  for (std::size_t i = 0; i < local.cuts.size(); ++i) {
    const LocalCut& cut = local.cuts[i];
    const Zone zone = cut.zone.zone;
    if (zone != Zone::kFault && zone != Zone::kRoundingPolicy) continue;
    const std::string kind = module_kind(cut.scope);
    LocalFinding& finding = found[{zone, kind}];
    finding.zone = zone;
    finding.module = kind;
    finding.cuts.push_back(i);
    if (std::ranges::find(finding.scopes, cut.scope) == finding.scopes.end()) {
      finding.scopes.push_back(cut.scope);
    }
  }
  std::vector<LocalFinding> findings;
  for (auto& [key, finding] : found) {
    std::ranges::stable_sort(finding.cuts, std::ranges::greater(),
                             [&](std::size_t i) { return excess(local.cuts[i]); });
    if (finding.scopes.size() == 1) finding.module = finding.scopes.front();
    count_later(local, finding);
    findings.push_back(std::move(finding));
  }
  std::ranges::stable_sort(findings, [&](const LocalFinding& x, const LocalFinding& y) {
    if (x.zone != y.zone) return x.zone == Zone::kFault;
    return excess(local.cuts[x.cuts.front()]) > excess(local.cuts[y.cuts.front()]);
  });
  return findings;
}

}  // namespace goldentrace
