#include "engine/attention/attention.h"

#include <algorithm>

#include "engine/base/status.h"
#include "engine/base/type_table.h"

namespace heed {

using Factory = absl::StatusOr<std::unique_ptr<Attention>>(const AttentionSetting&, JsonFields&,
                                                           const WeightScope&);
#define VARIANT(type, factory) Factory factory;
#include "engine/attention/variants.def"
#undef VARIANT

namespace {

constexpr TypeEntry<Factory> kVariants[] = {
#define VARIANT(type, factory) {#type, factory},
#include "engine/attention/variants.def"
#undef VARIANT
};

}  // namespace

std::string_view Name(DecodeClass decode) {
  switch (decode) {
    case DecodeClass::kExact:
      return "exact";
    case DecodeClass::kApproximate:
      return "approximate";
    case DecodeClass::kNone:
      break;
  }
  return "none";
}

std::vector<std::string_view> AttentionTypes() { return TypesOf<Factory>(kVariants); }

absl::StatusOr<std::unique_ptr<Attention>> NewAttention(const AttentionSetting& setting, JsonFields& fields,
                                                        const WeightScope& scope) {
  ASSIGN_OR_RETURN(Factory* const factory,
                   FactoryOf<Factory>(kVariants, fields.String("type", ""), fields.where()));
  return factory(setting, fields, scope);
}

int64_t HeadDim(const AttentionSetting& setting, JsonFields& fields) {
  if (setting.width % setting.num_heads != 0) {
    fields.Fail(Cat("hidden_size ", setting.width, " is not divisible by ", setting.num_heads, " heads"));
  }
  return setting.width / setting.num_heads;
}

int64_t ReadHeadDim(const AttentionSetting& setting, JsonFields& fields) {
  constexpr int64_t kMostHeadDim = 1024;
  if (fields.Has("head_dim")) return fields.Int("head_dim", 1, 1, kMostHeadDim);
  fields.Ignore("head_dim");
  return HeadDim(setting, fields);
}

ImageSize ReadImageSize(const AttentionSetting& setting, JsonFields& fields) {
  constexpr int64_t kMostSide = int64_t{1} << 30;
  const bool own = setting.grid.size() == 2;
  const ImageSize size{fields.Int("height", own ? setting.grid[0] : 0, 1, kMostSide),
                       fields.Int("width", own ? setting.grid[1] : 0, 1, kMostSide)};
  if (size.height >= 1 && size.width >= 1) return size;
  fields.Fail("height and width are missing, here and in the model's config.json");
  return {};
}

int64_t Attention::LabelledStateBytes(int64_t tokens, int64_t) const { return StateBytes(tokens); }

double Attention::LabelledCost(int64_t tokens, int64_t) const { return Cost(tokens, tokens); }

void Attention::DropNumbers() {
  const auto drop = [](Product& product) {
    for (Tensor* tensor : {&product.weight, &product.bias, &product.apart.weight, &product.apart.bias})
      *tensor = tensor->Form();
  };
  std::ranges::for_each(products_, drop);
  if (result_) drop(*result_);
}

Tensor ZeroMatrix(int64_t rows, int64_t cols) {
  auto memory = std::make_shared<Buffer>(Buffer::Zeros(rows * cols * sizeof(float)));
  Tensor matrix{DType::kF32, {rows, cols}, memory->as<float>()};
  matrix.memory = std::move(memory);
  return matrix;
}

absl::StatusOr<Product> LoadProduct(const WeightScope& scope, std::string_view name, int64_t out,
                                    int64_t in) {
  Product product{std::string(name)};
  ASSIGN_OR_RETURN(product.weight, (scope / name).Get("weight", {out, in}));
  ASSIGN_OR_RETURN(product.bias, (scope / name).Optional("bias", {out}));
  return product;
}

absl::StatusOr<std::vector<Product>> LoadProducts(const WeightScope& scope,
                                                  const std::vector<std::string_view>& names,
                                                  const AttentionSetting& setting) {
  std::vector<Product> products;
  for (std::string_view name : names) {
    ASSIGN_OR_RETURN(Product product, LoadProduct(scope, name, setting.width, setting.width));
    products.push_back(std::move(product));
  }
  return products;
}

}  // namespace heed
