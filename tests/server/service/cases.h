// The five RPCs of heed.v1.Inference as one table, so that what must be true of each is written once: a
// request of inputs goes in, what each input and the call itself were told comes out.
//
//   for (const Rpc& rpc : EveryRpc())
//     EXPECT_EQ(rpc.Ask(*world, {.inputs = {Text("")}}).status.error_code(), grpc::INVALID_ARGUMENT);
#ifndef HEED_TESTS_SERVER_SERVICE_CASES_H_
#define HEED_TESTS_SERVER_SERVICE_CASES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/observation/codes.h"
#include "tests/server/service/world.h"

namespace heed {

// ------------------------------------------------------------------------------------------------- requests

inline v1::Input Text(std::string text) {
  v1::Input input;
  input.set_text(std::move(text));
  return input;
}

inline v1::Input TokensOf(const std::vector<int32_t>& ids) {
  v1::Input input;
  input.mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
  return input;
}

// Model "reader" classifies, "embedder", "filler" and "writer" do what they are called. `change` sees each as
// it is loaded.
inline World::Models EveryModel(const std::function<void(FakeModel&)>& change = [](FakeModel&) {}) {
  const auto made = [change](auto make) {
    return [change, make] {
      auto model = make();
      change(*model);
      return WithBytes(std::move(model));
    };
  };
  return {{"reader", made([] { return NewFakeClassifier(); })},
          {"embedder", made([] { return NewFakeEmbedder(); })},
          {"filler", made([] { return NewFakeFiller(); })},
          {"writer", made([] { return NewFakeWriter(); })}};
}

// A request without inputs that is fine in all else.
template <typename Request>
Request Good();
template <>
inline v1::ClassifyRequest Good() {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("reader");
  return request;
}
template <>
inline v1::EmbedRequest Good() {
  v1::EmbedRequest request;
  request.mutable_target()->set_model("embedder");
  return request;
}
template <>
inline v1::ScoreRequest Good() {
  v1::ScoreRequest request;
  request.mutable_target()->set_model("writer");
  return request;
}
template <>
inline v1::FillRequest Good() {
  v1::FillRequest request;
  request.mutable_target()->set_model("filler");
  request.mutable_options()->add_positions(0);
  return request;
}
template <>
inline v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.mutable_target()->set_model("writer");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(2);
  return request;
}

template <typename Request>
void AddInput(const v1::Input& input, Request* request) {
  *request->add_inputs() = input;
}
inline void AddInput(const v1::Input& input, v1::ScoreRequest* request) {
  auto* item = request->add_inputs();
  item->mutable_context()->set_text("fine");
  *item->mutable_continuation() = input;
}

// -------------------------------------------------------------------------------------------------- answers

// What a call was told. `inputs` has an entry for each input that the answer speaks of: why it was not
// answered, or nullopt if it was.
struct Outcome {
  grpc::Status status;
  std::map<int, std::optional<v1::Error>> inputs;
  std::map<std::string, std::string> headers, trailers;  // the server's

  bool Answered(int input) const {
    const auto found = inputs.find(input);
    return found != inputs.end() && !found->second;
  }
};

inline std::map<std::string, std::string> Plain(
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  std::map<std::string, std::string> plain;
  for (const auto& [key, value] : metadata)
    plain.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  return plain;
}

template <typename Response, typename Request>
Outcome AskUnary(grpc::Status (v1::Inference::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 v1::Inference::Stub& stub, grpc::ClientContext& context, const Request& request) {
  Response response;
  Outcome outcome{.status = (stub.*method)(&context, request, &response)};
  for (int i = 0; i < response.results_size(); ++i) {
    std::optional<v1::Error>& error = outcome.inputs[i];
    if (!response.results(i).has_value()) error = response.results(i).error();
  }
  return outcome;
}

inline Outcome AskStream(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::GenerateRequest& request) {
  auto stream = stub.Generate(&context, request);
  Outcome outcome;
  for (v1::GenerateEvent event; stream->Read(&event);) {
    if (event.has_finished()) outcome.inputs.emplace(event.input(), std::nullopt);
    if (event.has_error()) outcome.inputs[event.input()] = event.error();
  }
  outcome.status = stream->Finish();
  return outcome;
}

template <typename Request>
Outcome Ask(v1::Inference::Stub& stub, grpc::ClientContext& context, const Request& request) {
  using Stub = v1::Inference::Stub;
  Outcome outcome;
  if constexpr (std::is_same_v<Request, v1::ClassifyRequest>) {
    outcome = AskUnary(&Stub::Classify, stub, context, request);
  } else if constexpr (std::is_same_v<Request, v1::EmbedRequest>) {
    outcome = AskUnary(&Stub::Embed, stub, context, request);
  } else if constexpr (std::is_same_v<Request, v1::ScoreRequest>) {
    outcome = AskUnary(&Stub::Score, stub, context, request);
  } else if constexpr (std::is_same_v<Request, v1::FillRequest>) {
    outcome = AskUnary(&Stub::Fill, stub, context, request);
  } else {
    outcome = AskStream(stub, context, request);
  }
  outcome.headers = Plain(context.GetServerInitialMetadata());
  outcome.trailers = Plain(context.GetServerTrailingMetadata());
  return outcome;
}
template <typename Request>
Outcome Ask(World& world, const Request& request) {
  return Ask(*world.inference(), *NewContext(), request);
}

// ------------------------------------------------------------------------------------------------- the RPCs

struct Asked {
  std::vector<v1::Input> inputs;
  v1::Target target;  // without a model: the one of this RPC
  bool truncate = false;
};

struct Rpc {
  std::string name;   // "Classify"
  std::string model;  // of EveryModel()
  std::string place;  // an input stands at "inputs[0]" + place
  std::function<Outcome(v1::Inference::Stub&, grpc::ClientContext&, const Asked&)> ask;

  Outcome Ask(World& world, const Asked& asked) const {
    return ask(*world.inference(), *NewContext(), asked);
  }
};

template <typename Request>
Rpc NewRpc(std::string name, std::string place = "") {
  auto ask = [](v1::Inference::Stub& stub, grpc::ClientContext& context, const Asked& asked) {
    auto request = Good<Request>();
    const std::string model = request.target().model();
    *request.mutable_target() = asked.target;
    if (asked.target.model().empty()) request.mutable_target()->set_model(model);
    request.mutable_text()->set_truncate(asked.truncate);
    for (const v1::Input& input : asked.inputs) AddInput(input, &request);
    return Ask(stub, context, request);
  };
  return {std::move(name), Good<Request>().target().model(), std::move(place), ask};
}

inline const std::vector<Rpc>& EveryRpc() {
  static const std::vector<Rpc> rpcs = {
      NewRpc<v1::ClassifyRequest>("Classify"), NewRpc<v1::EmbedRequest>("Embed"),
      NewRpc<v1::ScoreRequest>("Score", ".continuation"), NewRpc<v1::FillRequest>("Fill"),
      NewRpc<v1::GenerateRequest>("Generate")};
  return rpcs;
}

// --------------------------------------------------------------------------------------------- their metrics

inline std::string MethodLabel(const std::string& name) { return Cat("grpc_method=\"", name, "\""); }
inline std::string CodeLabel(grpc::StatusCode code) {
  return Cat("grpc_code=\"", CodeName(static_cast<absl::StatusCode>(code)), "\"");
}

// ------------------------------------------------------------------------------------------------ the table

// How something is refused: what the status of a call and the error of an input both say.
struct Refusal {
  grpc::StatusCode code = grpc::INVALID_ARGUMENT;
  std::string reason;   // "INPUT_EMPTY"
  std::string field;    // "inputs[0].text"
  std::string message;  // a part of it
};

inline void ExpectTold(const v1::Error& error, const Refusal& refusal) {
  EXPECT_EQ(error.code(), refusal.code) << error.message();
  EXPECT_EQ(error.reason(), refusal.reason) << error.message();
  EXPECT_EQ(error.field(), refusal.field) << error.message();
  EXPECT_THAT(error.message(), testing::HasSubstr(refusal.message));
  EXPECT_LT(error.message().size(), 400u);
}

// What stands in the trailer grpc-status-details-bin.
struct Details {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  google::rpc::RequestInfo request;
  int count = 0;  // of them
};

inline Details DetailsOf(const grpc::Status& status) {
  google::rpc::Status all;
  EXPECT_TRUE(all.ParseFromString(status.error_details()));
  EXPECT_EQ(all.code(), status.error_code());
  EXPECT_EQ(all.message(), status.error_message());
  Details details;
  details.count = all.details_size();
  for (const auto& any : all.details()) {
    if (any.UnpackTo(&details.info) || any.UnpackTo(&details.bad_request) || any.UnpackTo(&details.retry))
      continue;
    EXPECT_TRUE(any.UnpackTo(&details.request)) << any.type_url();
  }
  return details;
}

// The same of a call that has failed.
inline void ExpectTold(const grpc::Status& status, const Refusal& refusal) {
  EXPECT_EQ(status.error_code(), refusal.code) << status.error_message();
  const std::string field = refusal.field.empty() ? "" : refusal.field + ": ";
  EXPECT_THAT(status.error_message(), testing::StartsWith(field));
  EXPECT_THAT(status.error_message(), testing::HasSubstr(refusal.message));
  EXPECT_LT(status.error_message().size(), 500u);
  const Details details = DetailsOf(status);
  EXPECT_EQ(details.info.reason(), refusal.reason);
  EXPECT_EQ(details.info.domain(), "heed");
  ASSERT_EQ(details.bad_request.field_violations_size(), refusal.field.empty() ? 0 : 1);
  if (!refusal.field.empty()) {
    EXPECT_EQ(details.bad_request.field_violations(0).field(), refusal.field);
  }
}

// The server is as it was before.
inline void ExpectServes(World& world) {
  EXPECT_TRUE(EveryRpc().front().Ask(world, {.inputs = {Text("fine")}}).status.ok());
}

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_CASES_H_
