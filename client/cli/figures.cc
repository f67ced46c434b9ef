#include "client/cli/figures.h"

#include <span>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace heed::cli {
namespace {

// Three digits, unless rounding gives a fourth; of large numbers all.
std::string ThreeDigits(double number) {
  return absl::StrFormat("%.*f", number < 9.995 ? 2 : number < 99.95 ? 1 : 0, number);
}

// Each unit is 1000 of the one before.
std::string Scaled(double number, std::span<const char* const> units) {
  if (number == 0) return "0";
  while (number >= 999.5 && units.size() > 1) {
    number /= 1000;
    units = units.subspan(1);
  }
  return ThreeDigits(number) + units.front();
}

constexpr const char* kCounts[] = {"", "k", "M", "G"};
constexpr const char* kBytes[] = {"kB", "MB", "GB", "TB"};
constexpr const char* kSeconds[] = {"us", "ms", "s"};

}  // namespace

std::string RateText(double number) { return Scaled(number, kCounts); }

std::string BytesText(double bytes) {
  if (bytes == 0) return "0";
  return bytes < 1000 ? absl::StrFormat("%.0fB", bytes) : Scaled(bytes / 1000, kBytes);
}

std::string SecondsText(double seconds) { return Scaled(seconds * 1e6, kSeconds); }

std::string UptimeText(double seconds) {
  return absl::FormatDuration(absl::Trunc(absl::Seconds(seconds), absl::Seconds(1)));
}

}  // namespace heed::cli
