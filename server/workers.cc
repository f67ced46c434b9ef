#include "server/workers.h"

#include <utility>

namespace heed {

Workers::Workers(int threads, Failed failed) : failed_(std::move(failed)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Workers::~Workers() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Workers::Run(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_one();
}

void Workers::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    (void)Caught("a task has failed", [&] { return task(), absl::OkStatus(); }, failed_);
    task = nullptr;  // what it holds ends outside the lock
    lock.lock();
  }
}

}  // namespace heed
