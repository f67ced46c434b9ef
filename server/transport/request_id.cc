#include "server/transport/request_id.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "absl/log/check.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "server/error.h"

namespace heed {
namespace {

constexpr size_t kMaxBytes = 128;

bool Valid(std::string_view id) {
  return !id.empty() && id.size() <= kMaxBytes && std::ranges::all_of(id, [](unsigned char c) {
    return absl::ascii_isalnum(c) ||
           std::string_view("._:-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string NewId() {
  std::string bytes(16, '\0');
  CHECK_EQ(getentropy(bytes.data(), bytes.size()), 0);
  return absl::BytesToHexString(bytes);
}

}  // namespace

RequestId RequestIdOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kRequestIdHeader);
  if (found == context.client_metadata().end()) return {NewId(), absl::OkStatus()};
  const std::string_view id(found->second.data(), found->second.size());
  if (Valid(id)) return {std::string(id), absl::OkStatus()};
  return {NewId(), AtField(Error(ErrorReason::kInvalidValue, "it has ", id.size(), " bytes, it must be 1 to ",
                                 kMaxBytes, " of [A-Za-z0-9._:-]"),
                           kRequestIdHeader)};
}

}  // namespace heed
