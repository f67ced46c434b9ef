#include "engine/generation/beam_golden.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/generation/beam_search.h"
#include "engine/models/model.h"
#include "engine/weights/weights.h"

namespace heed {
namespace {

constexpr double kBound = 1e-4;
using Ids = std::vector<int32_t>;

struct Case {
  Ids source, start, ends;
  BeamOptions options;
  int64_t max_tokens = 0;
  std::vector<Ids> texts;  // best first
  std::vector<float> scores;
};

absl::StatusOr<Ids> ReadIds(const Weights& file, const std::string& name, int64_t least, int64_t most) {
  if (!file.tensors().contains(name)) return Invalid("cases.safetensors: '", name, "' is missing");
  ASSIGN_OR_RETURN(const Tensor tensor, file.Read(name));
  if (tensor.dtype != DType::kI64 || tensor.size() == 0) return Invalid("'", name, "' is no list of I64");
  const auto* data = static_cast<const int64_t*>(tensor.data);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (data[i] < least || data[i] > most)
      return Invalid("'", name, "': ", data[i], " is not in ", least, " .. ", most);
  }
  return Ids(data, data + tensor.size());
}

// beam_ids [width, longest], padded with -1.
absl::StatusOr<Case> Read(const Weights& file, const std::string& name, const ModelInfo& info) {
  Case c;
  const int64_t last = info.vocab_size - 1;
  ASSIGN_OR_RETURN(c.source, ReadIds(file, name + ".source_ids", 0, last));
  ASSIGN_OR_RETURN(c.start, ReadIds(file, name + ".start_id", 0, last));
  ASSIGN_OR_RETURN(c.ends, ReadIds(file, name + ".eos_id", 0, last));
  ASSIGN_OR_RETURN(const Ids most, ReadIds(file, name + ".beam_max_new_tokens", 1, 1 << 20));
  ASSIGN_OR_RETURN(const Ids padded, ReadIds(file, name + ".beam_ids", -1, last));
  c.max_tokens = most[0];
  const WeightScope tensors(file);
  ASSIGN_OR_RETURN(c.scores, tensors.Floats(name + ".beam_scores", {-1}));
  ASSIGN_OR_RETURN(const std::vector<float> penalty, tensors.Floats(name + ".beam_length_penalty", {1}));
  const size_t width = c.scores.size();
  c.options = {.width = static_cast<int32_t>(width),
               .length_penalty = penalty[0],
               .results = static_cast<int32_t>(width)};
  RETURN_IF_ERROR(Validate(c.options));
  if (width == 0 || padded.size() % width != 0)
    return Invalid("'", name, ".beam_ids' is not [", width, ", n]");
  const auto longest = static_cast<int64_t>(padded.size() / width);
  for (size_t i = 0; i < width; ++i) {
    const auto begin = padded.begin() + static_cast<int64_t>(i) * longest;
    c.texts.emplace_back(begin, std::find(begin, begin + longest, -1));
  }
  return c;
}

// All live hypotheses in one pass a step.
absl::StatusOr<std::vector<BeamSearch::Hypothesis>> Search(const Model& model, const Case& c,
                                                           Threads& threads) {
  BeamSearch search(c.options, c.ends, c.max_tokens);
  std::vector<std::unique_ptr<Sequence>> sequences;
  sequences.push_back(model.Start());
  std::vector<Ids> next = {c.start};
  for (Ids source = c.source; search.live() > 0; source.clear()) {
    std::vector<Work> batch;
    for (int i = 0; i < search.live(); ++i) {
      batch.push_back({.sequence = sequences[i].get(), .tokens = next[i], .source = source, .wanted = {0}});
      batch.back().read = [&search, i](int32_t, std::span<const float> logits) { search.Read(i, logits); };
    }
    const std::unique_ptr<Pass> pass = model.Begin(&batch);
    while (pass->Advance(threads)) {
    }
    ASSIGN_OR_RETURN(const auto extensions, search.Advance());
    std::vector<std::unique_ptr<Sequence>> forks;
    next.clear();
    for (const auto& [parent, token] : extensions) {
      forks.push_back(sequences[parent]->Clone());
      next.push_back({token});
    }
    sequences = std::move(forks);
  }
  return search.Results();
}

GoldenResult Compare(const Case& c, const std::vector<BeamSearch::Hypothesis>& found) {
  GoldenResult result{.ways = 1};
  if (found.size() != c.texts.size()) result.problem = Cat(found.size(), " texts, not ", c.texts.size());
  for (size_t i = 0; i < std::min(found.size(), c.texts.size()); ++i) {
    result.largest = std::max(result.largest, std::abs(found[i].score - c.scores[i]));
    if (found[i].tokens != c.texts[i]) result.problem = Cat("text ", i, ": other tokens");
  }
  if (!(result.largest <= kBound)) result.problem = Cat("a score differs by ", result.largest);
  return result;
}

}  // namespace

absl::StatusOr<std::vector<GoldenResult>> CheckBeamCases(const std::string& folder, Threads& threads) {
  ASSIGN_OR_RETURN(const std::unique_ptr<const Model> model, LoadModel(folder, {}));
  std::vector<GoldenResult> results;
  if (model->info().architecture != Architecture::kEncoderDecoder) return results;
  ASSIGN_OR_RETURN(const std::unique_ptr<Weights> file, Weights::LoadFile(folder + "/cases.safetensors"));
  for (const auto& [name, tensor] : file->tensors()) {
    if (!name.ends_with(".beam_ids")) continue;
    const std::string key = name.substr(0, name.find('.'));
    ASSIGN_OR_RETURN(const Case c, Read(*file, key, model->info()));
    ASSIGN_OR_RETURN(const auto found, Search(*model, c, threads));
    results.push_back(Compare(c, found));
    results.back().name = Cat(key, " beam ", c.options.width);
  }
  return results;
}

}  // namespace heed
