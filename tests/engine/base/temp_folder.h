// A folder of a test's own, gone with it.
#ifndef HEED_TESTS_ENGINE_BASE_TEMP_FOLDER_H_
#define HEED_TESTS_ENGINE_BASE_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace heed {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "/heed_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file, whole or anew; returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_BASE_TEMP_FOLDER_H_
