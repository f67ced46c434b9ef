// Free memory as machines and containers present it.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "engine/base/free_memory.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

// A tree of /proc and /sys files.
class Container {
 public:
  Container()
      : root_(testing::TempDir() + "/free-" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    With("/proc/meminfo", "MemTotal:       2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n");
  }
  ~Container() { std::filesystem::remove_all(root_); }

  Container& With(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  int64_t Free() const { return FreeMemory(root_); }

 private:
  const std::string root_;
};

TEST(FreeMemory, IsWhatTheMachineHasWhereNothingLimits) {
  EXPECT_EQ(Container().Free(), 1000 * 1024);
  EXPECT_EQ(Container()
                .With("/proc/self/cgroup", "0::/\n")
                .With("/sys/fs/cgroup/memory.max", "max\n")
                .With("/sys/fs/cgroup/memory.current", "500\n")
                .Free(),
            1000 * 1024);
  EXPECT_EQ(FreeMemory("/nowhere"), std::numeric_limits<int64_t>::max());
}

TEST(FreeMemory, IsWhatTheTightestGroupLeaves) {
  Container container;
  container.With("/proc/self/cgroup", "0::/pods/heed\n")
      .With("/sys/fs/cgroup/pods/heed/memory.max", "900000\n")
      .With("/sys/fs/cgroup/pods/heed/memory.current", "100000\n")
      .With("/sys/fs/cgroup/pods/memory.max", "1000000\n")
      .With("/sys/fs/cgroup/pods/memory.current", "700000\n");
  EXPECT_EQ(container.Free(), 300'000);
}

TEST(FreeMemory, CountsFilesThatNobodyUsesAsFree) {
  Container container;
  container.With("/proc/self/cgroup", "0::/\n")
      .With("/sys/fs/cgroup/memory.max", "900000\n")
      .With("/sys/fs/cgroup/memory.current", "850000\n")
      .With("/sys/fs/cgroup/memory.stat", "anon 300000\ninactive_file 500000\n");
  EXPECT_EQ(container.Free(), 550'000);
}

TEST(FreeMemory, ReadsCgroupV1AndIsNeverLessThanNothing) {
  Container container;
  container.With("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n")
      .With("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000\n")
      .With("/sys/fs/cgroup/memory/memory.usage_in_bytes", "200000\n");
  EXPECT_EQ(container.Free(), 300'000);
  container.With("/sys/fs/cgroup/memory/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(container.Free(), 0);
}

}  // namespace
}  // namespace heed
