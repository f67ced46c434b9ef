#include "client/cli/keys.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Keys, LettersAreThemselves) {
  EXPECT_THAT(KeyReader().Take("qF\x03"), ElementsAre('q', 'F', kCtrlC));
  EXPECT_THAT(KeyReader().Take("\xff"), ElementsAre(255));
}

// As terminals send them, in both of their modes.
TEST(Keys, ArrowsAreOneKeyEach) {
  EXPECT_THAT(KeyReader().Take("\x1b[A\x1b[B\x1b[C\x1b[D"), ElementsAre(kUp, kDown, kRight, kLeft));
  EXPECT_THAT(KeyReader().Take("\x1bOA\x1bOD"), ElementsAre(kUp, kLeft));
  EXPECT_THAT(KeyReader().Take("\x1b[1;5Cr"), ElementsAre(kRight, 'r'));
}

TEST(Keys, ASequenceMayComeInParts) {
  KeyReader reader;
  EXPECT_THAT(reader.Take("\x1b"), IsEmpty());
  EXPECT_THAT(reader.Take("["), IsEmpty());
  EXPECT_THAT(reader.Take("Bq"), ElementsAre(kDown, 'q'));
}

TEST(Keys, OtherSequencesAreNone) {
  EXPECT_THAT(KeyReader().Take("\x1b[5~\x1b[Hp"), ElementsAre('p'));
  EXPECT_THAT(KeyReader().Take("\x1bq"), ElementsAre('q'));
  EXPECT_THAT(KeyReader().Take("\x1b\x1b[Ah"), ElementsAre(kUp, 'h'));
  const std::string endless = "\x1b[" + std::string(14, '1');
  EXPECT_THAT(KeyReader().Take(endless + "q"), ElementsAre('q'));
}

}  // namespace
}  // namespace heed::cli
