#include "server/config/tokens.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "heed/config/v1/config.pb.h"
#include "server/config/text_proto.h"
#include "server/methods.h"
#include "server/registry.h"

namespace heed {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr size_t kDigits = 64;
constexpr std::string_view kReflection = "grpc.reflection.v1alpha.ServerReflection";

bool IsMethod(std::string_view pattern) {
  if (pattern == "*" || pattern == kReadMetrics || pattern == Cat(kReflection, "/*")) return true;
  return std::ranges::any_of(kMethods, [&](const Method& method) {
    return pattern == Cat(method.service, "/*") || pattern == Cat(method.service, "/", method.name);
  });
}

absl::Status Check(const config::v1::TokenConfig& token, const std::string& where) {
  if (!ValidName(token.name()))
    return Invalid(where, ".name must be 1 to 64 of [A-Za-z0-9._-] and not begin with '.'");
  const auto is_digit = [](unsigned char c) { return absl::ascii_isxdigit(c); };
  if (token.sha256().size() != kDigits || !std::ranges::all_of(token.sha256(), is_digit)) {
    return Invalid(where, ".sha256 has ", token.sha256().size(), " characters, it must be ", kDigits,
                   " hexadecimal digits");
  }
  for (int i = 0; i < token.methods_size(); ++i) {
    if (IsMethod(token.methods(i))) continue;
    return Invalid(where, ".methods[", i, "] is '", token.methods(i),
                   "', it must be *, SERVICE/*, SERVICE/METHOD or ", kReadMetrics);
  }
  for (int i = 0; i < token.models_size(); ++i) {
    if (token.models(i) == "*" || ValidName(token.models(i))) continue;
    return Invalid(where, ".models[", i, "] is '", token.models(i), "', it must be a model's name or *");
  }
  return absl::OkStatus();
}

KnownTokens::Entry ToEntry(const config::v1::TokenConfig& token) {
  auto rights = std::make_shared<Rights>();
  rights->name = token.name();
  rights->methods.assign(token.methods().begin(), token.methods().end());
  rights->models.assign(token.models().begin(), token.models().end());
  return {.sha256 = absl::AsciiStrToLower(token.sha256()), .rights = std::move(rights)};
}

}  // namespace

absl::StatusOr<KnownTokens> ParseTokens(std::string_view text, std::string_view where) {
  config::v1::TokensConfig config;
  RETURN_IF_ERROR(ParseTextProto(text, where, &config));
  if (config.token().empty()) return Invalid(where, ": there is no token in it, and nobody could call");
  std::vector<KnownTokens::Entry> entries;
  std::set<std::string> names, hashes;
  for (int i = 0; i < config.token_size(); ++i) {
    const std::string at = Cat(where, ": token[", i, "]");
    RETURN_IF_ERROR(Check(config.token(i), at));
    entries.push_back(ToEntry(config.token(i)));
    if (!names.insert(config.token(i).name()).second)
      return Invalid(at, ".name is '", config.token(i).name(), "', which another token has");
    if (!hashes.insert(entries.back().sha256).second) return Invalid(at, ".sha256 is that of another token");
  }
  return KnownTokens(std::move(entries));
}

absl::StatusOr<KnownTokens> ReadTokens(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadNamedFile(path, kMostBytes));
  return ParseTokens(text, path);
}

bool MayReadMetrics(const KnownTokens& tokens, std::string_view name, std::string_view token) {
  const auto rights = tokens.Find(token);
  return rights != nullptr && rights->name == name && CheckMethod(*rights, kReadMetrics).ok();
}

}  // namespace heed
