#include "server/registry.h"

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "engine/base/file.h"
#include "engine/models/native.h"
#include "server/caught.h"
#include "server/error.h"

namespace heed {
namespace {

constexpr size_t kMostBytes = 2000;  // of a description

// The first paragraph of a Markdown file that is not a heading, as one line. What lies between lines of
// dashes at the beginning is for programs: model cards on the hub have it.
std::string FirstParagraph(const std::string& text) {
  std::string paragraph, line;
  std::istringstream lines{text};
  if (text.starts_with("---\n")) {
    std::getline(lines, line);
    while (std::getline(lines, line) && !line.starts_with("---")) {
    }
  }
  while (std::getline(lines, line)) {
    absl::StripAsciiWhitespace(&line);
    if (line.empty() && !paragraph.empty()) break;
    if (line.empty() || line[0] == '#') continue;
    paragraph += (paragraph.empty() ? "" : " ") + line;
  }
  if (paragraph.size() > kMostBytes) paragraph.resize(kMostBytes);
  while (!ValidUtf8(paragraph)) paragraph.pop_back();  // half a character
  return paragraph;
}

std::string Description(const std::string& folder) {
  auto text = ReadFile(folder, "README.md", 1 << 20);
  return text.ok() && ValidUtf8(*text) ? FirstParagraph(*text) : "";
}

absl::Status CheckVocabulary(const LoadedModel& loaded) {
  if (loaded.tokenizer == nullptr) return absl::OkStatus();
  const int64_t tokenizer = loaded.tokenizer->vocab_size(), model = loaded.model->info().vocab_size;
  if (tokenizer <= model) return absl::OkStatus();
  return Invalid("the tokenizer has ", tokenizer, " tokens, the model's vocab_size is ", model);
}

// Of models that read images.
absl::StatusOr<std::unique_ptr<const ImagePreprocessing>> LoadPreprocessing(const std::string& folder,
                                                                            const ImageInput& image) {
  ASSIGN_OR_RETURN(auto preprocessing, ImagePreprocessing::Load(folder, image.channels));
  const auto [height, width] = preprocessing == nullptr ? PixelSize{} : preprocessing->size();
  if (height == 0) return preprocessing;
  if (image.fixed && (height != image.height || width != image.width))
    return Invalid("preprocessor_config.json: size ", height, " by ", width, "; the model reads images of ",
                   image.height, " by ", image.width);
  if (height % image.patch_size != 0 || width % image.patch_size != 0)
    return Invalid("preprocessor_config.json: size ", height, " by ", width,
                   "; the model reads images whose sides are multiples of ", image.patch_size);
  return preprocessing;
}

using MadeModel = absl::StatusOr<std::unique_ptr<const ServedModel>>;

// What a maker throws is for whoever runs the server, and so are these errors.
MadeModel CaughtBy(absl::FunctionRef<MadeModel()> make) {
  MadeModel made = absl::UnknownError("");
  std::string said;
  const absl::Status thrown = Caught(
      "loading has failed", [&] { return made = make(), absl::OkStatus(); },
      [&](std::string_view what) { said = what; });
  if (thrown.ok()) return made;
  return absl::Status(thrown.code(), Cat(thrown.message(), ": ", said));
}

// Of a name that may be left out.
absl::Status CheckForm(std::string_view name, std::string_view field) {
  if (name.empty() || ValidName(name)) return absl::OkStatus();
  return AtField(Invalid("a name is 1 to 64 of [A-Za-z0-9._-] and does not begin with '.'"), field);
}

}  // namespace

bool ValidName(std::string_view name) {
  if (name.empty() || name.size() > 64 || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

absl::StatusOr<LoadedModel> LoadFromFolder(const ModelSpec& spec) {
  LoadedModel loaded;
  ASSIGN_OR_RETURN(loaded.tokenizer, LoadTokenizer(spec.folder));  // first: it is told at once if it is wrong
  ASSIGN_OR_RETURN(loaded.model, LoadModel(spec.folder, spec.load));
  const ModelInfo& info = loaded.model->info();
  if (info.input.kind == InputRow::Kind::kPatch) {
    ASSIGN_OR_RETURN(loaded.preprocessing, LoadPreprocessing(spec.folder, info.image));
  }
  if (info.head == Head::kEmbedding && loaded.tokenizer != nullptr) {
    ASSIGN_OR_RETURN(loaded.prompts, ReadSentencePrompts(spec.folder));
  }
  const bool generates = info.head == Head::kLanguageModel && info.architecture != Architecture::kEncoder;
  if (generates) {
    ASSIGN_OR_RETURN(loaded.generation, ReadGenerationDefaults(spec.folder, info));
  }
  if (generates && loaded.tokenizer != nullptr) {
    ASSIGN_OR_RETURN(loaded.chat_template, ChatTemplate::Load(spec.folder));
  }
  loaded.description = Description(spec.folder);
  ASSIGN_OR_RETURN(const Json config, ReadModelConfig(spec.folder));
  loaded.family = config.value("model_type", "");
  return loaded;
}

Registry::Registry(std::vector<ModelSpec> specs, Turns* turns, const Clock* clock, EventsFor events_for)
    : turns_(turns), clock_(clock), events_for_(std::move(events_for)) {
  for (ModelSpec& spec : specs) {
    spec.index = entries_.size();
    entries_.push_back({.spec = std::move(spec), .since = clock_->Now()});
  }
}

absl::Status Registry::Load(size_t i, const ModelLoader& load) {
  auto model = CaughtBy([&] { return Make(entries_[i].spec, load); });
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[i];
  entry.since = clock_->Now();
  entry.state = model.ok() ? ModelState::kReady : ModelState::kFailed;
  entry.error = model.status();
  if (model.ok()) entry.model = models_.emplace_back(*std::move(model)).get();
  return entry.error;
}

absl::StatusOr<std::unique_ptr<const ServedModel>> Registry::Make(const ModelSpec& spec,
                                                                  const ModelLoader& load) const {
  const Time begin = clock_->Now();
  auto served = std::make_unique<ServedModel>();
  served->spec = spec;
  ASSIGN_OR_RETURN(served->loaded, load(spec));
  RETURN_IF_ERROR(CheckVocabulary(served->loaded));
  served->load_time = clock_->Now() - begin;
  SchedulerEvents events = events_for_ ? events_for_(spec, served->info()) : SchedulerEvents{};
  served->scheduler =
      std::make_unique<Scheduler>(&served->model(), turns_, clock_, spec.scheduling, std::move(events));
  return served;
}

absl::StatusOr<const ServedModel*> Registry::Find(std::string_view name, std::string_view version) const {
  RETURN_IF_ERROR(CheckForm(name, "model"));
  RETURN_IF_ERROR(CheckForm(version, "version"));
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, FindEntry(name));
  if (entry->state == ModelState::kReady && (version.empty() || version == entry->spec.version))
    return entry->model;
  return About(WhyNot(*entry, version), "model", entry->spec.name);
}

absl::Status Registry::WhyNot(const Entry& entry, std::string_view version) {
  const ModelSpec& spec = entry.spec;
  if (!version.empty() && version != spec.version) {
    return AtField(Error(ErrorReason::kVersionNotFound, "model '", spec.name, "' has no version '", version,
                         "', it is served as '", spec.version, "'"),
                   "version");
  }
  if (entry.state == ModelState::kLoading)
    return AtField(Error(ErrorReason::kModelLoading, "model '", spec.name, "' is loading"), "model");
  return AtField(Error(ErrorReason::kModelFailed, "model '", spec.name, "' could not be loaded"), "model");
}

absl::StatusOr<const Registry::Entry*> Registry::FindEntry(std::string_view name) const {
  if (name.empty() && entries_.size() != 1)
    return AtField(Invalid("no model is named, and ", entries_.size(), " are served"), "model");
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return name.empty() || e.spec.name == name; });
  if (entry == entries_.end())
    return AtField(Error(ErrorReason::kModelNotFound, "no model '", name, "' is served"), "model");
  return &*entry;
}

std::vector<Registry::Entry> Registry::List() const {
  std::lock_guard lock(mutex_);
  return entries_;
}

void Registry::Drain(Time until) {
  std::vector<std::jthread> drains;  // models drain side by side
  for (const Entry& entry : List()) {
    if (entry.model) drains.emplace_back([model = entry.model, until] { model->scheduler->Drain(until); });
  }
}

}  // namespace heed
