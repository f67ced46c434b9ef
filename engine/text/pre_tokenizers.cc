#include "engine/text/pre_tokenizers.h"

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/unicode.h"

namespace heed {
namespace {

// What becomes of the characters at which text is split.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Whether text is cut between two neighbours, given which of them it is split at. Text that it is not split
// at stays whole.
bool CutBetween(bool first, bool second, Behavior behavior) {
  if (!first && !second) return false;
  switch (behavior) {
    case Behavior::kContiguous:
      return first != second;
    case Behavior::kMergedWithPrevious:
      return first;
    case Behavior::kMergedWithNext:
      return second;
    case Behavior::kRemoved:
    case Behavior::kIsolated:
      return true;
  }
  return true;
}

using CharClass = bool (*)(char32_t);

void SplitAt(CharClass in_class, Behavior behavior, CharSpan word, Words& words) {
  bool before = false;
  for (const Char& c : word) {
    const bool here = in_class(c.code);
    if (CutBetween(before, here, behavior)) words.Cut();
    if (!here || behavior != Behavior::kRemoved) words.Add(c);
    before = here;
  }
  words.Cut();
}

// Splits at characters of one class.
class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(CharClass in_class, Behavior behavior) : in_class_(in_class), behavior_(behavior) {}
  void Split(CharSpan word, Words& words) const override { SplitAt(in_class_, behavior_, word, words); }

 private:
  CharClass in_class_;
  Behavior behavior_;
};

// \w+|[^\w\s]+ : runs of word characters and runs of others, without the spaces.
class Whitespace : public PreTokenizer {
 public:
  void Split(CharSpan word, Words& words) const override {
    bool in_word = false;
    for (const Char& c : word) {
      const bool is_word = IsWord(c.code), is_space = !is_word && IsSpace(c.code);
      if (is_space || is_word != in_word) words.Cut();
      if (!is_space) words.Add(c);
      in_word = is_word;
    }
    words.Cut();
  }
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const PreTokenizer>> stages) : stages_(std::move(stages)) {}
  void Split(CharSpan word, Words& words) const override {
    Words whole;
    whole.Add(word);
    whole.Cut();
    for (const auto& stage : stages_) {
      Words parts;
      for (size_t i = 0; i < whole.size(); ++i) stage->Split(whole[i], parts);
      whole = std::move(parts);
    }
    for (size_t i = 0; i < whole.size(); ++i) {
      words.Add(whole[i]);
      words.Cut();
    }
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> stages_;
};

// Spaces go, every punctuation mark stands alone.
class Bert : public PreTokenizer {
 public:
  void Split(CharSpan word, Words& words) const override {
    Words parts;
    SplitAt(IsSpace, Behavior::kRemoved, word, parts);
    for (size_t i = 0; i < parts.size(); ++i) SplitAt(IsPunctuation, Behavior::kIsolated, parts[i], words);
  }
};

using Made = absl::StatusOr<std::unique_ptr<const PreTokenizer>>;

Made NewSequence(JsonFields& fields) {
  const Json& list = fields.Raw("pretokenizers");
  if (!list.is_array()) fields.Fail("pretokenizers is not a list");
  RETURN_IF_ERROR(fields.Finish());
  std::vector<std::unique_ptr<const PreTokenizer>> stages;
  for (const Json& item : list) {
    ASSIGN_OR_RETURN(auto stage,
                     NewPreTokenizer(item, Cat(fields.where(), ".pretokenizers[", stages.size(), "]")));
    if (stage == nullptr) return Invalid(fields.where(), ".pretokenizers[", stages.size(), "] is null");
    stages.push_back(std::move(stage));
  }
  return std::make_unique<Sequence>(std::move(stages));
}

Behavior ReadBehavior(JsonFields& fields) {
  const std::string name = fields.Choice(
      "behavior", {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"});
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return Behavior::kIsolated;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PreTokenizer>> NewPreTokenizer(const Json& json,
                                                                    const std::string& where) {
  if (json.is_null()) return nullptr;
  JsonFields fields(json, where);
  const std::string type = fields.String("type", "");
  if (type == "Sequence") return NewSequence(fields);
  Made made;
  if (type == "Whitespace") {
    made = std::make_unique<Whitespace>();
  } else if (type == "WhitespaceSplit") {
    made = std::make_unique<ClassSplit>(IsSpace, Behavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    made = std::make_unique<Bert>();
  } else if (type == "Punctuation") {
    made = std::make_unique<ClassSplit>(IsPunctuation, ReadBehavior(fields));
  } else if (type == "Digits") {
    const bool each = fields.Bool("individual_digits", false);
    made = std::make_unique<ClassSplit>(IsNumeric, each ? Behavior::kIsolated : Behavior::kContiguous);
  } else {
    fields.Fail(Cat("type ", Shown(type), " is none that Heed reads"));
    return fields.Finish();
  }
  RETURN_IF_ERROR(fields.Finish());
  return made;
}

}  // namespace heed
