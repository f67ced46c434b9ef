// A request's inputs as the rows that a model reads, checked: what a model cannot read is refused here, with
// the field, the value and the limit.
#ifndef HEED_SERVER_API_INPUTS_H_
#define HEED_SERVER_API_INPUTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "heed/config/v1/config.pb.h"
#include "heed/v1/common.pb.h"
#include "heed/v1/models.pb.h"
#include "server/api/context.h"
#include "server/jobs/classify_tokens.h"
#include "server/jobs/input.h"
#include "server/observation/metrics.h"
#include "server/registry.h"

namespace heed {

struct ReadInput {
  std::vector<int32_t> ids;
  Offsets offsets;              // of each token in its text; empty for inputs that are tokens
  std::vector<int8_t> texts{};  // of each token which text it is of, as Encoding has it; empty like offsets
  // Of each token: 1 if the input names it a global one; empty if it names none. With a global input, what
  // the token belongs to, as Work has it.
  std::vector<int32_t> labels;
  std::vector<int32_t> types{};       // of each token, of models that know types; empty: all are 0
  std::vector<int32_t> global_ids{};  // of models that read a global input
  std::vector<float> numbers{};  // instead of ids: of vectors, or of an image's patches; with ids: of rows
  int64_t columns = 0;           // of an image: patches beside each other
  std::shared_ptr<const ReservedAnswer> image{};  // as JobInput has it
};

// The longest sequence: the model's own limit and the server's.
int64_t MaxTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits);
// The longest input: of encoder-decoders the longest source, of the others the longest sequence.
int64_t MaxInputTokens(const ModelInfo& info, const config::v1::LimitsConfig& limits);

// Whether the model's tokens are pixels of an image that it draws (ModelInfo::drawn).
bool Draws(const ServedModel& model);
// Where they are, makes the ids an image: puts in front what stands there, unless they begin with an id that
// says what is to be drawn. INVALID_ARGUMENT for any other id that is no pixel.
absl::Status BeginImage(const ServedModel& model, JobInput* input);

// "image": the field of Input that is set.
std::string KindOf(const v1::Input& input);
// TEXT_TOO_LARGE, with both numbers, for a text of more than `most` bytes.
absl::Status CheckTextBytes(int64_t bytes, int64_t most);
// The same; and INPUT_EMPTY for white space alone.
absl::Status CheckText(std::string_view text, int64_t most);

// The kinds of Input that a model reads.
std::vector<v1::InputKind> KindsOf(const ServedModel& model);

// Two texts that are read together, and what errors call them.
struct NamedPair {
  std::string_view first, second;
  std::string first_field, second_field;  // "query", "documents[3]"
  std::string field;                      // of both together
};

// Reads the inputs of one request. Thread-safe; the model must outlive it.
class InputReader {
 public:
  // `longest`: an input of more tokens is refused, or cut where the options say so.
  InputReader(const ServedModel* model, const ApiContext& api, const v1::TextOptions& options,
              int64_t longest);

  // Puts this before every text from here on, no pair and no continuation. Before the first Read().
  void set_prompt(std::string prompt) { prompt_ = std::move(prompt); }

  // `where` names the input in errors: "inputs[2]".
  absl::StatusOr<ReadInput> Read(const v1::Input& input, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadPair(const NamedPair& pair) const;
  // What comes after another text: no special tokens, never cut.
  absl::StatusOr<ReadInput> ReadContinuation(const v1::Input& input, const std::string& where) const;
  // INVALID_ARGUMENT with both numbers if so many tokens are too long.
  absl::Status CheckLength(int64_t tokens) const;

 private:
  absl::StatusOr<ReadInput> ReadIds(const v1::Input& input, const std::string& where,
                                    const EncodeOptions& options) const;
  absl::StatusOr<ReadInput> ReadText(const v1::Input& input, const std::string& where,
                                     const EncodeOptions& options) const;
  absl::StatusOr<ReadInput> ReadPair(const NamedPair& pair, const EncodeOptions& options) const;
  absl::StatusOr<ReadInput> ReadChat(const v1::Chat& chat, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadTokens(const v1::Tokens& tokens, const std::string& where,
                                       const EncodeOptions& options) const;
  // Of what is no text.
  absl::StatusOr<ReadInput> ReadNumbers(const v1::Input& input, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadVectors(const v1::Vectors& vectors, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadImage(const v1::Image& image, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadFile(const std::string& file) const;
  absl::StatusOr<ReadInput> ReadPixels(const v1::Pixels& pixels, const std::string& where) const;
  // Of a size in pixels that the model reads, how many patches it has.
  absl::StatusOr<int64_t> PatchesOf(int64_t height, int64_t width) const;
  absl::StatusOr<ReadInput> ReadRow(const v1::Row& row, const std::string& where) const;
  absl::StatusOr<ReadInput> ReadTable(const v1::Table& table, const std::string& where) const;
  absl::Status CheckRows(int64_t rows, std::string_view what) const;
  absl::StatusOr<std::vector<int32_t>> ReadGlobalTokens(const v1::GlobalTokens& named, int64_t tokens,
                                                        const std::string& where) const;
  absl::Status ReadGlobalInput(const v1::GlobalInput& given, const std::string& where, ReadInput& read) const;
  absl::Status CheckGlobalIds(const v1::GlobalInput& given) const;
  absl::Status CheckMembership(const v1::GlobalInput& given, int64_t globals, int64_t tokens) const;
  absl::Status CheckTypes(const v1::Tokens& tokens) const;
  absl::StatusOr<ReadInput> Encode(std::string_view text, std::optional<std::string_view> pair,
                                   const EncodeOptions& options) const;
  bool Reads(v1::InputKind kind) const;
  absl::Status NotRead(const v1::Input& input) const;

  const ServedModel* const model_;
  ModelMetrics* const metrics_;
  const Clock* const clock_;
  AnswerMemory* const memory_;
  const int64_t text_bytes_;
  const int64_t longest_;
  EncodeOptions options_;
  std::string prompt_;
};

}  // namespace heed

#endif  // HEED_SERVER_API_INPUTS_H_
