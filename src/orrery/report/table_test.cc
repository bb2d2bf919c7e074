#include "orrery/report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using ::testing::ElementsAre;

TEST(Table, AlignsColumnsByWhatIsSeen) {
  Table table({{"name"}, {"time", Table::Align::kRight}});
  table.add({"a×b", "1 s"});
  table.add({"c", "10 s"});
  EXPECT_EQ(table.text(2),
            "  name  time\n"
            "  a×b    1 s\n"
            "  c     10 s\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  Table table({{"name"}, {"note"}});
  table.add({"a"});
  EXPECT_EQ(table.text(), "name  note\na\n");
}

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_THAT(wrapped("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("", 7), ElementsAre(""));
  EXPECT_THAT(wrapped("×× ××", 5), ElementsAre("×× ××"));
}

TEST(Wrapped, LetsALongWordStandAlone) {
  EXPECT_THAT(wrapped("a extraordinary b", 4), ElementsAre("a", "extraordinary", "b"));
}

TEST(Hanging, IndentsWhatFollows) {
  const std::string word(40, 'x');
  EXPECT_EQ(hanging("  - ", word + " " + word + " " + word),
            "  - " + word + " " + word + "\n    " + word + "\n");
}

}  // namespace
}  // namespace orrery
