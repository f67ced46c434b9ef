// docs/metrics.md, made of what a live server exposes and of the words below, which say when each family
// moves. HEED_UPDATE=1 in the environment writes it anew.
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "server/observation/model_metrics.h"
#include "tests/server/observation/exposition.h"
#include "tests/server/service/tls_world.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

constexpr const char* kDocument = HEED_SOURCE_DIR "/docs/metrics.md";

// When a family moves.
const std::map<std::string, std::string>& Moves() {
  static const std::map<std::string, std::string> moves = {
      {"grpc_server_started_total", "when a call arrives"},
      {"grpc_server_msg_received_total", "when a call arrives, with its request"},
      {"grpc_server_msg_sent_total", "with the answer of a call, or each message of a stream"},
      {"grpc_server_handled_total", "when a call has ended"},
      {"grpc_server_handling_seconds", "when a call has ended"},
      {"heed_answer_bytes_reserved", "read when scraped"},
      {"heed_answer_limit_bytes", "never"},
      {"heed_batch_size", "before each pass"},
      {"heed_batch_tokens", "before each pass"},
      {"heed_build_info", "never"},
      {"heed_calls_in_flight", "read when scraped"},
      {"heed_deadline_missed_total", "when an input that was taken ends for its deadline"},
      {"heed_e2e_request_latency_seconds", "at an input's end; of `Generate`, at each sample's"},
      {"heed_generation_tokens_total", "after each pass; of a beam search, at its end"},
      {"heed_inter_token_latency_seconds", "after each pass, for each token but a job's first"},
      {"heed_isa_info", "never"},
      {"heed_kv_cache_usage_ratio", "read when scraped"},
      {"heed_listener_up", "read when scraped"},
      {"heed_log_lines_dropped_total", "when a line of the log is dropped"},
      {"heed_memory_available_bytes", "read when scraped"},
      {"heed_model_failures_total", "when a pass has thrown; the log says what"},
      {"heed_model_load_seconds", "when the model is ready"},
      {"heed_model_state", "read when scraped"},
      {"heed_num_requests_running", "read when scraped"},
      {"heed_num_requests_waiting", "read when scraped"},
      {"heed_prompt_tokens_total", "after each pass"},
      {"heed_request_decode_time_seconds", "at the end of a text; of each sample"},
      {"heed_request_failure_total", "at an input's end; of `Generate`, at each sample's"},
      {"heed_request_prefill_time_seconds", "when an input was answered; once for all samples of one"},
      {"heed_request_queue_time_seconds", "when an input enters its first pass"},
      {"heed_request_success_total", "at an input's end; of `Generate`, at each sample's"},
      {"heed_request_tokenization_time_seconds", "when a text was read"},
      {"heed_requests_shed_total", "once for each request (without the labels of a model) or input"},
      {"heed_state_limit_bytes", "never"},
      {"heed_state_reserved_bytes", "read when scraped"},
      {"heed_stream_inter_token_seconds", "when a stream takes tokens, but a sample's first"},
      {"heed_stream_time_to_first_token_seconds", "when a stream takes a sample's first token"},
      {"heed_task_failures_total", "when a task has thrown; the log says what"},
      {"heed_time_to_first_token_seconds", "after the pass that made an input's first token"},
      {"heed_tls_certificate_expiry_timestamp_seconds", "when the files of `tls` have changed"},
      {"heed_trace_spans_total", "when spans were exported, or are lost"},
      {"heed_workspace_bytes", "read when scraped"},
      {"process_cpu_seconds_total", "read when scraped"},
      {"process_max_fds", "read when scraped"},
      {"process_open_fds", "read when scraped"},
      {"process_resident_memory_bytes", "read when scraped"},
      {"process_start_time_seconds", "never"},
      {"process_threads", "read when scraped"},
      {"process_virtual_memory_bytes", "read when scraped"},
      {"process_virtual_memory_max_bytes", "read when scraped"},
      {"exposer_request_latencies", "with each scrape"},
      {"exposer_scrapes_total", "with each scrape"},
      {"exposer_transferred_bytes_total", "with each scrape"},
  };
  return moves;
}

std::string UnitOf(const std::string& family) {
  for (const char* unit : {"seconds", "bytes", "ratio"}) {
    if (std::regex_search(family, std::regex(Cat("_", unit, "(_total)?$")))) return unit;
  }
  return family == "exposer_request_latencies" ? "microseconds" : "";
}

// Everything that is ever exposed: a failure is, once there was one; certificates, where there is TLS.
std::map<std::string, ExposedFamily> Exposed() {
  auto world = World::Ready({{"reader", [] { return WithBytes(NewFakeClassifier()); }}}, WithMetrics);
  v1::ClassifyRequest request;
  request.add_inputs()->set_text("");
  v1::ClassifyResponse response;
  EXPECT_FALSE(world->inference()->Classify(NewContext().get(), request, &response).ok());
  Metrics(*world);  // so that there was a scrape
  auto families = ParseExposition(Metrics(*world));
  const TlsWorld tls(Authority("ours").Issue(), {.metrics = true});
  families.merge(ParseExposition(Metrics(tls.server())));
  return families;
}

std::string Table(const std::map<std::string, ExposedFamily>& families, const std::string& prefix) {
  std::string text =
      "\n| family | type | labels | unit | what it tells | when it moves |\n|---|---|---|---|---|---|\n";
  for (const auto& [name, family] : families) {
    if (!name.starts_with(prefix)) continue;
    text +=
        Cat("| `", name, "` | ", family.type, " | ", absl::StrJoin(family.labels, ", "), " | ", UnitOf(name),
            " | ", family.help, " | ", Moves().contains(name) ? Moves().at(name) : "", " |\n");
  }
  return text;
}

std::string Document(const std::map<std::string, ExposedFamily>& families) {
  return Cat(
      "# Metrics\n\n"
      "Made by `tests/server/service/metrics_doc_test.cc` from what a server exposes; do not edit. `GET "
      "/metrics` "
      "at the\n"
      "config's `metrics_address` gives them in Prometheus's text format. What is counted is registered at "
      "the "
      "server's\n"
      "start, or when a model is ready, so it shows 0 before it moves; `heed_request_failure_total` alone "
      "begins "
      "with a\n"
      "reason's first failure, but for CLIENT_STALLED, MODEL_ERROR and OUTPUT_NOT_FINITE. Labels are "
      "methods, models and\n"
      "words of ours: nothing of a request. `heed.v1.Server/GetMetrics` answers the same, typed, but for the "
      "last section.\n\n"
      "Buckets of durations are the config's `metrics.duration_buckets`, else 100 microseconds to 600 s, at "
      "most "
      "a factor of\n"
      "2.5 apart; of counts, powers of two.\n\n"
      "## Calls\n\nAs the gRPC middlewares of Go name them, `grpc_type` (unary, server_stream) and "
      "`grpc_code` "
      "(OK, Canceled,\n"
      "InvalidArgument, ...) included.\n",
      Table(families, "grpc_"),
      "\n## Inputs, tokens and passes\n\nvLLM's stems under `heed_`. The latency's `outcome` is ok, refused "
      "(invalid, or turned away), cancelled (by the\nclient, or it stopped reading), deadline or error; a "
      "failure's `reason` is that of the\nerror that the client got (`heed.v1` common.proto). What is made "
      "is "
      "told as `heed_time_to_first_token_seconds` and\n`heed_inter_token_latency_seconds`; what a client "
      "takes, "
      "which may be slow, as `heed_stream_...`.\n",
      Table(families, "heed_"), "\n## The process\n\nAs Prometheus's own client libraries name them.\n",
      Table(families, "process_"), "\n## The scrapes themselves\n\nThe HTTP server's own.\n",
      Table(families, "exposer_"));
}

TEST(MetricsDocument, SaysWhatAServerExposes) {
  const std::string document = Document(Exposed());
  if (std::getenv("HEED_UPDATE")) std::ofstream(kDocument) << document;
  std::ostringstream text;
  text << std::ifstream(kDocument).rdbuf();
  EXPECT_EQ(text.str(), document)
      << "HEED_UPDATE=1 ./dev test service_test 'MetricsDocument.*' writes it anew";
}

TEST(MetricsDocument, EveryFamilyHasItsWords) {
  const auto families = Exposed();
  for (const auto& [name, family] : families) {
    EXPECT_TRUE(Moves().contains(name)) << name;
    EXPECT_NE(family.help, "") << name;
  }
  for (const auto& [name, when] : Moves()) EXPECT_TRUE(families.contains(name)) << name;
}

// What `promtool check metrics` asks for, of all families but those that a library adds.
TEST(MetricsDocument, NamesFollowTheConventions) {
  for (const auto& [name, family] : Exposed()) {
    if (name.starts_with("exposer_")) continue;
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z][a-z0-9]*(_[a-z0-9]+)*"))) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == "counter") << name;
    EXPECT_FALSE(std::regex_search(name, std::regex("_(count|sum|bucket|gauge|counter|histogram)$"))) << name;
    EXPECT_FALSE(std::regex_search(
        name, std::regex("_(ms|us|milliseconds|microseconds|kb|mb|kilobytes|percent)(_|$)")))
        << name;
    for (const std::string& label : family.labels)
      EXPECT_TRUE(std::regex_match(label, std::regex("[a-z][a-z0-9]*(_[a-z0-9]+)*"))) << name << " " << label;
  }
}

}  // namespace
}  // namespace heed
