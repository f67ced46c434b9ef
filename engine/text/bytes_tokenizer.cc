#include "engine/text/bytes_tokenizer.h"

#include "engine/base/status.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

constexpr int32_t kBytes = 256;

class BytesTokenizer : public Tokenizer {
 public:
  BytesTokenizer() {
    kind_ = "bytes";
    MeasureTokens();
  }

  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override {
    if (pair) return Invalid("tokenizer \"bytes\" has no form for pairs");
    if (!ValidUtf8(text)) return Invalid("the text is not valid UTF-8");
    Encoding encoding;
    const size_t count =
        options.max_length == 0 ? text.size() : std::min<size_t>(text.size(), options.max_length);
    int32_t character = -1;
    for (char byte : text.substr(0, count)) {
      if ((byte & 0xc0) != 0x80) ++character;
      encoding.ids.push_back(static_cast<uint8_t>(byte));
      encoding.offsets.emplace_back(character, character + 1);
    }
    encoding.type_ids.resize(count);
    encoding.texts.resize(count);
    return encoding;
  }

  std::string Decode(std::span<const int32_t> ids, bool) const override {
    std::string bytes;
    for (int32_t id : ids) {
      if (id >= 0 && id < kBytes) bytes.push_back(static_cast<char>(id));
    }
    return ReplaceInvalidUtf8(bytes);
  }

  std::string TokenBytes(int32_t id) const override {
    return id >= 0 && id < kBytes ? std::string(1, static_cast<char>(id)) : "";
  }

  int32_t vocab_size() const override { return kBytes; }

  int32_t TokenId(std::string_view token) const override {
    return token.size() == 1 ? static_cast<uint8_t>(token[0]) : -1;
  }
};

}  // namespace

std::unique_ptr<const Tokenizer> NewBytesTokenizer() { return std::make_unique<BytesTokenizer>(); }

}  // namespace heed
