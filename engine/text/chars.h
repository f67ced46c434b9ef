// Text on its way to tokens: characters that remember where they came from, whatever happened to them since.
#ifndef HEED_ENGINE_TEXT_CHARS_H_
#define HEED_ENGINE_TEXT_CHARS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

struct Char {
  char32_t code = 0;
  int32_t begin = 0, end = 0;  // code points of the original text that it stands for
};
using Chars = std::vector<Char>;
using CharSpan = std::span<const Char>;

Chars ToChars(std::string_view valid_utf8);
std::string ToUtf8(CharSpan chars);
// The same into `text`, for loops that keep one string.
void ToUtf8(CharSpan chars, std::string& text);

// Text cut into words, one after another.
class Words {
 public:
  void Add(const Char& c) { chars_.push_back(c); }
  void Add(CharSpan chars) { chars_.insert(chars_.end(), chars.begin(), chars.end()); }
  // Ends the word; nothing if it is empty.
  void Cut() {
    if (chars_.size() > (ends_.empty() ? 0 : ends_.back())) ends_.push_back(chars_.size());
  }
  // Of the word that Cut() will end, and of all before it: for who adds characters in other ways.
  Chars& chars() { return chars_; }
  size_t size() const { return ends_.size(); }
  CharSpan operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return CharSpan(chars_).subspan(begin, ends_[i] - begin);
  }

 private:
  Chars chars_;
  std::vector<size_t> ends_;
};

}  // namespace heed

#endif  // HEED_ENGINE_TEXT_CHARS_H_
