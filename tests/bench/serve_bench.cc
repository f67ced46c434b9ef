// What the server adds to the engine: to a lone call, back to back and after two seconds of silence; to 32
// callers' throughput; and how long a start takes.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "absl/log/check.h"
#include "engine/base/status.h"
#include "tests/bench/run.h"
#include "tests/bench/sections.h"
#include "tests/bench/service.h"
#include "tests/bench/shapes.h"
#include "tests/engine/weights/safetensors_writer.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

// All lengths, in order, by 32 callers at a time.
void CallAll(const Service& service, const std::vector<int64_t>& lengths) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&] {
      for (size_t at = next++; at < lengths.size(); at = next++) service.Classify("bench", lengths[at]);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// The same with the engine alone: always the next 32 at once, as 32 callers would have it.
void RunAll(const Model& model, const std::vector<int64_t>& lengths, Threads& threads) {
  int32_t label = 0;
  for (size_t begin = 0; begin < lengths.size(); begin += 32) {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Work> batch;
    for (size_t i = begin; i < std::min(begin + 32, lengths.size()); ++i) {
      sequences.push_back(model.Start());
      batch.push_back(LastRow(sequences.back().get(), Tokens(lengths[i], model.info().vocab_size), &label));
      batch.back().wanted = {0};
    }
    RunPass(model, batch, threads);
  }
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Throughput(Threads& threads) {
  Table table({"encoder  ", "dtype", "engine alone tokens/s", "32 callers over gRPC tokens/s", "share"});
  for (const auto& [name, config, rounds] :
       {std::tuple{"BERT-base", BertBase(), 1}, {"MiniLM-L6", MiniLm(), 2}}) {
    std::vector<int64_t> lengths;
    for (int i = 0; i < rounds; ++i) {
      for (int64_t length : RaggedLengths()) lengths.push_back(length);
    }
    const double tokens = std::accumulate(lengths.begin(), lengths.end(), 0.0);
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      RandomModel model = MakeRandomModel(config, precision);
      Service service({{"bench", config}}, precision, threads.count());
      std::vector<double> seconds =
          LeastSeconds({[&] { RunAll(*model, lengths, threads); }, [&] { CallAll(service, lengths); }});
      table.Row({name, std::string(Name(precision)), Cat(static_cast<int64_t>(tokens / seconds[0])),
                 Cat(static_cast<int64_t>(tokens / seconds[1])), Percent(seconds[0] / seconds[1])});
    }
  }
}

// One call at a time, and between two the engine alone with the same model, on a thread that did not sleep.
// What the server adds to a call is all of it but the computing.
struct Lone {
  Lone(const Service& service, Threads& threads, int rounds, std::chrono::milliseconds pause) {
    for (int i = 0; i < rounds; ++i) {
      std::this_thread::sleep_for(pause);
      const double begin = Now();
      RunAll(service.model("bench"), {kTokens}, threads);
      engine.push_back(Now() - begin);
      std::this_thread::sleep_for(pause);
      const Service::Seconds seconds = service.Classify("bench", kTokens);
      call.push_back(seconds.call);
      compute.push_back(seconds.compute);
      added.push_back(seconds.call - seconds.compute);
    }
  }
  static constexpr int64_t kTokens = 32;
  std::vector<double> engine, call, compute, added;  // seconds
};

void LoneCalls() {
  Table table({"MiniLM-L6, 32 tokens", "threads", "engine", "call", "of it computing", "the server adds"});
  for (int count : {1, 2}) {
    Threads threads(count);
    Service service({{"bench", MiniLm()}}, Precision::kBf16, count);
    Lone(service, threads, 100, {});
    for (const auto& [name, rounds, pause] :
         {std::tuple{"back to back", 500, 0}, {"one every 2 s", 15, 2000}}) {
      const Lone lone(service, threads, rounds, std::chrono::milliseconds(pause));
      table.Row({name, Cat(count), Milliseconds(Median(lone.engine)), Milliseconds(Median(lone.call)),
                 Milliseconds(Median(lone.compute)), Milliseconds(Median(lone.added))});
    }
  }
}

// A model of about 100 MB on disk.
Json HundredMegabytes() {
  Json config = MiniLm();
  config["vocab_size"] = 38000;
  return config;
}

void WriteFolder(const std::filesystem::path& folder, const Json& config) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump();
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : RandomTensorsOf(config)) {
    tensors.push_back(
        {name, tensor.dtype, tensor.shape,
         std::string(static_cast<const char*>(tensor.data), tensor.size() * SizeOf(tensor.dtype))});
  }
  std::ofstream(folder / "model.safetensors", std::ios::binary) << SafetensorsOf(tensors);
}

// Seconds from the start of `heed serve` to its line "listening on".
double StartOnce(const std::filesystem::path& models) {
  const std::filesystem::path heed = std::filesystem::canonical("/proc/self/exe").parent_path() / "heed";
  const std::string command =
      "exec " + heed.string() +
      " serve --address=127.0.0.1:0 --metrics_address=127.0.0.1:0 --models=" + models.string() +
      " 2>/dev/null & echo $!; wait";
  double begin = Now();
  FILE* out = popen(command.c_str(), "r");
  CHECK(out != nullptr);
  char line[256];
  CHECK(fgets(line, sizeof(line), out) != nullptr);
  const pid_t pid = std::atoi(line);
  double seconds = 0;
  while (fgets(line, sizeof(line), out) != nullptr) {
    if (std::string_view(line).starts_with("listening on")) {
      seconds = Now() - begin;
      kill(pid, SIGTERM);
    }
  }
  CHECK_EQ(pclose(out), 0);
  CHECK_GT(seconds, 0) << heed << " serve did not say that it listens";
  return seconds;
}

void StartUp() {
  const auto models = std::filesystem::temp_directory_path() / Cat("heed_bench_", getpid());
  WriteFolder(models / "hundred", HundredMegabytes());
  const double megabytes =
      static_cast<double>(std::filesystem::file_size(models / "hundred" / "model.safetensors")) / 1e6;
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(StartOnce(models));
  std::filesystem::remove_all(models);
  Table table({"start to READY", "model MB", "median", "least"});
  table.Row({"heed serve", Cat(static_cast<int64_t>(megabytes)), Milliseconds(Median(seconds)),
             Milliseconds(*std::min_element(seconds.begin(), seconds.end()))});
}

}  // namespace

void ServeSection(Threads& threads) {
  LoneCalls();
  Throughput(threads);
  StartUp();
}

}  // namespace heed
