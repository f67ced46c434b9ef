// Whole encoders as a server meets them: ragged lengths, in the order of arrival, up to 4,096 rows a pass.
// Beside the speed, the rows that padding each 32 arrivals to their longest would have computed.
#include <algorithm>
#include <numeric>

#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

void RunAll(const Model& model, const std::vector<int64_t>& lengths, Threads& threads) {
  constexpr int64_t kRows = 4096;
  std::vector<int32_t> labels(lengths.size());
  for (size_t i = 0; i < lengths.size();) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Work> batch;
    for (int64_t rows = 0; i < lengths.size() && rows + lengths[i] <= kRows; rows += lengths[i++]) {
      sequences.push_back(model.Start());
      batch.push_back(
          LastRow(sequences.back().get(), Tokens(lengths[i], model.info().vocab_size), &labels[i]));
      batch.back().wanted = {0};
    }
    RunPass(model, batch, threads);
  }
}

// What padding would compute, as a multiple of the work that is asked for.
double PaddingFactor(const Model& model, const std::vector<int64_t>& lengths) {
  double padded = 0, asked = 0;
  for (size_t begin = 0; begin < lengths.size(); begin += 32) {
    auto end = lengths.begin() + std::min(begin + 32, lengths.size());
    padded += model.Cost(*std::max_element(lengths.begin() + begin, end)) * (end - lengths.begin() - begin);
    for (auto length = lengths.begin() + begin; length != end; ++length) asked += model.Cost(*length);
  }
  return padded / asked;
}

}  // namespace

void EncoderSection(Threads& threads) {
  const std::vector<int64_t> lengths = RaggedLengths();
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  Table table({"encoder       ", "dtype", "tokens/s", "share of hot", "padded to the longest of 32"});
  for (const auto& [name, config] : {std::pair{"BERT-base", BertBase()}, {"MiniLM-L6", MiniLm()}}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      RandomModel model = MakeRandomModel(config, precision);
      double operations = 0;
      for (int64_t length : lengths) operations += 2 * model->Cost(length);
      LimitsNow limits(threads, model->info().precision);
      double seconds =
          LeastSeconds({[&] { RunAll(*model, lengths, threads); }, [&] { limits.Measure(); }}, 0.7)[0];
      table.Row({name, std::string(Name(model->info().precision)),
                 Cat(static_cast<int64_t>(tokens / seconds)),
                 Percent(operations / seconds / limits.operations()), Times(PaddingFactor(*model, lengths))});
    }
  }
}

}  // namespace heed
