#include "server/observation/otlp.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "opentelemetry/common/timestamp.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_factory.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h"
#include "opentelemetry/sdk/common/exporter_utils.h"
#include "opentelemetry/sdk/common/global_log_handler.h"
#include "opentelemetry/sdk/instrumentationscope/instrumentation_scope.h"
#include "opentelemetry/sdk/resource/resource.h"
#include "opentelemetry/sdk/resource/resource_detector.h"
#include "opentelemetry/sdk/trace/exporter.h"
#include "opentelemetry/sdk/trace/recordable.h"
#include "opentelemetry/trace/span_context.h"
#include "opentelemetry/trace/span_metadata.h"
#include "server/caught.h"
#include "server/observation/log.h"

namespace heed {
namespace {

namespace api = opentelemetry::trace;
namespace nostd = opentelemetry::nostd;
namespace otlp = opentelemetry::exporter::otlp;
namespace sdk = opentelemetry::sdk;
using sdk::common::internal_log::GlobalLogHandler;
using sdk::common::internal_log::LogHandler;
using sdk::common::internal_log::LogLevel;
using Span = sdk::trace::Recordable;
using Spans = std::vector<std::unique_ptr<Span>>;

constexpr Duration kPatience = std::chrono::seconds(2);  // with an export
constexpr const char* kStepNames[TraceStep::kKinds] = {"tokenize", "queue", "pass", "write"};

// What the library says, which would go to stdout: it knows addresses and statuses, and no client.
class ToLog final : public LogHandler {
 public:
  void Handle(LogLevel level, const char*, int, const char* message,
              const sdk::common::AttributeMap&) noexcept override {
    const auto log = [&] {
      if (level <= LogLevel::Warning && limit_.Lets())
        LogError("traces", {{"error", message ? message : ""}});
      return absl::OkStatus();
    };
    Caught("no log", log, nullptr).IgnoreError();
  }

 private:
  LogLimit limit_{1};
};

// Once, as every exporter reads it.
void LogWhatTheLibrarySays() {
  [[maybe_unused]] static const bool set = [] {
    GlobalLogHandler::SetLogHandler(nostd::shared_ptr<LogHandler>(new ToLog));
    return true;
  }();
}

std::unique_ptr<sdk::trace::SpanExporter> NewExporter(const std::string& endpoint) {
  otlp::OtlpGrpcExporterOptions options;  // from the environment: headers, certificates, compression
  options.endpoint = endpoint;
  options.use_ssl_credentials = endpoint.starts_with("https://");
  options.timeout = kPatience;
  return otlp::OtlpGrpcExporterFactory::Create(options);
}

// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before it.
sdk::resource::Resource NewResource() {
  return sdk::resource::Resource::Create({{"service.name", "heed"}, {"service.version", HEED_VERSION}})
      .Merge(sdk::resource::OTELResourceDetector().Detect());
}

template <size_t n>
nostd::span<const uint8_t, n> Bytes(const std::array<uint8_t, n>& id) {
  return {id.data(), id.size()};
}

api::SpanId NewSpanId() {
  std::array<uint8_t, api::SpanId::kSize> id;
  CHECK_EQ(getentropy(id.data(), id.size()), 0);
  return api::SpanId(Bytes(id));
}

api::SpanContext NewContext(const TracedCall& call) {
  return {api::TraceId(Bytes(call.context.trace_id)), NewSpanId(),
          api::TraceFlags(api::TraceFlags::kIsSampled),
          /*is_remote=*/false, api::TraceState::FromHeader(call.context.state)};
}

void Set(Span& span, std::string_view name, std::string_view value) {
  span.SetAttribute({name.data(), name.size()}, nostd::string_view(value.data(), value.size()));
}
void Set(Span& span, std::string_view name, int64_t value) {
  span.SetAttribute({name.data(), name.size()}, value);
}

// Those that are the server's fault or its state, by OpenTelemetry's conventions for gRPC.
bool IsServersError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

void SetFacts(const TracedCall& call, Span& span) {
  Set(span, "rpc.system", "grpc");
  Set(span, "rpc.service", call.service);
  Set(span, "rpc.method", call.method);
  Set(span, "rpc.grpc.status_code", static_cast<int64_t>(call.code));
  Set(span, "heed.request_id", call.request_id);
  if (!call.reason.empty()) Set(span, "error.type", call.reason);
  if (IsServersError(call.code)) span.SetStatus(api::StatusCode::kError, "");
  if (call.model.empty()) return;
  Set(span, "gen_ai.request.model", call.model);
  Set(span, "gen_ai.usage.input_tokens", call.tokens_read);
  Set(span, "gen_ai.usage.output_tokens", call.tokens_made);
}

void SetFacts(const TraceStep& step, Span& span) {
  if (step.input >= 0) Set(span, "heed.input", int64_t{step.input});
  if (step.merged > 1) Set(span, "heed.merged", step.merged);
  if (step.failed) span.SetStatus(api::StatusCode::kError, "");
  if (step.kind != TraceStep::kPass) return;
  Set(span, "heed.pass.phase", step.prompt ? "prefill" : "decode");
  Set(span, "heed.pass.tokens", step.tokens);
  Set(span, "heed.pass.batch_tokens", step.batch_tokens);
  Set(span, "heed.pass.batch_inputs", step.batch_inputs);
}

// What it gives its spans must outlive their export. Used by one thread.
class Otlp {
 public:
  explicit Otlp(const std::string& endpoint) : exporter_(NewExporter(endpoint)) {}

  bool Export(std::span<const TracedCall> calls) {
    Spans spans;
    for (const TracedCall& call : calls) AddSpans(call, &spans);
    return exporter_->Export(nostd::span<std::unique_ptr<Span>>(spans.data(), spans.size())) ==
           sdk::common::ExportResult::kSuccess;
  }

 private:
  void AddSpans(const TracedCall& call, Spans* spans) const {
    const api::SpanContext context = NewContext(call);
    const auto& parent = call.context.parent_id;
    Span& whole = Add(call, call.arrival, call.ended, Cat(call.service, "/", call.method), spans);
    whole.SetIdentity(context, parent ? api::SpanId(Bytes(*parent)) : api::SpanId());
    whole.SetSpanKind(api::SpanKind::kServer);
    SetFacts(call, whole);
    for (const TraceStep& step : call.steps) {
      Span& part = Add(call, step.begin, step.end, kStepNames[step.kind], spans);
      part.SetIdentity({context.trace_id(), NewSpanId(), context.trace_flags(), false, context.trace_state()},
                       context.span_id());
      part.SetSpanKind(api::SpanKind::kInternal);
      SetFacts(step, part);
    }
  }

  // A span of this time.
  Span& Add(const TracedCall& call, Time begin, Time end, std::string_view name, Spans* spans) const {
    const std::chrono::nanoseconds since_1970(call.unix_nanoseconds);
    Span& span = *spans->emplace_back(exporter_->MakeRecordable());
    span.SetName({name.data(), name.size()});
    span.SetStartTime(opentelemetry::common::SystemTimestamp(since_1970 + (begin - call.arrival)));
    span.SetDuration(end - begin);
    span.SetResource(resource_);
    span.SetInstrumentationScope(*scope_);
    return span;
  }

  const std::unique_ptr<sdk::trace::SpanExporter> exporter_;
  const sdk::resource::Resource resource_ = NewResource();
  const nostd::unique_ptr<sdk::instrumentationscope::InstrumentationScope> scope_ =
      sdk::instrumentationscope::InstrumentationScope::Create("heed", HEED_VERSION);
};

}  // namespace

Traces::Export NewOtlpExport(const std::string& endpoint) {
  LogWhatTheLibrarySays();
  return [collector = std::make_shared<Otlp>(endpoint)](std::span<const TracedCall> calls) {
    return collector->Export(calls);
  };
}

}  // namespace heed
