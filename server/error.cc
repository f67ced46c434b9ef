#include "server/error.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"

namespace heed {
namespace {

constexpr char kReasonPayload[] = "heed.reason";
constexpr char kFieldPayload[] = "heed.field";
constexpr char kRetryPayload[] = "heed.retry_milliseconds";
constexpr std::string_view kFactPayloads = "heed.fact.";

struct Entry {
  ErrorReason reason;
  std::string_view name;
  absl::StatusCode code;
};
constexpr Entry kEntries[] = {
#define REASON(name, text, code) {ErrorReason::name, text, absl::StatusCode::code},
#include "server/reasons.def"
#undef REASON
};

absl::Cord Text(std::string_view text) { return absl::Cord(ForStrCat(text)); }

// Of a status that was made without one.
ErrorReason UsualReason(absl::StatusCode code) {
  if (code == absl::StatusCode::kInvalidArgument) return ErrorReason::kInvalidValue;
  if (code == absl::StatusCode::kUnavailable) return ErrorReason::kServerStopping;
  if (code == absl::StatusCode::kResourceExhausted) return ErrorReason::kOutOfMemory;
  const auto* entry = std::ranges::find(kEntries, code, &Entry::code);
  return entry == std::end(kEntries) ? ErrorReason::kModelError : entry->reason;
}

// How little waiting helps.
int Finality(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return RetryDelayOf(status) ? 0 : 1;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

std::string_view Name(ErrorReason reason) { return kEntries[static_cast<int>(reason)].name; }
absl::StatusCode CodeOf(ErrorReason reason) { return kEntries[static_cast<int>(reason)].code; }

absl::Status WithReason(ErrorReason reason, std::string_view message) {
  absl::Status status(CodeOf(reason), ForStrCat(message));
  status.SetPayload(kReasonPayload, Text(Name(reason)));
  return status;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto name = status.GetPayload(kReasonPayload);
  if (!name) return UsualReason(status.code());
  return std::ranges::find(kEntries, std::string(*name), &Entry::name)->reason;
}

absl::Status AtField(absl::Status status, std::string_view field) {
  if (!status.ok() && !status.GetPayload(kFieldPayload)) status.SetPayload(kFieldPayload, Text(field));
  return status;
}

std::string FieldOf(const absl::Status& status) {
  return std::string(status.GetPayload(kFieldPayload).value_or(absl::Cord()));
}

absl::Status Within(absl::Status status, std::string_view message) {
  if (const std::string field = FieldOf(status); !field.empty())
    status.SetPayload(kFieldPayload, Text(Cat(message, ".", field)));
  return status;
}

absl::Status RetryAfter(absl::Status status, Duration wait) {
  const int64_t milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  status.SetPayload(kRetryPayload, Text(std::to_string(std::clamp<int64_t>(milliseconds, 1, 60'000))));
  return status;
}

std::optional<Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryPayload);
  int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  return std::chrono::milliseconds(milliseconds);
}

absl::Status About(absl::Status status, std::string_view word, std::string_view value) {
  const std::string payload = Cat(kFactPayloads, word);
  if (!status.ok() && !status.GetPayload(payload)) status.SetPayload(payload, Text(value));
  return status;
}

absl::Status Beyond(absl::Status status, int64_t value, int64_t limit) {
  return About(About(std::move(status), "value", std::to_string(value)), "limit", std::to_string(limit));
}

std::map<std::string, std::string> FactsOf(const absl::Status& status) {
  std::map<std::string, std::string> facts;
  status.ForEachPayload([&](absl::string_view payload, const absl::Cord& value) {
    const std::string name(payload);
    if (name.starts_with(kFactPayloads)) facts.emplace(name.substr(kFactPayloads.size()), value);
  });
  return facts;
}

bool MoreActionable(const absl::Status& a, const absl::Status& b) { return Finality(a) < Finality(b); }

}  // namespace heed
