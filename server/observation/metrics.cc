#include "server/observation/metrics.h"

#include <string>
#include <utility>

#include "server/error.h"
#include "server/observation/codes.h"
#include "server/observation/families.h"

namespace heed {

using prometheus::Labels;

std::vector<double> DurationBuckets() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
          0.5,    1,       2.5,    5,     10,     25,    50,   100,   250,  600};
}

Metrics::Metrics(std::span<const Method> methods, size_t models, std::vector<double> duration_buckets)
    : duration_buckets_(std::move(duration_buckets)),
      calls_(methods.size()),
      shed_(&ShedFamily(*families_),
            [](ErrorReason reason) { return Labels{{"reason", std::string(Name(reason))}}; }),
      failed_tasks_(Counter(*families_, "heed_task_failures_total",
                            "Tasks of the request and answer threads that threw.", {})),
      models_(models) {
  for (const Method& method : methods) calls_[method.index] = Register(method);
  shed_.Of(ErrorReason::kTooManyRequests);
  shed_.Of(ErrorReason::kServerStopping);
}

Metrics::Calls Metrics::Register(const Method& method) const {
  prometheus::Registry& registry = *families_;
  const Labels labels = {{"grpc_service", std::string(method.service)},
                         {"grpc_method", std::string(method.name)},
                         {"grpc_type", method.streams ? "server_stream" : "unary"}};
  Calls calls;
  calls.started = &Counter(registry, "grpc_server_started_total", "Calls that were begun.", labels);
  calls.received =
      &Counter(registry, "grpc_server_msg_received_total", "Messages that clients have sent.", labels);
  calls.sent =
      &Counter(registry, "grpc_server_msg_sent_total", "Messages that were sent to clients.", labels);
  calls.took = &Histogram(registry, "grpc_server_handling_seconds", "From a call's arrival to its end.",
                          labels, duration_buckets_);
  for (size_t code = 0; code < calls.handled.size(); ++code) {
    calls.handled[code] =
        &Counter(registry, "grpc_server_handled_total", "Calls that have ended, by the answer's code.",
                 With(labels, "grpc_code", kCodeNames[code]));
  }
  return calls;
}

EdgeEvents Metrics::Events() {
  EdgeEvents events;
  events.started = [this](const Method& method) {
    calls_[method.index].started->Increment();
    calls_[method.index].received->Increment();
  };
  events.refused = [this](const absl::Status& status) { shed_.Of(ReasonOf(status)).Increment(); };
  events.sent = [this](const Method& method) { calls_[method.index].sent->Increment(); };
  events.handled = [this](const EndedCall& call) {
    calls_[call.method.index].handled[static_cast<size_t>(call.status.code())]->Increment();
    calls_[call.method.index].took->Observe(ToSeconds(call.took));
  };
  events.failed = [this](std::string_view, std::string_view) { failed_tasks_.Increment(); };
  return events;
}

ModelMetrics* Metrics::Add(const ModelSpec& spec, const ModelInfo& info) {
  models_[spec.index] = std::make_unique<ModelMetrics>(*families_, spec, info, duration_buckets_);
  return models_[spec.index].get();
}

}  // namespace heed
