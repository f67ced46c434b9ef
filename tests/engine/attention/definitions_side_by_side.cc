// A layer of several attentions: each by itself, with its own tensors and products.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

// One of the attentions, and the layer's passage as it sees it.
struct Part {
  std::unique_ptr<Layer> layer;
  std::unique_ptr<Passage> passage;
  std::vector<DefinedHead> heads;
};

std::unique_ptr<Weights> TensorsBelow(const Layer& layer, const std::string& prefix) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : layer.tensors()) {
    if (name.starts_with(prefix)) tensors.emplace(name.substr(prefix.size()), tensor);
  }
  return Weights::Of(std::move(tensors));
}

Part PartOf(const Passage& whole, const Json& options, const std::string& prefix, int first_product,
            bool by_steps) {
  AttentionExample example = whole.layer().example();
  example.type = options["type"];
  example.num_heads = options.value("num_heads", example.num_heads);
  Json own = options;
  for (const char* key : {"type", "num_heads"}) own.erase(key);
  example.options = CanonicalText(own);
  Part part;
  part.layer = std::make_unique<Layer>(example, Precision::kF32, *TensorsBelow(whole.layer(), prefix));
  part.passage = std::make_unique<Passage>(*part.layer, whole.n());
  for (int p = 0; p < std::ssize(part.layer->attention().products()); ++p) {
    const OwnedRows &from = whole.product(first_product + p), &to = part.passage->product(p);
    Convert(from.rows(), to.rows());
  }
  for (int head = 0; head < example.num_heads; ++head)
    part.heads.push_back(DefinitionOf(*part.passage, head, by_steps));
  return part;
}

}  // namespace

// A head's numbers are as many of all that lie side by side as the layer's head would have.
DefinedHead DefinedSideBySide(const Passage& passage, int head, bool by_steps) {
  const auto parts = std::make_shared<std::vector<Part>>();
  int products = 0;
  for (const Json& options : passage.layer().options()["parts"]) {
    parts->push_back(PartOf(passage, options, Cat("parts.", parts->size(), "."), products, by_steps));
    products += static_cast<int>(parts->back().layer->attention().products().size());
  }
  const int64_t dim = passage.layer().attention().out_width() / passage.layer().example().num_heads;
  return [parts, dim, head](int64_t i) {
    DefinedRow all;
    for (const Part& part : *parts) {
      for (const DefinedHead& own : part.heads) {
        const DefinedRow row = own(i);
        all.numbers.insert(all.numbers.end(), row.numbers.begin(), row.numbers.end());
        all.bound = std::max(all.bound, row.bound);
      }
    }
    return DefinedRow{{all.numbers.begin() + head * dim, all.numbers.begin() + (head + 1) * dim}, all.bound};
  };
}

}  // namespace heed
