#include "client/cli/description.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/terminal.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr int kMostLabels = 20;

void Line(std::string& page, std::string_view name, std::string_view value) {
  if (!value.empty()) absl::StrAppendFormat(&page, "%-13s %s\n", name, value);
}

// 1234567 as "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = Cat(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0); at -= 3)
    digits.insert(at, ",");
  return digits;
}

std::string Size(int64_t bytes) {
  if (bytes < 10'000) return Cat(bytes, " bytes");
  if (bytes < 1'000'000) return absl::StrFormat("%.1f kB", 1e-3 * bytes);
  if (bytes < 1'000'000'000) return absl::StrFormat("%.1f MB", 1e-6 * bytes);
  return absl::StrFormat("%.1f GB", 1e-9 * bytes);
}

std::string Labels(const v1::ModelDescription& description) {
  const int shown = std::min(kMostLabels, description.labels_size());
  std::string text = absl::StrJoin(description.labels().begin(), description.labels().begin() + shown, ", ");
  if (shown < description.labels_size()) text += Cat(", ... (", description.labels_size(), " in all)");
  return OneLine(text, 2000);
}

std::string Length(int64_t tokens) { return tokens > 0 ? Cat(Grouped(tokens), " tokens") : "any length"; }

// What a token more costs is what tells a growing memory from a constant one.
void Costs(std::string& page, const v1::ModelDescription& description) {
  if (description.costs().empty()) return;
  absl::StrAppendFormat(&page, "\n%10s %16s %16s %14s\n", "tokens", "state", "bytes a token",
                        "multiply-adds");
  for (const auto& cost : description.costs()) {
    const int64_t share = cost.state_bytes() / std::max<int64_t>(cost.tokens(), 1);
    absl::StrAppendFormat(&page, "%10s %16s %16s %14.3g\n", Grouped(cost.tokens()), Size(cost.state_bytes()),
                          Grouped(share), cost.multiply_adds());
  }
}

}  // namespace

std::string DescriptionText(const v1::ModelDescription& description) {
  std::string page;
  Line(page, "model", description.model());
  Line(page, "version", description.version());
  Line(page, "about", OneLine(description.description(), 2000));
  Line(page, "architecture", description.architecture());
  Line(page, "attention", description.attention());
  Line(page, "size", Cat(description.layers(), " layers of width ", description.width()));
  Line(page, "head", description.head());
  Line(page, "labels", Labels(description));
  Line(page, "inputs", absl::StrJoin(description.inputs(), ", "));
  Line(page, "calls", absl::StrJoin(description.rpcs(), ", "));
  Line(page, "decoding", description.decode_class());
  Line(page, "vocabulary", Grouped(description.vocab_size()));
  Line(page, "longest", Length(description.max_tokens()));
  if (description.architecture() == "encoder-decoder")
    Line(page, "source", Length(description.max_source_tokens()));
  if (description.has_decoder_start_token_id())
    Line(page, "starts with", Cat("token ", description.decoder_start_token_id()));
  Line(page, "parameters", Grouped(description.parameters()));
  Line(page, "weights", Cat(Size(description.weight_bytes()), " in memory, ", description.precision()));
  Costs(page, description);
  return page;
}

}  // namespace heed
