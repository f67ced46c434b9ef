// What each type's rows must be, in double, written out once more after the papers: a definition a type,
// found by its name.
#ifndef HEED_TESTS_ENGINE_ATTENTION_DEFINITIONS_H_
#define HEED_TESTS_ENGINE_ATTENTION_DEFINITIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/attention/layer.h"

namespace heed {

// A row and a key of one head of a passage.
struct Pair {
  const Passage* passage;
  int64_t i, j;
  int head;

  const Layer& layer() const { return passage->layer(); }
  const Json& options() const { return layer().options(); }
  int64_t n() const { return passage->n(); }
  int heads() const { return layer().example().num_heads; }
  int64_t dim() const { return layer().attention().out_width() / heads(); }
};

// Where positions alone decide who sees whom: whether the row sees the key, in a decoder besides j <= i. Null
// where they do not.
using Sees = bool (*)(const Pair& at);
Sees SeesOf(const std::string& type);

// One row of one head, and how far an f32 result may be from it: from how large what is added is, or
// measured.
struct DefinedRow {
  std::vector<double> numbers;
  double bound = 0;
};

// The rows of one head of a passage.
using DefinedHead = std::function<DefinedRow(int64_t i)>;

// Of the passage's layer. `by_steps`: its rows came one at a time, which matters where the tokens of a prompt
// decide together which of them meet. Empty: the type has no definition.
DefinedHead DefinitionOf(const Passage& passage, int head, bool by_steps = false);

struct Expected {
  bool by_steps = false;
  double bounds = 1;  // so many times the bound of f32: bf16, or numbers that are hard
};
// Of all heads these rows; those that the passage does not have are left out.
void ExpectDefinition(const Passage& passage, const std::vector<int64_t>& rows,
                      const Expected& expected = {});
// 0, 1, ...
std::vector<int64_t> AllRows(int64_t n);

// ------------------------------------------------------------------------- what definitions are made of

// A sum, and the sum of its terms' magnitudes.
struct Sum {
  double value = 0, size = 0;

  void Add(double term) {
    value += term;
    size += std::abs(term);
  }
  Sum operator*(double factor) const { return {value * factor, size * std::abs(factor)}; }
};

// The softmax over keys that come one after another. A result in f32 is off by roundings of the products, of
// the weights and of the values.
class DefinedSoftmax {
 public:
  explicit DefinedSoftmax(int64_t dim) : row_(dim) {}

  // value(t): the key's value. `times`: so many keys as this.
  template <typename Value>
  void Add(const Sum& score, Value value, double times = 1) {
    const double p = times * std::exp(score.value);
    double largest = 0;
    for (int64_t t = 0; t < std::ssize(row_); ++t) {
      row_[t] += p * value(t);
      largest = std::max(largest, std::abs(static_cast<double>(value(t))));
    }
    sum_ += p;
    error_ += p * (16 + 4 * score.size) * largest;
  }
  // Zeros, if there was no key.
  DefinedRow Row() const {
    constexpr double kRounding = 0x1p-23;
    DefinedRow row{row_, sum_ > 0 ? kRounding * error_ / sum_ : 0};
    for (double& x : row.numbers) x = sum_ > 0 ? x / sum_ : 0;
    return row;
  }

 private:
  std::vector<double> row_;
  double sum_ = 0, error_ = 0;
};

// The product of this name, as the passage's rows have it.
const OwnedRows& ProductOf(const Passage& passage, const std::string& name);
// Numbers of one head of row r.
std::vector<double> HeadOf(const OwnedRows& rows, int64_t r, int64_t head, int64_t dim);
// a . b
Sum Dot(const std::vector<double>& a, const std::vector<double>& b);
// The farthest distance that is told from those beyond; 0 in the options: none is.
int64_t Clamp(const Json& options);
// Transformer-XL's score of a row and a key so far away: (q + u) . k + (q + v) . Wr R, divided.
Sum TransformerXlScore(const Passage& passage, int64_t i, int head, const std::vector<double>& key,
                       int64_t distance);

// "softmax", which has most options: definitions_softmax.cc.
Sum SoftmaxScore(const Pair& at);
Sum DisentangledScore(const Pair& at);
Sum RelativeSegmentsScore(const Pair& at);
double SoftmaxValue(const Pair& at, int64_t t);
// "latent", beside it.
Sum LatentScore(const Pair& at);
double LatentValue(const Pair& at, int64_t t);
// Whom each row meets of a "latent" with an index: definitions_indexed.cc.
DefinedHead DefinedIndexed(const Passage& passage, int head);
std::vector<double> TurnedIndex(const Pair& at, std::vector<double> x, int64_t position);
void AddSink(const Passage& passage, int64_t i, int head, DefinedSoftmax& softmax);

// ---------------------------------------------------------------- those that no pattern of positions gives

// Who meets is a matter of what tokens are: definitions_sorted.cc.
DefinedHead DefinedLsh(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedRouting(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedSinkhorn(const Passage& passage, int head, bool by_steps);

// Rows meet in windows of a grid, and with what fills them: definitions_windows.cc.
DefinedHead DefinedWindow2d(const Passage& passage, int head, bool by_steps);

// Keys are fewer than the tokens, features of them, or none: definitions_low_rank.cc.
DefinedHead DefinedLinear(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedPerformer(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedLinformer(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedNystrom(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedSynthesizer(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedMemoryCompressed(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedCompressive(const Passage& passage, int head, bool by_steps);

// Rows meet as sums: definitions_sums.cc.
DefinedHead DefinedFourier(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedTransientGlobal(const Passage& passage, int head, bool by_steps);

// How likely hashes meet: definitions_sums.cc.
DefinedHead DefinedYoso(const Passage& passage, int head, bool by_steps);

// What is remembered is a state that each row changes: definitions_recurrent.cc.
DefinedHead DefinedMamba2(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedGatedDelta(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedKimiDelta(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedLightning(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedShortConvolution(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedRwkv(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedRwkvChannel(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedRgLru(const Passage& passage, int head, bool by_steps);
DefinedHead DefinedMamba(const Passage& passage, int head, bool by_steps);

// Others' definitions, side by side: definitions_side_by_side.cc.
DefinedHead DefinedSideBySide(const Passage& passage, int head, bool by_steps);

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ATTENTION_DEFINITIONS_H_
