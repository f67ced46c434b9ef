// Families of published checkpoints. A family is one file: it reads what Hugging Face's transformers wrote, a
// config.json and the names of tensors, as a model of the native format: the same configuration that a
// native file would have, and a view that gives the file's tensors the native names. Everything else, the
// checks of shapes and options too, is the native format's. families.def lists the families; nothing else
// knows one by name.
#ifndef HEED_ENGINE_FAMILIES_FAMILY_H_
#define HEED_ENGINE_FAMILIES_FAMILY_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/json.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights.h"

namespace heed {

// A model as the native format would have it.
struct NativeModel {
  Json config;
  std::optional<TensorView> tensors;  // none: the file's tensors have these names
};

// What a checkpoint's folder says. Read once, by one family.
class Checkpoint {
 public:
  // Both outlive it.
  Checkpoint(const Json& config, const Weights& weights);

  // config.json. A key that is absent, or null, has the default of transformers' configuration class; keys
  // that the family does not read are passed over, as transformers does.
  JsonFields& fields() { return fields_; }
  const Json& config() const { return config_; }
  // What of `architectures` follows the model's name: "MaskedLM" of "BertForMaskedLM", "Model" of
  // "BertModel"; "Model" where there is none.
  const std::string& task() const { return task_; }
  // An error that lists what there is.
  absl::Status UnknownTask(std::initializer_list<std::string_view> known) const;
  bool Has(const std::string& tensor) const { return weights_.Has(tensor); }
  // Of one that the file has.
  const std::vector<int64_t>& ShapeOf(const std::string& tensor) const {
    return weights_.tensors().at(tensor).shape;
  }
  // "bert." where tensors begin so; "" where they are of a base model, which names them without.
  std::string Prefix(const std::string& base) const;
  // The major number of the transformers_version that wrote config.json; 4 where none is told.
  int version() const { return version_; }
  // What stands in fields that must have one value to be served, or be absent: else the fields fail.
  void Require(std::string_view key, const Json& value);

 private:
  const Json& config_;
  const Weights& weights_;
  JsonFields fields_;
  std::string task_;
  int version_ = 4;
};

// One line of families.def.
struct FamilyEntry {
  std::string_view model_type;
  absl::StatusOr<NativeModel> (*read)(Checkpoint& checkpoint);
  std::string_view about;  // the model, its authors, the year; what is not served of it
};
const std::vector<FamilyEntry>& Families();

// A checkpoint of any family, by its model_type. INVALID_ARGUMENT names the key or tensor, its value and what
// is served.
absl::StatusOr<NativeModel> ReadCheckpoint(const Json& config, const Weights& weights);

}  // namespace heed

#endif  // HEED_ENGINE_FAMILIES_FAMILY_H_
