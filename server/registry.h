// The models that are served: each a name, a version, and behind them the model, its tokenizer and its
// scheduler.
#ifndef HEED_SERVER_REGISTRY_H_
#define HEED_SERVER_REGISTRY_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/families/sentence_prompts.h"
#include "engine/generation/generation_defaults.h"
#include "engine/images/preprocessing.h"
#include "engine/models/model.h"
#include "engine/templates/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/clock.h"
#include "server/scheduler.h"

namespace heed {

// What is to be served.
struct ModelSpec {
  size_t index = 0;  // among the registry's, which says it
  std::string name;
  std::string version = "1";
  std::string folder;
  LoadOptions load;
  SchedulerOptions scheduling;
};

struct LoadedModel {
  std::unique_ptr<const Model> model;
  std::unique_ptr<const Tokenizer> tokenizer;               // nullptr: token ids only
  std::string description;                                  // the first paragraph of README.md, if any
  std::unique_ptr<const ImagePreprocessing> preprocessing;  // nullptr: images come as pixels only
  SentencePrompts prompts;                                  // of an embedder of texts
  std::unique_ptr<const ChatTemplate> chat_template;        // nullptr: it reads no conversations
  GenerationDefaults generation{};                          // of a model that generates
  std::string family{};                                     // model_type of config.json
};

// Makes a model of its spec. Tests have their own.
using ModelLoader = std::function<absl::StatusOr<LoadedModel>(const ModelSpec&)>;
absl::StatusOr<LoadedModel> LoadFromFolder(const ModelSpec& spec);

// A model that is ready. Const but for its scheduler, thread-safe.
struct ServedModel {
  ModelSpec spec;
  LoadedModel loaded;
  Duration load_time{};
  std::unique_ptr<Scheduler> scheduler;  // last: ends before the model does

  const Model& model() const { return *loaded.model; }
  const ModelInfo& info() const { return loaded.model->info(); }
  const Tokenizer* tokenizer() const { return loaded.tokenizer.get(); }
  const SentencePrompts& prompts() const { return loaded.prompts; }
  const ImagePreprocessing* preprocessing() const { return loaded.preprocessing.get(); }
  const ChatTemplate* chat_template() const { return loaded.chat_template.get(); }
  const GenerationDefaults& generation() const { return loaded.generation; }
};

enum class ModelState { kLoading, kReady, kFailed };

// Thread-safe. The models' names are fixed at its making; a model that is ready stays so for the registry's
// life.
class Registry {
 public:
  // What a model's scheduler is to call, given the model's spec and what it is; may be empty.
  using EventsFor = std::function<SchedulerEvents(const ModelSpec&, const ModelInfo&)>;

  // Names must be distinct. Turns and clock must outlive it.
  Registry(std::vector<ModelSpec> specs, Turns* turns, const Clock* clock, EventsFor events_for = nullptr);

  // Loads the i-th model and makes it ready; what fails is kept with the model and returned: also what the
  // loader throws.
  absl::Status Load(size_t i, const ModelLoader& load);
  size_t size() const { return entries_.size(); }

  // The model of this name, or the only one if the name is empty; any version if that is empty.
  // INVALID_ARGUMENT for a name of another form than [A-Za-z0-9._-]{1,64}, NOT_FOUND, UNAVAILABLE while it
  // loads, FAILED_PRECONDITION if that failed. The error's field is "model" or "version".
  absl::StatusOr<const ServedModel*> Find(std::string_view name, std::string_view version) const;

  struct Entry {
    ModelSpec spec;
    ModelState state = ModelState::kLoading;
    absl::Status error;                  // why it failed
    const ServedModel* model = nullptr;  // when ready
    Time since{};                        // it is in this state
  };
  std::vector<Entry> List() const;

  // Drains all schedulers, until then at most. Called again from another thread, an earlier end holds.
  void Drain(Time until);

 private:
  absl::StatusOr<std::unique_ptr<const ServedModel>> Make(const ModelSpec& spec,
                                                          const ModelLoader& load) const;

  absl::StatusOr<const Entry*> FindEntry(std::string_view name) const;  // mutex_ is held
  static absl::Status WhyNot(const Entry& entry, std::string_view version);

  Turns* turns_;
  const Clock* clock_;
  EventsFor events_for_;
  mutable std::mutex mutex_;  // guards the two below, but for the specs, which never change
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<const ServedModel>> models_;  // as they became ready
};

// Whether `name` may name a model or version: [A-Za-z0-9._-]{1,64}, not beginning with '.'.
bool ValidName(std::string_view name);

}  // namespace heed

#endif  // HEED_SERVER_REGISTRY_H_
