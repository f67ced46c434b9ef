#include "server/jobs/embed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "server/jobs/reading.h"

namespace heed {
namespace {

void Normalize(std::span<float> vector) {
  double sum = 0;
  for (float x : vector) sum += double{x} * x;
  const double length = std::max(std::sqrt(sum), 1e-12);
  for (float& x : vector) x = static_cast<float>(x / length);
}

class EmbedJob : public ReadingJob {
 public:
  EmbedJob(const JobInput& input, const EmbedOptions& options,
           std::function<void(absl::StatusOr<Embedded>)> done)
      : ReadingJob(input, LastRow(input)), options_(options), done_(std::move(done)) {}

 private:
  void Read(int64_t, std::span<const float> output) override { vector_.assign(output.begin(), output.end()); }

  void Answer(const absl::Status& status) override {
    if (!status.ok()) return done_(status);
    if (options_.normalize) Normalize(vector_);
    done_(Embedded{.vector = std::move(vector_), .usage = Spent()});
  }

  const EmbedOptions options_;
  const std::function<void(absl::StatusOr<Embedded>)> done_;
  std::vector<float> vector_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> NewEmbedJob(JobInput input, const EmbedOptions& options,
                                                 std::function<void(absl::StatusOr<Embedded>)> done) {
  RETURN_IF_ERROR(Validate(input));
  return std::make_shared<EmbedJob>(input, options, std::move(done));
}

}  // namespace heed
