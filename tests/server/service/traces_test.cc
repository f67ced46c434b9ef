// Calls as spans: what a real server sends to a collector, as the collector reads it.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observation/otlp.h"
#include "server/service/traced_calls.h"
#include "tests/server/service/collector.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using testing::HasSubstr;
using testing::Not;
using Attributes = std::map<std::string, std::string>;

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kCaller = "00f067aa0ba902b7";
const std::string kSampled = "00-" + kTrace + "-" + kCaller + "-01";

// An exporter's channel goes where a proxy of the environment's says; set before there are threads.
[[maybe_unused]] const int kNoProxy = setenv("no_grpc_proxy", "127.0.0.1", 1);

std::unique_ptr<World> TracedWorld(
    const std::string& endpoint,
    const std::function<void(config::v1::ServerConfig&)>& change = [](auto&) {}) {
  const auto broken = [] {
    auto model = NewFakeClassifier();
    model->on_layer = [](int) { throw std::runtime_error("a secret of the library's"); };
    return WithBytes(std::move(model));
  };
  return World::Ready({{"broken", broken},
                       {"reader", [] { return WithBytes(NewFakeClassifier()); }},
                       {"writer", [] { return WithBytes(NewFakeWriter(1000)); }}},
                      [&](config::v1::ServerConfig& config) {
                        config.mutable_traces()->set_endpoint(endpoint);
                        change(config);
                      });
}

grpc::Status Classify(World& world, const std::vector<std::string>& texts, const Attributes& headers = {},
                      const std::string& model = "reader") {
  auto context = NewContext();
  for (const auto& [name, value] : headers) context->AddMetadata(name, value);
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  for (const std::string& text : texts) request.add_inputs()->set_text(text);
  v1::ClassifyResponse response;
  return world.inference()->Classify(context.get(), request, &response);
}

void Generate(World& world, const std::string& prompt, int tokens) {
  auto context = NewContext();
  auto stream = world.inference()->Generate(context.get(), GreedyRequest("writer", prompt, tokens));
  for (v1::GenerateEvent event; stream->Read(&event);) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

std::vector<CollectedSpan> Named(const std::vector<CollectedSpan>& spans, const std::string& name) {
  std::vector<CollectedSpan> found;
  std::ranges::copy_if(spans, std::back_inserter(found),
                       [&](const CollectedSpan& span) { return span.name == name; });
  return found;
}

// The first span is the call's, and the others are parts of it.
void ExpectOneCall(const std::vector<CollectedSpan>& spans) {
  ASSERT_FALSE(spans.empty());
  const CollectedSpan& call = spans[0];
  EXPECT_EQ(call.kind, "SPAN_KIND_SERVER");
  std::set<std::string> ids = {call.id};
  for (size_t i = 1; i < spans.size(); ++i) {
    SCOPED_TRACE(spans[i].name);
    EXPECT_EQ(spans[i].trace_id, call.trace_id);
    EXPECT_EQ(spans[i].parent_id, call.id);
    EXPECT_EQ(spans[i].kind, "SPAN_KIND_INTERNAL");
    EXPECT_GE(spans[i].begin, call.begin);
    EXPECT_LE(spans[i].begin, spans[i].end);
    EXPECT_LE(spans[i].end, call.end);
    EXPECT_TRUE(ids.insert(spans[i].id).second);
  }
}

TEST(TracesOfCalls, TellOfAClassifyWhatBecameOfEachInput) {
  Collector collector;
  auto world = TracedWorld(collector.endpoint());
  ASSERT_TRUE(Classify(*world, {"secret words", "two secrets!"},
                       {{"traceparent", kSampled}, {"tracestate", "vendor=1"}, {"x-request-id", "find-me"}})
                  .ok());
  world->server().Drain();
  const auto spans = collector.spans();
  ExpectOneCall(spans);
  ASSERT_EQ(spans.size(), 8u);
  const CollectedSpan& call = spans[0];
  EXPECT_EQ(call.name, "heed.v1.Inference/Classify");
  EXPECT_EQ(call.trace_id, kTrace);
  EXPECT_EQ(call.parent_id, kCaller);
  EXPECT_EQ(call.attributes, (Attributes{{"rpc.system", "grpc"},
                                         {"rpc.service", "heed.v1.Inference"},
                                         {"rpc.method", "Classify"},
                                         {"rpc.grpc.status_code", "0"},
                                         {"heed.request_id", "find-me"},
                                         {"gen_ai.request.model", "reader"},
                                         {"gen_ai.usage.input_tokens", "24"},
                                         {"gen_ai.usage.output_tokens", "0"}}));
  for (const CollectedSpan& span : spans) {
    EXPECT_EQ(span.state, "vendor=1") << span.name;
    EXPECT_FALSE(span.failed) << span.name;
  }
  for (const char* name : {"tokenize", "queue", "pass"}) {
    const auto parts = Named(spans, name);
    ASSERT_EQ(parts.size(), 2u) << name;
    EXPECT_EQ(parts[0].attributes.at("heed.input"), "0") << name;
    EXPECT_EQ(parts[1].attributes.at("heed.input"), "1") << name;
  }
  for (const CollectedSpan& pass : Named(spans, "pass")) {
    EXPECT_EQ(pass.attributes.at("heed.pass.phase"), "prefill");
    EXPECT_EQ(pass.attributes.at("heed.pass.tokens"), "12");
    const bool together = pass.attributes.at("heed.pass.batch_inputs") == "2";
    EXPECT_EQ(pass.attributes.at("heed.pass.batch_tokens"), together ? "24" : "12");
  }
  EXPECT_EQ(Named(spans, "write").size(), 1u);
  EXPECT_EQ(collector.methods()[0], "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
  EXPECT_EQ(collector.resource().at("service.name"), "heed");
  EXPECT_THAT(collector.resource(), testing::Contains(testing::Key("service.version")));
  for (const std::string& bytes : collector.exports()) EXPECT_THAT(bytes, Not(HasSubstr("secret")));
}

TEST(TracesOfCalls, TellOfAStreamEachPassAndEachWrite) {
  Collector collector;
  auto world = TracedWorld(collector.endpoint());
  Generate(*world, "secret words", 3);
  world->server().Drain();
  const auto spans = collector.spans();
  ExpectOneCall(spans);
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans[0].name, "heed.v1.Inference/Generate");
  EXPECT_EQ(spans[0].parent_id, "");  // no caller said that it was traced: a trace of its own
  EXPECT_EQ(spans[0].trace_id.size(), 32u);
  EXPECT_EQ(spans[0].attributes.at("gen_ai.usage.input_tokens"), "12");
  EXPECT_EQ(spans[0].attributes.at("gen_ai.usage.output_tokens"), "3");
  const auto passes = Named(spans, "pass");
  ASSERT_EQ(passes.size(), 3u);
  for (size_t i = 0; i < passes.size(); ++i) {
    const std::string tokens = i == 0 ? "12" : "1";
    EXPECT_EQ(passes[i].attributes, (Attributes{{"heed.input", "0"},
                                                {"heed.pass.phase", i == 0 ? "prefill" : "decode"},
                                                {"heed.pass.tokens", tokens},
                                                {"heed.pass.batch_tokens", tokens},
                                                {"heed.pass.batch_inputs", "1"}}));
    if (i > 0) {
      EXPECT_GE(passes[i].begin, passes[i - 1].end);
    }
  }
  EXPECT_EQ(Named(spans, "tokenize").size(), 1u);
  EXPECT_EQ(Named(spans, "queue").size(), 1u);
  EXPECT_GE(Named(spans, "write").size(), 2u);  // messages, and the end
  for (const std::string& bytes : collector.exports()) EXPECT_THAT(bytes, Not(HasSubstr("secret")));
}

TEST(TracesOfCalls, TellWhyThereWasNoAnswerInOurOwnWords) {
  Collector collector;
  auto world = TracedWorld(collector.endpoint());
  EXPECT_EQ(Classify(*world, {"fine"}, {}, "secret-model").error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Classify(*world, {"secret"}, {}, "broken").error_code(), grpc::INTERNAL);
  world->server().Drain();
  auto calls = Named(collector.spans(), "heed.v1.Inference/Classify");
  ASSERT_EQ(calls.size(), 2u);
  std::ranges::sort(calls, {}, &CollectedSpan::begin);
  EXPECT_EQ(calls[0].attributes.at("rpc.grpc.status_code"), "5");
  EXPECT_EQ(calls[0].attributes.at("error.type"), "MODEL_NOT_FOUND");
  EXPECT_FALSE(calls[0].attributes.contains("gen_ai.request.model"));
  EXPECT_FALSE(calls[0].failed);  // the caller has
  EXPECT_EQ(calls[1].attributes.at("error.type"), "MODEL_ERROR");
  EXPECT_TRUE(calls[1].failed);
  const auto passes = Named(collector.spans(), "pass");
  ASSERT_EQ(passes.size(), 1u);
  EXPECT_TRUE(passes[0].failed);
  for (const std::string& bytes : collector.exports()) EXPECT_THAT(bytes, Not(HasSubstr("secret")));
}

TEST(TracesOfCalls, AreOnlyOfThoseThatAreSampledAndNoHealthCheck) {
  Collector collector;
  auto world = TracedWorld(collector.endpoint(), [](config::v1::ServerConfig& config) {
    config.mutable_traces()->set_sampling_ratio(0);
  });
  EXPECT_TRUE(Classify(*world, {"nobody has said anything"}).ok());
  EXPECT_TRUE(Classify(*world, {"said no"}, {{"traceparent", kSampled.substr(0, 53) + "00"}}).ok());
  EXPECT_TRUE(Classify(*world, {"said nonsense"}, {{"traceparent", kSampled + "1"}}).ok());
  auto context = NewContext();
  context->AddMetadata("traceparent", kSampled);
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_TRUE(world->health()->Check(context.get(), {}, &health).ok());
  EXPECT_TRUE(Classify(*world, {"said yes"}, {{"traceparent", kSampled}}).ok());
  world->server().Drain();
  const auto spans = collector.spans();
  ExpectOneCall(spans);
  ASSERT_EQ(Named(spans, "heed.v1.Inference/Classify").size(), 1u);
  EXPECT_EQ(spans[0].trace_id, kTrace);
}

TEST(TracesOfCalls, AreMadeByNobodyWithoutAnEndpoint) {
  EXPECT_EQ(NewTraces({}), nullptr);
  EXPECT_FALSE(Traced({}, nullptr).trace);
}

TEST(TracesOfCalls, GoNowhereWithoutAnEndpointWhateverTheEnvironmentSays) {
  Collector collector;
  setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint().c_str(), 1);
  auto world = TracedWorld("", WithMetrics);
  EXPECT_TRUE(Classify(*world, {"fine"}, {{"traceparent", kSampled}}).ok());
  world->server().Drain();
  EXPECT_EQ(MetricSum(*world, "heed_trace_spans_total"), 0);
  world.reset();
  unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
  EXPECT_EQ(collector.exports().size(), 0u);
}

TEST(TracesOfCalls, TakeTheCollectorsTokenFromTheEnvironment) {
  Collector collector;
  setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=let-me-in", 1);
  auto world = TracedWorld(collector.endpoint());
  unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
  EXPECT_TRUE(Classify(*world, {"fine"}).ok());
  world->server().Drain();
  EXPECT_EQ(collector.tokens(), (std::vector<std::string>{"let-me-in"}));
}

TEST(TracesOfCalls, ReachACollectorWhileTheServerGoesOn) {
  Collector collector;
  auto world = TracedWorld(collector.endpoint(), WithMetrics);
  EXPECT_TRUE(Classify(*world, {"fine"}).ok());
  EXPECT_TRUE(Eventually([&] { return collector.exports().size() == 1; }));
  EXPECT_TRUE(
      Eventually([&] { return MetricSum(*world, "heed_trace_spans_total", {"outcome=\"exported\""}) == 5; }));
}

TEST(TracesOfCalls, ToACollectorThatIsGoneAreLostAndCountedAndHarmNobody) {
  const std::string gone = Collector().endpoint();
  auto world = TracedWorld(gone, WithMetrics);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Classify(*world, {"fine"}).ok());
  world->server().Drain();
  EXPECT_EQ(MetricSum(*world, "heed_trace_spans_total"), 50 * 5);
  EXPECT_EQ(MetricSum(*world, "heed_trace_spans_total", {"outcome=\"exported\""}), 0);
}

TEST(TracesOfCalls, ToACollectorThatHangsDoNotHoldTheServersEnd) {
  Collector collector(/*answers=*/false);
  auto world = TracedWorld(collector.endpoint(), WithMetrics);
  EXPECT_TRUE(Classify(*world, {"fine"}).ok());
  EXPECT_TRUE(Eventually([&] { return collector.exports().size() == 1; }));
  EXPECT_TRUE(Classify(*world, {"fine"}).ok());
  world->server().Drain();
  EXPECT_EQ(MetricSum(*world, "heed_trace_spans_total", {"outcome=\"failed\""}) +
                MetricSum(*world, "heed_trace_spans_total", {"outcome=\"dropped\""}),
            10);
}

// A call of the test's, with a clock of the test's.
TEST(Otlp, GivesSpansTheTimesOfTheWallClock) {
  constexpr int64_t kThen = 1'700'000'000'000'000'000;
  TracedCall call{.service = "heed.v1.Inference",
                  .method = "Generate",
                  .arrival = Time(seconds(100)),
                  .ended = Time(seconds(103)),
                  .unix_nanoseconds = kThen};
  call.steps.push_back({.kind = TraceStep::kPass,
                        .begin = Time(seconds(101)),
                        .end = Time(seconds(102)),
                        .failed = true,
                        .tokens = 300,
                        .batch_tokens = 600,
                        .batch_inputs = 400,
                        .merged = 300});
  Collector collector;
  EXPECT_TRUE(NewOtlpExport(collector.endpoint())(std::vector{call}));
  const auto spans = collector.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].begin, kThen);
  EXPECT_EQ(spans[0].end, kThen + 3'000'000'000);
  EXPECT_EQ(spans[1].begin, kThen + 1'000'000'000);
  EXPECT_EQ(spans[1].end, kThen + 2'000'000'000);
  EXPECT_TRUE(spans[1].failed);
  EXPECT_EQ(spans[1].attributes, (Attributes{{"heed.merged", "300"},
                                             {"heed.pass.phase", "decode"},
                                             {"heed.pass.tokens", "300"},
                                             {"heed.pass.batch_tokens", "600"},
                                             {"heed.pass.batch_inputs", "400"}}));
}

TEST(Otlp, FailsWhereNobodyListens) {
  const std::string gone = Collector().endpoint();
  EXPECT_FALSE(NewOtlpExport(gone)(std::vector<TracedCall>(1)));
}

}  // namespace
}  // namespace heed
