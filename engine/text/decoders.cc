#include "engine/text/decoders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/byte_level.h"
#include "engine/text/regex.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMaxReplaced = 16 << 20;  // bytes that a replacement may make a text longer than it was

class Spaced : public Decoder {
 public:
  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
  }
};

// English punctuation, joined to the word before it.
void CleanUp(std::string& token) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}}) {
    absl::StrReplaceAll({{from, to}}, &token);
  }
}

// A token that begins with the prefix goes on where the last one ended; the others begin after a space.
class WordPiece : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix_)) {
        tokens[i].erase(0, prefix_.size());
      } else if (i > 0) {
        tokens[i].insert(0, " ");
      }
      if (cleanup_) CleanUp(tokens[i]);
    }
  }

 private:
  const std::string prefix_;
  const bool cleanup_;
};

// Characters that spell bytes.
class ByteLevel : public Decoder {
 public:
  void Decode(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += BytesOfSpelling(token);
    tokens = {ReplaceInvalidUtf8(bytes)};
  }
  std::string Bytes(std::string token) const override { return BytesOfSpelling(token); }
};

// A visible character for a space, which the first token loses.
class Metaspace : public Decoder {
 public:
  Metaspace(std::string replacement, bool strip_first)
      : replacement_(std::move(replacement)), strip_first_(strip_first) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) Replace(i == 0 && strip_first_ ? "" : " ", tokens[i]);
  }
  std::string Bytes(std::string token) const override {
    Replace(" ", token);
    return token;
  }

 private:
  void Replace(const char* space, std::string& token) const {
    absl::StrReplaceAll({{replacement_, space}}, &token);
  }

  const std::string replacement_;
  const bool strip_first_;
};

// A suffix ends words: a space, but for the last.
class SuffixedBpe : public Decoder {
 public:
  explicit SuffixedBpe(std::string suffix) : suffix_(std::move(suffix)) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      absl::StrReplaceAll({{suffix_, i + 1 == tokens.size() ? "" : " "}}, &tokens[i]);
  }
  std::string Bytes(std::string token) const override {
    absl::StrReplaceAll({{suffix_, " "}}, &token);
    return token;
  }

 private:
  const std::string suffix_;
};

// Connectionist temporal classification (Graves et al. 2006): a token that comes again at once is one, the
// padding is nothing, and a delimiter stands between words.
class Ctc : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}

  void Decode(std::vector<std::string>& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      absl::StrReplaceAll({{pad_, ""}}, &token);
      if (!cleanup_) continue;
      CleanUp(token);
      absl::StrReplaceAll({{delimiter_, " "}}, &token);
    }
    std::erase(tokens, "");
  }

 private:
  const std::string pad_, delimiter_;
  const bool cleanup_;
};

class Fuse : public Decoder {
 public:
  void Decode(std::vector<std::string>& tokens) const override { tokens = {absl::StrJoin(tokens, "")}; }
};

// Without one character, so many times at most, at the ends of every token.
class Strip : public Decoder {
 public:
  Strip(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }
  std::string Bytes(std::string token) const override { return token; }

 private:
  const std::string content_;
  const int64_t start_, stop_;
};

// What a pattern finds for a string.
class Replace : public Decoder {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = Replaced(token);
  }

 private:
  // The same, where the pattern fails or the text would become too long.
  std::string Replaced(const std::string& text) const {
    const Chars chars = ToChars(text);
    const auto matches = pattern_.FindAll(chars);
    if (!matches.ok() || matches->empty() || matches->size() * content_.size() > kMaxReplaced) return text;
    std::string replaced;
    size_t done = 0;
    for (const Regex::Match& match : *matches) {
      replaced += ToUtf8(CharSpan(chars).subspan(done, match.begin - done)) + content_;
      done = match.end;
    }
    return replaced + ToUtf8(CharSpan(chars).subspan(done));
  }

  const Regex pattern_;
  const std::string content_;
};

// Bytes that stand together are text, or each of them is U+FFFD.
class ByteFallback : public Decoder {
 public:
  void Decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> parts;
    std::string bytes;
    for (std::string& token : tokens) {
      const int byte = ByteOfToken(token);
      if (byte >= 0) {
        bytes.push_back(static_cast<char>(byte));
      } else {
        Flush(bytes, parts);
        parts.push_back(std::move(token));
      }
    }
    Flush(bytes, parts);
    tokens = std::move(parts);
  }
  std::string Bytes(std::string token) const override {
    const int byte = ByteOfToken(token);
    return byte < 0 ? token : std::string(1, static_cast<char>(byte));
  }
  bool DependsOnNext(std::string_view token) const override { return ByteOfToken(token) >= 0; }

 private:
  static void Flush(std::string& bytes, std::vector<std::string>& parts) {
    if (ValidUtf8(bytes)) {
      if (!bytes.empty()) parts.push_back(bytes);
    } else {
      parts.insert(parts.end(), bytes.size(), "\ufffd");
    }
    bytes.clear();
  }
};

class Sequence : public Decoder {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Decoder>> stages) : stages_(std::move(stages)) {}

  void Decode(std::vector<std::string>& tokens) const override {
    for (const auto& stage : stages_) stage->Decode(tokens);
  }
  std::string Bytes(std::string token) const override {
    // A byte says nothing to the stages after the one that made it.
    for (const auto& stage : stages_) {
      token = stage->Bytes(std::move(token));
      if (!ValidUtf8(token)) break;
    }
    return token;
  }
  bool DependsOnNext(std::string_view token) const override {
    return std::any_of(stages_.begin(), stages_.end(),
                       [&](const auto& stage) { return stage->DependsOnNext(token); });
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> stages_;
};

using Made = absl::StatusOr<std::unique_ptr<const Decoder>>;

// A field that may not be empty.
std::string ReadText(JsonFields& fields, std::string_view key, std::string_view fallback) {
  std::string text = fields.String(key, fallback);
  if (text.empty()) fields.Fail(Cat(key, " is empty"));
  return text;
}

std::string ReadCharacter(JsonFields& fields, std::string_view key, std::string_view fallback) {
  std::string text = fields.String(key, fallback);
  if (CodePoints(text) != 1) fields.Fail(Cat(key, ": ", Shown(text), " is not one character"));
  return text;
}

Made NewSequence(JsonFields& fields) {
  const Json& list = fields.Raw("decoders");
  if (!list.is_array()) fields.Fail("decoders is not a list");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<std::unique_ptr<const Decoder>> stages;
  for (const Json& item : list) {
    const std::string where = Cat(fields.where(), ".decoders[", stages.size(), "]");
    if (item.is_null()) return Invalid(where, " is null");
    ASSIGN_OR_RETURN(auto stage, NewDecoder(item, where));
    stages.push_back(std::move(stage));
  }
  return std::make_unique<Sequence>(std::move(stages));
}

Made NewReplace(JsonFields& fields) {
  const Json& pattern = fields.Raw("pattern");
  std::string content = fields.String("content", "");
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Regex regex, ReadPattern(pattern, fields.where() + ".pattern"));
  return std::make_unique<Replace>(std::move(regex), std::move(content));
}

std::unique_ptr<const Decoder> NewMetaspace(JsonFields& fields) {
  std::string replacement = ReadCharacter(fields, "replacement", "\u2581");
  const bool never = fields.Choice("prepend_scheme", {"always", "first", "never"}) == "never";
  const bool prefix = fields.Bool("add_prefix_space", true);  // of older files, which have no scheme
  fields.Ignore("split");
  fields.Ignore("str_rep");
  return std::make_unique<Metaspace>(std::move(replacement), !never && prefix);
}

std::unique_ptr<const Decoder> NewByteLevel(JsonFields& fields) {
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.Ignore(key);
  return std::make_unique<ByteLevel>();
}

std::unique_ptr<const Decoder> NewCtc(JsonFields& fields) {
  std::string pad = ReadText(fields, "pad_token", "<pad>");
  std::string delimiter = ReadText(fields, "word_delimiter_token", "|");
  return std::make_unique<Ctc>(std::move(pad), std::move(delimiter), fields.Bool("cleanup", true));
}

std::unique_ptr<const Decoder> NewStrip(JsonFields& fields) {
  std::string content = ReadCharacter(fields, "content", " ");
  const int64_t start = fields.Int("start", 0, 0, INT32_MAX);
  return std::make_unique<Strip>(std::move(content), start, fields.Int("stop", 0, 0, INT32_MAX));
}

// Those that need no more than their fields; null: the type is none of them.
std::unique_ptr<const Decoder> NewSimple(std::string_view type, JsonFields& fields) {
  if (type == "ByteLevel") return NewByteLevel(fields);
  if (type == "Metaspace") return NewMetaspace(fields);
  if (type == "CTC") return NewCtc(fields);
  if (type == "Strip") return NewStrip(fields);
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "BPEDecoder") return std::make_unique<SuffixedBpe>(ReadText(fields, "suffix", "</w>"));
  if (type == "WordPiece") {
    std::string prefix = fields.String("prefix", "##");
    return std::make_unique<WordPiece>(std::move(prefix), fields.Bool("cleanup", true));
  }
  return nullptr;
}

}  // namespace

std::string Decoder::Bytes(std::string token) const {
  std::vector<std::string> tokens = {std::move(token)};
  Decode(tokens);
  return absl::StrJoin(tokens, "");
}

absl::StatusOr<std::unique_ptr<const Decoder>> NewDecoder(const Json& json, const std::string& where) {
  if (json.is_null()) return std::make_unique<Spaced>();
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "Sequence") return NewSequence(fields);
  if (type == "Replace") return NewReplace(fields);
  auto made = NewSimple(type, fields);
  if (made == nullptr) fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

}  // namespace heed
