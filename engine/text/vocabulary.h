// Tokens and their ids, both ways.
#ifndef HEED_ENGINE_TEXT_VOCABULARY_H_
#define HEED_ENGINE_TEXT_VOCABULARY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"

namespace heed {

class Vocabulary {
 public:
  // The error, if any, comes from Finish(). The same pair again is no error.
  void Add(std::string_view token, int64_t id);
  // Refuses an id outside [0, 2^31), a token or an id given twice, and an id below the largest that was never
  // given.
  absl::Status Finish(std::string_view where);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  // -1 if there is none.
  int32_t Find(std::string_view token) const;
  const std::string& Token(int32_t id) const { return tokens_[id]; }
  bool Contains(int32_t id) const { return id >= 0 && id < size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::vector<std::string> tokens_;
  std::string problem_;
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_VOCABULARY_H_
