// Each does to characters and to their origins what Hugging Face's tokenizers do.
#include "engine/text/normalizers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/byte_level.h"
#include "engine/text/charsmap.h"
#include "engine/text/normalization_forms.h"
#include "engine/text/regex.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr size_t kMaxBytes = 1024;  // of what is put before a text
constexpr size_t kMaxGrowth = 64;   // times as many characters, with a few more for short texts

absl::Status CheckGrowth(size_t before, size_t after) {
  const size_t limit = kMaxGrowth * before + 4096;
  if (after <= limit) return absl::OkStatus();
  return Invalid("the tokenizer's normalizer makes ", after, " characters of ", before, ", above ", limit);
}

void Lowercase(Chars& text) {
  constexpr char32_t kDottedI = 0x130;  // the one character whose lower case is two
  Chars lower;
  lower.reserve(text.size());
  for (const Char& c : text) {
    lower.push_back({LowercaseOf(c.code), c.begin, c.end});
    if (c.code == kDottedI) lower.push_back({0x307, c.begin, c.end});
  }
  text = std::move(lower);
}

void StripAccents(Chars& text) {
  std::erase_if(text, [](const Char& c) { return IsMark(c.code); });
}

// The cleaning of Google's "neural machine translation": most control characters go, other white space and
// what cannot be seen becomes a space.
void Nmt(Chars& text) {
  std::erase_if(text, [](const Char& c) {
    return (c.code >= 1 && c.code <= 8) || c.code == 0xb || (c.code >= 0xe && c.code <= 0x1f) ||
           c.code == 0x7f || c.code == 0x8f || c.code == 0x9f;
  });
  for (Char& c : text) {
    if (c.code == '\t' || c.code == '\n' || c.code == '\f' || c.code == '\r' || c.code == 0x1680 ||
        (c.code >= 0x200b && c.code <= 0x200f) || c.code == 0x2028 || c.code == 0x2029 || c.code == 0x2581 ||
        c.code == 0xfeff || c.code == 0xfffd) {
      c.code = ' ';
    }
  }
}

void ByteLevel(Chars& text) {
  Chars bytes;
  bytes.reserve(text.size());
  for (const Char& c : text) AppendByteLevel(c, bytes);
  text = std::move(bytes);
}

class Plain : public Normalizer {
 public:
  explicit Plain(void (*normalize)(Chars&)) : normalize_(normalize) {}
  absl::Status Normalize(int32_t, Chars& text) const override {
    normalize_(text);
    return absl::OkStatus();
  }

 private:
  void (*normalize_)(Chars&);
};

// BERT's: control characters go, every white space is a space, Chinese characters stand alone, and the rest.
class Bert : public Normalizer {
 public:
  struct Options {
    bool clean = true, chinese = true, strip_accents = true, lowercase = true;
  };
  explicit Bert(const Options& options) : options_(options) {}

  absl::Status Normalize(int32_t, Chars& text) const override {
    if (options_.clean) Clean(text);
    if (options_.chinese) SetChineseApart(text);
    if (options_.strip_accents) {
      ToNfd(text);
      std::erase_if(text, [](const Char& c) { return IsNonspacingMark(c.code); });
    }
    if (options_.lowercase) Lowercase(text);
    return absl::OkStatus();
  }

 private:
  static void Clean(Chars& text) {
    std::erase_if(text, [](const Char& c) {
      const bool space = c.code == '\t' || c.code == '\n' || c.code == '\r';
      return c.code == 0 || c.code == 0xfffd || (!space && IsControl(c.code));
    });
    for (Char& c : text) {
      if (IsSpace(c.code)) c.code = ' ';
    }
  }

  static bool IsChinese(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  }

  static void SetChineseApart(Chars& text) {
    Chars apart;
    apart.reserve(text.size());
    for (const Char& c : text) {
      const bool chinese = IsChinese(c.code);
      if (chinese) apart.push_back({' ', c.begin, c.end});
      apart.push_back(c);
      if (chinese) apart.push_back({' ', c.begin, c.end});
    }
    text = std::move(apart);
  }

  const Options options_;
};

class Precompiled : public Normalizer {
 public:
  Precompiled(Charsmap map, bool longest) : map_(std::move(map)), longest_(longest) {}
  absl::Status Normalize(int32_t origin, Chars& text) const override {
    if (longest_) map_.NormalizeLongest(origin, text);
    if (!longest_) map_.Normalize(origin, text);
    return absl::OkStatus();
  }

 private:
  const Charsmap map_;
  const bool longest_;
};

// Without the spaces at its ends.
class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  absl::Status Normalize(int32_t, Chars& text) const override {
    const auto solid = [](const Char& c) { return !IsSpace(c.code); };
    if (right_) text.erase(std::find_if(text.rbegin(), text.rend(), solid).base(), text.end());
    if (left_) text.erase(text.begin(), std::find_if(text.begin(), text.end(), solid));
    return absl::OkStatus();
  }

 private:
  bool left_, right_;
};

// Text before the text, unless that is empty; it has the first character's origin.
class Prepend : public Normalizer {
 public:
  explicit Prepend(Chars before) : before_(std::move(before)) {}
  absl::Status Normalize(int32_t, Chars& text) const override {
    if (text.empty()) return absl::OkStatus();
    Chars before = before_;
    for (Char& c : before) c = {c.code, text[0].begin, text[0].end};
    text.insert(text.begin(), before.begin(), before.end());
    return absl::OkStatus();
  }

 private:
  Chars before_;
};

// What a pattern finds for a string, which has the origin of the last character of the old.
class Replace : public Normalizer {
 public:
  Replace(Regex pattern, Chars content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  absl::Status Normalize(int32_t origin, Chars& text) const override {
    ASSIGN_OR_RETURN(const auto matches, pattern_.FindAll(text));
    if (matches.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(CheckGrowth(text.size(), text.size() + matches.size() * content_.size()));
    Chars replaced;
    size_t done = 0;
    for (const Regex::Match& match : matches) {
      replaced.insert(replaced.end(), text.begin() + done, text.begin() + match.begin);
      const Char last = match.end > 0 ? text[match.end - 1] : Char{0, origin, origin};
      for (const Char& c : content_) replaced.push_back({c.code, last.begin, last.end});
      done = match.end;
    }
    replaced.insert(replaced.end(), text.begin() + done, text.end());
    text = std::move(replaced);
    return absl::OkStatus();
  }

 private:
  const Regex pattern_;
  const Chars content_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Normalizer>> stages) : stages_(std::move(stages)) {}
  absl::Status Normalize(int32_t origin, Chars& text) const override {
    const size_t before = text.size();
    for (const auto& stage : stages_) {
      RETURN_IF_ERROR(stage->Normalize(origin, text));
      RETURN_IF_ERROR(CheckGrowth(before, text.size()));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> stages_;
};

using Made = absl::StatusOr<std::unique_ptr<const Normalizer>>;

Made NewSequence(JsonFields& fields) {
  const Json& list = fields.Raw("normalizers");
  if (!list.is_array()) fields.Fail("normalizers is not a list");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<std::unique_ptr<const Normalizer>> stages;
  for (const Json& item : list) {
    ASSIGN_OR_RETURN(auto stage,
                     NewNormalizer(item, Cat(fields.where(), ".normalizers[", stages.size(), "]")));
    if (stage == nullptr) return Invalid(fields.where(), ".normalizers[", stages.size(), "] is null");
    stages.push_back(std::move(stage));
  }
  return std::make_unique<Sequence>(std::move(stages));
}

Made NewReplace(JsonFields& fields) {
  const Json& pattern = fields.Raw("pattern");
  const Chars content = ToChars(fields.String("content", ""));
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Regex regex, ReadPattern(pattern, fields.where() + ".pattern"));
  return std::make_unique<Replace>(std::move(regex), content);
}

Made NewPrecompiled(JsonFields& fields) {
  const std::string base64 = fields.String("precompiled_charsmap", "");
  const bool longest = fields.Bool("longest", false);  // no tokenizer.json has it: of files of SentencePiece
  RETURN_IF_ERROR(fields.Finish());
  ASSIGN_OR_RETURN(Charsmap map, Charsmap::Read(base64, fields.where() + ".precompiled_charsmap"));
  return std::make_unique<Precompiled>(std::move(map), longest);
}

Made NewBert(JsonFields& fields) {
  Bert::Options options;
  options.clean = fields.Bool("clean_text", true);
  options.chinese = fields.Bool("handle_chinese_chars", true);
  options.lowercase = fields.Bool("lowercase", true);
  options.strip_accents = fields.Bool("strip_accents", options.lowercase);
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<Bert>(options);
}

Made NewPrepend(JsonFields& fields) {
  const std::string before = fields.String("prepend", "");
  if (before.size() > kMaxBytes) fields.Fail(Cat("prepend: ", before.size(), " bytes are above ", kMaxBytes));
  RETURN_IF_ERROR(fields.Finish());
  return std::make_unique<Prepend>(ToChars(before));
}

void (*PlainNormalizer(std::string_view type))(Chars&) {
  if (type == "NFC") return ToNfc;
  if (type == "NFD") return ToNfd;
  if (type == "NFKC") return ToNfkc;
  if (type == "NFKD") return ToNfkd;
  if (type == "Lowercase") return Lowercase;
  if (type == "StripAccents") return StripAccents;
  if (type == "Nmt") return Nmt;
  if (type == "ByteLevel") return ByteLevel;
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Normalizer>> NewNormalizer(const Json& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "Sequence") return NewSequence(fields);
  if (type == "Replace") return NewReplace(fields);
  if (type == "Precompiled") return NewPrecompiled(fields);
  if (type == "Prepend") return NewPrepend(fields);
  if (type == "BertNormalizer") return NewBert(fields);
  Made made;
  if (type == "Strip") {
    const bool left = fields.Bool("strip_left", true);
    made = std::make_unique<Strip>(left, fields.Bool("strip_right", true));
  } else if (auto normalize = PlainNormalizer(type)) {
    made = std::make_unique<Plain>(normalize);
  } else {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

}  // namespace heed
