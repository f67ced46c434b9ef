// "latent" with an index, written out once more: whom a row meets is what the index's heads say of the two.
#include <algorithm>
#include <cmath>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;

// A key of the index: normed, then turned.
Vector IndexKey(const Passage& passage, int64_t j) {
  const Layer& layer = passage.layer();
  const int64_t dim = layer.options()["index"]["head_dim"];
  Vector k = HeadOf(ProductOf(passage, "index_k"), j, 0, dim);
  double mean = 0, variance = 0;
  for (const double x : k) mean += x / static_cast<double>(dim);
  for (const double x : k) variance += (x - mean) * (x - mean) / static_cast<double>(dim);
  for (int64_t t = 0; t < dim; ++t)
    k[t] = (k[t] - mean) / std::sqrt(variance + 1e-6) * layer.tensor("index_k_norm.weight")[t] +
           layer.tensor("index_k_norm.bias")[t];
  return TurnedIndex({&passage, j, j, 0}, k, j);
}

// The keys that row i meets, of which those of the index are `keys`.
std::vector<int64_t> Met(const Passage& passage, const std::vector<Vector>& keys, int64_t i) {
  const Json& index = passage.layer().options()["index"];
  const int64_t heads = index["heads"], dim = index["head_dim"], top_k = index["top_k"];
  Vector scores(i + 1);
  for (int64_t head = 0; head < heads; ++head) {
    const Vector q = TurnedIndex({&passage, i, i, 0}, HeadOf(ProductOf(passage, "index_q"), i, head, dim), i);
    const double weight = ProductOf(passage, "index_weights").At(i, head);
    for (int64_t j = 0; j <= i; ++j) scores[j] += weight * std::max(Dot(q, keys[j]).value, 0.0);
  }
  std::vector<int64_t> order = AllRows(i + 1);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  if (i + 1 > top_k) order.resize(top_k);
  return order;
}

}  // namespace

DefinedHead DefinedIndexed(const Passage& passage, int head) {
  std::vector<Vector> keys;
  for (int64_t j = 0; j < passage.n(); ++j) keys.push_back(IndexKey(passage, j));
  return [&passage, head, keys](int64_t i) {
    DefinedSoftmax softmax(passage.layer().attention().out_width() / passage.layer().example().num_heads);
    for (const int64_t j : Met(passage, keys, i)) {
      const Pair at{&passage, i, j, head};
      softmax.Add(LatentScore(at), [&](int64_t t) { return LatentValue(at, t); });
    }
    return softmax.Row();
  };
}

}  // namespace heed
