#include "server/jobs/embed.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/ops/rows.h"

namespace heed {
namespace {

using Normalize = EmbedOptions::Normalize;

class EmbedJob : public AnsweringJob<Embedded> {
 public:
  EmbedJob(const JobInput& input, const EmbedOptions& options, Done done)
      : AnsweringJob(input, TheAnswer(input), std::move(done)), options_(options) {}

  Embedded Answer() override {
    const bool as_it_is = options_.normalize == Normalize::kNo ||
                          (options_.normalize == Normalize::kModel && !info().normalize);
    if (options_.dimensions > 0) vector_.resize(options_.dimensions);
    if (!as_it_is) ScaleToLengthOne(vector_);
    return {.vector = std::move(vector_), .usage = Spent()};
  }

 private:
  void Read(int64_t, std::span<const float> output) override { vector_.assign(output.begin(), output.end()); }

  const EmbedOptions options_;
  std::vector<float> vector_;
};

}  // namespace

int64_t AnswerBytes(const EmbedOptions&, const ModelInfo& info) {
  return sizeof(Embedded) + kListBytes + info.output_width * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<std::shared_ptr<Job>> NewEmbedJob(JobInput input, const EmbedOptions& options,
                                                 AnsweringJob<Embedded>::Done done) {
  RETURN_IF_ERROR(Validate(input));
  return std::make_shared<EmbedJob>(input, options, std::move(done));
}

}  // namespace heed
