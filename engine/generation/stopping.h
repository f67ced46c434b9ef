// When a generated text ends: end tokens, a limit, or a stop string, which may span tokens and pieces.
#ifndef HEED_ENGINE_GENERATION_STOPPING_H_
#define HEED_ENGINE_GENERATION_STOPPING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace heed {

inline constexpr int32_t kMaxStops = 16;
inline constexpr int32_t kMaxStopBytes = 256;  // of each

struct StopOptions {
  int32_t max_tokens = 0;                 // at least 1
  std::vector<int32_t> stop_tokens;       // end the text beside the model's own end tokens
  std::vector<std::string> stop_strings;  // at most 16, each 1..256 bytes of UTF-8
  bool include_stop = false;              // the stop string (or end token's text) is part of the text
  bool ignore_eos = false;                // the model's own end tokens do not end the text
};

absl::Status Validate(const StopOptions& options, int64_t vocab_size);

// Lets text through and holds back what may be the beginning of a stop string. One text, one thread at a
// time.
class StopStrings {
 public:
  StopStrings(std::vector<std::string> stops, bool include_stop);
  // Takes a piece; gives the text that may be shown now (whole UTF-8 characters if pieces are). After a
  // match: the text up to the match (with it, if include_stop), matched() is true, and further pieces give
  // nothing. Of several matches the one that is complete first wins, of these the longest: the same however
  // the text is cut into pieces.
  std::string Add(std::string_view piece);
  // What was held back, when no more text comes.
  std::string Finish();
  bool matched() const { return matched_; }
  const std::string& match() const { return match_; }  // which one; empty before

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  bool matched_ = false;
  std::string match_;
  std::string held_;
};

}  // namespace heed

#endif  // HEED_ENGINE_GENERATION_STOPPING_H_
