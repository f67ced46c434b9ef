#include "engine/base/archive.h"

#include <algorithm>
#include <cstring>

#include "absl/log/check.h"
#include "absl/strings/ascii.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr std::string_view kMark = "a state of Heed\n";
constexpr int64_t kMaxText = 64;

}  // namespace

StateArchive StateArchive::Measuring() { return StateArchive(Mode::kMeasure); }

StateArchive StateArchive::Saving(std::string* out) {
  StateArchive archive(Mode::kSave);
  archive.out_ = out;
  return archive;
}

StateArchive StateArchive::Restoring(std::string_view bytes) {
  StateArchive archive(Mode::kRestore);
  archive.in_ = bytes;
  return archive;
}

void StateArchive::Origin(const StateOrigin& own) {
  if (measuring()) return;
  std::string mark(kMark);
  Bytes(mark.data(), std::ssize(mark));
  if (mark != kMark) return Fail(Invalid("state: does not begin as one"));
  int64_t format = kFormat;
  Bytes(&format, sizeof(format));
  if (format != kFormat) return Fail(Invalid("state: is of format ", format, ", not ", kFormat));
  const StateOrigin of{.model = Text(own.model), .precision = Text(own.precision)};
  if (of.model == own.model && of.precision == own.precision) return;
  Fail(Invalid("state: is of model ", of.model, " in ", of.precision, "; this is ", own.model, " in ",
               own.precision));
}

// Of a few letters. Restoring: what the state has in its place.
std::string StateArchive::Text(std::string text) {
  int64_t size = std::ssize(text);
  Number(size, 0, kMaxText);
  text.resize(size);
  Bytes(text.data(), size);
  if (!std::ranges::all_of(text, absl::ascii_isprint)) Fail(Invalid("state: its origin is no text"));
  return text;
}

void StateArchive::Number(int64_t& value, int64_t min, int64_t max) {
  int64_t number = value;
  Bytes(&number, sizeof(number));
  if (!restoring()) {
    CHECK(min <= value && value <= max) << value << " is not in [" << min << ", " << max << "]";
  } else if (status_.ok() && (number < min || number > max)) {
    Fail(Invalid("state: ", number, " is not in [", min, ", ", max, "]"));
  } else if (status_.ok()) {
    value = number;
  }
}

void StateArchive::Bytes(Buffer& buffer, int64_t used) {
  CHECK(!status_.ok() || (used >= 0 && used <= static_cast<int64_t>(buffer.size())));
  if (mode_ == Mode::kMeasure) {
    measured_ += buffer.size();
  } else {
    Bytes(buffer.as<char>(), used);
  }
}

void StateArchive::Bytes(void* data, int64_t size) {
  if (!status_.ok() || size == 0) return;
  if (mode_ == Mode::kMeasure) {
    measured_ += size;
  } else if (mode_ == Mode::kSave) {
    out_->append(static_cast<const char*>(data), size);
  } else if (size > std::ssize(in_)) {
    Fail(Invalid("state: ends ", size - std::ssize(in_), " bytes too early"));
  } else {
    std::memcpy(data, in_.data(), size);
    in_.remove_prefix(size);
  }
}

void StateArchive::Fail(absl::Status status) { status_.Update(status); }

absl::Status StateArchive::Finish() {
  if (restoring() && !in_.empty()) Fail(Invalid("state: ", in_.size(), " bytes too many"));
  return status_;
}

}  // namespace heed
