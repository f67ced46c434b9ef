#include "engine/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const TempFolder& folder, const std::string& name) {
  auto file = InputFile::Open(folder.path(), name);
  return file.ok() ? "accepted" : std::string(file.status().message());
}

TEST(InputFile, ReadsAllOrAPart) {
  TempFolder folder;
  folder.Write("a", "some bytes");
  auto file = InputFile::Open(folder.path(), "a");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->name(), "a");
  EXPECT_EQ(file->Read().value(), "some bytes");
  std::string part(5, ' ');
  ASSERT_TRUE(file->ReadAt(5, part.data(), 5).ok());
  EXPECT_EQ(part, "bytes");
  EXPECT_EQ(file->ReadAt(6, part.data(), 5).message(), "a: ends at byte 10, not at 11");
}

TEST(InputFile, ASnapshotOfTheHubsCacheLinksToItsBlobsAlone) {
  namespace fs = std::filesystem;
  TempFolder cache;
  const std::string model = cache / "models--a--b", snapshot = model + "/snapshots/0123";
  fs::create_directories(snapshot);
  fs::create_directories(model + "/blobs");
  cache.Write("models--a--b/blobs/4567", "numbers");
  cache.Write("secret", "of somebody else");
  fs::create_symlink("../../blobs/4567", snapshot + "/model.safetensors");
  fs::create_symlink("../../../secret", snapshot + "/outside");
  fs::create_symlink("../../blobs/../../secret", snapshot + "/through");
  EXPECT_EQ(InputFile::Open(snapshot, "model.safetensors")->Read().value(), "numbers");
  for (const char* name : {"outside", "through"})
    EXPECT_THAT(InputFile::Open(snapshot, name).status().message(), HasSubstr("leads out of its folder"));
}

TEST(InputFile, ReadsAnEmptyFile) {
  TempFolder folder;
  folder.Write("a", "");
  EXPECT_EQ(InputFile::Open(folder.path(), "a")->Read().value(), "");
}

TEST(InputFile, ReadsOnWhenTheFileIsGone) {
  TempFolder folder;
  folder.Write("a", "some bytes");
  const InputFile file = InputFile::Open(folder.path(), "a").value();
  std::filesystem::remove(folder / "a");
  EXPECT_EQ(file.Read().value(), "some bytes");
}

TEST(InputFile, SaysThatAFileIsMissing) {
  TempFolder folder;
  EXPECT_TRUE(absl::IsNotFound(InputFile::Open(folder.path(), "a").status()));
  EXPECT_TRUE(absl::IsNotFound(InputFile::Open(folder / "none", "a").status()));
  EXPECT_THAT(Refusal(folder, "a"), HasSubstr("a: No such file"));
}

TEST(InputFile, FollowsALinkInsideTheFolderOnly) {
  TempFolder folder, elsewhere;
  folder.Write("a", "some bytes");
  elsewhere.Write("b", "secret");
  std::filesystem::create_symlink("a", folder / "inside");
  std::filesystem::create_symlink(elsewhere / "b", folder / "outside");
  std::filesystem::create_symlink("../", folder / "up");
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_EQ(Refusal(folder, "inside"), "accepted");
  EXPECT_EQ(Refusal(folder, "outside"), "outside: leads out of its folder");
  EXPECT_EQ(Refusal(folder, "up"), "up: leads out of its folder");
  EXPECT_THAT(Refusal(folder, "circle"), HasSubstr("Too many levels of symbolic links"));
  EXPECT_EQ(Refusal(folder, "/dev/null"), "/dev/null: leads out of its folder");
}

TEST(InputFile, RefusesWhatIsNoRegularFile) {
  TempFolder folder;
  std::filesystem::create_directory(folder / "folder");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(Refusal(folder, "folder"), "folder: is not a regular file");
  EXPECT_EQ(Refusal(folder, "pipe"), "pipe: is not a regular file");
  EXPECT_EQ(InputFile::Open("/dev", "null").status().message(), "null: is not a regular file");
}

TEST(InputFile, SaysThatItMayNotRead) {
  TempFolder folder;
  chmod(folder.path().c_str(), 0755);
  chmod(folder.Write("a", "x").c_str(), 0);
  const uid_t self = geteuid();
  if (self == 0 && seteuid(65534) != 0) GTEST_SKIP() << "root reads everything";
  const absl::Status status = InputFile::Open(folder.path(), "a").status();
  ASSERT_EQ(seteuid(self), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

TEST(InputFile, NoticesAFileThatShrinksOrGrowsAfterOpening) {
  TempFolder folder;
  const std::string path = folder.Write("a", std::string(10'000, 'x'));
  auto file = InputFile::Open(folder.path(), "a");
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  char byte;
  EXPECT_TRUE(file->ReadAt(99, &byte, 1).ok());
  EXPECT_EQ(file->ReadAt(100, &byte, 1).message(), "a: changed while it was read, from 10000 to 100 bytes");
  EXPECT_EQ(file->Read().status().message(), "a: changed while it was read, from 10000 to 100 bytes");
  ASSERT_EQ(truncate(path.c_str(), 20'000), 0);
  EXPECT_EQ(file->Read().status().message(), "a: changed while it was read, from 10000 to 20000 bytes");
}

TEST(ReadFile, RefusesWhatIsTooLarge) {
  TempFolder folder;
  folder.Write("a", "12345");
  EXPECT_EQ(ReadFile(folder.path(), "a", 5).value(), "12345");
  EXPECT_EQ(ReadFile(folder.path(), "a", 4).status().message(), "a: 5 bytes are above 4");
}

TEST(ReadNamedFile, FollowsLinksWhereverTheyLead) {
  TempFolder folder, elsewhere;
  const std::string path = elsewhere.Write("a", "12345");
  ASSERT_EQ(symlink(path.c_str(), (folder / "link").c_str()), 0);
  EXPECT_EQ(ReadNamedFile(folder / "link", 5).value(), "12345");
  EXPECT_EQ(ReadNamedFile(path, 4).status().message(), "a: 5 bytes are above 4");
  EXPECT_EQ(ReadNamedFile(folder / "none", 5).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ReadNamedFile(folder.path(), 5).status().message(), HasSubstr("is not a regular file"));
}

TEST(ReadFileOf, SaysWhichFieldNamesTheFile) {
  TempFolder folder;
  const std::string path = folder.Write("a", "12345");
  EXPECT_EQ(ReadFileOf("tokens", path, 5).value(), "12345");
  EXPECT_EQ(ReadFileOf("tokens", path, 4).status(),
            absl::InvalidArgumentError(Cat("tokens is '", path, "': a: 5 bytes are above 4")));
  const absl::Status missing = ReadFileOf("tokens", folder / "none", 5).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.message(), HasSubstr(Cat("tokens is '", folder / "none", "': ")));
  EXPECT_THAT(missing.message(), HasSubstr("No such file"));
}

TEST(FileStamp, TellsAFileFromAnother) {
  TempFolder folder;
  const FileStamp none = StampOf(folder / "a");
  EXPECT_EQ(none, StampOf(folder / "b"));
  folder.Write("a", "12345");
  const FileStamp first = StampOf(folder / "a");
  EXPECT_FALSE(first == none);
  EXPECT_EQ(first, StampOf(folder / "a"));
  folder.Write("b", "12345");
  ASSERT_EQ(rename((folder / "b").c_str(), (folder / "a").c_str()), 0);
  EXPECT_FALSE(StampOf(folder / "a") == first);
}

}  // namespace
}  // namespace heed
