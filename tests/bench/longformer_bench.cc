// A document of 16k tokens in a model of Longformer's shape (12 layers, 768, window 512, one global token),
// random weights. In the engine alone: time, the share of the hot micro-kernel's speed that the work asked
// for got, and memory. Through gRPC: alone, and while a client reads a stream of another model, a Llama shape
// of 135M parameters; what each costs the other.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/service.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kTokens = 16384;

std::string Hundredths(double seconds) { return Cat(static_cast<int64_t>(seconds * 100) / 100.0); }

void Engine(Threads& threads) {
  const Json config = Longformer(kTokens);
  Table table({"Longformer", "dtype", "seconds", "share of hot", "peak above weights MiB"});
  for (Precision precision : {Precision::kF32, Precision::kBf16}) {
    const RandomModel model = MakeRandomModel(config, precision);
    LimitsNow limits(threads, model->info().precision);
    ResetPeakMemory();
    const double before = MemoryMib("VmRSS");
    const auto read = [&] {
      int32_t label;
      const std::unique_ptr<Sequence> sequence = model->Start();
      std::vector<Work> batch;
      batch.push_back(LastRow(sequence.get(), Tokens(kTokens, config["vocab_size"]), &label));
      batch.back().wanted = {0};
      RunPass(*model, batch, threads);
    };
    const double seconds = LeastSeconds({read, [&] { limits.Measure(); }})[0];
    const double operations = 2 * model->Cost(kTokens);
    table.Row({Cat(kTokens, " tokens"), std::string(Name(model->info().precision)), Hundredths(seconds),
               Percent(operations / seconds / limits.operations()),
               Cat(static_cast<int64_t>(MemoryMib("VmHWM") - before))});
  }
}

// What a client that reads a stream saw of its pace meanwhile.
struct Pace {
  double tokens_per_second, median_gap, largest_gap;  // seconds between two tokens
};

// Of the times at which tokens came, the gaps that lie in [begin, end] at least in part.
Pace PaceOf(const std::vector<double>& arrivals, double begin, double end) {
  std::vector<double> gaps;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    if (arrivals[i] > begin && arrivals[i - 1] < end) gaps.push_back(arrivals[i] - arrivals[i - 1]);
  }
  std::ranges::sort(gaps);
  return {gaps.size() / (end - begin), gaps[gaps.size() / 2], gaps.back()};
}

Pace WhileReading(const Client& client, const std::function<void()>& meanwhile) {
  constexpr int kWarm = 16;  // tokens before that begins
  v1::GenerateRequest request;
  request.mutable_target()->set_model("stream");
  v1::Tokens& prompt = *request.add_inputs()->mutable_tokens();
  for (int32_t id : Tokens(128, 256)) prompt.add_ids(id);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(16384);  // more than are made meanwhile
  request.mutable_details()->set_tokens(true);
  std::vector<double> arrivals;
  std::atomic<int> count = 0;  // of them
  std::stop_source stop;
  std::thread reader([&] {
    const auto note = [&](const v1::GenerateEvent& event) {
      arrivals.insert(arrivals.end(), event.piece().tokens_size(), Now());
      count = static_cast<int>(arrivals.size());
      count.notify_all();
    };
    const absl::Status status = client.Generate(request, note, {.stop = stop.get_token()});
    CHECK(absl::IsCancelled(status)) << status;
  });
  const auto wait_for = [&](int wanted) {
    for (int seen = count; seen < wanted; seen = count) count.wait(seen);
  };
  wait_for(kWarm);
  const double begin = Now();
  meanwhile();
  const double end = Now();
  wait_for(count + 1);
  stop.request_stop();
  reader.join();
  return PaceOf(arrivals, begin, end);
}

void Grpc(Threads& threads) {
  Service service({{"document", Longformer(kTokens)}, {"stream", Llama135M()}}, Precision::kBf16,
                  threads.count());
  Table table({"through gRPC", "document s", "peak above weights MiB", "stream tokens/s", "median gap",
               "largest gap"});
  ResetPeakMemory();
  const double before = MemoryMib("VmRSS");
  const auto peak = [&] { return Cat(static_cast<int64_t>(MemoryMib("VmHWM") - before)); };
  double seconds = 0;
  const auto document = [&] { seconds = service.Classify("document", kTokens).call; };
  const auto pace_row = [&](const char* name, const std::string& document_seconds, const Pace& pace) {
    table.Row({name, document_seconds, peak(), Cat(std::llround(pace.tokens_per_second)),
               Milliseconds(pace.median_gap), Milliseconds(pace.largest_gap)});
  };
  document();
  table.Row({"document", Hundredths(seconds), peak(), "-", "-", "-"});
  ResetPeakMemory();
  const auto silence = [] { std::this_thread::sleep_for(std::chrono::seconds(5)); };
  pace_row("stream", "-", WhileReading(service.client(), silence));
  const Pace beside = WhileReading(service.client(), document);
  pace_row("both", Hundredths(seconds), beside);
}

}  // namespace

void LongformerSection(Threads& threads) {
  Engine(threads);
  Grpc(threads);
}

}  // namespace heed
