#include "server/reloaded.h"

#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/server/fakes.h"

namespace heed {
namespace {

// A file of a text that is not to be "bad".
class ReloadedFile : public testing::Test {
 protected:
  void SetUp() override {
    Write("one");
    reloaded_ = *Open();
  }
  absl::StatusOr<std::unique_ptr<Reloaded<std::string>>> Open() {
    return Reloaded<std::string>::Read(
        {.paths = {path_, ""},
         .read = [this]() -> absl::StatusOr<std::string> {
           ++readings_;
           auto text = ReadNamedFile(path_, 1000);
           if (text.ok() && *text == "bad") return Invalid("it is bad");
           if (text.ok() && *text == "too much") throw std::bad_alloc();
           return text;
         },
         .told = [this](const absl::Status& status) { told_.push_back(status); }},
        &clock_);
  }
  // Aside, and renamed: another file each time, whatever the resolution of its time.
  void Write(const std::string& text) {
    folder_.Write("new", text);
    std::filesystem::rename(folder_ / "new", path_);
  }
  std::string Now() { return *reloaded_->Now(); }

  const TempFolder folder_;
  const std::string path_ = folder_ / "file";
  FakeClock clock_;
  int readings_ = 0;
  std::vector<absl::Status> told_;
  std::unique_ptr<Reloaded<std::string>> reloaded_;
};

TEST_F(ReloadedFile, IsReadAgainWhenItChangesAndOnlyThen) {
  clock_.Move(seconds(1));
  EXPECT_EQ(Now(), "one");
  EXPECT_EQ(readings_, 1);
  Write("two");
  clock_.Move(seconds(1));
  EXPECT_EQ(Now(), "two");
  clock_.Move(seconds(1));
  EXPECT_EQ(Now(), "two");
  EXPECT_EQ(readings_, 2);
  EXPECT_EQ(told_, std::vector{absl::OkStatus()});
}

TEST_F(ReloadedFile, IsLookedAtOnceASecond) {
  EXPECT_EQ(Now(), "one");
  Write("two");
  clock_.Move(milliseconds(999));
  EXPECT_EQ(Now(), "one");
  clock_.Move(milliseconds(1));
  EXPECT_EQ(Now(), "two");
}

TEST_F(ReloadedFile, ThatIsWrongChangesNothingAndIsToldOnce) {
  const std::shared_ptr<const std::string> before = reloaded_->Now();
  for (const char* wrong : {"bad", "too much"}) {
    Write(wrong);
    for (int i = 0; i < 3; ++i) {
      clock_.Move(seconds(1));
      EXPECT_EQ(reloaded_->Now(), before);
    }
  }
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[0], absl::InvalidArgumentError("it is bad"));
  EXPECT_FALSE(told_[1].ok());
  std::filesystem::remove(path_);
  clock_.Move(seconds(1));
  EXPECT_EQ(reloaded_->Now(), before);
  EXPECT_TRUE(absl::IsNotFound(told_.back()));
  Write("three");
  clock_.Move(seconds(1));
  EXPECT_EQ(Now(), "three");
  EXPECT_EQ(*before, "one");  // of who still holds it
}

TEST_F(ReloadedFile, ThatIsWrongFromTheBeginningIsAnError) {
  Write("bad");
  EXPECT_EQ(Open().status(), absl::InvalidArgumentError("it is bad"));
}

}  // namespace
}  // namespace heed
