// A collector that a test makes: it takes OTLP over gRPC as bytes, on a port of its own, and reads them by
// the descriptors that OpenTelemetry's library brings along.
#ifndef HEED_TESTS_SERVER_SERVICE_COLLECTOR_H_
#define HEED_TESTS_SERVER_SERVICE_COLLECTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace heed {

struct CollectedSpan {
  std::string trace_id, id, parent_id;  // in hex
  std::string state, name, kind;        // "vendor=1", "queue", "SPAN_KIND_INTERNAL"
  int64_t begin = 0, end = 0;           // in nanoseconds since 1970
  bool failed = false;
  std::map<std::string, std::string> attributes;  // numbers as text
};

// Protobuf writes bytes into JSON in base 64.
inline std::string HexOf(const Json& span, const char* key) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(span.value(key, ""), &bytes));
  return absl::BytesToHexString(bytes);
}

inline std::map<std::string, std::string> AttributesOf(const Json& json) {
  std::map<std::string, std::string> attributes;
  for (const Json& attribute : json.value("attributes", Json::array())) {
    const Json& value = attribute.at("value").front();  // {"stringValue": "..."} or {"intValue": "..."}
    attributes[attribute.at("key").get<std::string>()] =
        value.is_string() ? value.get<std::string>() : CanonicalText(value);
  }
  return attributes;
}

inline CollectedSpan ReadSpan(const Json& json) {
  return {.trace_id = HexOf(json, "traceId"),
          .id = HexOf(json, "spanId"),
          .parent_id = HexOf(json, "parentSpanId"),
          .state = json.value("traceState", ""),
          .name = json.value("name", ""),
          .kind = json.value("kind", ""),
          .begin = std::stoll(json.value("startTimeUnixNano", "0")),
          .end = std::stoll(json.value("endTimeUnixNano", "0")),
          .failed = json.value("status", Json::object()).value("code", "") == "STATUS_CODE_ERROR",
          .attributes = AttributesOf(json)};
}

// An ExportTraceServiceRequest as JSON.
inline Json ReadExport(const std::string& bytes) {
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
      "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest");
  if (type == nullptr) {
    ADD_FAILURE() << "OTLP is not linked";
    return Json::object();
  }
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  EXPECT_TRUE(message->ParseFromString(bytes));
  std::string text;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(*message, &text).ok());
  const auto json = ParseJson(text, "export");
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json::object();
}

// Thread-safe.
class Collector final : public grpc::CallbackGenericService {
 public:
  // `answers`: else every export waits for its deadline.
  explicit Collector(bool answers = true) : answers_(answers) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  std::string endpoint() const { return Cat("http://127.0.0.1:", port_); }

  // What has come so far: of each export its method, a header of it, and its bytes.
  std::vector<std::string> methods() const { return Locked(methods_); }
  std::vector<std::string> tokens() const { return Locked(tokens_); }  // of the header "authorization"
  std::vector<std::string> exports() const { return Locked(exports_); }

  std::vector<CollectedSpan> spans() const {
    std::vector<CollectedSpan> spans;
    for (const std::string& bytes : exports()) {
      for (const Json& resource : ReadExport(bytes).value("resourceSpans", Json::array())) {
        for (const Json& scope : resource.value("scopeSpans", Json::array())) {
          for (const Json& span : scope.value("spans", Json::array())) spans.push_back(ReadSpan(span));
        }
      }
    }
    return spans;
  }
  // What the spans of the first export are said to come from.
  std::map<std::string, std::string> resource() const {
    return AttributesOf(ReadExport(exports().at(0)).at("resourceSpans").at(0).at("resource"));
  }

 private:
  class Export final : public grpc::ServerGenericBidiReactor {
   public:
    Export(Collector* collector, const grpc::GenericCallbackServerContext& context) : collector_(collector) {
      const auto token = context.client_metadata().find("authorization");
      if (token != context.client_metadata().end()) token_.assign(token->second.data(), token->second.size());
      method_ = context.method();
      StartRead(&request_);
    }
    void OnReadDone(bool ok) override {
      if (ok) collector_->Take(method_, token_, request_);
      if (!ok || collector_->answers_) End(ok);
    }
    void OnCancel() override { End(false); }
    void OnDone() override { delete this; }

   private:
    // An answer without fields has no bytes.
    void End(bool answered) {
      if (ended_.exchange(true)) return;
      if (!answered) return Finish({grpc::StatusCode::CANCELLED, "no answer"});
      const grpc::Slice empty;
      response_ = grpc::ByteBuffer(&empty, 1);
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    }

    Collector* const collector_;
    std::string method_, token_;
    grpc::ByteBuffer request_, response_;
    std::atomic<bool> ended_{false};
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Export(this, *context);
  }

  void Take(const std::string& method, const std::string& token, const grpc::ByteBuffer& request) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(request.Dump(&slices).ok());
    std::string bytes;
    for (const auto& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    std::lock_guard lock(mutex_);
    methods_.push_back(method);
    tokens_.push_back(token);
    exports_.push_back(std::move(bytes));
  }

  std::vector<std::string> Locked(const std::vector<std::string>& list) const {
    std::lock_guard lock(mutex_);
    return list;
  }

  const bool answers_;
  mutable std::mutex mutex_;                             // guards the next three
  std::vector<std::string> methods_, tokens_, exports_;  // an entry for each export
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_COLLECTOR_H_
