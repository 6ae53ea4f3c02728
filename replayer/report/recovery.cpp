#include "replayer/report/recovery.h"

#include "replayer/report/format.h"

namespace goldentrace {
namespace {

std::string line(const std::string& label, const std::string& text) {
  return clipped(printable("  " + padded(label, 10) + " " + text)) + '\n';
}

std::string headline(const Recovery& recovery) {
  const std::string verdict = recovery.whole()  ? "WHOLE  nothing of the recording is missing"
                              : recovery.closed ? "LOSSY  a part of the recording is missing"
                                                : "LOSSY  the recorder did not close this file";
  return padded(verdict, kReportWidth - 6) + (recovery.whole() ? "exit 0" : "exit 1") + '\n';
}

}  // namespace

std::string recovery_report(const Recovery& recovery, const std::string& in,
                            const std::string& out) {
  std::string text = headline(recovery);
  text += line("from", in);
  text += line("to", out);
  text += line("kept", grouped(recovery.chunks_kept) + " chunks, " + grouped(recovery.calls_kept) +
                           " calls");
  if (recovery.whole()) return text;
  std::string lost = grouped(recovery.chunks_lost) + " chunks, " + grouped(recovery.calls_lost) +
                     " calls, " + grouped(recovery.bytes_lost) + " bytes";
  if (!recovery.closed) lost += "; and what the recorder had not written";
  text += line("lost", lost);
  for (const std::string& loss : recovery.losses) text += line("", loss);
  return text;
}

}  // namespace goldentrace
