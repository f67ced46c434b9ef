// Bytes as tokens, and the test looks at each text before it is read: it may wait, refuse or throw.
#ifndef HEED_TESTS_SERVER_SERVICE_WATCHED_TOKENIZER_H_
#define HEED_TESTS_SERVER_SERVICE_WATCHED_TOKENIZER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/status.h"
#include "engine/text/bytes_tokenizer.h"

namespace heed {

class WatchedTokenizer final : public Tokenizer {
 public:
  using Look = std::function<absl::Status(std::string_view text)>;

  explicit WatchedTokenizer(Look look) : look_(std::move(look)), bytes_(NewBytesTokenizer()) {
    MeasureTokens();
  }

  absl::StatusOr<Encoding> Encode(std::string_view text, std::optional<std::string_view> pair,
                                  const EncodeOptions& options) const override {
    RETURN_IF_ERROR(look_(text));
    return bytes_->Encode(text, pair, options);
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override {
    return bytes_->Decode(ids, skip_special_tokens);
  }
  int32_t vocab_size() const override { return bytes_->vocab_size(); }
  int32_t TokenId(std::string_view token) const override { return bytes_->TokenId(token); }

 private:
  const Look look_;
  const std::unique_ptr<const Tokenizer> bytes_;
};

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_WATCHED_TOKENIZER_H_
