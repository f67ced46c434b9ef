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
  static constexpr int64_t kMaxId = (1 << 22) - 1;

  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // The error, if any, comes from Finish(). The same pair again is no error.
  void Add(std::string_view token, int64_t id);
  // The same, but a token may come again: the last id is its own, the others are spelled so too.
  void AddAgain(std::string_view token, int64_t id);
  // Refuses an id outside [0, kMaxId], a token with two ids and an id of two tokens. Ids below the largest
  // may be nobody's.
  absl::Status Finish(std::string_view where) const;

  // All ids are below it.
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  // -1 if there is none.
  int32_t Find(std::string_view token) const;
  bool Contains(int32_t id) const { return id >= 0 && id < size() && tokens_[id] != nullptr; }
  const std::string& Token(int32_t id) const { return *tokens_[id]; }

 private:
  void Spell(const std::string& token, int64_t id);
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id, in ids_; null: nobody's
  std::string problem_;
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_VOCABULARY_H_
