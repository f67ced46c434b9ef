#include "server/scheduler.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "server/error.h"
#include "server/trace.h"

namespace heed {
namespace {

constexpr int64_t kPromptRows = 2 * kGrid;  // of every step, at least
constexpr Duration kRest = std::chrono::milliseconds(10);

// How many rows of a queued job may go into this step's `left`, 0 if it has to wait.
int64_t Offer(const JobTerms& terms, int64_t left, bool cutting, bool first) {
  if (terms.rows <= left) return terms.rows;
  if (cutting) return 0;
  if (terms.whole) return first ? terms.rows : 0;
  return left >= kGrid ? left : 0;
}

absl::Status Take(Job& job, bool* finished) {
  ASSIGN_OR_RETURN(*finished, job.Take());
  return absl::OkStatus();
}

}  // namespace

struct Scheduler::Entry {
  std::shared_ptr<Job> job;
  uint64_t arrival = 0;
  int64_t prompt_left = 0;  // rows of the first phase that were in no pass yet
  bool admitted = false;
  bool ended = false;
  Time paused_since = kNever;
  std::optional<Time> made;  // when its latest tokens were
  // In the batch at hand:
  int first_work = 0;
  int works = 0;         // 0: not in it
  int64_t rows = 0;      // of them
  bool prompt = false;   // with rows of the first phase
  absl::Status verdict;  // unless OK: it has to go
  bool dropped = false;  // the pass knows

  const JobTerms& terms() const { return job->terms(); }
  Time deadline() const { return terms().urgency.deadline; }
  std::string_view stage() const {
    if (!admitted) return "queue";
    return prompt_left > 0 || (works > 0 && prompt) ? "prefill" : "decode";
  }
};

struct Scheduler::Batch {
  Time begun{};
  std::vector<Work> works;
  std::vector<Entry*> entries;
  int64_t rows = 0;
  int64_t prompt_rows = 0;  // among them
  int64_t source_rows = 0;  // among those
  int64_t admitted = 0;
  absl::Status failure;  // of the pass
};

Scheduler::Scheduler(const Model* model, Turns* turns, const Clock* clock, SchedulerOptions options,
                     SchedulerEvents events, bool own_thread)
    : model_(model),
      turns_(turns),
      clock_(clock),
      options_(options),
      events_(std::move(events)),
      own_thread_(own_thread) {
  CHECK(options_.max_prefill_tokens >= kPromptRows) << options_.max_prefill_tokens;
  CHECK(options_.max_batch_tokens >= 2 * kPromptRows) << options_.max_batch_tokens;
  CHECK(options_.max_batch_jobs > 0 && options_.aging > Duration::zero());
  if (own_thread_) thread_ = std::jthread([this] { Loop(); });
}

Scheduler::~Scheduler() {
  Drain(Time::min());
  if (!own_thread_) Step();
}

absl::Status Scheduler::Submit(std::shared_ptr<Job> job) {
  std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(MayEnter(job->terms()));
  job->times_.submitted = clock_->Now();
  job->WakeBy(wakeup_);
  auto entry = std::make_unique<Entry>();
  entry->arrival = submitted_++;
  entry->prompt_left = job->terms().rows;
  entry->job = std::move(job);
  inbox_.push_back(std::move(entry));
  ++queued_;
  lock.unlock();
  wakeup_->Notify();
  return absl::OkStatus();
}

absl::Status Scheduler::MayEnter(const JobTerms& terms) const {
  if (draining_) return Error(ErrorReason::kServerStopping, "the server is stopping");
  if (const int64_t bytes = terms.bytes + WorkspaceBytes(terms); bytes > options_.state_bytes) {
    return Beyond(Error(ErrorReason::kStateTooLarge, "the input and its output need ", bytes,
                        " bytes of memory, the server has ", options_.state_bytes),
                  bytes, options_.state_bytes);
  }
  if (full()) {
    return Error(ErrorReason::kQueueFull, "the queue is full: ", options_.max_queued_jobs, " inputs wait");
  }
  return absl::OkStatus();
}

int64_t Scheduler::WorkspaceBytes(int64_t rows, int64_t source, int64_t works) const {
  return model_->WorkspaceBytes(
      {.rows = rows, .source_rows = source, .answers = rows, .threads = turns_->threads(), .works = works});
}

// Of the largest pass that it has alone.
int64_t Scheduler::WorkspaceBytes(const JobTerms& terms) const {
  int64_t rows = terms.rows - terms.source;
  if (!terms.whole) rows = std::min(rows, options_.max_batch_tokens);
  return WorkspaceBytes(std::max(rows, terms.works), terms.source, terms.works);
}

void Scheduler::Drain(Time until) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  drain_until_ = std::min(drain_until_, until);
  wakeup_->Notify();
  if (own_thread_) idle_.wait(lock, [this] { return Idle(); });
}

absl::Status Scheduler::Try(absl::FunctionRef<absl::Status()> body) const {
  return Caught("the model failed on the batch with this input", body, events_.failed);
}

Duration Scheduler::expected_wait() const {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(queued_ * seconds_per_admission_));
}

void Scheduler::Loop() {
  while (!Idle()) {
    bool did = false;
    const absl::Status status = Try([&] {
      did = Step();
      return absl::OkStatus();
    });
    if (!status.ok()) {  // no memory for its own lists; jobs may give some back
      wakeup_->WaitUntil(clock_->Now() + kRest);
    } else if (!did) {
      wakeup_->WaitUntil(NextChance(clock_->Now()));
    }
  }
  turns_->Leave(seat_);
  std::lock_guard lock(mutex_);
  idle_.notify_all();
}

bool Scheduler::Idle() const { return draining_ && queued_ == 0 && running_count_ == 0; }

bool Scheduler::Step() {
  const uint64_t ended = ended_;
  const Time begin = clock_->Now();
  Sweep(begin);
  Batch batch{.begun = begin};
  if (!AwaitsCompany(begin)) Form(begin, &batch);
  if (!batch.works.empty()) {
    Run(&batch);
    Settle(&batch);
    Measure(clock_->Now() - begin, batch.admitted);
  }
  Forget();
  const bool did = !batch.works.empty() || ended_ != ended;
  if (!did || !own_thread_) turns_->Leave(seat_);
  return did;
}

Time Scheduler::NextChance(Time now) const {
  if (queue_.empty() && running_.empty()) return kNever;
  Time next = until_;
  const bool awaits_company = AwaitsCompany(now);
  for (const Entries* entries : {&queue_, &running_}) {
    for (const auto& entry : *entries) {
      next = std::min(next, entry->deadline());
      if (entry->paused_since != kNever) next = std::min(next, entry->paused_since + options_.max_pause);
      if (awaits_company) next = std::min(next, entry->job->times_.submitted + options_.max_wait);
    }
  }
  return next;
}

// ------------------------------------------------------------------------------------ who has to go

void Scheduler::Receive() {
  std::lock_guard lock(mutex_);
  until_ = drain_until_;
  std::ranges::move(inbox_, std::back_inserter(queue_));
  inbox_.clear();
}

void Scheduler::Sweep(Time now) {
  Receive();
  for (const Entries* entries : {&queue_, &running_}) {
    for (const auto& entry : *entries) {
      if (!entry->verdict.ok()) continue;
      absl::Status verdict = Verdict(*entry, now);
      if (verdict.ok()) continue;
      if (entry->works > 0) {
        entry->verdict = std::move(verdict);  // when its pass is over
      } else {
        End(*entry, verdict);
      }
    }
  }
  Forget();
}

absl::Status Scheduler::Verdict(const Entry& entry, Time now) const {
  if (now >= until_) return Error(ErrorReason::kServerStopping, "the server is stopping");
  if (entry.job->cancelled()) return Error(ErrorReason::kClientCancelled, "cancelled by the caller");
  if (now >= entry.deadline())
    return Error(ErrorReason::kDeadlineExceeded, "the deadline has passed in ", entry.stage());
  if (entry.paused_since != kNever && now - entry.paused_since >= options_.max_pause &&
      entry.job->Rows() == 0) {
    return Error(ErrorReason::kClientStalled, "the reader of its output has stalled");
  }
  return absl::OkStatus();
}

void Scheduler::End(Entry& entry, const absl::Status& status) {
  if (entry.job->trace_ && !entry.admitted) {
    const Time submitted = entry.job->times_.submitted;
    entry.job->Tell({.kind = TraceStep::kQueue, .begin = submitted, .end = clock_->Now(), .failed = true});
  }
  if (events_.deadline_missed && absl::IsDeadlineExceeded(status)) events_.deadline_missed(entry.stage());
  Try([&] {
    entry.job->End(status);
    return absl::OkStatus();
  }).IgnoreError();  // it is counted; nobody is left to tell
  entry.ended = true;
  ++ended_;
  if (entry.admitted) {
    reserved_ -= entry.terms().bytes;
    --running_count_;
  } else {
    --queued_;
  }
}

void Scheduler::Forget() {
  auto ended = [](const std::unique_ptr<Entry>& entry) { return entry->ended; };
  std::erase_if(queue_, ended);
  std::erase_if(running_, ended);
}

// ------------------------------------------------------------------------------- who shares the step

bool Scheduler::AwaitsCompany(Time now) const {
  if (options_.max_wait == Duration::zero() || queue_.empty() || !running_.empty()) return false;
  if (std::ssize(queue_) >= options_.max_batch_jobs) return false;
  int64_t rows = 0;
  Time first = kNever;
  for (const auto& entry : queue_) {
    rows += entry->terms().rows;
    first = std::min(first, entry->job->times_.submitted);
  }
  return rows < options_.max_batch_tokens && now < first + options_.max_wait;
}

void Scheduler::Form(Time now, Batch* batch) {
  running_.reserve(running_.size() +
                   queue_.size());  // so that nothing below is left half done without memory
  batch->entries.reserve(running_.size() + queue_.size());
  AddDecoding(now, batch);
  int64_t left = options_.max_batch_tokens - batch->rows;
  if (batch->rows > 0) left = std::min(left, options_.max_prefill_tokens);
  const bool cutting = std::ranges::any_of(
      running_, [](const auto& entry) { return entry->prompt_left > 0 && entry->job->Rows() > 0; });
  AddFromQueue(now, cutting ? left / 2 : left, cutting, batch);
  AddPrompts(left - batch->prompt_rows, batch);
  std::ranges::stable_partition(running_, [](const auto& entry) { return entry->works == 0; });
  if (events_.step && !batch->works.empty()) {
    events_.step(std::ssize(batch->entries), batch->rows, batch->prompt_rows);
  }
}

void Scheduler::AddDecoding(Time now, Batch* batch) {
  for (const auto& entry : running_) {
    if (entry->prompt_left > 0) continue;
    const int64_t rows = entry->job->Rows();
    if (rows == 0) {
      entry->paused_since = std::min(entry->paused_since, now);
      continue;
    }
    entry->paused_since = kNever;
    if (batch->rows + rows <= options_.max_batch_tokens - kPromptRows) Add(*entry, rows, batch);
  }
}

void Scheduler::AddFromQueue(Time now, int64_t left, bool cutting, Batch* batch) {
  auto rank = [&](const std::unique_ptr<Entry>& entry) {
    const int64_t aged = (now - entry->job->times_.submitted) / options_.aging;
    return std::tuple(-(entry->terms().urgency.priority + aged), entry->deadline(), entry->arrival);
  };
  std::ranges::sort(queue_, {}, rank);
  for (auto& entry : queue_) {
    const JobTerms& terms = entry->terms();
    if (std::ssize(running_) >= options_.max_batch_jobs) break;
    if (reserved_ + terms.bytes > options_.state_bytes) break;
    const int64_t rows = Offer(terms, left, cutting, batch->prompt_rows == 0);
    if (rows == 0) continue;
    if (!HasRoom(terms, rows, *batch)) break;
    cutting |= rows < terms.rows;
    left -= rows;
    Admit(now, *entry, batch);
    running_.push_back(std::move(entry));
    Add(*running_.back(), rows, batch);
  }
  std::erase(queue_, nullptr);
}

// Alone, every job has: Submit() has seen to it.
bool Scheduler::HasRoom(const JobTerms& terms, int64_t rows, const Batch& batch) const {
  const int64_t source = batch.source_rows + terms.source, works = std::ssize(batch.works) + terms.works;
  const int64_t pass = WorkspaceBytes(std::max(batch.rows + rows - source, works), source, works);
  return running_.empty() || reserved_ + terms.bytes + pass <= options_.state_bytes;
}

void Scheduler::Admit(Time now, Entry& entry, Batch* batch) {
  entry.admitted = true;
  entry.job->times_.started = now;
  reserved_ += entry.terms().bytes;
  ++running_count_;
  --queued_;  // second: at no time is it nowhere
  ++batch->admitted;
  entry.job->Tell({.kind = TraceStep::kQueue, .begin = entry.job->times_.submitted, .end = now});
  if (events_.admitted) events_.admitted(now - entry.job->times_.submitted);
}

void Scheduler::AddPrompts(int64_t left, Batch* batch) {
  for (const auto& entry : running_) {
    if (entry->prompt_left == 0 || entry->works > 0 || entry->ended) continue;
    const int64_t wanted = entry->job->Rows();
    const int64_t rows = std::min(wanted, left);
    if (wanted > 0 && rows >= std::min(wanted, kGrid)) left -= Add(*entry, rows, batch);
  }
}

int64_t Scheduler::Add(Entry& entry, int64_t rows, Batch* batch) {
  const size_t first = batch->works.size();
  const absl::Status status = Try([&] {
    entry.job->Next(rows, &batch->works);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    batch->works.resize(first);
    End(entry, status);
    return 0;
  }
  int64_t given = 0;
  for (size_t i = first; i < batch->works.size(); ++i) {
    given += batch->works[i].rows(model_->info().input);
    batch->source_rows += std::ssize(batch->works[i].source);
  }
  CHECK(given >= 1 && given <= rows) << given << " rows of " << rows;
  entry.first_work = static_cast<int>(first);
  entry.works = static_cast<int>(batch->works.size() - first);
  entry.rows = given;
  batch->entries.push_back(&entry);
  batch->rows += given;
  entry.prompt = entry.prompt_left > 0;
  if (entry.prompt) {
    entry.prompt_left -= given;
    batch->prompt_rows += given;
  }
  return given;
}

// ----------------------------------------------------------------------------------------- the step

void Scheduler::Run(Batch* batch) {
  workspace_ = WorkspaceBytes(batch->rows - batch->source_rows, batch->source_rows, std::ssize(batch->works));
  batch->failure = Try([&] {
    turns_->Enter(seat_);
    const std::unique_ptr<Pass> pass = model_->Begin(&batch->works);
    while (turns_->Advance(*pass, seat_)) {
      Sweep(clock_->Now());
      if (!DropCondemned(*pass, batch)) break;
    }
    return absl::OkStatus();
  });
  workspace_ = 0;
  turns_->Rest(seat_);  // others need not wait for what becomes of the results
}

bool Scheduler::DropCondemned(Pass& pass, Batch* batch) {
  bool wanted = false;
  for (Entry* entry : batch->entries) {
    if (entry->verdict.ok()) {
      wanted = true;
    } else if (!entry->dropped) {
      for (int i = 0; i < entry->works; ++i) pass.Drop(entry->first_work + i);
      entry->dropped = true;
    }
  }
  return wanted;
}

void Scheduler::Settle(Batch* batch) {
  const Time now = clock_->Now();
  CountRead(*batch);
  for (Entry* entry : batch->entries) {
    JobTimes& times = entry->job->times_;
    times.stepped = now;
    if (entry->prompt) times.prompted = now;
    bool finished = false;
    absl::Status status = entry->verdict.ok() ? batch->failure : entry->verdict;
    if (entry->job->trace_) TracePass(*entry, *batch, now, !status.ok());
    if (status.ok()) status = Try([&] { return Take(*entry->job, &finished); });
    CountMade(*entry, now);
    if (finished || !status.ok()) End(*entry, status);
    entry->works = 0;
  }
}

void Scheduler::TracePass(const Entry& entry, const Batch& batch, Time end, bool failed) {
  entry.job->Tell({.kind = TraceStep::kPass,
                   .begin = batch.begun,
                   .end = end,
                   .failed = failed,
                   .prompt = entry.prompt,
                   .tokens = entry.rows,
                   .batch_tokens = batch.rows,
                   .batch_inputs = std::ssize(batch.entries)});
}

void Scheduler::CountRead(const Batch& batch) const {
  int64_t rows = 0;
  for (const Entry* entry : batch.entries) {
    if (entry->prompt && entry->verdict.ok() && batch.failure.ok()) rows += entry->rows;
  }
  if (events_.read && rows > 0) events_.read(rows);
}

void Scheduler::CountMade(Entry& entry, Time now) const {
  const int64_t tokens = std::exchange(entry.job->made_, 0);
  if (tokens == 0) return;
  const Time since = entry.made.value_or(entry.job->times_.submitted);
  if (events_.made) events_.made(tokens, now - since, !entry.made);
  entry.made = now;
}

void Scheduler::Measure(Duration step, int64_t admitted) {
  const double seconds = std::chrono::duration<double>(step).count();
  const double keep = std::exp(-seconds / 30);
  busy_seconds_ = busy_seconds_ * keep + seconds;
  recent_admissions_ = recent_admissions_ * keep + static_cast<double>(admitted);
  seconds_per_admission_ = busy_seconds_ / std::max(recent_admissions_, 1e-3);
}

}  // namespace heed
