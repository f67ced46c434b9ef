// Softmaxes over keys that positions choose: who sees whom, what a score and a value are, and what is seen
// besides; and the table of all definitions.
#include "tests/engine/attention/definitions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "gtest/gtest.h"

namespace heed {

const OwnedRows& ProductOf(const Passage& passage, const std::string& name) {
  const std::vector<Product>& products = passage.layer().attention().products();
  const auto found = std::ranges::find(products, name, &Product::name);
  CHECK(found != products.end()) << name;
  return passage.product(static_cast<int>(found - products.begin()));
}

std::vector<double> HeadOf(const OwnedRows& rows, int64_t r, int64_t head, int64_t dim) {
  std::vector<double> numbers(dim);
  for (int64_t t = 0; t < dim; ++t) numbers[t] = rows.At(r, head * dim + t);
  return numbers;
}

Sum Dot(const std::vector<double>& a, const std::vector<double>& b) {
  Sum sum;
  for (size_t t = 0; t < a.size(); ++t) sum.Add(a[t] * b[t]);
  return sum;
}

std::vector<int64_t> AllRows(int64_t n) {
  std::vector<int64_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

int64_t Clamp(const Json& options) {
  const int64_t clamp = options.value("clamp_length", int64_t{0});
  return clamp > 0 ? clamp : int64_t{1} << 40;
}

Sum TransformerXlScore(const Passage& passage, int64_t i, int head, const std::vector<double>& key,
                       int64_t distance) {
  const Layer& layer = passage.layer();
  const int64_t width = layer.example().width, dim = std::ssize(key);
  Sum score;
  for (int64_t t = 0; t < dim; ++t) {
    const int64_t c = head * dim + t;
    const float* r = layer.tensor("r.weight") + c * width;
    Sum relative;  // column c of Wr R
    for (int64_t a = 0; a < width / 2; ++a) {
      const double angle = static_cast<double>(distance) *
                           std::pow(10000.0, -2.0 * static_cast<double>(a) / static_cast<double>(width));
      relative.Add(r[a] * std::sin(angle));
      relative.Add(r[width / 2 + a] * std::cos(angle));
    }
    const double q = passage.product(0).At(i, c), of_distance = q + layer.tensor("pos_bias_v")[c];
    score.Add((q + layer.tensor("pos_bias_u")[c]) * key[t]);
    score.value += of_distance * relative.value;
    score.size += std::abs(of_distance) * relative.size;
  }
  return score * (1 / std::sqrt(static_cast<double>(dim)));
}

namespace {

using Vector = std::vector<double>;

// ------------------------------------------------------------------------------------------ who sees whom

bool SeesAll(const Pair&) { return true; }

bool Within(const Pair& at, int64_t window) {
  return at.layer().causal() ? at.i - at.j < window : std::abs(at.i - at.j) <= window / 2;
}

bool SeesWindow(const Pair& at) {
  const Json& o = at.options();
  return o.value("window", int64_t{0}) == 0 || Within(at, o["window"]) || at.j < o.value("sinks", int64_t{0});
}

bool SeesMemory(const Pair& at) { return at.i - at.j < at.options()["memory"]; }

// Whether `token` is global by the file.
bool Global(const Pair& at, int64_t token) {
  const auto found = at.options().find("global_tokens");
  return found != at.options().end() && std::ranges::find(*found, Json(token)) != found->end();
}

bool SeesBand(const Pair& at) {
  if (Global(at, at.i) || Global(at, at.j)) return true;
  const Json dilations = at.options().value("dilation", Json(1));
  const int64_t dilation = dilations.is_array() ? dilations[at.head] : dilations, gap = at.i - at.j,
                window = at.options()["window"];
  if (gap % dilation != 0) return false;
  return at.layer().causal() ? gap < window * dilation : std::abs(gap) <= window / 2 * dilation;
}

// How often the row's block finds the key's beside it, or is it.
int64_t TimesInACircle(const Pair& at) {
  const int64_t block = at.options()["block"], unit = at.options()["wrap_unit"], own = at.i / block,
                other = at.j / block;
  if (at.n() <= block) return 1;
  const int64_t count = (at.n() + unit - 1) / unit * unit / block;
  int64_t times = 0;
  for (int64_t step = -at.options().value("blocks_before", 0); step <= at.options().value("blocks_after", 0);
       ++step)
    times += (own + step + 64 * count) % count == other ? 1 : 0;
  return times;
}

bool SeesBlock(const Pair& at) {
  const int64_t block = at.options()["block"], own = at.i / block, other = at.j / block;
  if (at.options().contains("wrap_unit")) return TimesInACircle(at) > 0;
  return other >= own - at.options().value("blocks_before", 0) &&
         other <= own + at.options().value("blocks_after", 0);
}

bool SeesImage1d(const Pair& at) {
  const int64_t block = at.options()["query_block"], memory = at.options()["memory_block"];
  return at.j >= at.i / block * block - memory;
}

// [pixel] its row and column, in the order of generation.
const std::vector<std::array<int64_t, 2>>& GenerationOrder(const Json& o) {
  static std::map<std::array<int64_t, 4>, std::vector<std::array<int64_t, 2>>> orders;
  const int64_t height = o["height"], width = o["width"], h = o["query_block"][0], w = o["query_block"][1];
  auto& order = orders[{height, width, h, w}];
  if (!order.empty()) return order;
  for (int64_t row = 0; row < height; ++row) {
    for (int64_t column = 0; column < width; ++column) order.push_back({row, column});
  }
  std::ranges::stable_sort(order, {}, [&](const auto& p) { return std::pair(p[0] / h, p[1] / w); });
  return order;
}

bool SeesImage2d(const Pair& at) {
  const Json& o = at.options();
  const int64_t h = o["query_block"][0], w = o["query_block"][1];
  const auto& order = GenerationOrder(o);
  const auto [row, column] = order[at.i];
  const int64_t top = row / h * h - o["memory"][0].get<int64_t>(), side = o["memory"][1],
                left = column / w * w;
  const auto [key_row, key_column] = order[at.j];
  return key_row >= top && key_column >= left - side && key_column < left + w + side;
}

bool SeesEither(const Pair& at, const char* local_name, bool local, bool far) {
  const Json& o = at.options();
  const std::string pattern = o.value("pattern", "both");
  if (pattern != "both") return pattern == local_name ? local : far;
  if (o.value("heads", "merged") == "split") return 2 * at.head < at.heads() ? local : far;
  return local || far;
}

bool SeesFixed(const Pair& at) {
  const int64_t stride = at.options()["stride"], summary = at.options()["summary"];
  return SeesEither(at, "local", at.j / stride == at.i / stride, at.j % stride >= stride - summary);
}

bool SeesStrided(const Pair& at) {
  const int64_t stride = at.options()["stride"];
  return SeesEither(at, "local", at.j >= at.i - stride, (at.i - at.j) % stride == 0);
}

bool SeesAxis(const Pair& at) {
  const Json& o = at.options();
  std::vector<int64_t> shape;
  int64_t axis;
  if (o.contains("shape")) {
    shape = o["shape"].get<std::vector<int64_t>>();
    axis = o["axis"];
  } else {
    shape = {o["height"], o["width"]};
    axis = o["axis"] == "row" ? 1 : 0;
  }
  int64_t i = at.i, j = at.j;
  for (int64_t a = std::ssize(shape) - 1; a >= 0; --a) {
    if (a != axis && i % shape[a] != j % shape[a]) return false;
    i /= shape[a];
    j /= shape[a];
  }
  return true;
}

// Rows that the model brings see all and are seen by all; blocks are of those behind.
bool SeesBigBirdBehindGlobalRows(const Pair& at) {
  const Json& o = at.options();
  const int64_t front = at.layer().example().front, size = o["block_size"], blocks = o["num_blocks"],
                randoms = o["num_random_blocks"];
  if (at.i < front || at.j < front) return true;
  const int64_t i = (at.i - front) / size, j = (at.j - front) / size;
  if (std::abs(i - j) <= 1) return true;
  if (randoms == 0) return false;
  const int64_t* drawn = at.layer().integers("random_blocks") + (at.head * blocks + i) * randoms;
  return std::count(drawn, drawn + randoms, j) > 0;
}

bool SeesBigBird(const Pair& at) {
  const Json& o = at.options();
  if (o.value("form", "itc") == "etc") return SeesBigBirdBehindGlobalRows(at);
  const int64_t size = o["block_size"], blocks = o["num_blocks"], randoms = o["num_random_blocks"];
  const int64_t i = at.i / size, j = at.j / size, last = (at.n() - 1) / size;
  if (at.n() <= o.value("full_up_to", int64_t{0})) return true;
  if (i == 0 || i == last || j == 0 || j == last || std::abs(i - j) <= 1) return true;
  if (randoms == 0) return false;
  const int64_t* drawn = at.layer().integers("random_blocks") + (at.head * (blocks - 2) + i - 1) * randoms;
  return std::count(drawn, drawn + randoms, j) > 0;
}

// ------------------------------------------------------------------------- scores, and what is added there

double Root(const Pair& at) { return std::sqrt(static_cast<double>(at.dim())); }

Sum DotProduct(const Pair& at) {
  return Dot(HeadOf(at.passage->product(0), at.i, at.head, at.dim()),
             HeadOf(at.passage->product(1), at.j, at.head, at.dim())) *
         (1 / Root(at));
}

double Value(const Pair& at, int64_t t) { return at.passage->product(2).At(at.j, at.head * at.dim() + t); }

Sum RelativeScore(const Pair& at) {
  return TransformerXlScore(*at.passage, at.i, at.head,
                            HeadOf(at.passage->product(1), at.j, at.head, at.dim()),
                            std::min(at.i - at.j, Clamp(at.options())));
}

// In a circle a key may be several keys.
Sum BlockScore(const Pair& at) {
  Sum score = DotProduct(at);
  if (at.options().contains("wrap_unit")) score.Add(std::log(static_cast<double>(TimesInACircle(at))));
  return score;
}

// Keys of the first block may be several keys each, for rows of blocks between the global ones.
Sum BigBirdScore(const Pair& at) {
  Sum score = DotProduct(at);
  const Json& o = at.options();
  const int64_t size = o["block_size"], i = at.i / size, last = (at.n() - 1) / size;
  if (at.j / size == 0 && i > 0 && i < last && at.n() > o.value("full_up_to", int64_t{0}))
    score.Add(std::log(o.value("first_block_count", 1.0)));
  return score;
}

// Global tokens have keys and values of their own; their queries are made apart.
Sum BandScore(const Pair& at) {
  const OwnedRows& keys = at.passage->product(Global(at, at.i) ? 3 : 1);
  return Dot(HeadOf(at.passage->product(0), at.i, at.head, at.dim()), HeadOf(keys, at.j, at.head, at.dim())) *
         (1 / Root(at));
}

double BandValue(const Pair& at, int64_t t) {
  return at.passage->product(Global(at, at.i) ? 4 : 2).At(at.j, at.head * at.dim() + t);
}

// Pages of learned keys and values.
void AddSlots(const Passage& passage, int64_t i, int head, DefinedSoftmax& softmax) {
  const Pair at{&passage, i, 0, head};
  const Vector q = HeadOf(passage.product(0), i, head, at.dim());
  const int64_t slots = at.options()["slots"];
  for (int64_t s = 0; s < slots; ++s) {
    const float *key = at.layer().tensor("pk") + (head * slots + s) * at.dim(),
                *value = at.layer().tensor("pv") + (head * slots + s) * at.dim();
    softmax.Add(Dot(q, Vector(key, key + at.dim())) * (1 / Root(at)), [&](int64_t t) { return value[t]; });
  }
}

// Rows before the text, all alike.
void AddNullMemory(const Passage& passage, int64_t i, int head, DefinedSoftmax& softmax) {
  const Pair at{&passage, i, 0, head};
  if (!at.options().value("null_memory", false)) return;
  const float *key = at.layer().tensor("null_k") + head * at.dim(),
              *value = at.layer().tensor("null_v") + head * at.dim();
  const int64_t memory = at.options()["memory"];
  for (int64_t distance = i + 1; distance < memory; ++distance) {
    const Sum score = TransformerXlScore(passage, i, head, Vector(key, key + at.dim()),
                                         std::min(distance, Clamp(at.options())));
    softmax.Add(score, [&](int64_t t) { return value[t]; });
  }
}

struct SoftmaxDefinition {
  Sees sees;
  Sum (*score)(const Pair&) = DotProduct;  // divided, with what is added
  double (*value)(const Pair&, int64_t t) = Value;
  // What is seen besides.
  void (*more)(const Passage&, int64_t i, int head, DefinedSoftmax&) = nullptr;
};

const std::map<std::string, SoftmaxDefinition>& Softmaxes() {
  static const std::map<std::string, SoftmaxDefinition> all = {
      {"full", {SeesAll}},
      {"softmax", {SeesWindow, SoftmaxScore, SoftmaxValue, AddSink}},
      {"latent", {SeesWindow, LatentScore, LatentValue}},
      {"sliding_window", {SeesBand, BandScore, BandValue}},
      {"relative_memory", {SeesMemory, RelativeScore, Value, AddNullMemory}},
      {"disentangled", {SeesAll, DisentangledScore}},
      {"relative_segments", {SeesAll, RelativeSegmentsScore}},
      {"persistent_memory", {SeesWindow, DotProduct, Value, AddSlots}},
      {"blockwise", {SeesBlock, BlockScore}},
      {"image_local_1d", {SeesImage1d}},
      {"image_local_2d", {SeesImage2d}},
      {"sparse_fixed", {SeesFixed}},
      {"sparse_strided", {SeesStrided}},
      {"axial", {SeesAxis}},
      {"bigbird", {SeesBigBird, BigBirdScore}},
  };
  return all;
}

DefinedRow SoftmaxRow(const SoftmaxDefinition& definition, const Passage& passage, int64_t i, int head) {
  const Layer& layer = passage.layer();
  DefinedSoftmax softmax(layer.attention().out_width() / layer.example().num_heads);
  for (int64_t j = 0; j < (layer.causal() ? i + 1 : passage.source()); ++j) {
    const Pair at{&passage, i, j, head};
    if (definition.sees(at))
      softmax.Add(definition.score(at), [&](int64_t t) { return definition.value(at, t); });
  }
  if (definition.more != nullptr) definition.more(passage, i, head, softmax);
  return softmax.Row();
}

using Others = std::map<std::string, DefinedHead (*)(const Passage&, int head, bool by_steps)>;
const Others& OtherDefinitions() {
  static const Others all = {{"linear", DefinedLinear},
                             {"performer", DefinedPerformer},
                             {"linformer", DefinedLinformer},
                             {"nystrom", DefinedNystrom},
                             {"fourier", DefinedFourier},
                             {"yoso", DefinedYoso},
                             {"transient_global", DefinedTransientGlobal},
                             {"synthesizer", DefinedSynthesizer},
                             {"memory_compressed", DefinedMemoryCompressed},
                             {"compressive", DefinedCompressive},
                             {"lsh", DefinedLsh},
                             {"routing", DefinedRouting},
                             {"sinkhorn", DefinedSinkhorn},
                             {"window_2d", DefinedWindow2d},
                             {"side_by_side", DefinedSideBySide},
                             {"mamba2", DefinedMamba2},
                             {"gated_delta", DefinedGatedDelta},
                             {"kimi_delta", DefinedKimiDelta},
                             {"lightning", DefinedLightning},
                             {"short_convolution", DefinedShortConvolution},
                             {"mamba", DefinedMamba},
                             {"rg_lru", DefinedRgLru},
                             {"rwkv", DefinedRwkv},
                             {"rwkv_channel", DefinedRwkvChannel}};
  return all;
}

}  // namespace

Sees SeesOf(const std::string& type) {
  const auto found = Softmaxes().find(type);
  return found == Softmaxes().end() ? nullptr : found->second.sees;
}

DefinedHead DefinitionOf(const Passage& passage, int head, bool by_steps) {
  const std::string& type = passage.layer().example().type;
  if (passage.layer().options().contains("index")) return DefinedIndexed(passage, head);
  if (const auto found = Softmaxes().find(type); found != Softmaxes().end()) {
    return [&definition = found->second, &passage, head](int64_t i) {
      return SoftmaxRow(definition, passage, i, head);
    };
  }
  const auto found = OtherDefinitions().find(type);
  if (found == OtherDefinitions().end()) return {};
  return found->second(passage, head, by_steps);
}

void ExpectDefinition(const Passage& passage, const std::vector<int64_t>& rows, const Expected& expected) {
  const AttentionExample& example = passage.layer().example();
  const int64_t dim = passage.layer().attention().out_width() / example.num_heads;
  for (int head = 0; head < example.num_heads; ++head) {
    const DefinedHead definition = DefinitionOf(passage, head, expected.by_steps);
    ASSERT_TRUE(definition) << example.type << " has no definition";
    int held = 0;
    for (int64_t i : rows) {
      if (i >= passage.n()) continue;
      ++held;
      const DefinedRow row = definition(i);
      ASSERT_EQ(std::ssize(row.numbers), dim);
      for (int64_t t = 0; t < dim; ++t) {
        ASSERT_NEAR(passage.out().At(i, head * dim + t), row.numbers[t], row.bound * expected.bounds)
            << example.type << example.options << " row " << i << " of " << passage.n() << " head " << head;
      }
    }
    ASSERT_GT(held, 0);
  }
}

}  // namespace heed
