// heed golden: compares the engine with golden cases. A folder holds a model's cases (config.json), a
// tokenizer's (tokenizer.json) or sampling's; what is none of them, or cannot be run, is a failure.
#include <filesystem>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "engine/base/status.h"
#include "engine/generation/beam_golden.h"
#include "engine/generation/golden.h"
#include "engine/models/golden.h"
#include "engine/text/golden.h"

namespace heed::cli {
namespace {

struct Totals {
  int folders = 0, cases = 0, failures = 0;
};

// A line a case: its name, how many ways it was run, the largest difference; and what is wrong with it, if
// anything.
void Print(const std::string& folder, const std::vector<GoldenResult>& results, Totals& totals,
           Terminal& terminal) {
  for (const GoldenResult& result : results) {
    ++totals.cases;
    totals.failures += !result.problem.empty();
    const std::string bound =
        result.bound > 0 ? absl::StrFormat(" of at most %.2f %%", 100 * result.bound) : "";
    terminal.out << absl::StrFormat("%s %s: %d ways, largest difference %.2e (%.2f %% RMS%s)%s%s\n", folder,
                                    result.name, result.ways, result.largest, 100 * result.rms, bound,
                                    result.problem.empty() ? "" : "  FAILED ", result.problem);
  }
}

// A model's outputs, and what beam search finds with it.
absl::StatusOr<std::vector<GoldenResult>> CheckModel(const std::string& folder, Precision precision,
                                                     Threads& threads) {
  ASSIGN_OR_RETURN(std::vector<GoldenResult> results, CheckModelCases(folder, precision, threads));
  if (precision != Precision::kF32) return results;
  ASSIGN_OR_RETURN(const std::vector<GoldenResult> beams, CheckBeamCases(folder, threads));
  results.insert(results.end(), beams.begin(), beams.end());
  return results;
}

absl::StatusOr<std::vector<GoldenResult>> Check(const std::string& folder, Precision precision,
                                                Threads& threads) {
  namespace fs = std::filesystem;
  if (fs::exists(folder + "/config.json")) return CheckModel(folder, precision, threads);
  if (fs::exists(folder + "/tokenizer.json")) return CheckTokenizerCases(folder);
  if (fs::exists(folder + "/cases.json")) return CheckSamplingCases(folder);
  return absl::NotFoundError("holds no config.json, no tokenizer.json and no cases.json");
}

}  // namespace

int Golden(Arguments& arguments, Terminal& terminal) {
  Precision precision = Precision::kF32;
  int32_t count = AvailableCpus();
  arguments.Choice("dtype", &precision, "f32, bf16 or int8: what models compute in",
                   {{"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"int8", Precision::kInt8}});
  arguments.Flag("threads", &count, "threads that compute", {1, 1024});
  if (std::optional<int> ended = arguments.Parse(terminal)) return *ended;
  if (arguments.texts().empty()) return arguments.Wrong(terminal, "name at least one folder of cases");
  if (Supported(precision) != precision) {
    terminal.out << "not run: " << Name(precision) << " (this CPU has no kernels for it)\n";
    return kDone;
  }

  Threads threads(count);
  Totals totals;
  for (const std::string& folder : arguments.texts()) {
    ++totals.folders;
    auto results = Check(folder, precision, threads);
    if (results.ok()) {
      Print(folder, *results, totals, terminal);
    } else {
      ++totals.failures;
      terminal.out << folder << ": FAILED " << results.status().message() << "\n";
    }
  }
  terminal.out << totals.folders << " folders, " << totals.cases << " cases, " << totals.failures
               << " failed\n";
  return Finish(terminal, totals.failures == 0 ? kDone : kFailed);
}

}  // namespace heed::cli
