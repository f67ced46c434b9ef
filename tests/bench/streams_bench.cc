// Eight streams of a 135M-parameter Llama shape beside a prompt of 4,096 tokens: how long a reader waits for
// its next token while the prompt is read, in steps and in time.
#include <algorithm>
#include <chrono>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "server/jobs/generate.h"
#include "server/scheduler.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// A stream that notes, at every step, how long ago its last token was.
struct Stream {
  std::shared_ptr<StreamBuffer> events = std::make_shared<StreamBuffer>([] {});
  int64_t steps = 0, largest_steps = 0;
  Time last = Clock::Real().Now();
  Duration largest{};

  void AfterStep() {
    ++steps;
    bool token = false;
    while (auto event = events->Next()) token |= std::holds_alternative<Piece>(event->what);
    if (!token) return;
    Time now = Clock::Real().Now();
    largest = std::max(largest, now - last);
    largest_steps = std::max(largest_steps, steps);
    last = now;
    steps = 0;
  }
};

void Start(Scheduler& scheduler, const Model& model, Stream& stream, int64_t prompt, int32_t max_tokens) {
  GenerateInput input{.input = {.model = &model, .ids = Tokens(prompt, model.info().vocab_size)},
                      .events = stream.events};
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.stopping.max_tokens = max_tokens;
  auto job = NewGenerateJob(std::move(input), options, [](const absl::Status&) {});
  CHECK(job.ok()) << job.status();
  const absl::Status taken = scheduler.Submit(*job);
  CHECK(taken.ok()) << taken;
}

}  // namespace

void StreamsSection(Threads& threads) {
  constexpr int64_t kPrompt = 4096;
  constexpr int32_t kTokens = 1000;  // more than are made meanwhile, few enough for all to be admitted
  Table table(
      {"dtype", "without: largest gap", "beside the prompt: largest gap", "in steps", "prompt read in"});
  for (Precision precision : {Precision::kBf16, Precision::kInt8}) {
    RandomModel model = MakeRandomModel(Llama135M(), precision);
    Turns turns(&threads);
    Scheduler scheduler(&*model, &turns, &Clock::Real(), {}, {}, /*own_thread=*/false);
    std::vector<Stream> streams(8);
    for (Stream& stream : streams) Start(scheduler, *model, stream, 128, kTokens);
    auto run = [&](const std::function<bool()>& done) {
      for (Stream& stream : streams)
        stream.largest = {}, stream.largest_steps = 0, stream.last = Clock::Real().Now();
      while (!done()) {
        scheduler.Step();
        for (Stream& stream : streams) stream.AfterStep();
      }
      return std::max_element(streams.begin(), streams.end(),
                              [](auto& a, auto& b) { return a.largest < b.largest; });
    };
    auto seconds = [](Duration duration) { return std::chrono::duration<double>(duration).count(); };
    int warm = 0;
    run([&] { return ++warm > 16; });
    int quiet = 0;
    double alone = seconds(run([&] { return ++quiet > 32; })->largest);
    Stream reader;
    Time begin = Clock::Real().Now();
    Start(scheduler, *model, reader, kPrompt, 1);
    bool read = false;
    auto worst = run([&] {
      while (auto event = reader.events->Next()) read |= std::holds_alternative<Finished>(event->what);
      return read;
    });
    table.Row({std::string(Name(model->info().precision)), Milliseconds(alone),
               Milliseconds(seconds(worst->largest)), Cat(worst->largest_steps),
               Milliseconds(seconds(Clock::Real().Now() - begin))});
    scheduler.Drain(Clock::Real().Now());
    while (scheduler.Step()) {
    }
  }
}

}  // namespace heed
