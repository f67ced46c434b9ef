#include "engine/blocks/feed_forward.h"

#include "engine/base/status.h"
#include "engine/base/type_table.h"

namespace heed {

using Factory = absl::StatusOr<std::unique_ptr<FeedForward>>(const FeedForwardSetting&, JsonFields&,
                                                             const WeightScope&);
#define FEED_FORWARD(type, factory) Factory factory;
#include "engine/blocks/feed_forwards.def"
#undef FEED_FORWARD

namespace {

constexpr TypeEntry<Factory> kVariants[] = {
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
  if (name == "tanh") return HiddenAct{Activation::kTanh, false};
  if (name == "quick_gelu") return HiddenAct{Activation::kQuickGelu, false};
  if (name == "relu2") return HiddenAct{Activation::kRelu2, false};
  if (name == "swiglu") return HiddenAct{Activation::kSilu, true};
  if (name == "geglu") return HiddenAct{Activation::kGelu, true};
  if (name == "reglu") return HiddenAct{Activation::kRelu, true};
  if (name == "geglu_new") return HiddenAct{Activation::kGeluTanh, true};
  if (name == "clamped_glu") return HiddenAct{Activation::kClampedGate, true};
  return Invalid("hidden_act '", name,
                 "' is none of relu, gelu, gelu_new, silu, tanh, quick_gelu, relu2, swiglu, geglu, reglu, "
                 "geglu_new, clamped_glu");
}

std::vector<std::string_view> FeedForwardTypes() { return TypesOf<Factory>(kVariants); }

absl::StatusOr<std::unique_ptr<FeedForward>> NewFeedForward(const FeedForwardSetting& setting,
                                                            JsonFields& fields, const WeightScope& scope) {
  ASSIGN_OR_RETURN(Factory* const factory,
                   FactoryOf<Factory>(kVariants, fields.String("type", "dense"), fields.where()));
  return factory(setting, fields, scope);
}

}  // namespace heed
