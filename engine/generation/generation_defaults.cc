#include "engine/generation/generation_defaults.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/status.h"

namespace heed {
namespace {

constexpr char kFile[] = "generation_config.json";
constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kMostLength = std::numeric_limits<int32_t>::max();
constexpr int64_t kUsualTokens = 256;
constexpr int64_t kUsualTopK = 50;  // transformers', where a text is drawn
constexpr double kAboveZero = 1e-6;

// What changes a text, unless it has this value, and is not served.
struct Unserved {
  const char* key;
  Json neutral;
};

const std::vector<Unserved>& AllUnserved() {
  static const std::vector<Unserved> all = {
      {"constraints", nullptr},
      {"diversity_penalty", 0},
      {"dola_layers", nullptr},
      {"encoder_repetition_penalty", 1},
      {"epsilon_cutoff", 0},
      {"eta_cutoff", 0},
      {"exponential_decay_length_penalty", nullptr},
      {"force_words_ids", nullptr},
      {"forced_decoder_ids", nullptr},
      {"guidance_scale", 1},
      {"num_beam_groups", 1},
      {"penalty_alpha", 0},
      {"sequence_bias", nullptr},
      {"stop_strings", nullptr},
      {"token_healing", false},
      {"top_h", nullptr},
      {"watermarking_config", nullptr},
  };
  return all;
}

class Reader {
 public:
  Reader(const Json& json, const ModelInfo& info) : fields_(json, kFile), info_(info) {}

  absl::StatusOr<GenerationDefaults> Read() {
    draws_ = fields_.Bool("do_sample", false);
    ReadSampling();
    ReadBeam();
    ReadLengths();
    ReadRules();
    for (const Unserved& unserved : AllUnserved()) {
      const Json& value = fields_.Raw(unserved.key);
      if (!value.is_null() && value != unserved.neutral) NotServed(unserved.key, "");
    }
    RETURN_IF_ERROR(fields_.error());
    if (rules_ != TokenRules{}) defaults_.rules = std::make_shared<const TokenRules>(std::move(rules_));
    return std::move(defaults_);
  }

 private:
  void NotServed(std::string_view key, std::string_view instead) {
    defaults_.warnings.push_back(
        Cat(kFile, ": ", key, " ", Shown(fields_.Raw(key)), " is not served", instead));
  }

  void ReadSampling() {
    SamplingOptions& sampling = defaults_.sampling;
    const double temperature = fields_.Number("temperature", 1, 0, 100);
    sampling.temperature = draws_ ? temperature : 0;
    const int64_t top_k = fields_.Int("top_k", draws_ ? kUsualTopK : 0, 0, kMostLength);
    sampling.top_k = top_k < info_.vocab_size ? static_cast<int32_t>(top_k) : 0;
    sampling.top_p = fields_.Number("top_p", 1, 0, 1);
    sampling.min_p = fields_.Number("min_p", 0, 0, 1);
    sampling.typical_p = fields_.Number("typical_p", 1, kAboveZero, 1);
    sampling.repetition_penalty = fields_.Number("repetition_penalty", 1, kAboveZero, 10);
  }

  void ReadBeam() {
    const auto width = static_cast<int32_t>(fields_.Int("num_beams", 1, 1, kMaxBeams));
    const double length_penalty = fields_.Number("length_penalty", 1, -10, 10);
    const bool renormalize = fields_.Bool("renormalize_logits", false);
    const bool never = fields_.Raw("early_stopping") == "never";
    const bool early = !never && fields_.Bool("early_stopping", false);
    if (width == 1) return;
    if (draws_) return NotServed("num_beams", " where do_sample is true: a text is drawn");
    if (never) NotServed("early_stopping", ": it is false");
    if (defaults_.sampling.repetition_penalty != 1) NotServed("repetition_penalty", " with num_beams");
    defaults_.beam = {.width = width,
                      .length_penalty = length_penalty,
                      .early_stopping = early,
                      .renormalize = renormalize};
  }

  void ReadLengths() {
    defaults_.max_length = fields_.Int("max_length", 0, 0, kMostLength);
    defaults_.min_length = fields_.Int("min_length", 0, 0, kMostLength);
    defaults_.max_new_tokens = fields_.Int("max_new_tokens", 0, 1, kMostLength);
    defaults_.min_new_tokens = fields_.Int("min_new_tokens", 0, 0, kMostLength);
  }

  void ReadRules() {
    rules_.suppress_tokens = IdsOf("suppress_tokens");
    rules_.begin_suppress_tokens = IdsOf("begin_suppress_tokens");
    rules_.bad_words_ids = Runs("bad_words_ids");
    rules_.no_repeat_ngram_size =
        static_cast<int32_t>(fields_.Int("no_repeat_ngram_size", 0, 0, kMostLength));
    rules_.forced_eos_token_ids = IdsOf("forced_eos_token_id");
    const auto source_ngram =
        static_cast<int32_t>(fields_.Int("encoder_no_repeat_ngram_size", 0, 0, kMostLength));
    const std::vector<int32_t> first = IdsOf("forced_bos_token_id");
    if (first.size() > 1) fields_.Fail("forced_bos_token_id: there are several");
    if (info_.architecture != Architecture::kEncoderDecoder) return;
    rules_.encoder_no_repeat_ngram_size = source_ngram;
    if (!first.empty()) rules_.forced_bos_token_id = first[0];
  }

  // An id of the vocabulary; nothing for others.
  std::optional<int32_t> IdOf(std::string_view key, const Json& id) {
    if (!id.is_number_integer()) fields_.Fail(Cat(key, ": ", Shown(id), " is no id of a token"));
    if (!id.is_number_integer() || id < 0 || id >= info_.vocab_size) return std::nullopt;
    return id.get<int32_t>();
  }

  // One, or a list of them.
  std::vector<int32_t> IdsOf(std::string_view key) {
    const Json& value = fields_.Raw(key);
    std::vector<int32_t> ids;
    if (value.is_null()) return ids;
    for (const Json& one : value.is_array() ? value : Json::array({value}))
      if (const auto id = IdOf(key, one)) ids.push_back(*id);
    return ids;
  }

  // Those that have an id which no token has can never come, and an end token alone is no run, as in
  // transformers.
  std::vector<std::vector<int32_t>> Runs(std::string_view key) {
    const Json& value = fields_.Raw(key);
    std::vector<std::vector<int32_t>> runs;
    if (value.is_null()) return runs;
    if (!value.is_array()) fields_.Fail(Cat(key, ": ", Shown(value), " is no list of lists"));
    for (const Json& one : value.is_array() ? value : Json::array()) {
      if (!one.is_array() || one.empty()) {
        fields_.Fail(Cat(key, ": ", Shown(one), " is no list of ids"));
        return runs;
      }
      std::vector<int32_t> run;
      for (const Json& id : one)
        if (const auto known = IdOf(key, id)) run.push_back(*known);
      const bool end = run.size() == 1 && std::ranges::count(info_.eos_token_ids, run[0]) > 0;
      if (run.size() == one.size() && !end) runs.push_back(std::move(run));
    }
    return runs;
  }

  JsonFields fields_;
  const ModelInfo& info_;
  bool draws_ = false;
  TokenRules rules_;
  GenerationDefaults defaults_;
};

}  // namespace

int64_t GenerationDefaults::MostTokens(int64_t prompt) const {
  if (max_new_tokens > 0) return max_new_tokens;
  return max_length > prompt ? max_length - prompt : kUsualTokens;
}

int64_t GenerationDefaults::LeastTokens(int64_t prompt) const {
  return min_new_tokens > 0 ? min_new_tokens : std::max<int64_t>(0, min_length - prompt);
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& folder, const ModelInfo& info) {
  const auto text = ReadFile(folder, kFile, kMostBytes);
  if (absl::IsNotFound(text.status())) return GenerationDefaults();
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json json, ParseJson(WithoutPythonNumbers(*text), kFile));
  if (!json.is_object()) return Invalid(kFile, " is not an object");
  return Reader(json, info).Read();
}

}  // namespace heed
