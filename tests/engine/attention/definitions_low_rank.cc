// The definitions of attentions whose keys are fewer than the tokens, or features of them, or none.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/attention/definitions.h"

namespace heed {
namespace {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;  // rows of a matrix

// What a passage gives of one head.
struct Head {
  Head(const Passage& passage, int head)
      : passage(passage),
        layer(passage.layer()),
        o(layer.options()),
        head(head),
        dim(layer.attention().out_width() / layer.example().num_heads),
        root(std::sqrt(static_cast<double>(dim))) {}

  Vector Row(const std::string& product, int64_t i) const {
    return HeadOf(ProductOf(passage, product), i, head, dim);
  }
  Vectors Rows(const std::string& product) const {
    Vectors rows;
    for (int64_t i = 0; i < ProductOf(passage, product).rows().rows; ++i) rows.push_back(Row(product, i));
    return rows;
  }
  // Rows of a tensor [rows, cols], or of this head's of [heads, rows, cols].
  Vector TensorRow(const std::string& name, int64_t row) const {
    const Tensor& tensor = layer.tensors().at(name);
    const int64_t cols = tensor.shape.back(), rows = tensor.dim(tensor.rank() - 2);
    const float* numbers = layer.tensor(name) + ((tensor.rank() == 3 ? head * rows : 0) + row) * cols;
    return {numbers, numbers + cols};
  }

  const Passage& passage;
  const Layer& layer;
  const Json& o;
  int head;
  int64_t dim;
  double root;
};

// ---------------------------------------------------------------------------------- features of keys

// Weights are products of features: phi(q) . phi(k), divided by their sum and eps.
DefinedHead DefinedFeatures(const Head& of, const std::function<Vector(const Vector&)>& phi, double eps) {
  Vectors keys;
  for (const Vector& key : of.Rows("k")) keys.push_back(phi(key));
  return [of, phi, eps, keys, values = of.Rows("v")](int64_t i) {
    const Vector q = phi(of.Row("q", i));
    DefinedRow row{Vector(of.dim), 5e-5};
    double sum = eps;
    for (int64_t j = 0; j < (of.layer.causal() ? i + 1 : std::ssize(keys)); ++j) {
      const double weight = Dot(q, keys[j]).value;
      sum += weight;
      for (int64_t t = 0; t < of.dim; ++t) row.numbers[t] += weight * values[j][t];
    }
    for (double& x : row.numbers) x /= sum;
    return row;
  };
}

// ------------------------------------------------------------------------------------------- fewer keys

Vectors Times(const Vectors& a, const Vectors& b) {
  Vectors c(a.size(), Vector(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t k = 0; k < b.size(); ++k) {
      for (size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

// softmax(a b' / sqrt(head_dim))
Vectors SoftmaxWeights(const Vectors& a, const Vectors& b) {
  Vectors weights(a.size(), Vector(b.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < b.size(); ++j)
      sum += weights[i][j] = std::exp(Dot(a[i], b[j]).value / std::sqrt(static_cast<double>(a[i].size())));
    for (double& weight : weights[i]) weight /= sum;
  }
  return weights;
}

double LargestColumnSum(const Vectors& a) {
  double most = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i][j];
    most = std::max(most, sum);
  }
  return most;
}

// The iterative pseudo-inverse, whose first guess is the transpose over a number.
Vectors Inverse(const Vectors& a, double most) {
  const size_t m = a.size();
  Vectors z(m, Vector(m));
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < m; ++j) z[i][j] = a[j][i] / most;
  }
  const auto less = [m](double diagonal, Vectors x) {
    for (size_t i = 0; i < m; ++i) {
      for (double& number : x[i]) number = -number;
      x[i][i] += diagonal;
    }
    return x;
  };
  for (int round = 0; round < 6; ++round) {
    const Vectors az = Times(a, z);
    z = Times(z, less(13, Times(az, less(15, Times(az, less(7, az))))));
    for (Vector& row : z) {
      for (double& number : row) number /= 4;
    }
  }
  return z;
}

Vectors Means(const Vectors& rows, int64_t m) {
  const int64_t n = std::ssize(rows);
  Vectors means(m, Vector(rows[0].size()));
  for (int64_t s = 0; s < m; ++s) {
    const int64_t begin = s * n / m, end = (s + 1) * n / m;
    for (int64_t r = begin; r < end; ++r) {
      for (size_t t = 0; t < means[s].size(); ++t)
        means[s][t] += rows[r][t] / static_cast<double>(end - begin);
    }
  }
  return means;
}

// Of the values, around each row.
void AddConvolution(const Head& of, const Vectors& v, Vectors& y) {
  const int64_t size = of.o.value("conv_kernel", 0), n = std::ssize(v);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < size; ++c) {
      const int64_t from = r + c - size / 2;
      if (from < 0 || from >= n) continue;
      const double weight = of.layer.tensor("conv.weight")[of.head * size + c];
      for (int64_t t = 0; t < of.dim; ++t) y[r][t] += weight * v[from][t];
    }
  }
}

// Rows of a softmax over these keys and values, in the order in which a row sees them: so many of them.
DefinedHead DefinedOver(const Head& of, Vectors keys, Vectors values,
                        const std::function<int64_t(int64_t i)>& seen, double bound) {
  return [of, keys = std::move(keys), values = std::move(values), seen, bound](int64_t i) {
    const Vector q = of.Row("q", i);
    DefinedSoftmax softmax(of.dim);
    for (int64_t j = 0; j < seen(i); ++j)
      softmax.Add(Dot(q, keys[j]) * (1 / of.root), [&](int64_t t) { return values[j][t]; });
    return DefinedRow{softmax.Row().numbers, bound};
  };
}

// E K, of one head; or F V.
Vectors Projected(const Head& of, const std::string& projection, const std::string& product) {
  Vectors projected;
  const Vectors rows = of.Rows(product);
  for (int64_t r = 0; r < of.o["k"]; ++r) {
    const Vector weights = of.TensorRow(projection, r);
    Vector& sum = projected.emplace_back(of.dim);
    for (size_t j = 0; j < rows.size(); ++j) {
      for (int64_t t = 0; t < of.dim; ++t) sum[t] += weights[j] * rows[j][t];
    }
  }
  return projected;
}

// What stands for the rows [begin, end) in this head's columns: `name` is the convolution's, if it is one.
Vector Compressed(const Head& of, const std::string& name, const OwnedRows& rows, int64_t begin, int64_t end,
                  int64_t stride) {
  const std::string kind = of.o.value("compression", "conv");
  const int64_t width = rows.rows().cols;
  Vector slot;
  for (int64_t a = of.head * of.dim; a < (of.head + 1) * of.dim; ++a) {
    const bool biased = kind == "conv" && of.layer.tensors().contains(name + ".bias");
    double x = biased ? of.layer.tensor(name + ".bias")[a] : kind == "max" ? -INFINITY : 0;
    for (int64_t i = begin; i < end; ++i) {
      if (kind == "mean") x += rows.At(i, a) / static_cast<double>(end - begin);
      if (kind == "max") x = std::max(x, rows.At(i, a));
      for (int64_t b = 0; b < width && kind == "conv"; ++b)
        x += of.layer.tensor(name + ".weight")[(a * width + b) * stride + i - begin] * rows.At(i, b);
    }
    slot.push_back(x);
  }
  return slot;
}

// ------------------------------------------------------------------------------------------ compressive

class Compressive {
 public:
  Compressive(const Passage& passage, int head)
      : of_(passage, head),
        segment_(of_.o["segment"]),
        memory_(of_.o["memory"]),
        compressed_memory_(of_.o["compressed_memory"]),
        rate_(of_.o["rate"]),
        clamp_(Clamp(of_.o)) {}

  DefinedRow Row(int64_t i) {
    const std::vector<Seen> list = List(i);
    DefinedSoftmax softmax(of_.dim);
    for (int64_t j = 0; j < std::ssize(list); ++j) {
      const int64_t distance = std::min(std::ssize(list) - 1 - j, clamp_);
      softmax.Add(TransformerXlScore(of_.passage, i, of_.head, list[j].key, distance),
                  [&](int64_t t) { return list[j].value[t]; });
    }
    return {softmax.Row().numbers, 2e-4};
  }

 private:
  struct Seen {
    Vector key, value;
  };

  // What token i sees, the oldest first: segment by segment, as both memories are filled.
  std::vector<Seen> List(int64_t i) {
    std::vector<int64_t> kept;    // tokens of the memory
    std::vector<int64_t> groups;  // first tokens of what the compressed memory stands for
    int64_t first = 0;
    for (; first + segment_ <= i; first += segment_) {
      for (int64_t t = first; t < first + segment_; ++t) kept.push_back(t);
      if (std::ssize(kept) <= memory_) continue;
      for (int64_t g = 0; g < segment_; g += rate_) groups.push_back(kept[g]);
      kept.erase(kept.begin(), kept.begin() + segment_);
    }
    if (std::ssize(groups) > compressed_memory_)
      groups.erase(groups.begin(), groups.end() - compressed_memory_);
    std::vector<Seen> list;
    for (int64_t group : groups) list.push_back(OfGroup(group));
    for (int64_t token : kept) list.push_back({of_.Row("k", token), of_.Row("v", token)});
    for (int64_t token = first; token <= i; ++token)
      list.push_back({of_.Row("k", token), of_.Row("v", token)});
    return list;
  }

  // Inputs are compressed, over all columns, and then they are as other rows of the layer.
  const Seen& OfGroup(int64_t first) {
    if (const auto found = groups_.find(first); found != groups_.end()) return found->second;
    Vector row;
    for (int head = 0; head < of_.layer.example().num_heads; ++head) {
      const Vector part =
          Compressed(Head(of_.passage, head), "compress", of_.passage.input(), first, first + rate_, rate_);
      row.insert(row.end(), part.begin(), part.end());
    }
    const double mean = Dot(row, row).value / static_cast<double>(row.size());
    for (double& x : row) x *= 0.7f / std::sqrt(mean + 1e-5);  // as Layer's norm
    return groups_[first] = {Times("k", row), Times("v", row)};
  }
  Vector Times(const std::string& product, const Vector& row) const {
    Vector numbers;
    for (int64_t a = of_.head * of_.dim; a < (of_.head + 1) * of_.dim; ++a) {
      const bool biased = of_.layer.tensors().contains(product + ".bias");
      numbers.push_back(Dot(of_.TensorRow(product + ".weight", a), row).value +
                        (biased ? of_.layer.tensor(product + ".bias")[a] : 0));
    }
    return numbers;
  }

  Head of_;
  int64_t segment_, memory_, compressed_memory_, rate_, clamp_;
  std::map<int64_t, Seen> groups_;
};

// ------------------------------------------------------------------------------------------ synthesizer

// The logits of a row that a form makes: of row i for key j.
class SynthesizedScores {
 public:
  SynthesizedScores(const Head& of, int64_t i) : of_(of), i_(i) {
    if (of.layer.tensors().contains("dense1.weight")) {
      u_ = of.Row("dense1", i);
      for (double& x : u_) x = std::max(x, 0.0);
    }
    if (!of.o.contains("factors")) return;
    a_ = Biased("factor_a", of.o["factors"][0]);
    c_ = Biased("factor_c", of.o["factors"][1]);
  }

  double Of(const std::string& form, int64_t j) const {
    if (form == "dense") return Number("dense2", j);
    if (form == "random") return of_.TensorRow("random", i_)[j];
    if (form == "factorized_dense") return a_[j % std::ssize(a_)] * c_[j / std::ssize(a_)];
    if (form == "factorized_random")
      return Dot(of_.TensorRow("random1", i_), of_.TensorRow("random2", j)).value;
    return Dot(of_.Row("q", i_), of_.Row("k", j)).value / of_.root;
  }

 private:
  // W u + b, at j.
  double Number(const std::string& name, int64_t j) const {
    const Tensor& bias = of_.layer.tensors().at(name + ".bias");
    return Dot(of_.TensorRow(name + ".weight", j), u_).value +
           static_cast<const float*>(bias.data)[of_.head * bias.shape.back() + j];
  }
  Vector Biased(const std::string& name, int64_t count) const {
    Vector numbers;
    for (int64_t j = 0; j < count; ++j) numbers.push_back(Number(name, j));
    return numbers;
  }

  const Head& of_;
  int64_t i_;
  Vector u_, a_, c_;
};

// The terms of the scores and their shares: of a mixture, a softmax of what each head has learned.
std::vector<std::pair<std::string, double>> TermsOf(const Head& of) {
  std::vector<std::pair<std::string, double>> terms;
  if (of.o["form"] != "mixture") return {{of.o["form"], 1.0}};
  double sum = 0;
  const int64_t count = std::ssize(of.o["terms"]);
  for (int64_t t = 0; t < count; ++t) {
    const double weight = std::exp(of.layer.tensor("mix")[of.head * count + t]);
    terms.emplace_back(of.o["terms"][t], weight);
    sum += weight;
  }
  for (auto& [term, share] : terms) share /= sum;
  return terms;
}

}  // namespace

DefinedHead DefinedLinear(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  const auto phi = [](Vector x) {  // elu(x) + 1
    for (double& number : x) number = number > 0 ? number + 1 : std::exp(number);
    return x;
  };
  return DefinedFeatures(of, phi, of.o.value("eps", 1e-6));
}

DefinedHead DefinedPerformer(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  const bool softmax = of.o["kernel"] == "softmax";
  const double eps = of.o.value("eps", softmax ? 0.0 : 1e-3);
  const auto phi = [of, softmax, eps](Vector x) {
    for (double& number : x) number /= std::sqrt(of.root);
    Vector features;
    for (int64_t f = 0; f < of.o["num_features"]; ++f) {
      const double product = Dot(of.TensorRow("features", f), x).value;
      features.push_back((softmax ? std::exp(product - Dot(x, x).value / 2) : std::max(product, 0.0)) + eps);
    }
    return features;
  };
  return DefinedFeatures(of, phi, 0);
}

DefinedHead DefinedLinformer(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  const int64_t k = of.o["k"];
  return DefinedOver(
      of, Projected(of, "e", "k"), Projected(of, of.o["sharing"] == "key-value" ? "e" : "f", "v"),
      [k](int64_t) { return k; }, 5e-5);
}

// Off as far as the largest number of the head makes likely.
DefinedHead DefinedNystrom(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  const int64_t m = of.o["num_landmarks"];
  const Vectors q = of.Rows("q"), k = of.Rows("k"), v = of.Rows("v");
  Vectors y;
  if (passage.n() <= m) {
    y = Times(SoftmaxWeights(q, k), v);
  } else {
    const Vectors few_q = Means(q, m), few_k = Means(k, m), met = SoftmaxWeights(few_q, few_k);
    double most = LargestColumnSum(met);
    for (int h = 0; h < passage.layer().example().num_heads && of.o.contains("inverse_start"); ++h) {
      const Head other(passage, h);
      most = std::max(most,
                      LargestColumnSum(SoftmaxWeights(Means(other.Rows("q"), m), Means(other.Rows("k"), m))));
    }
    y = Times(SoftmaxWeights(q, few_k), Times(Inverse(met, most), Times(SoftmaxWeights(few_q, k), v)));
  }
  AddConvolution(of, v, y);
  double largest = 1;
  for (const Vector& row : y) {
    for (double x : row) largest = std::max(largest, std::abs(x));
  }
  return [y = std::move(y), largest](int64_t i) { return DefinedRow{y[i], 1e-4 * largest}; };
}

DefinedHead DefinedSynthesizer(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  return [of, values = of.Rows("v"), terms = TermsOf(of)](int64_t i) {
    const SynthesizedScores scores(of, i);
    DefinedSoftmax softmax(of.dim);
    const int64_t end = of.layer.causal() ? i + 1 : of.passage.n();
    for (int64_t j = 0; j < end; ++j) {
      Sum score;
      for (const auto& [term, share] : terms) score.Add(share * scores.Of(term, j));
      softmax.Add(score, [&](int64_t t) { return values[j][t]; });
    }
    return DefinedRow{softmax.Row().numbers, 5e-5};
  };
}

// The learned slot, and those that are whole before a decoder's row.
DefinedHead DefinedMemoryCompressed(const Passage& passage, int head, bool) {
  const Head of(passage, head);
  const int64_t stride = of.o["stride"], begin = head * of.dim, n = passage.n();
  const auto slots = [&](const std::string& null, const std::string& name, const std::string& product) {
    const float* learned = of.layer.tensor(null) + begin;
    Vectors rows = {Vector(learned, learned + of.dim)};
    for (int64_t p = 0; p < n; p += stride)
      rows.push_back(Compressed(of, name, ProductOf(passage, product), p, std::min(n, p + stride), stride));
    return rows;
  };
  const auto seen = [stride, n, causal = of.layer.causal()](int64_t i) {
    return 1 + (causal ? i / stride : (n + stride - 1) / stride);
  };
  return DefinedOver(of, slots("null_k", "compress_k", "k"), slots("null_v", "compress_v", "v"), seen, 5e-5);
}

DefinedHead DefinedCompressive(const Passage& passage, int head, bool) {
  return
      [compressive = std::make_shared<Compressive>(passage, head)](int64_t i) { return compressive->Row(i); };
}

}  // namespace heed
