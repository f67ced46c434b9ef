#include "engine/models/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "engine/base/status.h"
#include "engine/models/golden_draws.h"
#include "engine/models/model.h"
#include "engine/models/patches.h"
#include "engine/models/rounding_noise.h"
#include "engine/ops/rows.h"
#include "engine/weights/weights.h"

namespace heed {
namespace {

using Ids = std::vector<int32_t>;
using Output = std::vector<float>;

constexpr int64_t kMostTokens = 1 << 20;  // of a case
constexpr int64_t kMostValues = 1 << 24;  // of a table's column
// A rounding is one more draw of the noise. Of draws whose sizes vary little the next is below three times
// the largest; where the data decide who meets, few draws send a row elsewhere.
constexpr int kDraws = 4, kDrawsOfDeciding = 16;
constexpr double kMargin = 3;

struct Case {
  std::string name;
  Ids input;            // the input's ids; of an encoder-decoder: the target
  Ids types;            // of these, if there are any
  Output numbers;       // the input's
  int64_t columns = 0;  // of an image, in patches
  Ids source;           // of an encoder-decoder, or a global input
  Ids labels;           // of each row, if there are any
  Output expected;      // of every row, or the pooled one; empty if the case has greedy tokens only
  Output expected_start, expected_end;  // of spans: two labels for each row
  Output expected_sentence;             // where the model pools its rows to that, instead of both
  Output expected_mean;                 // of all rows, where the case has that too
  Ids greedy;                         // goes on after the input; in an encoder-decoder, after the start token
  Ids start;                          // that token
  Ids segments;                       // lengths of pieces, if the case names any
  Output expected_steps;              // of every row taken in alone; empty: that is only near `expected`
  Output expected_global;             // of the rows of a global input, if they are answered too
  std::map<int64_t, Output> weights;  // of the softmax, by layer, where the case has them
};

// Numbers from 0 to below `limit`.
absl::StatusOr<Ids> ReadIds(const Tensor& tensor, int64_t limit) {
  if (tensor.dtype != DType::kI64) return Invalid("integers are not I64");
  const auto* data = static_cast<const int64_t*>(tensor.data);
  Ids ids(data, data + tensor.size());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (data[i] < 0 || data[i] >= limit) return Invalid("integer ", data[i], " is not below ", limit);
  }
  return ids;
}

// What each token belongs to: a place in the global input, or a number that is none, as labels. What lies
// behind the global input is none either.
absl::StatusOr<Ids> ReadMembership(const Tensor& tensor) {
  if (tensor.dtype != DType::kI64) return Invalid("integers are not I64");
  const std::span<const int64_t> members(static_cast<const int64_t*>(tensor.data), tensor.size());
  Ids labels;
  for (const int64_t member : members)
    labels.push_back(member < 0 || member >= kMostTokens ? 0 : static_cast<int32_t>(member + 1));
  return labels;
}

// What a global input leaves out.
absl::Status CompleteGlobalInput(const GlobalInput& input, Case& c) {
  if (c.source.empty() && !input.has_default())
    return Invalid("cases.safetensors: ", c.name, " has no global_ids, and the model has none of its own");
  if (!c.labels.empty() && c.labels.size() != c.input.size()) {
    return Invalid("cases.safetensors: ", c.name, ".membership is of ", c.labels.size(), " tokens, not of ",
                   c.input.size());
  }
  heed::CompleteGlobalInput(input, std::ssize(c.input), c.source, c.labels);
  for (int32_t& label : c.labels) label = label > std::ssize(c.source) ? 0 : label;
  return absl::OkStatus();
}

// Pixels, as the rows that the model reads.
absl::Status TakePixels(const Tensor& pixels, const ImageInput& image, Case* c) {
  if (pixels.rank() != 3 || image.channels != pixels.shape[0] || pixels.shape[1] % image.patch_size != 0 ||
      pixels.shape[2] % image.patch_size != 0) {
    return Invalid("cases.safetensors: ", c->name, ".pixel_values is no image that the model reads");
  }
  const int64_t height = pixels.shape[1], width = pixels.shape[2];
  c->numbers = Patches(ToFloats(pixels), image.channels, height, width, image.patch_size);
  c->columns = width / image.patch_size;
  return absl::OkStatus();
}

// That the model takes as many rows as the case has, with what it generates.
absl::Status CheckLength(const Case& c, const ModelInfo& info) {
  const auto check = [&](int64_t rows, int64_t most) -> absl::Status {
    if (most == 0 || rows <= most) return absl::OkStatus();
    return Invalid("cases.safetensors: ", c.name, " is ", rows, " rows long, and the model takes ", most);
  };
  const bool both = info.architecture == Architecture::kEncoderDecoder;
  const int64_t generated = std::max<int64_t>(std::ssize(c.greedy) - 1, 0),
                rows = info.input.ids > 0 ? std::ssize(c.input) / info.input.ids
                                          : std::ssize(c.numbers) / info.input.numbers;
  RETURN_IF_ERROR(check(std::max(rows, both ? 1 + generated : rows + generated), info.max_tokens));
  return check(std::ssize(c.source), info.max_source_tokens);
}

// That the case brings what each row of the input consists of, within its limits.
absl::Status CheckInput(const Case& c, const ModelInfo& info) {
  const InputRow& row = info.input;
  const auto count = [](const auto& all, int64_t each) { return each == 0 ? 0 : std::ssize(all) / each; };
  const int64_t rows = row.ids > 0 ? count(c.input, row.ids) : count(c.numbers, row.numbers);
  if (rows == 0 || std::ssize(c.input) != rows * row.ids || std::ssize(c.numbers) != rows * row.numbers) {
    return Invalid("cases.safetensors: ", c.name, " has ", c.input.size(), " ids and ", c.numbers.size(),
                   " numbers; the model reads ", row.ids, " and ", row.numbers, " a row");
  }
  if (!c.types.empty() && c.types.size() != c.input.size()) {
    return Invalid("cases.safetensors: ", c.name, ".token_type_ids is of ", c.types.size(),
                   " tokens, not of ", c.input.size());
  }
  for (int64_t i = 0; i < std::ssize(c.input) && !info.id_limits.empty(); ++i) {
    const int64_t column = i % row.ids, limit = info.id_limits[column];
    if (c.input[i] >= limit) {
      return Invalid("cases.safetensors: ", c.name, ".categorical: row ", i / row.ids, ", column ", column,
                     ": ", c.input[i], " is not below ", limit);
    }
  }
  return absl::OkStatus();
}

// What a model reads whose answers are of the tokens themselves: what came before each.
void BeginWithStart(Ids* tokens) {
  tokens->pop_back();
  tokens->insert(tokens->begin(), 0);
}

// Which whole numbers of a case a tensor is: by the oracle's own names, and by transformers'. Null: none.
Ids* IdsOf(const std::string& key, Architecture architecture, Case& c) {
  const bool both = architecture == Architecture::kEncoderDecoder;
  if (key == "input_ids") return both ? &c.source : &c.input;
  if (key == "target_ids" || key == "categorical" || key == "decoder_input_ids") return &c.input;
  if (key == "source_ids" || key == "global_ids") return &c.source;
  if (key == "greedy_ids" || key == "greedy") return &c.greedy;
  if (key == "start_id") return &c.start;
  if (key == "segments" || key == "segment_lengths") return &c.segments;
  if (key == "token_type_ids") return &c.types;
  if (key == "global_attention_mask") return &c.labels;
  return nullptr;
}

int64_t LimitOf(const std::string& key, const ModelInfo& info) {
  if (key == "categorical") return kMostValues;
  if (key == "segments" || key == "segment_lengths") return kMostTokens;
  if (key == "token_type_ids") return std::max<int64_t>(info.type_vocab_size, 1);
  if (key == "global_attention_mask") return 2;
  return info.vocab_size;
}

// Which numbers of a case a tensor is; null: none.
Output* OutputOf(const std::string& key, Case& c) {
  if (key == "logits" || key == "log_probs" || key == "output" || key == "last_hidden_state")
    return &c.expected;
  if (key == "start_logits") return &c.expected_start;
  if (key == "end_logits") return &c.expected_end;
  if (key == "mean_embedding") return &c.expected_mean;
  if (key == "sentence_embedding") return &c.expected_sentence;
  if (key == "global_output") return &c.expected_global;
  if (key == "step_logits") return &c.expected_steps;
  return nullptr;
}

// What is generation's, or is there to find an error by, or is of a head that a base model's file has beside.
bool IsOfOthers(const std::string& key) {
  return key == "eos_id" || key.starts_with("beam_") || key.find("hidden_state") != std::string::npos ||
         key == "pooler_output" || key == "last_embedding" || key == "block_sparse" ||
         key.starts_with("mems.");
}

// What a case has under names of its own, as the model's answer. Of spans: two labels for each token.
void TakeExpected(Case& c) {
  if (!c.expected_sentence.empty()) {
    c.expected = std::move(c.expected_sentence);
    c.expected_mean.clear();
  }
  for (size_t i = 0; i < std::min(c.expected_start.size(), c.expected_end.size()); ++i)
    c.expected.insert(c.expected.end(), {c.expected_start[i], c.expected_end[i]});
}

// A folder's cases.
struct CasesFile {
  std::string folder;
  std::unique_ptr<Weights> tensors;
  Draws draws;

  // Whose draws a case was made with: its own, or those of all that have none.
  std::string DrawsOf(const std::string& name) const { return draws.contains(name) ? name : ""; }
};

// Those that were made with the draws `of`.
absl::StatusOr<std::vector<Case>> ReadCases(const CasesFile& file, const std::string& of,
                                            const ModelInfo& info) {
  const Architecture architecture = info.architecture;
  std::map<std::string, Case> cases;
  for (const auto& [name, form] : file.tensors->tensors()) {
    if (DrawnName(name) || file.DrawsOf(name.substr(0, name.find('.'))) != of) continue;
    ASSIGN_OR_RETURN(const Tensor tensor, file.tensors->Read(name));
    size_t dot = name.find('.');
    std::string key = dot == std::string::npos ? "" : name.substr(dot + 1);
    Case& c = cases[name.substr(0, dot)];
    c.name = name.substr(0, dot);
    if (Ids* ids = IdsOf(key, architecture, c); ids != nullptr) {
      ASSIGN_OR_RETURN(*ids, ReadIds(tensor, LimitOf(key, info)));
    } else if (key == "inputs" || key == "numerical") {
      c.numbers = ToFloats(tensor);
    } else if (key == "pixel_values") {
      RETURN_IF_ERROR(TakePixels(tensor, info.image, &c));
    } else if (key == "membership") {
      ASSIGN_OR_RETURN(c.labels, ReadMembership(tensor));
    } else if (Output* output = OutputOf(key, c); output != nullptr) {
      *output = ToFloats(tensor);
    } else if (key.starts_with("weights.")) {
      c.weights[std::atoll(key.c_str() + std::size("weights.") - 1)] = ToFloats(tensor);
    } else if (!IsOfOthers(key)) {
      return absl::UnimplementedError(Cat("cases.safetensors: '", name, "' is of a kind that is not served"));
    }
  }
  std::vector<Case> list;
  for (auto& [name, c] : cases) {
    RETURN_IF_ERROR(CheckInput(c, info));
    RETURN_IF_ERROR(CheckLength(c, info));
    TakeExpected(c);
    if (!c.source.empty() && c.start.empty() && info.decoder_start_token_id >= 0)
      c.start = {info.decoder_start_token_id};
    if (info.global_input.read) {
      RETURN_IF_ERROR(CompleteGlobalInput(info.global_input, c));
      c.expected.insert(c.expected.end(), c.expected_global.begin(), c.expected_global.end());
    } else if (c.source.empty() == (architecture == Architecture::kEncoderDecoder)) {
      return Invalid("cases.safetensors: ", name,
                     c.source.empty() ? " has no source_ids" : " has source_ids");
    }
    if (!c.source.empty() && c.start.empty() && !c.greedy.empty()) {
      return Invalid("cases.safetensors: ", name, " has no start_id");
    }
    if (info.start_row) BeginWithStart(&c.input);
    if (c.expected_steps.empty() && info.decode != DecodeClass::kApproximate) c.expected_steps = c.expected;
    list.push_back(std::move(c));
  }
  return list;
}

// Runs the works of a batch; each output goes where its `read` puts it.
void Run(const Model& model, std::vector<Work>& batch, Threads& threads) {
  std::unique_ptr<Pass> pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

// A work over `tokens` of which every row's answer, as the model means it, is appended to `out`.
Work Reading(const ModelInfo& info, Sequence* sequence, std::span<const int32_t> tokens, bool more,
             Output* out) {
  Work work;
  work.sequence = sequence;
  work.tokens.assign(tokens.begin(), tokens.end());
  work.more = more;
  for (int32_t i = 0; i < static_cast<int32_t>(tokens.size()); ++i) work.wanted.push_back(i);
  work.read = [out, normalize = info.normalize](int32_t, std::span<const float> row) {
    out->insert(out->end(), row.begin(), row.end());
    if (normalize) ScaleToLengthOne(std::span(*out).last(row.size()));
  };
  return work;
}

// The case as a whole.
Work ReadingWhole(const Model& model, const Case& c, Sequence* sequence, Output* out) {
  Work work = Reading(model.info(), sequence, {}, false, out);
  work.tokens = c.input;
  work.types = c.types;
  work.source = c.source;
  work.labels = c.labels;
  work.numbers = c.numbers;
  work.columns = c.columns;
  work.wanted.resize(model.Answers(work.InputRows(model.info().input), c.columns, std::ssize(c.source)));
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  return work;
}

// What an encoder reads before its decoder's first tokens.
void GiveSource(const Case& c, Work& work) {
  work.source = c.source;
  if (!c.source.empty()) work.labels = c.labels;
}

using Between = std::function<void(std::unique_ptr<Sequence>&)>;

// Pieces of the lengths given; the last is repeated to the end.
Output InPieces(const Model& model, const Case& c, const Ids& lengths, Threads& threads,
                const Between& between = {}) {
  Output out;
  const Ids& ids = c.input;
  std::unique_ptr<Sequence> sequence = model.Start();
  size_t piece = 0, count;
  for (size_t at = 0; at < ids.size(); at += count) {
    count = std::clamp<size_t>(lengths[std::min(piece++, lengths.size() - 1)], 1, ids.size() - at);
    bool more = at % kGrid == 0 && count % kGrid == 0 && at + count < ids.size();
    std::vector<Work> batch{
        Reading(model.info(), sequence.get(), std::span(ids).subspan(at, count), more, &out)};
    if (at == 0) GiveSource(c, batch[0]);
    Run(model, batch, threads);
    if (between) between(sequence);
  }
  return out;
}

// The softmax's weights of all layers of a whole sequence; what else it gives goes to `out`.
std::vector<LayerWeights> Weigh(const Model& model, const Case& c, Threads& threads, Output* out) {
  std::unique_ptr<Sequence> sequence = model.Start();
  std::vector<LayerWeights> weights;
  std::vector<Work> batch{ReadingWhole(model, c, sequence.get(), out)};
  batch[0].weights = &weights;
  Run(model, batch, threads);
  return weights;
}

Output Whole(const Model& model, const Case& c, Threads& threads) {
  Output out;
  std::unique_ptr<Sequence> sequence = model.Start();
  std::vector<Work> batch{ReadingWhole(model, c, sequence.get(), &out)};
  Run(model, batch, threads);
  return out;
}

// Of rows of such a width.
Output MeanOf(const Output& rows, size_t width) {
  Output mean(width);
  for (size_t i = 0; i < rows.size(); ++i)
    mean[i % width] += rows[i] * static_cast<float>(width) / rows.size();
  return mean;
}

std::map<std::string, Output> Together(const Model& model, const std::vector<Case>& cases, Threads& threads) {
  std::map<std::string, Output> outputs;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (const Case& c : cases) {
    sequences.push_back(model.Start());
    batch.push_back(ReadingWhole(model, c, sequences.back().get(), &outputs[c.name]));
  }
  Run(model, batch, threads);
  return outputs;
}

Ids Greedy(const Model& model, const Case& c, Threads& threads) {
  std::unique_ptr<Sequence> sequence = model.Start();
  Ids next = c.source.empty() ? c.input : c.start, generated;
  while (generated.size() < c.greedy.size()) {
    Output out;
    std::vector<Work> batch{Reading(model.info(), sequence.get(), next, false, &out)};
    if (generated.empty()) GiveSource(c, batch[0]);
    Run(model, batch, threads);
    int64_t width = model.info().output_width;
    next = {static_cast<int32_t>(ArgMax(out.data() + out.size() - width, width))};
    generated.push_back(next[0]);
  }
  return generated;
}

// How far an output is from the expected one.
struct Difference {
  double rms = 0, largest = 0;  // shares of the expected output's root mean square
  double beyond = 0;            // of the number that is farthest beyond f32's bound; at most 0 within it
  double number = 0;            // the largest, as it is
};

// An error where there is nothing to compare.
absl::StatusOr<Difference> Compare(const Output& expected, const Output& actual) {
  if (actual.size() != expected.size())
    return Invalid(actual.size(), " numbers instead of ", expected.size());
  Difference found{.beyond = -1};
  double squares = 0, expected_squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    if (!(difference <= 1e30)) return Invalid("number ", i, " is ", actual[i]);
    squares += difference * difference;
    expected_squares += static_cast<double>(expected[i]) * expected[i];
    found.number = std::max(found.number, difference);
    found.beyond = std::max(found.beyond, difference - 1e-4 - 1e-4 * std::abs(expected[i]));
  }
  const double unit = std::max(std::sqrt(expected_squares / static_cast<double>(expected.size())), 1e-30);
  found.rms = std::sqrt(squares / static_cast<double>(expected.size())) / unit;
  found.largest = found.number / unit;
  return found;
}

// Compares one way's output and notes it in the result.
class Comparison {
 public:
  Comparison(GoldenResult& result, Precision precision, GoldenBound bound)
      : result_(result), precision_(precision), bound_(bound) {}

  void Add(const std::string& way, const Output& expected, const Output& actual) {
    ++result_.ways;
    const absl::StatusOr<Difference> found = Compare(expected, actual);
    if (!found.ok()) return Problem(Cat(way, ": ", found.status().message()));
    result_.largest = std::max(result_.largest, found->number);
    result_.rms = std::max(result_.rms, found->rms);
    const bool within = precision_ == Precision::kF32
                            ? found->beyond <= 0
                            : found->rms <= bound_.rms && found->largest <= bound_.largest;
    if (within) return;
    Problem(Cat(way, ": differs by up to ", found->largest, ", root mean square ", found->rms,
                " of the output's; bounds ", bound_.largest, ", ", bound_.rms));
  }

  // Bit for bit.
  void Same(const std::string& way, const Output& whole, const Output& actual) {
    ++result_.ways;
    if (actual != whole) Problem(Cat(way, ": not the same bits as the whole sequence alone"));
  }

  void Problem(std::string text) {
    if (result_.problem.empty()) result_.problem = std::move(text);
  }

 private:
  GoldenResult& result_;
  Precision precision_;
  GoldenBound bound_;
};

void SaveAndRestore(const Model& model, std::unique_ptr<Sequence>& sequence) {
  std::string bytes;
  StateArchive saving = StateArchive::Saving(&bytes);
  sequence->Archive(saving);
  sequence = model.Start();
  StateArchive restoring = StateArchive::Restoring(bytes);
  sequence->Archive(restoring);
}

void CheckDecoder(const Model& model, const Case& c, const Output& whole, Comparison& comparison,
                  Threads& threads) {
  if (model.info().decode == DecodeClass::kExact) {
    comparison.Same("in chunks of 128", whole, InPieces(model, c, {kGrid}, threads));
    comparison.Add("in pieces of 7", c.expected, InPieces(model, c, {7}, threads));
    if (!c.segments.empty())
      comparison.Add("in its segments", c.expected, InPieces(model, c, c.segments, threads));
  }
  auto clone = [](std::unique_ptr<Sequence>& s) { s = s->Clone(); };
  auto restore = [&](std::unique_ptr<Sequence>& s) { SaveAndRestore(model, s); };
  Output steps = InPieces(model, c, {1}, threads);
  if (!c.expected_steps.empty()) comparison.Add("token by token", c.expected_steps, steps);
  if (model.info().decode == DecodeClass::kApproximate) {
    comparison.Same("one token, then pieces of 7 (as token by token)", steps,
                    InPieces(model, c, {1, 7}, threads));
  }
  comparison.Same("token by token, each from a clone (as token by token)", steps,
                  InPieces(model, c, {1}, threads, clone));
  comparison.Same("saved and restored between tokens (as token by token)", steps,
                  InPieces(model, c, {1}, threads, restore));
}

// What noise does to a model: itself in f32, and as often as draws with noise.
struct Noisy {
  std::unique_ptr<const Model> without;
  std::vector<std::unique_ptr<const Model>> with;
};

absl::StatusOr<Noisy> LoadNoisy(const std::string& folder, const ModelInfo& info, const Weights& drawn) {
  Noisy models;
  if (info.precision == Precision::kF32) return models;
  ASSIGN_OR_RETURN(models.without, LoadModel(folder, {.precision = Precision::kF32, .drawn = &drawn}));
  for (int seed = 0; seed < (info.data_dependent ? kDrawsOfDeciding : kDraws); ++seed) {
    ASSIGN_OR_RETURN(models.with.emplace_back(), LoadWithNoise(folder, info.precision, seed, &drawn));
  }
  return models;
}

void Widen(const Output& calm, const Output& noisy, GoldenBound& bound) {
  const Difference found = Compare(calm, noisy).value_or(Difference());
  bound.rms = std::max(bound.rms, kMargin * found.rms);
  bound.largest = std::max(bound.largest, kMargin * found.largest);
}

GoldenBound BoundOf(const Noisy& models, const Case& c, Threads& threads) {
  GoldenBound bound;
  for (const auto& noisy : models.with) {
    Widen(Whole(*models.without, c, threads), Whole(*noisy, c, threads), bound);
    if (noisy->info().decode == DecodeClass::kApproximate)
      Widen(InPieces(*models.without, c, {1}, threads), InPieces(*noisy, c, {1}, threads), bound);
  }
  return bound;
}

// Those of one layer.
void CheckWeights(const Model& model, const Noisy& noisy, const Case& c, int64_t layer, GoldenResult& result,
                  Threads& threads) {
  Output out;
  const auto weights = [&](const Model& of) {
    const std::vector<LayerWeights> all = Weigh(of, c, threads, &out);
    return layer < std::ssize(all) ? all[layer].weights : Output();
  };
  GoldenBound bound;
  for (const auto& with : noisy.with) Widen(weights(*noisy.without), weights(*with), bound);
  Comparison(result, model.info().precision, bound)
      .Add(Cat("weights.", layer), c.weights.at(layer), weights(model));
}

// Those that were made with the draws `of`.
absl::StatusOr<std::vector<GoldenResult>> CheckCases(const CasesFile& file, const std::string& of,
                                                     Precision precision, Threads& threads) {
  const std::unique_ptr<Weights> drawn = Weights::Of(file.draws.at(of));
  ASSIGN_OR_RETURN(std::unique_ptr<const Model> model,
                   LoadModel(file.folder, {.precision = precision, .drawn = drawn.get()}));
  ASSIGN_OR_RETURN(const std::vector<Case> cases, ReadCases(file, of, model->info()));
  std::vector<GoldenResult> results;
  if (cases.empty()) return results;
  ASSIGN_OR_RETURN(const Noisy noisy, LoadNoisy(file.folder, model->info(), *drawn));
  std::map<std::string, Output> together = Together(*model, cases, threads);
  for (const Case& c : cases) {
    results.push_back({.name = c.name});
    const GoldenBound bound = c.expected.empty() ? GoldenBound() : BoundOf(noisy, c, threads);
    results.back().bound = bound.rms;
    Comparison comparison(results.back(), precision, bound);
    if (!c.expected.empty()) {
      Output whole = Whole(*model, c, threads);
      comparison.Add("whole", c.expected, whole);
      if (!c.expected_mean.empty())
        comparison.Add("their mean", c.expected_mean, MeanOf(whole, c.expected_mean.size()));
      comparison.Same("in a batch with all cases", whole, together[c.name]);
      bool pooled =
          c.expected.size() == static_cast<size_t>(model->info().output_width) && c.input.size() > 1;
      if (model->info().architecture != Architecture::kEncoder && !pooled) {
        CheckDecoder(*model, c, whole, comparison, threads);
      }
      Output asked;
      Weigh(*model, c, threads, &asked);
      comparison.Same("asked for its weights", whole, asked);
      for (const auto& [layer, expected] : c.weights)
        CheckWeights(*model, noisy, c, layer, results.back(), threads);
    }
    if (!c.greedy.empty() && precision == Precision::kF32) {
      ++results.back().ways;
      const Ids generated = Greedy(*model, c, threads);
      const auto [own, other] = std::ranges::mismatch(generated, c.greedy);
      if (own != generated.end())
        comparison.Problem(Cat("greedy: token ", own - generated.begin(), " is ", *own, ", not ", *other));
    }
  }
  return results;
}

}  // namespace

absl::StatusOr<std::vector<GoldenResult>> CheckModelCases(const std::string& folder, Precision precision,
                                                          Threads& threads) {
  CasesFile file{.folder = folder, .tensors = nullptr, .draws = {}};
  ASSIGN_OR_RETURN(file.tensors, Weights::LoadFile(folder + "/cases.safetensors"));
  ASSIGN_OR_RETURN(file.draws, ReadDraws(*file.tensors));
  std::vector<GoldenResult> results;
  for (const auto& [of, drawn] : file.draws) {
    ASSIGN_OR_RETURN(std::vector<GoldenResult> some, CheckCases(file, of, precision, threads));
    std::ranges::move(some, std::back_inserter(results));
  }
  return results;
}

}  // namespace heed
