// Every step decodes the last few tokens anew and gives what has been added since. What the next tokens may
// change waits: U+FFFD at the end, which may be the first bytes of a character, and tokens that say so
// (Tokenizer::DependsOnNext). Few tokens are kept: the
// older ones are let go as soon as the text without them, if there is any, ends as the text with them.
#include <algorithm>

#include "engine/text/tokenizer.h"

namespace heed {
namespace {

constexpr size_t kContext = 8;  // tokens kept when older ones are let go
constexpr size_t kWindow = 24;  // tokens that are decoded at most, where the decoder allows
constexpr int kUnfinished = 3;  // bytes of a character that lacks one
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The beginning of the text that no later byte changes.
size_t CertainBytes(std::string_view text) {
  for (int i = 0; i < kUnfinished && text.ends_with(kReplacement); ++i)
    text.remove_suffix(kReplacement.size());
  return text.size();
}

void DropLastCharacter(std::string& text) {
  while ((text.back() & 0xc0) == 0x80) text.pop_back();
  text.pop_back();
}

}  // namespace

PieceDecoder::PieceDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                           bool skip_special_tokens)
    : tokenizer_(&tokenizer),
      skip_special_tokens_(skip_special_tokens),
      tokens_(prompt.end() - std::min(prompt.size(), kContext), prompt.end()),
      said_(tokenizer.Decode(tokens_, skip_special_tokens)) {}

std::string PieceDecoder::Add(int32_t token) {
  tokens_.push_back(token);
  return Next(/*last=*/false);
}

std::string PieceDecoder::Finish() { return Next(/*last=*/true); }

// The tokens at the beginning whose text depends on none after them.
size_t PieceDecoder::Settled() const {
  size_t settled = tokens_.size();
  while (settled > 0 && tokenizer_->DependsOnNext(tokens_[settled - 1])) --settled;
  return settled;
}

std::string PieceDecoder::Next(bool last) {
  const size_t settled = last ? tokens_.size() : Settled();
  const std::string text = tokenizer_->Decode(std::span(tokens_).first(settled), skip_special_tokens_);
  if (settled < tokens_.size() && text.size() <= said_.size()) return "";
  while (!text.starts_with(said_)) DropLastCharacter(said_);  // the prompt ended within a character
  const size_t certain = std::max(last ? text.size() : CertainBytes(text), said_.size());
  std::string piece = text.substr(said_.size(), certain - said_.size());
  said_ += piece;
  if (settled == tokens_.size() && settled > kWindow) LetGo(text);
  return piece;
}

void PieceDecoder::LetGo(const std::string& text) {
  const std::span<const int32_t> kept = std::span(tokens_).last(kContext);
  const std::string end = tokenizer_->Decode(kept, skip_special_tokens_);
  const size_t unsaid = text.size() - said_.size();
  if (end.empty() || end.size() < unsaid || !text.ends_with(end)) return;
  said_ = end.substr(0, end.size() - unsaid);
  tokens_.erase(tokens_.begin(), tokens_.end() - kContext);
}

}  // namespace heed
