#include "server/api/server_service.h"

#include <chrono>

#include "engine/base/status.h"
#include "engine/generation/beam_search.h"
#include "engine/generation/sampling.h"
#include "engine/generation/stopping.h"
#include "engine/ops/microkernel.h"
#include "google/protobuf/util/time_util.h"
#include "grpcpp/grpcpp.h"
#include "server/api/metric_families.h"
#include "server/api/models.h"
#include "server/jobs/fill.h"
#include "server/methods.h"
#include "server/transport/unary_call.h"

namespace heed {
namespace {

using google::protobuf::util::TimeUtil;

#ifdef __clang__
constexpr std::string_view kCompiler = __VERSION__;
#else
constexpr std::string_view kCompiler = "GCC " __VERSION__;
#endif

v1::BuildInfo Build(int threads) {
  v1::BuildInfo build;
  build.set_compiler(std::string(kCompiler));
  build.set_libraries(Cat("gRPC ", grpc::Version(), ", ", MicroKernelLibrary()));
  build.set_isa(MicroKernelIsa());
  build.set_threads(threads);
  return build;
}

void AddConfigured(const config::v1::LimitsConfig& limits, v1::ServerLimits* out) {
  out->set_text_bytes(limits.text_bytes());
  out->set_inputs(limits.inputs());
  out->set_generate_inputs(limits.generate_inputs());
  out->set_samples(limits.samples());
  out->set_tokens(limits.tokens());
  out->set_answer_bytes(limits.answer_bytes());
  out->set_answers_bytes(limits.answers_bytes());
  out->set_attention_bytes(limits.attention_bytes());
  out->set_deadline_seconds(limits.deadline_seconds());
  out->set_stall_seconds(limits.stall_seconds());
  out->set_requests(limits.requests());
  out->set_health_watches(limits.health_watches());
}

void AddConfigured(const config::v1::TransportConfig& transport, v1::ServerLimits* out) {
  out->set_receive_bytes(transport.receive_bytes());
  out->set_send_bytes(transport.send_bytes());
  out->set_metadata_bytes(transport.metadata_bytes());
  out->set_streams(transport.streams());
}

void AddFixed(v1::ServerLimits* out) {
  out->set_top_logprobs(kMaxTopLogprobs);
  out->set_fill_top(kMaxFillTop);
  out->set_stop_strings(kMaxStops);
  out->set_stop_string_bytes(kMaxStopBytes);
  out->set_logit_biases(kMaxBiases);
  out->set_beam_width(kMaxBeams);
}

void AddFeatures(const config::v1::ServerConfig& config, v1::ServerDescription* out) {
  if (config.reflection()) out->add_features("reflection");
  if (!config.metrics_address().empty()) out->add_features("metrics");
  if (config.has_tls()) out->add_features("tls");
  if (!config.tokens().empty()) out->add_features("tokens");
  for (const char* always : {"attention_weights", "beam_search", "error_details", "request_id"})
    out->add_features(always);
}

v1::ServerDescription Describe(const ApiContext& api, const Rights* rights) {
  v1::ServerDescription out;
  out.set_version(HEED_VERSION);
  *out.mutable_build() = Build(api.threads);
  *out.mutable_started() = TimeUtil::NanosecondsToTimestamp(
      std::chrono::duration_cast<std::chrono::nanoseconds>(api.started.time_since_epoch()).count());
  AddConfigured(api.limits(), out.mutable_limits());
  AddConfigured(api.config->transport(), out.mutable_limits());
  AddFixed(out.mutable_limits());
  AddFeatures(*api.config, &out);
  for (const Registry::Entry& entry : ListFor(*api.registry, rights)) *out.add_models() = Summary(entry);
  return out;
}

}  // namespace

grpc::ServerUnaryReactor* ServerService::DescribeServer(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return UnaryCall<v1::DescribeServerRequest, v1::ServerDescription>::Start(
      api_.edge, kDescribeServer, context, request, response,
      [this](auto call) { call->Answer(Describe(api_, call->rights())); });
}

grpc::ServerUnaryReactor* ServerService::GetMetrics(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) {
  return UnaryCall<v1::GetMetricsRequest, v1::GetMetricsResponse>::Start(
      api_.edge, kGetMetrics, context, request, response, [this](auto call) {
        const auto metrics = heed::GetMetrics(call->request(), api_, call->rights());
        metrics.ok() ? call->Answer(*metrics) : call->Fail(metrics.status());
      });
}

}  // namespace heed
