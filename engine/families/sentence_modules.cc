#include "engine/families/sentence_modules.h"

#include <utility>

#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/families/parts.h"

namespace heed {
namespace {

constexpr char kFile[] = "modules.json", kTransformerFile[] = "sentence_bert_config.json";
constexpr int64_t kMostBytes = 1 << 20;

// Of config.json of a pooling: a key that is true, or the value of pooling_mode in newer files; and what the
// native format calls it.
struct PoolingMode {
  const char *key, *mode, *native;
};
constexpr PoolingMode kPoolings[] = {
    {"pooling_mode_cls_token", "cls", "first"},
    {"pooling_mode_mean_tokens", "mean", "mean"},
    {"pooling_mode_max_tokens", "max", "max"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", "mean_sqrt_len"},
    {"pooling_mode_weightedmean_tokens", "weightedmean", "weighted_mean"},
    {"pooling_mode_lasttoken", "lasttoken", "last"}};

absl::StatusOr<Json> ReadJson(const std::string& folder, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder, file, kMostBytes));
  return ParseJson(text, file);
}

absl::StatusOr<int64_t> ReadLongest(const std::string& folder) {
  const auto json = ReadJson(folder, kTransformerFile);
  if (absl::IsNotFound(json.status())) return 0;
  if (!json.ok()) return json.status();
  JsonFields fields(*json, kTransformerFile);
  const int64_t longest = fields.Has("max_seq_length") ? fields.Int("max_seq_length", 0, 1, kMostSize) : 0;
  RETURN_IF_ERROR(fields.error());
  return longest;
}

absl::StatusOr<std::string> ReadPooling(const std::string& folder, const std::string& module) {
  const std::string file = module + "/config.json";
  ASSIGN_OR_RETURN(const Json json, ReadJson(folder, file));
  JsonFields fields(json, file);
  const Json& mode = fields.Raw("pooling_mode");
  std::string pooling;
  for (const PoolingMode& known : kPoolings) {
    if (!(mode.is_null() ? fields.Bool(known.key, false) : mode == known.mode)) continue;
    if (!pooling.empty()) fields.Fail(Cat(known.key, ": several poolings at once are not served"));
    pooling = known.native;
  }
  if (pooling.empty() && mode.is_null()) fields.Fail("no pooling mode is set");
  if (pooling.empty())
    fields.Fail(Cat("pooling_mode: ", Shown(mode), " is no single pooling that is served"));
  if (!fields.Bool("include_prompt", true))
    fields.Fail("include_prompt: false is not served: a prompt's tokens are pooled, too");
  RETURN_IF_ERROR(fields.error());
  return pooling;
}

// "torch.nn.modules.activation.Tanh": "tanh".
Json ActivationOf(JsonFields& fields) {
  const std::string name = fields.String("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last == "Identity") return nullptr;
  if (last == "Tanh") return "tanh";
  if (last == "ReLU") return "relu";
  if (last == "GELU") return "gelu";
  if (last == "SiLU") return "silu";
  fields.Fail(Cat("activation_function: ", Shown(name), " is none of Identity, Tanh, ReLU, GELU, SiLU"));
  return nullptr;
}

absl::StatusOr<SentenceModules::Dense> ReadDense(const std::string& folder, const std::string& module) {
  const std::string file = module + "/config.json";
  ASSIGN_OR_RETURN(const Json json, ReadJson(folder, file));
  JsonFields fields(json, file);
  SentenceModules::Dense dense{.folder = module};
  dense.out = fields.RequiredInt("out_features", 1, kMostSize);
  dense.bias = fields.Bool("bias", true);
  dense.hidden_act = ActivationOf(fields);
  RETURN_IF_ERROR(fields.error());
  return dense;
}

}  // namespace

std::vector<std::string> SentenceModules::folders() const {
  std::vector<std::string> folders;
  for (const Dense& module : dense) folders.push_back(module.folder);
  return folders;
}

absl::Status SentenceModules::Apply(NativeModel& model) const {
  if (pooling.empty()) return absl::OkStatus();
  if (model.config.contains("head"))
    return Invalid(kFile, ": config.json's architecture has a head of its own, and gives no embeddings");
  model.config["pooling"] = pooling;
  model.config["normalize"] = normalize;
  if (max_seq_length > 0) model.config["max_seq_length"] = max_seq_length;
  for (size_t i = 0; i < dense.size(); ++i) {
    AddHeadLayer(dense[i].out, dense[i].hidden_act, /*norm=*/false, model.config);
    if (model.tensors) model.tensors->AddModule(Cat("head_layers.", i), dense[i].folder + "/linear");
  }
  return absl::OkStatus();
}

absl::StatusOr<SentenceModules> ReadSentenceModules(const std::string& folder) {
  SentenceModules modules;
  const auto text = ReadFile(folder, kFile, kMostBytes);
  if (absl::IsNotFound(text.status())) return modules;
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(const Json list, ParseJson(*text, kFile));
  if (!list.is_array()) return Invalid(kFile, ": is not a list");
  for (size_t i = 0; i < list.size(); ++i) {
    JsonFields fields(list[i], Cat(kFile, ": [", i, "]"));
    const std::string type = fields.String("type", ""), path = fields.String("path", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    RETURN_IF_ERROR(fields.error());
    if (kind == "Transformer" && i == 0 && path.empty()) continue;
    if (kind == "Pooling" && modules.pooling.empty()) {
      ASSIGN_OR_RETURN(modules.pooling, ReadPooling(folder, path));
    } else if (kind == "Dense" && !modules.pooling.empty() && !modules.normalize) {
      ASSIGN_OR_RETURN(modules.dense.emplace_back(), ReadDense(folder, path));
    } else if (kind == "Normalize" && !modules.pooling.empty()) {
      modules.normalize = true;
    } else {
      return Invalid(
          kFile, ": [", i, "]: type ", Shown(type), ", path ", Shown(path),
          ": served is a Transformer in the folder itself, then a Pooling, Dense layers, a Normalize");
    }
  }
  if (modules.pooling.empty()) return Invalid(kFile, ": has no Pooling");
  ASSIGN_OR_RETURN(modules.max_seq_length, ReadLongest(folder));
  return modules;
}

}  // namespace heed
