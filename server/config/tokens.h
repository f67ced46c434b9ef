// The file of tokens: a text proto, TokensConfig in proto/heed/config/v1/config.proto, read and checked.
#ifndef HEED_SERVER_CONFIG_TOKENS_H_
#define HEED_SERVER_CONFIG_TOKENS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/tokens.h"

namespace heed {

// The method that GET /metrics is, in a token's `methods`.
inline constexpr std::string_view kReadMetrics = "metrics";

// INVALID_ARGUMENT with `where`, the field and what is wrong with it, but never a value that might be a
// token: a file without tokens, a name given twice, a hash that is none, a method that nobody has.
absl::StatusOr<KnownTokens> ParseTokens(std::string_view text, std::string_view where);
absl::StatusOr<KnownTokens> ReadTokens(const std::string& path);

// Whether this is a token, of this name, that is good for GET /metrics.
bool MayReadMetrics(const KnownTokens& tokens, std::string_view name, std::string_view token);

}  // namespace heed

#endif  // HEED_SERVER_CONFIG_TOKENS_H_
