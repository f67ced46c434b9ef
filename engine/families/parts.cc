#include "engine/families/parts.h"

#include <map>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

const std::map<std::string, std::string, std::less<>>& Activations() {
  static const auto& names = *new std::map<std::string, std::string, std::less<>>{
      {"gelu", "gelu"},          {"gelu_new", "gelu_new"}, {"gelu_pytorch_tanh", "gelu_new"},
      {"gelu_fast", "gelu_new"}, {"relu", "relu"},         {"silu", "silu"},
      {"swish", "silu"},         {"tanh", "tanh"},         {"quick_gelu", "quick_gelu"},
      {"relu2", "relu2"}};
  return names;
}

// An id, or a list of ids, without those that are no token.
Json Below(const Json& ids, int64_t vocab_size) {
  const auto valid = [&](const Json& id) { return id.is_number_integer() && id >= 0 && id < vocab_size; };
  if (!ids.is_array()) return valid(ids) ? ids : Json();
  Json kept = Json::array();
  for (const Json& id : ids) {
    if (valid(id)) kept.push_back(id);
  }
  return kept;
}

}  // namespace

int64_t Size(JsonFields& fields, std::string_view key, int64_t fallback, int64_t most) {
  return fallback > 0 ? fields.Int(key, fallback, 1, most) : fields.RequiredInt(key, 1, most);
}

std::string ActivationName(JsonFields& fields, std::string_view key, std::string_view fallback) {
  const std::string name = fields.String(key, fallback);
  const auto found = Activations().find(name);
  if (found != Activations().end()) return found->second;
  std::string known;
  for (const auto& [of, native] : Activations()) known += Cat(known.empty() ? "" : ", ", of);
  fields.Fail(Cat(key, ": ", Shown(name), " is none of ", known));
  return "";
}

std::string GatedName(JsonFields& fields, std::string_view key, std::string_view fallback) {
  const std::string name = ActivationName(fields, key, fallback);
  if (name == "silu") return "swiglu";
  if (name == "gelu") return "geglu";
  if (name == "gelu_new") return "geglu_new";
  if (name == "relu") return "reglu";
  if (!name.empty()) fields.Fail(Cat(key, ": ", Shown(name), " has no gated form here"));
  return "";
}

Json BeginConfig(Checkpoint& checkpoint, std::string_view architecture, int64_t vocab_size) {
  Json config = {
      {"model_type", "heed"}, {"architecture", std::string(architecture)}, {"vocab_size", vocab_size}};
  TakeTokenIds(checkpoint.fields(), vocab_size, config);
  return config;
}

void TakeTokenIds(JsonFields& fields, int64_t vocab_size, Json& config) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"}) {
    const Json ids = Below(fields.Raw(key), vocab_size);
    if (!ids.is_null()) config[key] = ids;
  }
}

void DefaultToken(std::string_view key, int64_t id, Json& config) {
  const std::string name(key);
  if (!config.contains(name) && id < config["vocab_size"].get<int64_t>()) config[name] = id;
}

void SetLabels(Checkpoint& checkpoint, std::string_view head, Json& config) {
  JsonFields& fields = checkpoint.fields();
  const Json& names = fields.Raw("id2label");
  const int64_t labels =
      names.is_object() ? static_cast<int64_t>(names.size()) : fields.Int("num_labels", 2, 1, kMostSize);
  config["head"] = std::string(head);
  config["num_labels"] = labels;
  if (names.is_object()) config["id2label"] = names;
  const std::string problem = fields.String("problem_type", "");
  if (problem == "multi_label_classification" || labels == 1)
    config["problem_type"] = "multi_label_classification";
}

void SetSpanLabels(Json& config) {
  config["head"] = "token_classification";
  config["num_labels"] = 2;
  config["id2label"] = {{"0", "start"}, {"1", "end"}};
}

bool AddTokenHead(Checkpoint& checkpoint, NativeModel& model) {
  if (checkpoint.task() == "TokenClassification") {
    SetLabels(checkpoint, "token_classification", model.config);
    model.tensors->AddModule("classifier", "classifier");
    return true;
  }
  if (checkpoint.task() != "QuestionAnswering") return false;
  SetSpanLabels(model.config);
  model.tensors->AddModule("classifier", "qa_outputs");
  return true;
}

void AddPooledClassifier(Checkpoint& checkpoint, const Pooler& pooler, NativeModel& model) {
  Json& config = model.config;
  SetLabels(checkpoint, "classification", config);
  config["pooling"] = "first";
  const int64_t width = pooler.width > 0 ? pooler.width : config["hidden_size"].get<int64_t>();
  AddHeadLayer(width, pooler.hidden_act, /*norm=*/false, config);
  model.tensors->AddModule("head_layers.0", pooler.module);
  model.tensors->AddModule("classifier", pooler.classifier);
}

void AddFirstRowClassifier(Checkpoint& checkpoint, const std::string& name, const Json& hidden_act,
                           NativeModel& model) {
  AddPooledClassifier(checkpoint,
                      {.module = name + ".dense", .hidden_act = hidden_act, .classifier = name + ".out_proj"},
                      model);
}

void PoolLastToken(Json& config) {
  const bool pads = config.contains("pad_token_id");
  config["pooling"] = pads ? "last_token_not" : "last";
  if (pads) config["pooling_token"] = config["pad_token_id"];
}

void AddMaskedHead(const std::string& name, const std::string& norm, const Json& width,
                   const Json& hidden_act, NativeModel& model) {
  model.config["head"] = "lm";
  AddHeadLayer(width, hidden_act, /*norm=*/true, model.config);
  TensorView& tensors = *model.tensors;
  tensors.AddModule("head_layers.0", name + ".dense");
  tensors.AddModule("head_layers.0.norm", Cat(name, ".", norm));
  tensors.Add("lm_head.weight", name + ".decoder.weight");
  tensors.Add("lm_head.bias", name + ".bias");
  tensors.Ignore(name + ".decoder.bias");  // the same again
}

void AddHeadLayer(int64_t width, const Json& hidden_act, bool norm, Json& config) {
  config["head_layers"].push_back({{"width", width}, {"hidden_act", hidden_act}, {"norm", norm}});
}

}  // namespace heed
