#include "client/client.h"

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/grpc_status.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/client/fake_server.h"
#include "tests/server/service/relay.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Client ConnectTo(const FakeServer& server, const ClientOptions& options = {}) {
  return *Client::Connect(server.address(), options);
}

// Refuses with this hint, in milliseconds; "": with none.
grpc::Status Refuse(grpc::ServerContext& context, const std::string& hint) {
  if (!hint.empty()) context.AddTrailingMetadata("grpc-retry-pushback-ms", hint);
  return {grpc::RESOURCE_EXHAUSTED, "the queue is full"};
}

TEST(Client, RefusesWhatIsNoAddress) {
  for (const char* address :
       {"", "localhost", "localhost:", ":8461", "localhost:0", "localhost:65536", "localhost:x", "unix:"}) {
    const auto client = Client::Connect(address);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(client.status().message(), HasSubstr(Cat("'", address, "'")));
  }
  for (const char* address : {"localhost:8461", "[::1]:8461", "unix:/run/heed.sock"}) {
    EXPECT_TRUE(Client::Connect(address).ok()) << address;
  }
}

TEST(Client, RefusesOptionsOutOfTheirRange) {
  EXPECT_THAT(Client::Connect("a:1", {.timeout = absl::ZeroDuration()}).status().message(),
              HasSubstr("timeout is 0"));
  EXPECT_THAT(Client::Connect("a:1", {.max_attempts = 0}).status().message(), HasSubstr("max_attempts is 0"));
  EXPECT_THAT(Client::Connect("a:1", {.max_response_bytes = 0}).status().message(),
              HasSubstr("max_response_bytes is 0"));
}

TEST(Client, SaysWhereNoServerIsAndHowToStartOne) {
  std::string address;
  {
    address = FakeServer().address();
  }
  const auto client = Client::Connect(address);
  const absl::Status status = client->Classify({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), Cat("no server at ", address, ": start one with `heed serve`"));
}

TEST(Client, GivesTheServersCodeAndMessage) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status(grpc::NOT_FOUND, "no model 'x'"); };
  EXPECT_EQ(ConnectTo(server).Classify({}).status(), absl::NotFoundError("no model 'x'"));
  EXPECT_EQ(ConnectTo(server).Embed({}).status(), absl::UnimplementedError("not in this test"));
}

TEST(Client, CarriesRequestsAndAnswers) {
  FakeServer server;
  server.classify = [](auto&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    response.set_model(request.target().model() + "!");
    return grpc::Status::OK;
  };
  server.check = [](auto&, const auto& request, auto& response) {
    using grpc::health::v1::HealthCheckResponse;
    response.set_status(request.service() == "x" ? HealthCheckResponse::SERVING
                                                 : HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  };
  v1::ClassifyRequest request;
  request.mutable_target()->set_model("polarity");
  EXPECT_EQ(ConnectTo(server).Classify(request)->model(), "polarity!");
  EXPECT_EQ(*ConnectTo(server).Health("x"), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(*ConnectTo(server).Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
}

TEST(Client, TakesAnswersBeyondTheFourMegabytesOfGrpc) {
  FakeServer server;
  server.embed = [](auto&, auto&, v1::EmbedResponse& response) {
    response.add_results()->mutable_value()->mutable_vector()->Resize(2 << 20, 1.0f);
    return grpc::Status::OK;
  };
  EXPECT_EQ(ConnectTo(server).Embed({})->results(0).value().vector_size(), 2 << 20);
  const auto small = ConnectTo(server, {.max_response_bytes = 1 << 20}).Embed({});
  EXPECT_EQ(small.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Client, ADeadlineEndsTheCallAndSaysHowLongItWas) {
  FakeServer server;
  std::promise<void> ended;
  server.classify = [&](auto&, auto&, auto&) {
    ended.get_future().wait();
    return grpc::Status::OK;
  };
  const absl::Status status = ConnectTo(server).Classify({}, {.timeout = absl::Milliseconds(200)}).status();
  ended.set_value();
  EXPECT_EQ(status, absl::DeadlineExceededError(Cat("no answer from ", server.address(), " within 200ms")));
}

TEST(Client, TheServerLearnsTheDeadlineAndAStreamHasNone) {
  FakeServer server;
  std::chrono::system_clock::time_point unary, stream;
  server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
    unary = context.deadline();
    return grpc::Status::OK;
  };
  server.generate = [&](grpc::ServerContext& context, auto&, auto&) {
    stream = context.deadline();
    return grpc::Status::OK;
  };
  const auto begin = std::chrono::system_clock::now();
  ASSERT_TRUE(ConnectTo(server).Classify({}).ok());
  ASSERT_TRUE(ConnectTo(server).Generate({}, [](auto&) {}).ok());
  EXPECT_GT(unary - begin, std::chrono::seconds(50));
  EXPECT_LT(unary - begin, std::chrono::seconds(70));
  EXPECT_EQ(stream, std::chrono::system_clock::time_point::max());
}

TEST(Client, RefusesATimeoutThatIsNone) {
  FakeServer server;
  EXPECT_EQ(ConnectTo(server).ListModels({.timeout = absl::ZeroDuration()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The second piece is written only after the first was read: a stream that is gathered up would stand still.
TEST(Client, APieceIsReadBeforeTheNextIsMade) {
  FakeServer server;
  std::promise<void> read;
  server.generate = [&](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    out.Write(Piece("To be"));
    read.get_future().wait();
    out.Write(Piece(" or not"));
    return grpc::Status::OK;
  };
  std::vector<std::string> pieces;
  const absl::Status status = ConnectTo(server).Generate({}, [&](const v1::GenerateEvent& event) {
    pieces.push_back(event.piece().text());
    if (pieces.size() == 1) read.set_value();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(pieces, ElementsAre("To be", " or not"));
}

TEST(Client, StopEndsAStreamInTheMiddleAndTheServerSeesIt) {
  FakeServer server;
  std::promise<void> seen;
  server.generate = [&](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    while (out.Write(Piece("again"))) {
    }
    seen.set_value();
    return grpc::Status::OK;
  };
  std::stop_source stop;
  const auto status =
      ConnectTo(server).Generate({}, [&](auto&) { stop.request_stop(); }, {.stop = stop.get_token()});
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  seen.get_future().wait();
}

TEST(Client, AnErrorAfterPiecesEndsTheStreamWithItsMessage) {
  FakeServer server;
  server.generate = [&](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    out.Write(Piece("half"));
    return grpc::Status(grpc::UNAVAILABLE, "the server is stopping");
  };
  int pieces = 0;
  const absl::Status status = ConnectTo(server).Generate({}, [&](auto&) { ++pieces; });
  EXPECT_EQ(status, absl::UnavailableError("the server is stopping"));
  EXPECT_EQ(pieces, 1);
}

TEST(Client, ComesAgainWhenTheServerSaysWhen) {
  FakeServer server;
  std::atomic<int> calls = 0;
  server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
    return ++calls < 3 ? Refuse(context, "1") : grpc::Status::OK;
  };
  EXPECT_TRUE(ConnectTo(server).Classify({}).ok());
  EXPECT_EQ(calls, 3);
}

TEST(Client, ConnectsAgainWhereTheFirstConnectionFails) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  Relay relay(server.port(), /*hung_up=*/1);
  const auto client = Client::Connect(Cat("127.0.0.1:", relay.port()));
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->Classify({}).status(), absl::OkStatus());
}

TEST(Client, GivesUpAfterItsAttempts) {
  FakeServer server;
  std::atomic<int> calls = 0;
  server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
    ++calls;
    return Refuse(context, "1");
  };
  EXPECT_EQ(ConnectTo(server, {.max_attempts = 2}).Classify({}).status(),
            absl::ResourceExhaustedError("the queue is full"));
  EXPECT_EQ(calls, 2);
}

TEST(Client, DoesNotComeAgainUnaskedOrTooLate) {
  for (const char* hint : {"", "-1", "soon", "60000"}) {
    FakeServer server;
    std::atomic<int> calls = 0;
    server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
      ++calls;
      return Refuse(context, hint);
    };
    const auto answer = ConnectTo(server).Classify({}, {.timeout = absl::Seconds(30)});
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kResourceExhausted) << hint;
    EXPECT_EQ(calls, 1) << hint;
  }
}

TEST(Client, StopEndsTheWaitForTheNextAttempt) {
  FakeServer server;
  std::stop_source stop;
  std::promise<void> called;
  server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
    called.set_value();
    return Refuse(context, "3600000");
  };
  std::thread stopper([&] {
    called.get_future().wait();
    stop.request_stop();
  });
  const auto answer = ConnectTo(server).Classify({}, {.timeout = absl::Hours(2), .stop = stop.get_token()});
  stopper.join();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
}

TEST(Client, AStreamIsTriedAgainOnlyIfNothingOfItHasCome) {
  for (const bool begun : {false, true}) {
    FakeServer server;
    std::atomic<int> calls = 0;
    server.generate = [&](grpc::ServerContext& context, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
      if (++calls > 1) return grpc::Status::OK;
      if (begun) out.Write(Piece("half"));
      return Refuse(context, "1");
    };
    EXPECT_EQ(ConnectTo(server).Generate({}, [](auto&) {}).ok(), !begun);
    EXPECT_EQ(calls, begun ? 1 : 2);
  }
}

TEST(Client, ThreadsShareOne) {
  FakeServer server;
  std::atomic<int> calls = 0;
  server.classify = [&](auto&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    ++calls;
    response.set_model(request.target().model());
    return grpc::Status::OK;
  };
  const Client client = ConnectTo(server);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      v1::ClassifyRequest request;
      request.mutable_target()->set_model(Cat("m", t));
      for (int i = 0; i < 25; ++i) EXPECT_EQ(client.Classify(request)->model(), Cat("m", t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 100);
}

TEST(Client, DescribesServerAndModels) {
  FakeServer server;
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    response.add_models()->set_model("polarity");
    return grpc::Status::OK;
  };
  server.describe_model = [](auto&, const v1::DescribeModelRequest& request, v1::ModelDescription& model) {
    model.set_model(request.model() + "!");
    return grpc::Status::OK;
  };
  server.describe_server = [](auto&, auto&, v1::ServerDescription& description) {
    description.set_version("0.2.0");
    return grpc::Status::OK;
  };
  server.get_metrics = [](auto&, const v1::GetMetricsRequest& request, v1::GetMetricsResponse& response) {
    response.add_families()->set_name(request.prefixes(0) + "up");
    return grpc::Status::OK;
  };
  v1::DescribeModelRequest request;
  request.set_model("polarity");
  EXPECT_EQ(ConnectTo(server).ListModels()->models(0).model(), "polarity");
  EXPECT_EQ(ConnectTo(server).DescribeModel(request)->model(), "polarity!");
  EXPECT_EQ(ConnectTo(server).DescribeServer()->version(), "0.2.0");
  v1::GetMetricsRequest metrics;
  metrics.add_prefixes("heed_");
  EXPECT_EQ(ConnectTo(server).GetMetrics(metrics)->families(0).name(), "heed_up");
}

TEST(Client, TellsWhyACallHasFailed) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    return Refusal(grpc::INVALID_ARGUMENT, "inputs[2].text: the text is empty",
                   {.reason = "INPUT_EMPTY", .field = "inputs[2].text", .request_id = "r-1"});
  };
  const absl::Status status = ConnectTo(server).Classify({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "inputs[2].text: the text is empty");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, "INPUT_EMPTY");
  EXPECT_EQ(details.field, "inputs[2].text");
  EXPECT_EQ(details.request_id, "r-1");
  EXPECT_EQ(details.retry_delay, std::nullopt);
}

TEST(Client, TellsWhyAStreamHasFailed) {
  FakeServer server;
  server.generate = [](auto&, auto&, grpc::ServerWriter<v1::GenerateEvent>& out) {
    out.Write(Piece("half"));
    return Refusal(grpc::UNAVAILABLE, "the server is stopping",
                   {.reason = "SERVER_STOPPING", .retry_milliseconds = 250});
  };
  const ErrorDetails details = DetailsOf(ConnectTo(server).Generate({}, [](auto&) {}));
  EXPECT_EQ(details.reason, "SERVER_STOPPING");
  EXPECT_EQ(details.retry_delay, absl::Milliseconds(250));
}

TEST(Client, DetailsThatAreNoneAreEmpty) {
  FakeServer server;
  server.classify = [](auto&, auto&, auto&) {
    return grpc::Status(grpc::INTERNAL, "why", "\xff no message");
  };
  const ErrorDetails details = DetailsOf(ConnectTo(server).Classify({}).status());
  EXPECT_EQ(details.reason, "");
  EXPECT_EQ(details.field, "");
  EXPECT_EQ(details.request_id, "");
  EXPECT_EQ(details.retry_delay, std::nullopt);
  EXPECT_EQ(DetailsOf(absl::InternalError("of our own")).reason, "");
}

TEST(Client, ARequestIdGoesWithTheCallAndComesBackInErrors) {
  FakeServer server;
  server.classify = [](grpc::ServerContext& context, auto&, auto&) {
    const auto sent = context.client_metadata().find("x-request-id");
    const std::string id = sent == context.client_metadata().end()
                               ? "made-here"
                               : std::string(sent->second.begin(), sent->second.end());
    context.AddInitialMetadata("x-request-id", id);
    return grpc::Status(grpc::INTERNAL, "broken");
  };
  EXPECT_EQ(DetailsOf(ConnectTo(server).Classify({}, {.request_id = "a.B_9:-"}).status()).request_id,
            "a.B_9:-");
  EXPECT_EQ(DetailsOf(ConnectTo(server).Classify({}).status()).request_id, "made-here");
}

TEST(Client, RefusesARequestIdThatIsNone) {
  FakeServer server;
  for (const std::string& id : {std::string("two words"), std::string("line\n"), std::string(129, 'x')}) {
    const absl::Status status = ConnectTo(server).Classify({}, {.request_id = id}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(Cat("request_id has ", id.size(), " characters")));
  }
  const std::string longest(128, 'x');
  EXPECT_EQ(ConnectTo(server).Classify({}, {.request_id = longest}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(Client, ComesAgainAfterTheDelayOfRetryInfo) {
  FakeServer server;
  std::atomic<int> calls = 0;
  server.classify = [&](auto&, auto&, auto&) {
    return ++calls < 3
               ? Refusal(grpc::RESOURCE_EXHAUSTED, "full", {.reason = "QUEUE_FULL", .retry_milliseconds = 1})
               : grpc::Status::OK;
  };
  EXPECT_TRUE(ConnectTo(server).Classify({}).ok());
  EXPECT_EQ(calls, 3);
}

TEST(Client, APushbackIsStrongerThanRetryInfo) {
  FakeServer server;
  std::atomic<int> calls = 0;
  server.classify = [&](grpc::ServerContext& context, auto&, auto&) {
    ++calls;
    context.AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
    return Refusal(grpc::RESOURCE_EXHAUSTED, "full", {.reason = "QUEUE_FULL", .retry_milliseconds = 1});
  };
  EXPECT_EQ(DetailsOf(ConnectTo(server).Classify({}).status()).reason, "QUEUE_FULL");
  EXPECT_EQ(calls, 1);
}

TEST(GrpcStatus, EveryCodeIsTheSameHereAndThere) {
  const grpc::ClientContext context;
  EXPECT_TRUE(FromGrpc(grpc::Status::OK, context).ok());
  FakeServer server;
  std::atomic<int> code = 0;
  server.classify = [&](auto&, auto&, auto&) {
    return grpc::Status(static_cast<grpc::StatusCode>(code.load()), "why");
  };
  for (code = 1; code <= 16; ++code) {
    const absl::Status status = ConnectTo(server).Classify({}).status();
    EXPECT_EQ(status.raw_code(), code);
    EXPECT_EQ(status.message(), "why");
  }
}

TEST(GrpcStatus, AnInputsErrorIsAsACallsWouldBe) {
  v1::Error error;
  error.set_code(8);
  error.set_reason("QUEUE_FULL");
  error.set_field("inputs[1]");
  error.set_message("full");
  error.mutable_retry_delay()->set_seconds(2);
  const absl::Status status = FromError(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(DetailsOf(status).reason, "QUEUE_FULL");
  EXPECT_EQ(DetailsOf(status).field, "inputs[1]");
  EXPECT_EQ(DetailsOf(status).retry_delay, absl::Seconds(2));
  EXPECT_EQ(FromError({}).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace heed
