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
  return at_both_ends(verdict, recovery.whole() ? "exit 0" : "exit 1") + '\n';
}

}  // namespace

std::string recovery_report(const Recovery& recovery, const std::string& in,
                            const std::string& out) {
  std::string text = headline(recovery);
  text += line("from", in);
  text += line("to", out);
  text += line("kept", counted(recovery.chunks_kept, "chunk", "chunks") + ", " +
                           counted(recovery.calls_kept, "call", "calls"));
  if (recovery.whole()) return text;
  std::string lost = counted(recovery.chunks_lost, "chunk", "chunks") + ", " +
                     counted(recovery.calls_lost, "call", "calls") + ", " +
                     counted(recovery.bytes_lost, "byte", "bytes");
  if (!recovery.closed) lost += "; and what the recorder had not written";
  text += line("lost", lost);
  for (const std::string& loss : recovery.losses) text += line("", loss);
  return text;
}

}  // namespace goldentrace
