#include "server/api/attention.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status.h"
#include "server/error.h"

namespace heed {
namespace {

using Indices = std::vector<int32_t>;

std::string Field(std::string_view name) { return Cat("details.attention.", name); }

// In ascending order; each is at least 0, and there once.
absl::StatusOr<Indices> Ascending(const google::protobuf::RepeatedField<int32_t>& named,
                                  std::string_view name) {
  Indices indices(named.begin(), named.end());
  std::ranges::sort(indices);
  if (!indices.empty() && indices.front() < 0)
    return AtField(Invalid("the index ", indices.front(), " is below 0"), Field(name));
  const auto repeated = std::ranges::adjacent_find(indices);
  if (repeated == indices.end()) return indices;
  return AtField(Invalid("the index ", *repeated, " is given twice"), Field(name));
}

absl::Status CheckLayers(const Indices& layers, bool cross, const ServedModel& model) {
  const auto& attentions = model.info().attentions;
  const int64_t count =
      std::ranges::count_if(attentions, [&](const AttentionInfo& each) { return each.cross == cross; });
  if (!layers.empty() && layers.back() >= count) {
    const bool sourced = model.info().architecture == Architecture::kEncoderDecoder;
    return AtField(Invalid("the layer ", layers.back(), " is none of '", model.spec.name, "', whose ",
                           sourced ? "decoder's " : "", "layers are 0 to ", count - 1),
                   Field("layers"));
  }
  for (const AttentionInfo& each : attentions) {
    if (each.cross == cross && each.weighing_heads == 0 && std::ranges::binary_search(layers, each.layer)) {
      return AtField(Invalid("the layer ", each.layer, " has attention '", each.type,
                             "', which has no weights over all keys"),
                     Field("layers"));
    }
  }
  return absl::OkStatus();
}

// The attentions of the layers; where none is named, all that have weights.
absl::StatusOr<Indices> AttentionsOf(const Indices& layers, bool cross, const ServedModel& model) {
  RETURN_IF_ERROR(CheckLayers(layers, cross, model));
  const auto& attentions = model.info().attentions;
  Indices chosen;
  for (int32_t i = 0; i < std::ssize(attentions); ++i) {
    const AttentionInfo& each = attentions[i];
    const bool asked = layers.empty() || std::ranges::binary_search(layers, each.layer);
    if (each.cross == cross && each.weighing_heads > 0 && asked) chosen.push_back(i);
  }
  if (!chosen.empty()) return chosen;
  return AtField(Invalid("no layer of '", model.spec.name, "' has weights over all keys: its attention is '",
                         model.info().attention, "'"),
                 "details.attention");
}

absl::Status CheckHeads(const WeightsChoice& choice, const ModelInfo& info) {
  for (const int32_t i : choice.attentions) {
    const AttentionInfo& each = info.attentions[i];
    if (!choice.heads.empty() && choice.heads.back() >= each.weighing_heads) {
      return AtField(Invalid("the head ", choice.heads.back(), " is none of layer ", each.layer,
                             ", whose heads are 0 to ", each.weighing_heads - 1),
                     Field("heads"));
    }
  }
  return absl::OkStatus();
}

// The indices chosen, of `count` that there are.
void Tell(const Indices& chosen, int64_t count, google::protobuf::RepeatedField<int32_t>* out) {
  if (!chosen.empty()) {
    out->Add(chosen.begin(), chosen.end());
    return;
  }
  out->Resize(static_cast<int>(count), 0);
  std::iota(out->begin(), out->end(), 0);
}

}  // namespace

absl::StatusOr<std::optional<WeightsChoice>> ToChoice(const v1::Details& details, const ServedModel& model) {
  if (!details.has_attention()) return std::nullopt;
  const v1::AttentionOptions& asked = details.attention();
  if (asked.cross() && model.info().architecture != Architecture::kEncoderDecoder) {
    return AtField(Invalid("'", model.spec.name, "' looks at no source: it is no encoder-decoder"),
                   Field("cross"));
  }
  WeightsChoice choice;
  ASSIGN_OR_RETURN(const Indices layers, Ascending(asked.layers(), "layers"));
  ASSIGN_OR_RETURN(choice.heads, Ascending(asked.heads(), "heads"));
  ASSIGN_OR_RETURN(choice.rows, Ascending(asked.rows(), "rows"));
  ASSIGN_OR_RETURN(choice.attentions, AttentionsOf(layers, asked.cross(), model));
  RETURN_IF_ERROR(CheckHeads(choice, model.info()));
  return choice;
}

absl::Status CheckChoice(const WeightsChoice& choice, const ModelInfo& info, int64_t rows, int64_t source,
                         int64_t most, const std::string& where) {
  if (!choice.rows.empty() && choice.rows.back() >= rows) {
    return AtField(
        Invalid("the row ", choice.rows.back(), " is none of ", where, ", whose rows are 0 to ", rows - 1),
        Field("rows"));
  }
  const int64_t bytes = ChosenBytes(info.attentions, choice, rows, source);
  if (bytes <= most) return absl::OkStatus();
  const AttentionInfo& first = info.attentions[choice.attentions.front()];
  const int64_t chosen = choice.rows.empty() ? rows : std::ssize(choice.rows),
                keys = first.cross ? source : first.front + rows;
  return AtField(
      Beyond(Error(ErrorReason::kAnswerTooLarge, "the weights of ", where, " take ", bytes, " bytes (4 * ",
                   bytes / (4 * chosen * keys), " heads of ", choice.attentions.size(), " layers * ", chosen,
                   " rows * ", keys, " keys), at most ", most, " are given"),
             bytes, most),
      "details.attention");
}

v1::AttentionWeights ToMessage(const WeightsChoice& choice, const std::vector<LayerWeights>& weights,
                               const ModelInfo& info) {
  v1::AttentionWeights message;
  for (size_t i = 0; i < weights.size(); ++i) {
    auto* layer = message.add_layers();
    layer->set_layer(info.attentions[choice.attentions[i]].layer);
    Tell(choice.heads, weights[i].heads, layer->mutable_heads());
    layer->mutable_weights()->Add(weights[i].weights.begin(), weights[i].weights.end());
  }
  Tell(choice.rows, weights.front().rows, message.mutable_rows());
  message.set_keys(static_cast<int32_t>(weights.front().keys));
  message.set_cross(weights.front().cross);
  return message;
}

}  // namespace heed
