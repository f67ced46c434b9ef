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
  const auto of = [&](const std::string& name) {
    return DigestOf(InputFile::Open(folder.path(), name).value()).value();
  };
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
  const InputFile file = InputFile::Open(folder.path(), "abc").value();
  EXPECT_TRUE(absl::IsCancelled(DigestOf(file, stop.get_token()).status()));
}

TEST(Digest, OfAFileThatBecomesShorterIsAnError) {
  TempFolder folder;
  folder.Write("a", std::string(3 << 20, 'a'));
  const InputFile file = InputFile::Open(folder.path(), "a").value();
  std::filesystem::resize_file(folder / "a", 1 << 20);
  EXPECT_EQ(DigestOf(file).status().message(), "a: changed while it was read, from 3145728 to 1048576 bytes");
}

TEST(Digest, SecretsAreTheSameOrNot) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
}

TEST(Digest, OfBytesIsThatOfAFileOfThem) {
  EXPECT_EQ(Sha256("abc").value(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace heed
