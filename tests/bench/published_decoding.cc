#include "tests/bench/published_decoding.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "tests/bench/measure.h"
#include "tests/bench/run.h"
#include "tests/bench/shapes.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

Json Full() { return {{"type", "full"}}; }

struct ImageStudy {
  const char* name;
  int layers;
  int64_t pixels;
  double one_cached, one_anew;    // times as fast with linear attention, an image at a time
  double many_cached, many_anew;  // images a second
};

constexpr ImageStudy kImages[] = {
    {"linear, MNIST", 8, 784, 7.4 / 5.5, 72.6 / 5.5, 142.8 / 7.56, 142.8 / 0.45},
    {"linear, CIFAR-10", 16, 3072, 71.9 / 45.1, 8651.4 / 45.1, 17.85 / 0.32, 17.85 / 0.004}};
constexpr int64_t kRoom = 256 << 20;  // bytes of state, of all images that are made at once

RandomModel ImageModel(const ImageStudy& study, const Json& attention, Precision precision) {
  return MakeRandomModel(Stack({.layers = study.layers, .width = 256, .heads = 8, .hidden = 1024}, attention),
                         precision);
}

struct OneImage {
  double linear = 0, cached = 0;  // seconds
};

// Both images grow in turns.
OneImage SampleOne(const Model& linear, const Model& cached, int64_t pixels, Threads& threads) {
  constexpr int64_t kTurn = 16;
  OneImage seconds;
  const auto first = linear.Start(), second = cached.Start();
  const auto grow = [&](const Model& model, Sequence& image) {
    for (int64_t i = 0; i < kTurn; ++i) Step(model, image, threads);
  };
  for (int64_t at = 0; at < pixels; at += kTurn) {
    const std::vector<double> turn =
        LeastSeconds({[&] { grow(linear, *first); }, [&] { grow(cached, *second); }}, 0, 1);
    seconds.linear += turn[0];
    seconds.cached += turn[1];
  }
  return seconds;
}

// A pass over all pixels so far for each: from passes at the middles of eight spans.
double SampleAnew(const Model& model, int64_t pixels, Threads& threads) {
  constexpr int kSpans = 8;
  double seconds = 0;
  for (int i = 0; i < kSpans; ++i) {
    const int64_t n = pixels * (2 * i + 1) / (2 * kSpans);
    seconds += LeastSeconds({[&] { AfterPrompt(model, n, threads); }}, 0.1, 1)[0];
  }
  return seconds / kSpans * static_cast<double>(pixels);
}

// A second, of as many at once as have room: from steps at the middles of four spans, or anywhere if all
// steps are alike.
double ImagesASecond(const Model& model, int64_t pixels, Threads& threads) {
  const bool alike = model.StateBytes(pixels) == model.StateBytes(1);
  const int count = static_cast<int>(std::clamp<int64_t>(kRoom / model.StateBytes(pixels), 1, 512));
  const int spans = alike ? 1 : 4;
  double seconds = 0;
  for (int i = 0; i < spans; ++i) {
    std::vector<std::unique_ptr<Sequence>> images;
    const int64_t n = alike ? 1 : pixels * (2 * i + 1) / (2 * spans);
    while (std::ssize(images) < count) images.push_back(AfterPrompt(model, n, threads));
    seconds += LeastSeconds({[&] { StepAll(model, images, threads); }}, 0.3)[0];
  }
  return count / (seconds / spans * static_cast<double>(pixels));
}

std::string PerSecond(double images) { return Cat(std::round(images * 1000) / 1000, " images/s"); }

struct MemoryFigure {
  int64_t tokens;
  double ratio;
};
constexpr MemoryFigure kMemories[] = {{800, 363}, {1800, 773}, {2800, 1409}, {3800, 1874}};
constexpr int64_t kSegment = 512;  // tokens that are read on

// Of each token that a sequence reads on, with the logits of them all.
double ReadOn(const Model& model, Sequence& sequence, Threads& threads) {
  std::vector<Work> works{{.sequence = &sequence, .tokens = Tokens(kSegment, 256)}};
  works[0].wanted.resize(kSegment);
  std::iota(works[0].wanted.begin(), works[0].wanted.end(), 0);
  works[0].read = [](int32_t, std::span<const float>) {};
  const double seconds = LeastSeconds({[&] { RunPass(model, works, threads); }}, 0, 1)[0];
  return seconds / static_cast<double>(kSegment);
}

}  // namespace

void SampleImages(Threads& threads, Precision precision, int64_t longest, PublishedTable& table) {
  for (const ImageStudy& study : kImages) {
    if (study.pixels > longest) continue;
    const RandomModel linear = ImageModel(study, {{"type", "linear"}}, precision);
    const RandomModel full = ImageModel(study, Full(), precision);
    const OneImage one = SampleOne(*linear, *full, study.pixels, threads);
    const double anew = SampleAnew(*full, study.pixels, threads);
    const double many = ImagesASecond(*linear, study.pixels, threads);
    const double many_cached = ImagesASecond(*full, study.pixels, threads);
    const auto row = [&](const char* id, const char* against, double theirs, double ours,
                         std::string measured, std::string reason) {
      table.Row({.id = id,
                 .variant = study.name,
                 .rows = study.pixels,
                 .against = against,
                 .theirs = theirs,
                 .model = ours,
                 .ours = std::move(measured),
                 .reason = std::move(reason)});
    };
    const std::string step = "a step of one image is bound by reading the weights from memory",
                      fill = "theirs fills an accelerator with images; one core is full with few";
    row("A6", "one image, kept keys", study.one_cached, one.cached / one.linear,
        Cat(Milliseconds(one.linear), ", ", Milliseconds(one.cached)), step);
    row("A6", "one image, all anew", study.one_anew, anew / one.linear, Milliseconds(anew), step);
    row("A7", "images a second, kept", study.many_cached, many / many_cached,
        Cat(PerSecond(many), ", ", PerSecond(many_cached)), fill);
    row("A7", "images a second, anew", study.many_anew, many * anew, PerSecond(1 / anew), fill);
  }
}

void EvaluateWithMemory(Threads& threads, Precision precision, int64_t longest, PublishedTable& table) {
  const StackShape shape{.layers = 12};
  const RandomModel full = MakeRandomModel(Stack(shape, Full()), precision);
  for (const MemoryFigure& figure : kMemories) {
    if (figure.tokens > longest) continue;
    const Json options = {{"type", "relative_memory"}, {"memory", figure.tokens}};
    const RandomModel memory = MakeRandomModel(Stack(shape, options), precision);
    double anew = 1e9, kept = 1e9, recurrent = 1e9;  // seconds a token
    for (int round = 0; round < 3; ++round) {
      const auto remembers = AfterPrompt(*memory, figure.tokens, threads);
      std::unique_ptr<Sequence> keeps;
      anew = std::min(anew,
                      LeastSeconds({[&] { keeps = AfterPrompt(*full, figure.tokens, threads); }}, 0, 1)[0]);
      recurrent = std::min(recurrent, ReadOn(*memory, *remembers, threads));
      kept = std::min(kept, ReadOn(*full, *keeps, threads));
    }
    const std::string measured = Cat(Milliseconds(recurrent), " a token");
    const double step = (memory->Cost(figure.tokens + kSegment) - memory->Cost(figure.tokens)) / kSegment;
    table.Row({.id = "A8",
               .variant = "relative_memory",
               .rows = figure.tokens,
               .against = "a pass for each token",
               .theirs = figure.ratio,
               .model = anew / recurrent,
               .ours = measured,
               .reason = Cat("its multiply-adds allow ", Times(full->Cost(figure.tokens) / step))});
    table.Row({.id = "A8",
               .variant = "relative_memory",
               .rows = figure.tokens,
               .against = "kept keys",
               .model = kept / recurrent,
               .ours = measured});
  }
}

}  // namespace heed
