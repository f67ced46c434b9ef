#include "client/cli/dashboard.h"

#include <set>
#include <string>
#include <vector>

#include "client/cli/columns.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t Place(std::string_view name) {
  for (size_t i = 0; i < Columns().size(); ++i) {
    if (Columns()[i].name == name) return i;
  }
  ADD_FAILURE() << "no column " << name;
  return 0;
}

ServerActivity ThreeModels() {
  ServerActivity server{.version = "0.2.0",
                        .uptime_seconds = 11'525,
                        .cpus = 1.5,
                        .available_cpus = 2,
                        .resident_bytes = 231e6,
                        .available_bytes = 5.1e9,
                        .state_bytes = 2.4e6,
                        .state_limit_bytes = 1.1e9,
                        .calls = 12,
                        .streams = 9};
  server.models = {{.name = "writer", .state = "ready", .running = 3, .generated_tokens = 1234.0},
                   {.name = "reader", .state = "ready", .waiting = 7, .generated_tokens = 5.0},
                   {.name = "absent", .state = "loading"}};
  return server;
}

ServerActivity ManyModels(int count) {
  ServerActivity server;
  for (int i = 0; i < count; ++i) server.models.push_back({.name = Cat("model-", i + 10), .state = "ready"});
  return server;
}

// The first word of each line from the one after the titles on.
std::vector<std::string> Names(const Frame& frame) {
  std::vector<std::string> names;
  for (size_t i = frame.titles + 1; i < frame.lines.size(); ++i)
    names.push_back(frame.lines[i].substr(0, frame.lines[i].find(' ')));
  return names;
}

int Characters(const std::string& text) {
  int count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

TEST(Dashboard, TellsOfTheServerAndEachModel) {
  const Frame frame = Layout(ThreeModels(), {}, "heed 0.2.0", "");
  ASSERT_EQ(frame.lines.size(), 6u);
  EXPECT_EQ(frame.lines[0], "heed 0.2.0");
  EXPECT_EQ(frame.lines[1],
            "CPU 1.50 of 2, memory 231MB and 5.10GB left, state 2.40MB of 1.10GB, calls 12, streams 9");
  EXPECT_EQ(frame.titles, 2);
  EXPECT_THAT(frame.lines[2], AllOf(StartsWith("MODEL↑"), HasSubstr(" GEN/S"), HasSubstr(" MEMORY")));
  EXPECT_THAT(Names(frame), ElementsAre("absent", "reader", "writer"));
  EXPECT_THAT(frame.lines[5], AllOf(HasSubstr(" 3 "), HasSubstr(" 1.23k ")));
  EXPECT_THAT(frame.lines[3], HasSubstr(" - "));
  for (size_t i = 3; i < frame.lines.size(); ++i)
    EXPECT_EQ(Characters(frame.lines[i]), Characters(frame.lines[2])) << frame.lines[i];
}

TEST(Dashboard, SortsByAnyColumnBothWays) {
  View view{.sort = Place("generated")};
  EXPECT_THAT(Names(Layout(ThreeModels(), view, "", "")), ElementsAre("writer", "reader", "absent"));
  EXPECT_THAT(Layout(ThreeModels(), view, "", "").lines[2], HasSubstr("GEN/S↓"));
  view.reversed = true;
  EXPECT_THAT(Names(Layout(ThreeModels(), view, "", "")), ElementsAre("absent", "reader", "writer"));
  EXPECT_THAT(Layout(ThreeModels(), view, "", "").lines[2], HasSubstr("GEN/S↑"));
  view = {.sort = Place("waiting")};
  EXPECT_THAT(Names(Layout(ThreeModels(), view, "", "")), ElementsAre("reader", "absent", "writer"));
  view = {.sort = Place("model"), .reversed = true};
  EXPECT_THAT(Names(Layout(ThreeModels(), view, "", "")), ElementsAre("writer", "reader", "absent"));
}

TEST(Dashboard, NoLineIsWiderThanTheScreen) {
  ServerActivity server = ThreeModels();
  server.models[0].name = std::string(60, 'w');
  for (size_t sort = 0; sort < Columns().size(); ++sort) {
    const std::string title(Columns()[sort].title);
    for (const int width : {1, 7, 20, 40, 80, 110, 200}) {
      const Frame frame = Layout(server, {.sort = sort}, std::string(100, 'h'), "note", {width, 24});
      for (const std::string& line : frame.lines) EXPECT_LE(Characters(line), width) << line;
      if (width >= 20) {
        EXPECT_THAT(frame.lines[frame.titles], HasSubstr(title)) << width;  // what is sorted by is seen
      }
    }
  }
  EXPECT_THAT(Layout(server, {}, "", "", {80, 24}).lines.back(), HasSubstr("wwww…"));
}

TEST(Dashboard, ModelsThatDoNotFitAreScrolled) {
  View view;
  Frame frame = Layout(ManyModels(30), view, "", "note", {80, 10});
  ASSERT_EQ(frame.lines.size(), 10u);
  EXPECT_THAT(frame.lines[4], StartsWith("model-10"));
  EXPECT_EQ(frame.lines[9], "models 1 to 5 of 30");
  view.above = 3;
  EXPECT_THAT(Layout(ManyModels(30), view, "", "note", {80, 10}).lines[4], StartsWith("model-13"));
  view.above = 29;  // the last page is full
  EXPECT_EQ(Layout(ManyModels(30), view, "", "note", {80, 10}).lines[9], "models 26 to 30 of 30");
  EXPECT_EQ(Layout(ManyModels(6), view, "", "note", {80, 10}).lines.size(), 10u);
  EXPECT_THAT(Layout(ManyModels(6), view, "", "note", {80, 10}).lines[9], StartsWith("model-15"));
  for (const int height : {1, 2, 3, 4, 5}) {
    frame = Layout(ManyModels(30), view, "", "note", {80, height});
    EXPECT_LE(static_cast<int>(frame.lines.size()), height);
    EXPECT_LT(frame.titles, static_cast<int>(frame.lines.size()));
  }
}

TEST(Dashboard, NothingThatAServerSaysIsObeyed) {
  ServerActivity server;
  server.models = {{.name = "\x1b[31mabc\u202e\n", .state = "\u009b31m"}};
  const Frame frame = Layout(server, {}, "\x1b]0;t\x07", "\x1b[2J");
  for (const std::string& line : frame.lines) {
    for (const char* obeyed : {"\x1b", "\x07", "\u009b", "\u202e", "\n"})
      EXPECT_THAT(line, Not(HasSubstr(obeyed)));
  }
  EXPECT_THAT(frame.lines.back(), HasSubstr("abc"));
}

TEST(Dashboard, EveryColumnHasAKeyOfItsOwn) {
  std::set<Key> keys = {'h', 'p', 'q', 'r'};
  std::set<std::string_view> names;
  for (size_t i = 0; i < Columns().size(); ++i) {
    EXPECT_TRUE(keys.insert(Columns()[i].key).second) << Columns()[i].name;
    EXPECT_TRUE(names.insert(Columns()[i].name).second);
    View view{.sort = i == 0 ? 1u : 0u, .reversed = true};
    EXPECT_TRUE(Press(Columns()[i].key, 1, &view));
    EXPECT_EQ(view.sort, i);
    EXPECT_FALSE(view.reversed);  // another column begins in its own order
  }
}

TEST(Dashboard, KeysChooseWhatIsShown) {
  View view;
  EXPECT_TRUE(Press('r', 9, &view) && Press('p', 9, &view) && Press('h', 9, &view));
  EXPECT_TRUE(view.reversed && view.paused && view.help);
  EXPECT_TRUE(Press('h', 9, &view) && Press('p', 9, &view));
  EXPECT_FALSE(view.paused || view.help);
  EXPECT_TRUE(Press(kLeft, 9, &view));
  EXPECT_EQ(view.sort, 0u);
  EXPECT_TRUE(view.reversed);  // it is the same column
  for (size_t i = 0; i < Columns().size() + 3; ++i) EXPECT_TRUE(Press(kRight, 9, &view));
  EXPECT_EQ(view.sort, Columns().size() - 1);
  EXPECT_TRUE(Press(kUp, 9, &view));
  EXPECT_EQ(view.above, 0);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(Press(kDown, 9, &view));
  EXPECT_EQ(view.above, 8);
  EXPECT_TRUE(Press(kDown, 0, &view));
  EXPECT_EQ(view.above, 0);
  EXPECT_TRUE(Press('Z', 9, &view));
  EXPECT_FALSE(Press('q', 9, &view));
  EXPECT_FALSE(Press(kCtrlC, 9, &view));
}

TEST(Dashboard, HelpNamesEveryKey) {
  const Frame frame = Layout(ThreeModels(), {.help = true}, "", "");
  std::string all;
  for (const std::string& line : frame.lines) all += line + "\n";
  for (const Column& column : Columns()) {
    EXPECT_THAT(all, HasSubstr(Cat("\n", std::string(1, static_cast<char>(column.key)), "  ", column.title)));
    EXPECT_THAT(all, HasSubstr(std::string(column.help)));
  }
  EXPECT_EQ(frame.titles, -1);
}

}  // namespace
}  // namespace heed::cli
