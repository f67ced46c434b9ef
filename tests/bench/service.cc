#include "tests/bench/service.h"

#include <chrono>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "server/config/config.h"
#include "tests/bench/shapes.h"

namespace heed {

double Now() { return std::chrono::duration<double>(Clock::Real().Now().time_since_epoch()).count(); }

Service::Service(const std::map<std::string, Json>& configs, Precision precision, int threads) {
  config::v1::ServerConfig config;
  config.set_address("127.0.0.1:0");
  config.set_metrics_address("127.0.0.1:0");
  config.set_threads(threads);
  for (const auto& [name, model] : configs) {
    auto* entry = config.add_models();
    entry->set_name(name);
    entry->set_folder("memory");
  }
  auto whole = WithModels(config);
  CHECK(whole.ok()) << whole.status();
  auto server = Server::Listen(*whole, [&](const ModelSpec& spec) -> absl::StatusOr<LoadedModel> {
    RandomModel random = MakeRandomModel(configs.at(spec.name), precision);
    models_[spec.name] = random.model.get();
    return LoadedModel{.model = std::move(random.model)};
  });
  CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
  CHECK(server_->Load().ok());
  client_ = std::make_unique<Client>(*Client::Connect(Cat("127.0.0.1:", server_->port())));
}

Service::Seconds Service::Classify(const std::string& name, int64_t tokens) const {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(name);
  v1::Tokens& input = *request.add_inputs()->mutable_tokens();
  for (int32_t token : Tokens(tokens, model(name).info().vocab_size)) input.add_ids(token);
  const double begin = Now();
  auto response = client_->Classify(request, {.timeout = absl::Minutes(10)});
  CHECK(response.ok()) << response.status();
  CHECK(response->results(0).has_value()) << response->results(0).error().message();
  return {Now() - begin, response->results(0).value().usage().compute_seconds()};
}

}  // namespace heed
