#include "engine/base/digest.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

// The examples of FIPS 180-4, and a file of more than one piece; all as sha256sum prints them.
TEST(Digest, IsThatOfSha256sum) {
  TempFolder folder;
  folder.Write("empty", "");
  folder.Write("abc", "abc");
  folder.Write("long", std::string(40 << 20, 'a'));
  const auto of = [&](const std::string& name) { return DigestOf(folder.path(), name).value(); };
  EXPECT_EQ(of("empty").sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc").sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("long").sha256, "a1fde4d201c91a880700f22adb3de5cf17d3e73db0c002fd7cbc721b17571f66");
  EXPECT_EQ(of("abc").name, "abc");
  EXPECT_EQ(of("abc").bytes, 3);
}

TEST(Digest, ThatNobodyNeedsIsGivenUp) {
  TempFolder folder;
  folder.Write("abc", "abc");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(DigestOf(folder.path(), "abc", stop.get_token()).status()));
}

TEST(Digest, OfNoFileIsAnError) {
  TempFolder folder;
  EXPECT_TRUE(absl::IsNotFound(DigestOf(folder.path(), "none").status()));
  EXPECT_FALSE(DigestOf(folder.path(), "../etc/passwd").ok());
}

}  // namespace
}  // namespace heed
