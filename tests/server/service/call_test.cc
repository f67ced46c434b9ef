// Calls without a server around them: handlers of a few lines, an edge of the test's own, a clock moved by
// hand.
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "server/error.h"
#include "server/methods.h"
#include "server/transport/stream_call.h"
#include "server/transport/unary_call.h"
#include "tests/server/service/raw_http2.h"
#include "tests/server/service/world.h"

namespace heed {
namespace {

using ListCall = UnaryCall<v1::ListModelsRequest, v1::ListModelsResponse>;
using ListHandler = ListCall::Handler;

class Lister final : public v1::Models::WithRawCallbackMethod_ListModels<v1::Models::Service> {
 public:
  Lister(Edge* edge, ListHandler handle) : edge_(edge), handle_(std::move(handle)) {}
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override {
    return ListCall::Start(edge_, kListModels, context, request, response, handle_);
  }

 private:
  Edge* const edge_;
  const ListHandler handle_;
};

// What a stream does; each may throw.
struct Script {
  std::function<absl::Status()> open = [] { return absl::OkStatus(); };
  std::function<std::optional<absl::Status>()> end = [] { return std::optional(absl::OkStatus()); };
  std::function<std::optional<std::string>()> text = []() -> std::optional<std::string> {
    return std::nullopt;
  };
  std::function<void()> abandon = [] {};
  std::function<void()> closed = [] {};
};

class Scripted final : public StreamCall {
 public:
  Scripted(Edge* edge, const Script& script, grpc::CallbackServerContext* context,
           const grpc::ByteBuffer* request)
      : StreamCall(edge, kGenerate, context, request), script_(script) {}

 private:
  absl::Status Open(const grpc::ByteBuffer& bytes) override {
    v1::GenerateRequest request;
    RETURN_IF_ERROR(Parse(bytes, &request));
    return script_.open();
  }
  Next Take() override {
    if (auto text = script_.text()) {
      v1::GenerateEvent event;
      event.mutable_piece()->set_text(*text);
      return {.message = Serialize(event), .end = std::nullopt};
    }
    return {.message = std::nullopt, .end = script_.end()};
  }
  void Abandon(bool) override { script_.abandon(); }
  void Closed() override { script_.closed(); }

  const Script script_;
};

class Streamer final : public v1::Inference::WithRawCallbackMethod_Generate<v1::Inference::Service> {
 public:
  Streamer(Edge* edge, Script script) : edge_(edge), script_(std::move(script)) {}
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override {
    auto call = std::make_shared<Scripted>(edge_, script_, context, request);
    call->Begin();
    return call.get();
  }

 private:
  Edge* const edge_;
  const Script script_;
};

// A server of these two, and what its edge was told.
class Place {
 public:
  explicit Place(ListHandler handle = nullptr, Script script = {},
                 decltype(EdgeEvents::trace) trace = nullptr)
      : edge_(&clock_, {.stall = seconds(30)}, Events(std::move(trace))),
        lister_(&edge_, std::move(handle)),
        streamer_(&edge_, std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&lister_).RegisterService(&streamer_);
    server_ = builder.BuildAndStart();
    channel_ = NewChannel(port_);
  }
  ~Place() { server_->Shutdown(); }

  grpc::Status List() {
    v1::ListModelsResponse response;
    return v1::Models::NewStub(channel_)->ListModels(NewContext().get(), {}, &response);
  }
  grpc::Status Generate() {
    auto context = NewContext();
    auto stream = v1::Inference::NewStub(channel_)->Generate(context.get(), {});
    for (v1::GenerateEvent event; stream->Read(&event);) {
    }
    return stream->Finish();
  }

  struct Handled {
    absl::Status status;
    Duration took;
    std::string id;
  };
  // What the first call ended with, when it has.
  Handled First() {
    std::unique_lock lock(mutex_);
    const bool any = changed_.wait_for(lock, seconds(20), [this] { return !handled_.empty(); });
    return any ? handled_.front() : Handled{absl::UnknownError("none has ended"), {}, ""};
  }
  int failed() {
    std::lock_guard lock(mutex_);
    return failed_;
  }
  Edge& edge() { return edge_; }
  FakeClock& clock() { return clock_; }
  int port() const { return port_; }

 private:
  EdgeEvents Events(decltype(EdgeEvents::trace) trace) {
    return {.started = nullptr,
            .handled =
                [this](const EndedCall& call) {
                  std::lock_guard lock(mutex_);
                  handled_.push_back({call.status, call.took, std::string(call.request_id)});
                  changed_.notify_all();
                },
            .trace = std::move(trace),
            .failed =
                [this](std::string_view, std::string_view) {
                  std::lock_guard lock(mutex_);
                  ++failed_;
                }};
  }

  std::mutex mutex_;  // guards the next three
  std::condition_variable changed_;
  std::vector<Handled> handled_;
  int failed_ = 0;
  FakeClock clock_;
  Edge edge_;
  Lister lister_;
  Streamer streamer_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
};

[[noreturn]] void NoMemory() { throw std::bad_alloc(); }

TEST(Call, AHandlerThatThrowsEndsItsCallAlone) {
  Place place([](auto) { NoMemory(); });
  EXPECT_EQ(place.List().error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(place.List().error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(place.First().status), ErrorReason::kOutOfMemory);
  EXPECT_EQ(place.failed(), 2);
  EXPECT_TRUE(place.Generate().ok());
}

TEST(Call, WhatIsThrownStopsTheWorkThatHasBegun) {
  std::atomic<bool> stopped = false;
  std::shared_ptr<ListCall> held;
  Place place([&](std::shared_ptr<ListCall> call) {
    held = call;
    call->WhenCancelled([&] { stopped = true; });
    throw std::runtime_error("broken");
  });
  EXPECT_EQ(place.List().error_code(), grpc::INTERNAL);
  EXPECT_TRUE(stopped);
  held->Answer({});  // too late, and without effect
  held.reset();
}

TEST(Call, ThatNobodyHoldsAnyMoreHasFailed) {
  Place forgetful([](auto) {});
  EXPECT_EQ(forgetful.List().error_code(), grpc::INTERNAL);
  std::promise<Place*> self;
  Place later([place = self.get_future().share()](std::shared_ptr<ListCall> call) {
    place.get()->edge().answers().Run([call] { NoMemory(); });
  });
  self.set_value(&later);
  EXPECT_EQ(later.List().error_code(), grpc::INTERNAL);
  EXPECT_EQ(later.failed(), 1);
}

TEST(Call, AStreamThatThrowsEndsAloneWhereverItDoes) {
  const auto thrown = [](Script script) {
    Place place(nullptr, std::move(script));
    const grpc::Status status = place.Generate();
    place.First();
    EXPECT_EQ(place.failed(), 1);
    return status.error_code();
  };
  EXPECT_EQ(thrown({.open = []() -> absl::Status { NoMemory(); }}), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(thrown({.text = []() -> std::optional<std::string> { NoMemory(); }}), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(thrown({.closed = [] { NoMemory(); }}), grpc::OK);
}

TEST(Call, AStreamWhoseEndingThrowsEndsAllTheSame) {
  std::promise<void> opened;
  Place place(nullptr, {.open =
                            [&] {
                              opened.set_value();
                              return absl::OkStatus();
                            },
                        .end = [] { return std::nullopt; },
                        .abandon = [] { NoMemory(); }});
  auto context = NewContext();
  auto stream = v1::Inference::NewStub(NewChannel(place.port()))->Generate(context.get(), {});
  opened.get_future().wait();
  context->TryCancel();
  EXPECT_EQ(ReasonOf(place.First().status), ErrorReason::kClientCancelled);
  EXPECT_EQ(place.failed(), 1);
}

TEST(Call, TellsHowLongItTookAndWhichItWas) {
  std::promise<Place*> self;
  Place place([place = self.get_future().share()](std::shared_ptr<ListCall> call) {
    place.get()->clock().Move(seconds(3));
    call->Answer({});
  });
  self.set_value(&place);
  RawClient client(place.port());
  client.Hello();
  client.Call("/heed.v1.Models/ListModels", {{"x-request-id", "mine:1"}});
  client.Message(v1::ListModelsRequest());
  EXPECT_EQ(client.Status(), grpc::OK);
  const auto first = place.First();
  EXPECT_TRUE(first.status.ok());
  EXPECT_EQ(first.took, seconds(3));
  EXPECT_EQ(first.id, "mine:1");
}

TEST(Call, HasATraceOnlyWhereTheEdgeMakesThem) {
  std::atomic<int> made = 0, had = 0;
  const auto look = [&](std::shared_ptr<ListCall> call) {
    had += call->trace() != nullptr;
    call->Answer({});
  };
  const auto make = [&](const Method&, Time arrival, const TraceHeaders&) {
    ++made;
    return std::make_shared<Trace>(TracedCall{.arrival = arrival});
  };
  Place untraced(look);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(untraced.List().ok());
  EXPECT_EQ(had, 0);
  Place traced(look, {}, make);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(traced.List().ok());
  EXPECT_EQ(made, 3);
  EXPECT_EQ(had, 3);
}

TEST(Call, WhoGoesBeforeItsRequestHasComeIsCancelled) {
  for (const char* path : {"/heed.v1.Models/ListModels", "/heed.v1.Inference/Generate"}) {
    std::atomic<int> opened = 0;
    Place place([&](auto) { ++opened; }, {.open = [&] {
                  ++opened;
                  return absl::OkStatus();
                }});
    RawClient client(place.port());
    client.Hello();
    client.Call(path);
    client.Ping();
    client.Reset();
    EXPECT_EQ(ReasonOf(place.First().status), ErrorReason::kClientCancelled) << place.First().status;
    EXPECT_EQ(opened, 0) << path;
  }
}

// The client's windows are 64 KiB and never grow.
void ExpectCutOff(Place& place, const std::string& path, std::future<void> writing) {
  RawClient client(place.port());
  client.Hello();
  client.Call(path);
  client.Message("", 0);
  ASSERT_EQ(writing.wait_for(seconds(20)), std::future_status::ready);
  place.edge().Sweep();  // not yet
  EXPECT_EQ(place.edge().inside(), 1);
  EXPECT_TRUE(Eventually([&] {  // from whenever it began to write
    place.clock().Move(seconds(30));
    place.edge().Sweep();
    return place.edge().inside() == 0;
  }));
  EXPECT_EQ(ReasonOf(place.First().status), ErrorReason::kClientStalled);
  EXPECT_EQ(client.Status(), grpc::CANCELLED);
  EXPECT_THAT(client.last_read(), testing::HasSubstr("the client has not taken a message for 30 s"));
}

TEST(Call, AnAnswerThatNobodyReadsIsCutOff) {
  std::promise<void> writing;
  Place place([&](std::shared_ptr<ListCall> call) {
    v1::ListModelsResponse large;
    large.add_models()->set_model(std::string(1'000'000, 'x'));
    call->Answer(large);
    writing.set_value();
  });
  ExpectCutOff(place, "/heed.v1.Models/ListModels", writing.get_future());
}

TEST(Call, AStreamThatNobodyReadsIsCutOff) {
  std::promise<void> writing;
  std::once_flag once;
  Place place(nullptr, {.text = [&] {
                std::call_once(once, [&] { writing.set_value(); });
                return std::optional(std::string(1'000'000, 'x'));
              }});
  ExpectCutOff(place, "/heed.v1.Inference/Generate", writing.get_future());
}

}  // namespace
}  // namespace heed
