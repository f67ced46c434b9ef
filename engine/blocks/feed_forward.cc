#include "engine/blocks/feed_forward.h"

#include "engine/base/status.h"

namespace heed {

using Factory = absl::StatusOr<std::unique_ptr<FeedForward>>(const FeedForwardSetting&, JsonFields&,
                                                             const WeightScope&);
#define FEED_FORWARD(type, factory) Factory factory;
#include "engine/blocks/feed_forwards.def"
#undef FEED_FORWARD

namespace {

struct Variant {
  const char* type;
  Factory* factory;
};

constexpr Variant kVariants[] = {
#define FEED_FORWARD(type, factory) {#type, factory},
#include "engine/blocks/feed_forwards.def"
#undef FEED_FORWARD
};

}  // namespace

absl::StatusOr<HiddenAct> ParseHiddenAct(const std::string& name) {
  if (name == "relu") return HiddenAct{Activation::kRelu, false};
  if (name == "gelu") return HiddenAct{Activation::kGelu, false};
  if (name == "gelu_new") return HiddenAct{Activation::kGeluTanh, false};
  if (name == "silu") return HiddenAct{Activation::kSilu, false};
  if (name == "swiglu") return HiddenAct{Activation::kSilu, true};
  if (name == "geglu") return HiddenAct{Activation::kGelu, true};
  if (name == "reglu") return HiddenAct{Activation::kRelu, true};
  return Invalid("hidden_act '", name, "' is none of relu, gelu, gelu_new, silu, swiglu, geglu, reglu");
}

std::vector<std::string_view> FeedForwardTypes() {
  std::vector<std::string_view> types;
  for (const Variant& variant : kVariants) types.push_back(variant.type);
  return types;
}

absl::StatusOr<std::unique_ptr<FeedForward>> NewFeedForward(const FeedForwardSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  const std::string type = fields.String("type", "dense");
  for (const Variant& variant : kVariants) {
    if (variant.type == type) return variant.factory(setting, fields, scope);
  }
  std::string known;
  for (const Variant& variant : kVariants) known += Cat(known.empty() ? "" : ", ", variant.type);
  return Invalid(fields.where(), ".type: \"", type, "\" is none of ", known);
}

}  // namespace heed
