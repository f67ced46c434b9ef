// docs/variants.md, made of what the code says: the lines of variants.def, the first comment of each
// variant's file, and what the attentions of examples.h declare. HEED_UPDATE=1 in the environment writes it
// anew.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/examples.h"
#include "tests/engine/attention/layer.h"
#include "tests/testing/documents.h"

namespace heed {
namespace {

constexpr const char* kDocument = HEED_SOURCE_DIR "/docs/variants.md";

std::string Title(const std::string& type) {
  return WordsBehind("VARIANT(" + type + ",", HEED_SOURCE_DIR "/engine/attention/variants.def");
}

std::string Place(const AttentionExample& example) {
  return example.place == Place::kEncoder   ? "encoder"
         : example.place == Place::kDecoder ? "decoder"
                                            : "cross";
}

std::string Row(const AttentionExample& example) {
  const Layer layer(example, Precision::kF32);
  const Attention& attention = layer.attention();
  const int64_t most = attention.max_tokens(), near = 1000,
                far = most == 0 ? 100000 : std::min<int64_t>(most, 100000);
  return Cat("| `", example.options, "` | ", Place(example), " | ", Name(attention.decode()), " | ",
             most == 0 ? "any" : Cat(most), " | ", Short(attention.StateBytes(near)), " | ",
             Short(attention.StateBytes(far)), " | ", Short(attention.Cost(near, near) / near), " | ",
             Short(attention.Cost(far, far) / far), " |\n");
}

std::string Document() {
  std::string text =
      "# Attention variants\n\n"
      "Made by `tests/engine/attention/variants_doc_test.cc` from the sources; do not edit. In a model's "
      "`config.json` a\n"
      "layer's `\"attention\"` object names the `\"type\"` and its options; tensors lie under "
      "`layers.I.attention.`.\n\n"
      "The tables show what small layers of each type declare (`heed inspect` and `Describe` say it of a "
      "whole model): how\n"
      "they decode (`exact`: the step of a token gives its row of the whole pass; `approximate`: nearly; "
      "`none`: encoder\n"
      "only), the longest sequence, the bytes of state of a sequence and the multiply-adds a token, at 1,000 "
      "and at 100,000\n"
      "tokens (or the longest), in f32.\n";
  for (std::string_view type : AttentionTypes()) {
    const std::string name(type);
    text += Cat("\n## ", name, ": ", Title(name), "\n\n```\n",
                FirstComment(ReadText(Cat(HEED_SOURCE_DIR "/engine/attention/", name, ".cc"))), "```\n\n");
    text += "| options | place | decode | longest | state, near | state, far | work, near | work, far |\n";
    text += "|---|---|---|---|---|---|---|---|\n";
    for (const AttentionExample& example : AttentionExamples()) {
      if (example.type == name) text += Row(example);
    }
  }
  return text;
}

TEST(VariantsDocument, SaysWhatTheCodeSays) {
  const std::string document = Document();
  if (std::getenv("HEED_UPDATE")) std::ofstream(kDocument) << document;
  EXPECT_EQ(ReadText(kDocument), document)
      << "HEED_UPDATE=1 ./dev test attention_test 'VariantsDocument.*' writes it anew";
}

TEST(VariantsDocument, EveryTypeHasATitleAndAFirstComment) {
  for (std::string_view type : AttentionTypes()) {
    EXPECT_NE(Title(std::string(type)), "") << type;
    EXPECT_NE(FirstComment(ReadText(Cat(HEED_SOURCE_DIR "/engine/attention/", type, ".cc"))), "") << type;
  }
}

}  // namespace
}  // namespace heed
