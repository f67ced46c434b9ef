#include "server/api/rerank.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "server/api/answering.h"
#include "server/api/many_inputs.h"
#include "server/error.h"
#include "server/jobs/classify.h"

namespace heed {
namespace {

struct RerankOptions {
  int32_t top = 0;          // only the n best documents; 0: all
  bool raw_scores = false;  // logits
  int32_t label = 0;        // which of the model's says that a document is relevant
};

// Of all the model's logits, in any order. A single one stands by itself, whatever the model says.
float ScoreOf(const Classified& logits, const RerankOptions& options, bool multi_label) {
  std::vector<float> scores(logits.labels.size());
  for (const LabelScore& label : logits.labels) scores[label.index] = label.score;
  if (!options.raw_scores) ToProbabilities(multi_label || scores.size() == 1, scores);
  return scores[options.label];
}

// The first of a model's labels, for messages.
std::string Listed(const std::vector<std::string>& labels) {
  constexpr size_t kMost = 8;
  const size_t count = std::min(labels.size(), kMost);
  return Cat(absl::StrJoin(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(count), ", "),
             labels.size() > kMost ? ", ..." : "");
}

absl::StatusOr<int32_t> LabelIn(const std::string& name, const ServedModel& model) {
  const std::vector<std::string>& labels = model.info().labels;
  if (name.empty() && labels.size() == 1) return 0;
  const auto found = std::ranges::find(labels, name);
  if (!name.empty() && found != labels.end()) return static_cast<int32_t>(found - labels.begin());
  return AtField(Invalid(name.empty() ? "it must name the label that says how relevant a document is; '"
                                      : "it is no label; '",
                         model.spec.name, "' has ", labels.size(), ": ", Listed(labels)),
                 "options.label");
}

absl::StatusOr<RerankOptions> ToOptions(const v1::RerankOptions& options, const ServedModel& model) {
  if (options.top() < 0)
    return AtField(Invalid("the value is ", options.top(), ", it must be at least 0"), "options.top");
  ASSIGN_OR_RETURN(const int32_t label, LabelIn(options.label(), model));
  return RerankOptions{.top = options.top(), .raw_scores = options.raw_scores(), .label = label};
}

class RerankDocuments final : public Answering<v1::RerankRequest, v1::RerankResponse> {
 public:
  RerankDocuments(const ApiContext& api, std::shared_ptr<Call> call, const ServedModel* model,
                  const RerankOptions& options)
      : Answering(api, std::move(call), model, std::nullopt), options_(options) {}

 private:
  absl::StatusOr<std::shared_ptr<Job>> Make(int i) override {
    const std::string where = Cat("documents[", i, "]");
    ASSIGN_OR_RETURN(ReadInput read, reader().ReadPair({.first = request().query(),
                                                        .second = request().documents(i),
                                                        .first_field = "query",
                                                        .second_field = where,
                                                        .field = where}));
    JobInput input = ToJob(std::move(read));
    RETURN_IF_ERROR(ReserveAnswer(i, RankedBytes(info()), input.length(), &input));
    auto done =
        Into<Classified>(i, [options = options_, multi_label = info().multi_label](const Classified& logits) {
          v1::Ranked ranked;
          ranked.set_score(ScoreOf(logits, options, multi_label));
          *ranked.mutable_usage() = ToMessage(logits.usage);
          return ranked;
        });
    auto job = NewClassifyJob(std::move(input), {.raw_scores = true}, std::move(done));
    return job.ok() ? std::move(job) : AtField(job.status(), where);
  }

  // Best first; then those that have no score.
  void Arrange(v1::RerankResponse* response) const override {
    auto& results = *response->mutable_results();
    for (int i = 0; i < results.size(); ++i) results[i].set_index(i);
    const auto scored_end = std::stable_partition(results.begin(), results.end(),
                                                  [](const auto& result) { return result.has_value(); });
    std::stable_sort(results.begin(), scored_end,
                     [](const auto& a, const auto& b) { return a.value().score() > b.value().score(); });
    const auto scored = static_cast<int>(scored_end - results.begin());
    if (options_.top > 0 && options_.top < scored)
      results.DeleteSubrange(options_.top, scored - options_.top);
  }

  const RerankOptions options_;
};

}  // namespace

absl::Status Rerank(const ApiContext& api, std::shared_ptr<RerankCall> call) {
  ASSIGN_OR_RETURN(const ServedModel* model, ModelFor("Rerank", api, *call, "documents"));
  ASSIGN_OR_RETURN(const RerankOptions options, ToOptions(call->request().options(), *model));
  RETURN_IF_ERROR(AtField(CheckText(call->request().query(), api.limits().text_bytes()), "query"));
  std::make_shared<RerankDocuments>(api, std::move(call), model, options)->Begin();
  return absl::OkStatus();
}

}  // namespace heed
