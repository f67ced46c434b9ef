#include "client/cli/description.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

constexpr int kMostLabels = 20;
constexpr int64_t kLongestLine = 2000;

// A line of the page, whatever a server has said in it; none where there is nothing to say.
void Line(std::string& page, std::string_view name, std::string_view value) {
  if (!value.empty()) absl::StrAppendFormat(&page, "%-14s %s\n", name, OneLine(value, kLongestLine));
}

// 1234567 as "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = Cat(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0); at -= 3)
    digits.insert(at, ",");
  return digits;
}

std::string Size(int64_t bytes) {
  if (bytes < 10'000) return Cat(bytes, " bytes");
  if (bytes < 1'000'000) return absl::StrFormat("%.1f kB", 1e-3 * bytes);
  if (bytes < 1'000'000'000) return absl::StrFormat("%.1f MB", 1e-6 * bytes);
  return absl::StrFormat("%.1f GB", 1e-9 * bytes);
}

// A value of an enum of the API as a person says it: "encoder-decoder" of ARCHITECTURE_ENCODER_DECODER; empty
// of the value 0, *_UNSPECIFIED, and of one that this client does not know.
template <typename Enum>
std::string Word(Enum value) {
  const google::protobuf::EnumDescriptor& known = *google::protobuf::GetEnumDescriptor<Enum>();
  const auto* entry = known.FindValueByNumber(value);
  if (value == 0 || entry == nullptr) return "";
  const size_t prefix = known.FindValueByNumber(0)->name().size() - std::string_view("UNSPECIFIED").size();
  return absl::StrReplaceAll(absl::AsciiStrToLower(entry->name().substr(prefix)), {{"_", "-"}});
}

std::string StateName(v1::ModelState state) { return absl::AsciiStrToUpper(Word(state)); }

std::string Labels(const v1::ModelDescription& model) {
  const int shown = std::min(kMostLabels, model.labels_size());
  std::string text = absl::StrJoin(model.labels().begin(), model.labels().begin() + shown, ", ");
  if (shown < model.labels_size()) text += Cat(", ... (", model.labels_size(), " in all)");
  return text;
}

std::string Inputs(const v1::ModelDescription& model) {
  std::vector<std::string> names;
  for (const int kind : model.inputs()) names.push_back(Word(static_cast<v1::InputKind>(kind)));
  return absl::StrJoin(names, ", ");
}

// "of 3 numbers"
std::string Vectors(const v1::ModelDescription& model) {
  return model.vector_size() == 0 ? "" : Cat("of ", Grouped(model.vector_size()), " numbers");
}

// ", whose shorter side is made 256 long, cut to 224 x 224": what becomes of files.
std::string Resizing(const v1::ImageInput& image) {
  std::string text;
  if (image.resized_height() > 0) text = Cat(", made ", image.resized_height(), " x ", image.resized_width());
  if (image.resized_shortest_edge() > 0)
    text = Cat(", whose shorter side is made ", image.resized_shortest_edge(), " long");
  if (image.cropped_height() > 0)
    text += Cat(", cut to ", image.cropped_height(), " x ", image.cropped_width());
  return text;
}

// "of 3 channels, 224 x 224, or any in patches of 16 x 16"
std::string Images(const v1::ModelDescription& model) {
  if (!model.has_image_input()) return "";
  const v1::ImageInput& image = model.image_input();
  const std::string made = Cat("of ", image.channels(), image.channels() == 1 ? " channel, " : " channels, ",
                               image.height(), " x ", image.width());
  const std::string sizes =
      image.fixed() ? "" : Cat(", or any in patches of ", image.patch_size(), " x ", image.patch_size());
  return Cat(made, sizes, image.files() ? "; PNG and JPEG files" + Resizing(image) : "");
}

// "Classify" of "heed.v1.Inference.Classify".
std::string Calls(const v1::ModelDescription& model) {
  std::vector<std::string> names;
  for (const std::string& rpc : model.rpcs()) names.push_back(rpc.substr(rpc.rfind('.') + 1));
  return absl::StrJoin(names, ", ");
}

std::string GlobalTokens(int64_t most) {
  return most == 0 ? "" : Cat("at most ", Grouped(most), " of an input's own");
}

// "at most 64 tokens, else one for every 4 of the first input's".
std::string SecondInput(const v1::ModelDescription& model) {
  if (!model.has_global_input()) return "";
  const v1::GlobalInputDescription& global = model.global_input();
  const std::string most = model.max_source_tokens() > 0
                               ? Cat("at most ", Grouped(model.max_source_tokens()), " tokens")
                               : "tokens";
  if (global.required()) return most + ", which an input must give";
  return Cat(most, ", where an input gives none one for every ", Grouped(global.tokens_per_global()),
             " of its own");
}

// "4 heads in layers 0 2": those whose weights may be asked for.
template <typename Heads>
std::string Weighing(const v1::ModelDescription& model, Heads heads) {
  std::map<int, std::vector<int>> layers;  // by their number of heads
  for (int i = 0; i < model.attention_layers_size(); ++i)
    layers[heads(model.attention_layers(i))].push_back(i);
  layers.erase(0);
  return absl::StrJoin(layers, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, " heads in layers ", absl::StrJoin(entry.second, " "));
  });
}

std::string Details(const v1::ModelDescription& model) {
  const std::string own = Weighing(model, [](const auto& layer) { return layer.heads(); }),
                    cross = Weighing(model, [](const auto& layer) { return layer.cross_heads(); });
  if (own.empty() && cross.empty()) return "";
  std::vector<std::string> parts;
  if (!own.empty()) parts.push_back(Cat("attention of ", own));
  if (!cross.empty()) parts.push_back(Cat("cross-attention of ", cross));
  parts.push_back(Cat("at most ", Size(model.attention_limit_bytes()), " an input"));
  return absl::StrJoin(parts, "; ");
}

// "workclass (9 values), age (a number)", or so.
std::string Columns(const v1::TableInput& table) {
  std::vector<std::string> columns;
  for (const auto& column : table.categorical())
    columns.push_back(Cat(column.name(), " (", column.values_size(), " values)"));
  for (const auto& column : table.numerical()) columns.push_back(Cat(column.name(), " (a number)"));
  return absl::StrJoin(columns, ", ");
}

// What max_tokens counts.
struct Noun {
  std::string_view one, many;
};

Noun NounOf(const v1::ModelDescription& model) {
  if (model.has_table_input()) return {"row", "rows"};
  if (model.has_image_input()) return {"patch", "patches"};
  if (model.vector_size() > 0) return {"vector", "vectors"};
  return {"token", "tokens"};
}

std::string Length(int64_t most, std::string_view units) {
  return most > 0 ? Cat(Grouped(most), " ", units) : "any length";
}

// "bos 1, eos 2 3, mask 4".
std::string Specials(const v1::SpecialTokens& tokens) {
  std::vector<std::string> parts;
  if (tokens.has_bos_token_id()) parts.push_back(Cat("bos ", tokens.bos_token_id()));
  if (!tokens.eos_token_ids().empty())
    parts.push_back(Cat("eos ", absl::StrJoin(tokens.eos_token_ids(), " ")));
  if (tokens.has_pad_token_id()) parts.push_back(Cat("pad ", tokens.pad_token_id()));
  if (tokens.has_mask_token_id()) parts.push_back(Cat("mask ", tokens.mask_token_id()));
  if (tokens.has_decoder_start_token_id())
    parts.push_back(Cat("decoder start ", tokens.decoder_start_token_id()));
  return absl::StrJoin(parts, ", ");
}

// The fields that are set, as protobuf's text has them: "temperature: 0.7 top_k: 50".
std::string Fields(const google::protobuf::Message& message) { return message.ShortDebugString(); }

// What the model's defaults change of its probabilities: the fields whose value is not the neutral one.
std::string Sampling(const v1::ModelDescription& model) {
  if (!model.has_default_sampling()) return "";
  v1::SamplingOptions changed = model.default_sampling();
  if (changed.repetition_penalty() == 1) changed.clear_repetition_penalty();
  if (changed.presence_penalty() == 0) changed.clear_presence_penalty();
  if (changed.frequency_penalty() == 0) changed.clear_frequency_penalty();
  if (changed.temperature() == 1) changed.clear_temperature();
  if (changed.top_k() == model.vocab_size()) changed.clear_top_k();
  if (changed.typical_p() == 1) changed.clear_typical_p();
  if (changed.top_p() == 1) changed.clear_top_p();
  if (changed.min_p() == 0) changed.clear_min_p();
  if (changed.samples() == 1) changed.clear_samples();
  const std::string fields = Fields(changed);
  return fields.empty() ? "from the model's probabilities as they are" : fields;
}

void Weights(std::string& page, const v1::ModelDescription& model) {
  Line(page, "parameters", Grouped(model.parameters()));
  Line(page, "weights", Cat(Size(model.weight_bytes()), " in memory, ", Word(model.precision())));
  for (const v1::WeightsFile& file : model.weights_files()) {
    Line(page, "weights file", Cat(file.name(), ", ", Size(file.bytes())));
    Line(page, "sha256", file.sha256());
  }
}

std::string Growth(int64_t bytes, const Noun& unit) {
  return bytes == 0 ? "constant, however long the input"
                    : Cat(Grouped(bytes), " bytes a ", unit.one, " more");
}

// What a token more costs is what tells a growing memory from a constant one.
void Costs(std::string& page, const v1::ModelDescription& model) {
  if (model.costs().empty()) return;
  const Noun unit = NounOf(model);
  Line(page, "sequence state", Growth(model.state_bytes_per_token(), unit));
  if (model.state_limit_bytes() > 0) Line(page, "state at most", Size(model.state_limit_bytes()));
  const bool globals = model.max_global_tokens() > 0;
  absl::StrAppendFormat(&page, "\n%10s %16s %16s %14s", unit.many, "state", Cat("bytes a ", unit.one),
                        "multiply-adds");
  if (globals) absl::StrAppendFormat(&page, " %16s %14s", "with all global", "multiply-adds");
  page += "\n";
  for (const auto& cost : model.costs()) {
    const int64_t share = cost.state_bytes() / std::max<int64_t>(cost.tokens(), 1);
    absl::StrAppendFormat(&page, "%10s %16s %16s %14.3g", Grouped(cost.tokens()), Size(cost.state_bytes()),
                          Grouped(share), cost.multiply_adds());
    if (globals) {
      absl::StrAppendFormat(&page, " %16s %14.3g", Size(cost.global_state_bytes()),
                            cost.global_multiply_adds());
    }
    page += "\n";
  }
}

void Allowed(std::string& page, const v1::ServerLimits& limits) {
  Line(page, "a text", Cat("at most ", Size(limits.text_bytes())));
  Line(page, "a request",
       Cat("at most ", Grouped(limits.inputs()), " inputs, of generate ", limits.generate_inputs(), " with ",
           limits.samples(), " samples"));
  Line(page, "a sequence", Cat("at most ", Grouped(limits.tokens()), " tokens"));
  Line(page, "answers",
       Cat("at most ", Size(limits.answer_bytes()), " a request, ", Size(limits.answers_bytes()),
           " at a time, weights of attention of ", Size(limits.attention_bytes()), " an input"));
  Line(page, "time",
       Cat("at most ", limits.deadline_seconds(), " s a request; ", limits.stall_seconds(),
           " s without a reader"));
  Line(page, "at a time",
       Cat(Grouped(limits.requests()), " requests, ", limits.streams(), " calls a connection, ",
           limits.health_watches(), " watches of the health"));
  Line(page, "messages",
       Cat("at most ", Size(limits.receive_bytes()), " to the server, ", Size(limits.send_bytes()),
           " from it, headers of ", Size(limits.metadata_bytes())));
  Line(page, "options",
       Cat("at most ", limits.top_logprobs(), " top_logprobs, ", limits.fill_top(), " of fill, ",
           limits.stop_strings(), " stop strings of ", limits.stop_string_bytes(), " bytes, ",
           limits.logit_biases(), " logit biases, ", limits.beam_width(), " beams"));
}

// "FAILED: config.json: no such file", "READY, loaded in 0.35 s".
std::string State(const v1::ModelDescription& model) {
  const std::string name = StateName(model.state());
  if (model.has_error()) return Cat(name, ": ", model.error().message());
  return model.load_seconds() > 0 ? absl::StrFormat("%s, loaded in %.2f s", name, model.load_seconds())
                                  : name;
}

void Shape(std::string& page, const v1::ModelDescription& model) {
  Line(page, "family", model.family());
  Line(page, "architecture", Word(model.architecture()));
  Line(page, "attention", absl::StrJoin(model.attention(), ", "));
  Line(page, "size", Cat(model.layers(), " layers of width ", model.width()));
  Line(page, "head", Word(model.head()));
  Line(page, "labels", Labels(model));
  if (model.embedding_size() > 0)
    Line(page, "vectors", Cat("of ", Grouped(model.embedding_size()), " numbers"));
}

// "3 channels of 32 x 32 pixels of 256 levels, after the first that a prompt has".
std::string Draws(const v1::ModelDescription& model) {
  if (!model.has_generated_image()) return "";
  const v1::GeneratedImage& image = model.generated_image();
  const std::string channels = image.channels() == 1 ? "" : Cat(image.channels(), " channels of ");
  return Cat(channels, image.height(), " x ", image.width(), " pixels of ", image.levels(), " levels",
             image.begins() ? "" : ", after the first that a prompt has");
}

// "document "", query "query: " (by default)".
std::string Prompts(const v1::ModelDescription& model) {
  const std::map<std::string, std::string> prompts(model.prompts().begin(), model.prompts().end());
  return absl::StrJoin(prompts, ", ", [&](std::string* out, const auto& prompt) {
    *out += Cat(prompt.first, " ", Quoted(prompt.second),
                prompt.first == model.default_prompt_name() ? " (by default)" : "");
  });
}

void Abilities(std::string& page, const v1::ModelDescription& model) {
  Line(page, "inputs", Inputs(model));
  Line(page, "vectors read", Vectors(model));
  Line(page, "images", Images(model));
  Line(page, "columns", Columns(model.table_input()));
  if (model.table_input().rows_meet()) Line(page, "rows", "of a table depend on each other");
  Line(page, "global tokens", GlobalTokens(model.max_global_tokens()));
  Line(page, "token types", model.token_types() == 0 ? "" : Grouped(model.token_types()));
  Line(page, "global input", SecondInput(model));
  Line(page, "details", Details(model));
  Line(page, "calls", Calls(model));
  Line(page, "prompts", Prompts(model));
  Line(page, "draws", Draws(model));
  Line(page, "decoding", Word(model.decode_class()));
  Line(page, "tokenizer", model.tokenizer());
  Line(page, "vocabulary", model.vocab_size() == 0 ? "" : Grouped(model.vocab_size()));
  Line(page, "special tokens", Specials(model.special_tokens()));
  Line(page, "longest", Length(model.max_tokens(), NounOf(model).many));
  if (model.architecture() == v1::ARCHITECTURE_ENCODER_DECODER)
    Line(page, "source", Length(model.max_source_tokens(), "tokens"));
  if (model.has_default_beam()) Line(page, "beam search", Fields(model.default_beam()));
  Line(page, "sampling", Sampling(model));
  Line(page, "stopping", Fields(model.default_stopping()));
  Line(page, "token rules", Fields(model.token_rules()));
  for (const std::string& warning : model.warnings()) Line(page, "warning", warning);
}

}  // namespace

std::string DescriptionText(const v1::ModelDescription& model) {
  std::string page;
  Line(page, "model", model.model());
  Line(page, "version", model.version());
  Line(page, "state", State(model));
  Line(page, "about", model.description());
  if (model.state() != v1::MODEL_STATE_READY) return page;  // the rest is not known yet
  Shape(page, model);
  Abilities(page, model);
  Weights(page, model);
  Costs(page, model);
  return page;
}

std::string DescriptionText(const v1::ServerDescription& server) {
  std::string page;
  Line(page, "version", server.version());
  Line(page, "compiler", server.build().compiler());
  Line(page, "libraries", server.build().libraries());
  Line(page, "computes with", Cat(server.build().threads(), " threads, ", server.build().isa()));
  if (server.has_started())
    Line(page, "started",
         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(server.started().seconds()),
                          absl::UTCTimeZone()));
  Line(page, "features", absl::StrJoin(server.features(), ", "));
  if (server.has_limits()) Allowed(page, server.limits());
  if (!server.models().empty()) page += "\n";
  return page + SummaryText(server.models());
}

std::string SummaryText(const google::protobuf::RepeatedPtrField<v1::ModelSummary>& models) {
  int name = 0, version = 0;  // the columns' widths
  for (const v1::ModelSummary& model : models) {
    name = std::max<int>(name, OneLine(model.model()).size());
    version = std::max<int>(version, OneLine(model.version()).size());
  }
  std::string lines;
  for (const v1::ModelSummary& model : models) {
    const std::string why =
        model.has_error() ? Cat("  ", OneLine(model.error().message(), kLongestLine)) : "";
    absl::StrAppendFormat(&lines, "%-*s  %-*s  %s%s\n", name, OneLine(model.model()), version,
                          OneLine(model.version()), StateName(model.state()), why);
  }
  return lines;
}

}  // namespace heed::cli
