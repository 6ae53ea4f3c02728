#include "replayer/report/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace goldentrace {
namespace {

using namespace std::string_literals;

TEST(Format, GroupsThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(Format, WritesRatiosForPeople) {
  const std::pair<double, const char*> cases[] = {{0, "0 %"},
                                                  {0.0043, "0.43 %"},
                                                  {0.06, "6 %"},
                                                  {0.042, "4.2 %"},
                                                  {0.0999, "10 %"},
                                                  {0.1, "10 %"},
                                                  {0.311, "31 %"},
                                                  {1, "100 %"},
                                                  {99.99, "9999 %"},
                                                  {380, "3.8e+04 %"},
                                                  {1e30, "1e+32 %"},
                                                  {1e-9, "1e-07 %"},
                                                  {INFINITY, "infinite"},
                                                  {std::nan(""), "infinite"}};
  for (const auto& [ratio, text] : cases) EXPECT_EQ(percent(ratio), text) << ratio;
}

TEST(Format, NeverCallsAPartTheWhole) {
  struct Case {
    std::uint64_t part, whole;
    const char* text;
  };
  const Case cases[] = {{2318, 2320, "99.9 %"},
                        {2320, 2320, "100 %"},
                        {0, 7, "0.0 %"},
                        {9133, 9583, "95.3 %"},
                        {999'999, 1'000'000, "99.9 %"},
                        {1, 2, "50.0 %"},
                        {1, 1'000'000, "0.0 %"},
                        {0, 0, "100 %"}};
  for (const Case& c : cases) EXPECT_EQ(share(c.part, c.whole), c.text) << c.part;
}

TEST(Printable, EscapesWhatWouldBreakOrTurnARow) {
  struct Case {
    const char* why;
    std::string text, printed;
  };
  const Case cases[] = {
      {"plain text", "model.layers.0, 'x' \"y\" \\n", "model.layers.0, 'x' \"y\" \\n"},
      {"newline, tab, return", "a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"zero byte and escape sequences", "\0\x1b[31m"s, "\\x00\\x1b[31m"},
      {"DEL", "\x7f", "\\x7f"},
      {"C1 controls", "\xc2\x85", "\\xc2\\x85"},
      {"line separator", "\xe2\x80\xa8", "\\xe2\\x80\\xa8"},
      {"right-to-left override", "\xe2\x80\xae", "\\xe2\\x80\\xae"},
      {"other scripts stay", "\xc3\xa9 \xe6\xb2\xb3 \xf0\x9f\x98\x80",
       "\xc3\xa9 \xe6\xb2\xb3 \xf0\x9f\x98\x80"},
      {"not UTF-8", "a\xff\xfe", "a\\xff\\xfe"},
      {"a sequence cut short", "\xe6\xb2", "\\xe6\\xb2"},
      {"a continuation alone", "\xb2z", "\\xb2z"},
      {"overlong", "\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},
      {"surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"beyond the last code point", "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"empty", "", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why);
    EXPECT_EQ(printable(c.text), c.printed);
    EXPECT_EQ(printable(printable(c.text)), c.printed) << "twice is harmless";
  }
}

TEST(Printable, KeepsPiecesApartThatLookAlike) {
  EXPECT_EQ(quoted_piece("\n"), "'\\n'");
  EXPECT_EQ(quoted_piece("\\n"), "'\\\\n'");
  EXPECT_EQ(quoted_piece("it's"), "'it\\'s'");
}

TEST(Format, CutsByColumnsAndNeverInsideACharacter) {
  const std::string river = "\xe6\xb2\xb3\xe6\xb2\xb3\xe6\xb2\xb3\xe6\xb2\xb3";  // 4 columns
  EXPECT_EQ(columns(river), 4u);
  EXPECT_EQ(clipped(river, 4), river);
  EXPECT_EQ(clipped(river, 3), "\xe6\xb2\xb3..");
  EXPECT_EQ(clipped_left(river, 3), "..\xe6\xb2\xb3");
  EXPECT_EQ(clipped("abcdef", 4), "ab..");
  EXPECT_EQ(clipped_left("abcdef", 4), "..ef");
  EXPECT_EQ(padded(river, 6), river + "  ");
  EXPECT_EQ(padded("abc", 2), "abc");
}

TEST(Format, PutsTwoTextsAtTheEndsOfALine) {
  for (const std::string& left : {"AGREE"s, std::string(300, 'x'), "\n\n"s}) {
    const std::string line = at_both_ends(left, "exit 0");
    EXPECT_EQ(columns(line), kReportWidth);
    EXPECT_TRUE(line.ends_with(" exit 0")) << line;
  }
}

}  // namespace
}  // namespace goldentrace
