#include "engine/text/charsmap.h"

#include <utf8proc.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/text/changes.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMaxReplacement = 256;  // bytes that one entry may stand for
constexpr size_t kMaxEntry = 64;         // bytes that are looked at for one entry
constexpr size_t kShort = 6;             // bytes of a cluster that is replaced as a whole are below it

// A unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t Value(uint32_t unit) { return unit & 0x7fffffff; }
uint32_t Label(uint32_t unit) { return unit & 0x800000ff; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t number = 0;
  for (int i = 3; i >= 0; --i) number = number << 8 | static_cast<uint8_t>(bytes[i]);
  return number;
}

size_t LongestText(std::string_view texts) {
  size_t longest = 0;
  while (!texts.empty()) {
    const size_t length = std::min(texts.find('\0'), texts.size());
    longest = std::max(longest, length);
    texts.remove_prefix(std::min(length + 1, texts.size()));
  }
  return longest;
}

// New characters take the places of old ones; further new ones are added, and further old ones go with the
// last new one, of this replacement or of what was before it.
void AddReplacement(std::string_view text, int64_t old_count, std::vector<Change>& changes) {
  int64_t left = old_count;
  for (; !text.empty(); --left) changes.push_back({TakeCharacter(text), left > 0 ? 0 : 1});
  if (left > 0 && !changes.empty()) changes.back().change -= static_cast<int>(left);
}

// The end of the cluster that begins at `at`.
size_t ClusterEnd(const Chars& text, size_t at) {
  utf8proc_int32_t state = 0;
  for (++at; at < text.size(); ++at) {
    const auto before = static_cast<utf8proc_int32_t>(text[at - 1].code);
    if (utf8proc_grapheme_break_stateful(before, static_cast<utf8proc_int32_t>(text[at].code), &state)) break;
  }
  return at;
}

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Read(std::string_view base64, const std::string& where) {
  Charsmap map;
  if (base64.empty()) return map;
  std::string bytes;
  if (!absl::Base64Unescape(absl::string_view(base64.data(), base64.size()), &bytes))
    return Invalid(where, " is not Base64");
  if (bytes.size() < 4) return Invalid(where, ": ", bytes.size(), " bytes are below 4");
  const uint32_t size = LittleEndian(bytes);
  if (size % 4 != 0 || size > bytes.size() - 4) {
    return Invalid(where, ": a double array of ", size, " bytes, which must be a multiple of 4 and at most ",
                   bytes.size() - 4);
  }
  for (size_t at = 4; at < 4 + size; at += 4)
    map.units_.push_back(LittleEndian(std::string_view(bytes).substr(at, 4)));
  map.texts_ = bytes.substr(4 + size);
  if (!ValidUtf8(map.texts_)) return Invalid(where, ": its texts are not valid UTF-8");
  const size_t longest = LongestText(map.texts_);
  if (longest > kMaxReplacement) {
    return Invalid(where, ": a replacement of ", longest, " bytes is above ", kMaxReplacement);
  }
  return map;
}

std::optional<std::string_view> Charsmap::Text(size_t begin) const {
  if (begin >= texts_.size() || (texts_[begin] & 0xc0) == 0x80) return std::nullopt;
  const std::string_view rest = std::string_view(texts_).substr(begin);
  return rest.substr(0, rest.find('\0'));
}

std::optional<Charsmap::Entry> Charsmap::Find(std::string_view text, bool longest) const {
  std::optional<Entry> found;
  uint32_t at = units_.empty() ? 0 : Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || Label(units_[at]) != byte) break;
    const uint32_t unit = units_[at];
    at ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    const auto replacement = at < units_.size() ? Text(Value(units_[at])) : std::nullopt;
    if (replacement) found = Entry{i + 1, *replacement};
    if (!replacement || !longest) break;
  }
  return found;
}

void Charsmap::Normalize(int32_t origin, Chars& text) const {
  std::vector<Change> changes;
  changes.reserve(text.size());
  bool modified = false;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = ClusterEnd(text, begin);
    const CharSpan cluster = CharSpan(text).subspan(begin, end - begin);
    if (cluster.size() < kShort) {
      const std::string bytes = ToUtf8(cluster);
      const auto whole = bytes.size() < kShort ? Find(bytes, /*longest=*/false) : std::nullopt;
      modified |= whole.has_value();
      if (whole) AddReplacement(whole->replacement, std::ssize(cluster), changes);
      if (whole) continue;
    }
    for (const Char& c : cluster) {
      const auto entry = Find(ToUtf8({&c, 1}), /*longest=*/false);
      modified |= entry.has_value();
      if (entry) AddReplacement(entry->replacement, 1, changes);
      if (!entry) changes.push_back({c.code, 0});
    }
  }
  if (modified) Apply(changes, origin, text);
}

void Charsmap::NormalizeLongest(int32_t origin, Chars& text) const {
  const std::string bytes = ToUtf8(text);
  std::vector<Change> changes;
  changes.reserve(text.size());
  size_t byte = 0;
  for (size_t at = 0; at < text.size();) {
    const auto entry = Find(std::string_view(bytes).substr(byte, kMaxEntry), /*longest=*/true);
    const size_t first = at, end = byte + (entry ? entry->bytes : 1);
    while (byte < end) byte += Utf8Bytes(text[at++].code);
    if (entry) AddReplacement(entry->replacement, static_cast<int64_t>(at - first), changes);
    if (!entry) changes.push_back({text[first].code, 0});
  }
  Apply(changes, origin, text);
}

}  // namespace heed
