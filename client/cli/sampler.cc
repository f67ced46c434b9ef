#include "client/cli/sampler.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <utility>

#include "absl/log/check.h"
#include "client/cli/rates.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

int NewEvent() {
  const int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  CHECK(descriptor >= 0) << "eventfd";
  return descriptor;
}

}  // namespace

Sampler::Sampler(const ServerFlags& server, absl::Duration interval)
    : server_(server),
      interval_(interval),
      descriptor_(NewEvent()),
      thread_([this](std::stop_token stop) { Loop(std::move(stop)); }) {}

Sampler::~Sampler() {
  thread_.request_stop();
  thread_.join();
  close(descriptor_);
}

std::optional<Sampler::Answer> Sampler::Take() {
  eventfd_t count = 0;
  (void)eventfd_read(descriptor_, &count);
  std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

void Sampler::Give(Answer answer) {
  {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  (void)eventfd_write(descriptor_, 1);
}

void Sampler::Loop(std::stop_token stop) {
  std::optional<Client> client;
  std::mutex none;
  std::condition_variable_any stopped;
  std::unique_lock lock(none);
  while (!stop.stop_requested()) {
    const auto next = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(interval_);
    Give(Ask(&client, stop));
    stopped.wait_until(lock, stop, next, [] { return false; });
  }
}

// With a connection, if there is one; it is left if it does not serve.
Sampler::Answer Sampler::Ask(std::optional<Client>* client, std::stop_token stop) const {
  if (!*client) {
    ASSIGN_OR_RETURN(*client, server_.Connect());
  }
  Answer answer = (*client)->GetMetrics(
      ActivityRequest(),
      {.timeout = server_.timeout, .stop = std::move(stop), .request_id = server_.request_id});
  if (!answer.ok()) client->reset();
  return answer;
}

}  // namespace heed::cli
