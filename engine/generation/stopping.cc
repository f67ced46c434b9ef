#include "engine/generation/stopping.h"

#include <algorithm>

#include "engine/base/status.h"
#include "engine/text/tokenizer.h"

namespace heed {
namespace {

// A stop string in a text: [begin, end).
struct Match {
  size_t begin = 0, end = std::string::npos;
};

// The match that ends first, of equal ends the one that begins first.
Match FirstMatch(std::string_view text, const std::vector<std::string>& stops) {
  Match first;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == text.npos) continue;
    const size_t end = begin + stop.size();
    if (end < first.end || (end == first.end && begin < first.begin)) first = {begin, end};
  }
  return first;
}

// Bytes at the end of a text that may be the beginning of a stop string.
size_t BytesToHold(std::string_view text, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    size_t length = std::min(stop.size() - 1, text.size());
    while (length > held && !text.ends_with(std::string_view(stop).substr(0, length))) --length;
    held = std::max(held, length);
  }
  return held;
}

}  // namespace

absl::Status Validate(const StopOptions& options, int64_t vocab_size) {
  if (options.max_tokens < 1) return Invalid("stopping.max_tokens: ", options.max_tokens, " is below 1");
  for (size_t i = 0; i < options.stop_tokens.size(); ++i) {
    const int32_t id = options.stop_tokens[i];
    if (id < 0 || id >= vocab_size)
      return Invalid("stopping.stop_tokens[", i, "]: ", id, " is not in [0, ", vocab_size, ")");
  }
  if (std::ssize(options.stop_strings) > kMaxStops) {
    return Invalid("stopping.stop: ", options.stop_strings.size(), " strings are above ", kMaxStops);
  }
  for (size_t i = 0; i < options.stop_strings.size(); ++i) {
    const std::string& stop = options.stop_strings[i];
    if (stop.empty()) return Invalid("stopping.stop[", i, "]: the string is empty");
    if (std::ssize(stop) > kMaxStopBytes)
      return Invalid("stopping.stop[", i, "]: ", stop.size(), " bytes are above ", kMaxStopBytes);
    if (!ValidUtf8(stop)) return Invalid("stopping.stop[", i, "]: the string is not valid UTF-8");
  }
  return absl::OkStatus();
}

StopStrings::StopStrings(std::vector<std::string> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

std::string StopStrings::Add(std::string_view piece) {
  if (matched_) return "";
  std::string text = std::move(held_);
  text += piece;
  held_.clear();
  if (const Match match = FirstMatch(text, stops_); match.end != text.npos) {
    matched_ = true;
    match_ = text.substr(match.begin, match.end - match.begin);
    text.resize(include_stop_ ? match.end : match.begin);
    return text;
  }
  const size_t shown = text.size() - BytesToHold(text, stops_);
  held_ = text.substr(shown);
  text.resize(shown);
  return text;
}

std::string StopStrings::Finish() { return std::exchange(held_, ""); }

}  // namespace heed
