#include "server/service/server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/threads.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/api/inference.h"
#include "server/api/models.h"
#include "server/api/server_service.h"
#include "server/config/config.h"
#include "server/edge.h"
#include "server/methods.h"
#include "server/observation/gauges.h"
#include "server/observation/log.h"
#include "server/observation/metrics.h"
#include "server/observation/metrics_server.h"
#include "server/observation/snapshot.h"
#include "server/observation/traces.h"
#include "server/service/access.h"
#include "server/service/call_log.h"
#include "server/service/traced_calls.h"
#include "server/transport/authorization.h"
#include "server/transport/health.h"
#include "server/transport/monotonic.h"
#include "server/transport/pulse.h"
#include "server/transport/unknown_methods.h"

namespace heed {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(500);
constexpr Duration kLastWrites =
    std::chrono::seconds(1);  // for answers to reach their clients when the grace is over
constexpr const char* kServices[] = {"heed.v1.Inference", "heed.v1.Models", "heed.v1.Server"};

int Milliseconds(double seconds) { return static_cast<int>(std::min(seconds * 1000, 2e9)); }

// gRPC adds the reflection plugin to every server once its library is linked.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void SetTransport(const config::v1::TransportConfig& config, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(config.receive_bytes());
  builder->SetMaxSendMessageSize(config.send_bytes());
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE,
                                                false);  // a bomb inflates before any limit looks
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota("heed");
  quota.Resize(static_cast<size_t>(config.memory_bytes()));
  quota.SetMaxThreads(16);  // of reflection, the only service that takes one a stream
  builder->SetResourceQuota(quota);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT,
                              0);  // else a second server would share the port, unnoticed
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.streams());
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, config.metadata_bytes());
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(config.keepalive_seconds()));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              Milliseconds(config.keepalive_timeout_seconds()));
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(config.handshake_seconds()));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(config.max_idle_seconds()));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(config.max_age_seconds()));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                              Milliseconds(config.max_age_grace_seconds()));
}

EdgeOptions ToOptions(const config::v1::ServerConfig& config, Reloaded<KnownTokens>* tokens) {
  return {.requests = config.limits().requests(),
          .longest_call = ToDuration(config.limits().deadline_seconds()),
          .stall = ToDuration(config.limits().stall_seconds()),
          .intake_threads = config.request_threads(),
          .answer_threads = config.request_threads(),
          .tokens = tokens};
}

std::vector<double> Buckets(const config::v1::ServerConfig& config) {
  const auto& buckets = config.metrics().duration_buckets();
  return buckets.empty() ? DurationBuckets() : std::vector<double>(buckets.begin(), buckets.end());
}

std::vector<ModelSpec> Specs(const config::v1::ServerConfig& config) {
  std::vector<ModelSpec> specs;
  for (const auto& model : config.models()) {
    specs.push_back(ToSpec(model));
    specs.back().scheduling.max_pause = ToDuration(config.limits().stall_seconds());
  }
  return specs;
}

}  // namespace

// Torn down from the last to the first: nothing uses what stands below it, but for calls and jobs, which have
// ended when Drain() returns. What these have left to the edge's threads is done before the edge goes.
struct Server::State {
  State(const config::v1::ServerConfig& configured, ModelLoader loader, const ProbeOptions& probing,
        Access opened)
      : config(configured),
        load(std::move(loader)),
        probing(probing),
        access(std::move(opened)),
        metrics(kMethods, config.models_size(), Buckets(config)),
        traces(NewTraces(config.traces())),
        threads(config.threads() > 0 ? config.threads() : AvailableCpus()),
        turns(&threads),
        registry(Specs(config), &turns, &Clock::Real(),
                 [this](const ModelSpec& spec, const ModelInfo& info) {
                   return metrics.Add(spec, info)->Events();
                 }),
        edge(&Clock::Real(), ToOptions(config, access.tokens.get()), EventsOfCalls()) {}
  ~State();

  EdgeEvents EventsOfCalls() {
    const EdgeEvents logged = Logged(metrics.Events());
    return Traced(config.log().access() ? WithAccessLog(logged) : logged, traces.get());
  }
  absl::Status Listen();
  absl::Status ListenForMetrics();
  void Tick(std::stop_token stop);
  void ListenerChanged(bool up);
  bool listener_up() const { return listening; }
  void Loaded(const ModelSpec& spec);
  void Drain();
  void Hurry();
  void HurryDrain();
  bool WaitForHurry(Duration time);
  void EndCalls();

  const config::v1::ServerConfig config;
  const ModelLoader load;
  const ProbeOptions probing;
  const Access access;
  Metrics metrics;
  const std::unique_ptr<Traces> traces;  // null: none
  AnswerMemory answer_memory{config.limits().answer_bytes(), config.limits().answers_bytes()};
  Threads threads;
  Turns turns;
  Registry registry;
  const Collectables collectables = {
      metrics.families(),
      std::make_shared<Gauges>(
          &registry, GaugeSources{.calls_in_flight = [this] { return edge.inside(); },
                                  .listener_up = [this] { return listener_up(); },
                                  .answer_bytes_reserved = [this] { return answer_memory.reserved(); },
                                  .answer_bytes_limit = [this] { return answer_memory.limit(); },
                                  .certificate_expiry = access.CertificateExpiry(),
                                  .spans = [this] { return traces ? traces->counts() : SpanCounts{}; }})};
  const ApiContext api{.edge = &edge,
                       .registry = &registry,
                       .metrics = &metrics,
                       .collectables = &collectables,
                       .config = &config,
                       .answer_memory = &answer_memory,
                       .threads = threads.count(),
                       .started = std::chrono::system_clock::now(),
                       .began = Clock::Real().Now()};
  HealthService health{&edge, config.limits().health_watches()};
  InferenceService inference{api};
  ModelsService models{api};
  ServerService server{api};
  UnknownMethods unknown_methods{&edge};
  Edge edge;
  std::atomic<bool> listening = true;
  std::unique_ptr<MetricsServer> metrics_server;
  std::unique_ptr<grpc::Server> rpc_server;
  int port = 0;

  std::mutex hurry_mutex;
  std::condition_variable hurry_changed;
  bool hurry = false;  // guarded by hurry_mutex
  std::atomic<bool> draining = false;
  std::mutex drain_mutex;  // held for as long as it takes
  bool drained = false;    // guarded by drain_mutex
  // Pulses that gRPC has answered; who counts one may outlive this.
  const std::shared_ptr<std::atomic<int64_t>> beats = std::make_shared<std::atomic<int64_t>>(0);
  std::jthread ticks;
  std::optional<ListenerProbe> probe;
};

Server::State::~State() {
  if (rpc_server == nullptr) return;  // nobody has called
  Hurry();
  if (draining) HurryDrain();
  Drain();
}

absl::Status Server::State::ListenForMetrics() {
  if (config.metrics_address().empty()) return absl::OkStatus();
  MetricsServer::Allows allows;
  if (access.metrics_tokens) {
    allows = [this](const std::string& name, const std::string& token) {
      return access.MayReadMetrics(name, token);
    };
  }
  ASSIGN_OR_RETURN(metrics_server,
                   MetricsServer::Listen(config.metrics_address(), collectables, std::move(allows)));
  return absl::OkStatus();
}

absl::Status Server::State::Listen() {
  RETURN_IF_ERROR(ListenForMetrics());
  health.Set("", false);
  for (const char* service : kServices) health.Set(service, false);
  for (const auto& entry : registry.List()) health.Set(entry.spec.name, false);

  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!config.reflection()) builder.SetOption(std::make_unique<WithoutReflection>());
  SetTransport(config.transport(), &builder);
  builder.AddListeningPort(config.address(),
                           access.tls ? access.tls->ServerSide() : grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service :
       {static_cast<grpc::Service*>(&inference), static_cast<grpc::Service*>(&models),
        static_cast<grpc::Service*>(&server), static_cast<grpc::Service*>(&health)}) {
    builder.RegisterService(service);
  }
  builder.RegisterCallbackGenericService(&unknown_methods);
  if (access.tokens) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> guards;
    guards.push_back(NewGuard(access.tokens.get()));
    builder.experimental().SetInterceptorCreators(std::move(guards));
  }
  rpc_server = builder.BuildAndStart();
  if (rpc_server == nullptr || port == 0)
    return Invalid("address is '", config.address(), "', which cannot be listened on: the port may be taken");
  LogDebug("listening", {{"address", config.address()}, {"port", port}});
  ticks = std::jthread([this](std::stop_token stop) { Tick(stop); });
  probe.emplace(
      probing,
      [this, dialed = DialedAddress(config.address(), port),
       credentials = access.tls ? access.tls->OwnClientSide() : grpc::InsecureChannelCredentials()](
          std::stop_token stop) { return AnswersAt(dialed, probing.patience, stop, credentials); },
      [this](bool up) { ListenerChanged(up); });
  return absl::OkStatus();
}

// What has to be looked at now and then.
void Server::State::Tick(std::stop_token stop) {
  Pulse pulse(rpc_server->InProcessChannel(grpc::ChannelArguments()));
  std::mutex none;
  std::condition_variable_any stopped;
  std::unique_lock lock(none);
  while (!stopped.wait_for(lock, stop, kTick, [&] { return stop.stop_requested(); })) {
    (void)edge.Try([&] {
      pulse.Beat([beats = beats](bool answered) { *beats += answered; });
      edge.Sweep();
    });
  }
}

void Server::State::ListenerChanged(bool up) {
  listening = up;
  health.SetReachable(up);
  up ? LogInfo("listener up") : LogError("listener down", {{"address", config.address()}});
}

// Delay and grace are over.
void Server::State::Hurry() {
  std::lock_guard lock(hurry_mutex);
  hurry = true;
  hurry_changed.notify_all();
}

// True when it is to hurry, at once; else false after `time`.
bool Server::State::WaitForHurry(Duration time) {
  std::unique_lock lock(hurry_mutex);
  return hurry_changed.wait_for(lock, time, [this] { return hurry; });
}

// When their answers are written: who does not read, or holds a reflection stream, is left.
void Server::State::EndCalls() {
  edge.WaitUntilEmpty(Clock::Real().Now() + kLastWrites);
  grpc_server_cancel_all_calls(rpc_server->c_server());
}

void Server::State::Loaded(const ModelSpec& spec) {
  const ServedModel& model = **registry.Find(spec.name, spec.version);
  metrics.Of(model)->Loaded(model.load_time);
  health.Set(spec.name, true);
  LogInfo("model loaded", {{"model", spec.name},
                           {"version", spec.version},
                           {"attention", model.info().attention},
                           {"precision", Name(model.info().precision)},
                           {"parameters", model.info().parameters},
                           {"seconds", ToSeconds(model.load_time)}});
  for (const std::string& warning : model.generation().warnings)
    LogWarning("model warning", {{"model", spec.name}, {"warning", warning}});
}

// Who comes second waits for the first.
void Server::State::Drain() {
  draining = true;
  std::lock_guard lock(drain_mutex);
  if (std::exchange(drained, true)) return;
  LogInfo("draining", {{"calls", edge.inside()}});
  health.End();
  WaitForHurry(ToDuration(config.shutdown().delay_seconds()));
  edge.Close();
  LogDebug("refusing", {{"calls", edge.inside()}});
  probe.reset();
  ticks = {};

  // gRPC's own shutdown takes no new connections and returns when all calls have ended; meanwhile we see to
  // it that they do.
  const Duration grace = ToDuration(config.shutdown().grace_seconds());
  const Time until = WaitForHurry(Duration::zero()) ? Clock::Real().Now() : Clock::Real().Now() + grace;
  std::jthread shutdown([&] { rpc_server->Shutdown(FromNow(grace + 2 * kLastWrites)); });
  edge.WaitUntilDone(until);
  if (const int64_t calls = edge.inside(); calls > 0) LogWarning("grace is over", {{"calls", calls}});
  registry.Drain(until);
  EndCalls();
  shutdown.join();
  rpc_server->Wait();
  if (traces) traces->Close();
  LogInfo("drained");
}

void Server::State::HurryDrain() {
  Hurry();
  registry.Drain(Clock::Real().Now());
  EndCalls();
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const config::v1::ServerConfig& config,
                                                       ModelLoader load, const ProbeOptions& probing) {
  RETURN_IF_ERROR(CheckConfig(config));
  ASSIGN_OR_RETURN(Access access, OpenAccess(config));
  auto state = std::make_unique<State>(config, std::move(load), probing, std::move(access));
  RETURN_IF_ERROR(state->Listen());
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

absl::Status Server::Load() {
  const auto entries = state_->registry.List();
  for (size_t i = 0; i < entries.size(); ++i) {
    const ModelSpec& spec = entries[i].spec;
    LogDebug(
        "loading model",
        {{"model", spec.name}, {"folder", spec.folder}, {"state_limit_bytes", spec.scheduling.state_bytes}});
    const absl::Status status = state_->registry.Load(i, state_->load);
    if (status.ok()) {
      state_->Loaded(spec);
      continue;
    }
    LogError("model failed", {{"model", spec.name}, {"error", std::string(status.message())}});
    if (state_->config.strict()) return {status.code(), Cat("model '", spec.name, "': ", status.message())};
  }
  for (const char* service : kServices) state_->health.Set(service, true);
  state_->health.Set("", true);
  return absl::OkStatus();
}

void Server::Drain() { state_->Drain(); }
void Server::HurryDrain() { state_->HurryDrain(); }

int Server::port() const { return state_->port; }
int64_t Server::beats() const { return *state_->beats; }
int Server::metrics_port() const { return state_->metrics_server ? state_->metrics_server->port() : 0; }

}  // namespace heed
