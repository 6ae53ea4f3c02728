#include "src/event/run.h"

#include <gtest/gtest.h>

#include "tests/support/traces.h"

namespace goldentrace {
namespace {

TEST(Header, AnUnknownEnvironmentKeyIsEmpty) {
  const Header header = testing::sample_header();
  EXPECT_EQ(header.environment_value("torch"), "2.9.0");
  EXPECT_EQ(header.environment_value("no such key"), "");
}

TEST(Summary, ACounterThatWasNotKeptIsZero) {
  const Summary summary = testing::sample_summary(4);
  EXPECT_EQ(summary.counter("calls"), 4u);
  EXPECT_EQ(summary.counter("holes"), 1u);
  EXPECT_EQ(summary.counter("no such counter"), 0u);
}

}  // namespace
}  // namespace goldentrace
