// heed_bench [--threads=N] [SECTION...]: measures this machine's limits, then the sections named, or all.
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tests/bench/sections.h"

namespace {

struct Section {
  const char* name;
  void (*run)(heed::Threads&);
};

constexpr Section kSections[] = {
    {"gemm", heed::GemmSection},
    {"attention", heed::AttentionSection},
    {"encoder", heed::EncoderSection},
    {"decode", heed::DecodeSection},
    {"streams", heed::StreamsSection},
    {"long", heed::LongSection},
    {"longformer", heed::LongformerSection},
    {"text", heed::TextSection},
    {"tokenizers", heed::TokenizersSection},
    {"serve", heed::ServeSection},
    {"variants", heed::VariantsSection},
    {"experts", heed::ExpertsSection},
    {"survey", heed::SurveySection},
    {"published", heed::PublishedSection},
    {"shipped", heed::ShippedSection},
    {"checkpoints", heed::CheckpointsSection},
};

const Section* Find(std::string_view name) {
  for (const Section& section : kSections) {
    if (name == section.name) return &section;
  }
  std::fprintf(stderr, "heed_bench: no section '%s'; there are:", std::string(name).c_str());
  for (const Section& section : kSections) std::fprintf(stderr, " %s", section.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::string_view kThreads = "--threads=";
  int count = heed::AvailableCpus();
  std::vector<const Section*> sections;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kThreads)) {
      count = std::max(1, std::atoi(argv[i] + kThreads.size()));
    } else {
      sections.push_back(Find(argument));
    }
  }
  if (sections.empty()) {
    for (const Section& section : kSections) sections.push_back(&section);
  }
  heed::Threads threads(count);
  heed::Print(heed::MeasureMachine(threads));
  for (const Section* section : sections) {
    std::printf("== %s ==\n", section->name);
    section->run(threads);
    std::printf("\n");
  }
}
