// docs/variants.md, made of what the code says: the lines of variants.def, the first comment of each
// variant's file, and what the attentions of examples.h declare. HEED_UPDATE=1 in the environment writes it
// anew.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/attention/examples.h"
#include "tests/engine/attention/layer.h"

namespace heed {
namespace {

constexpr const char* kDocument = HEED_SOURCE_DIR "/docs/variants.md";

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What follows "// " in the lines with which a text begins.
std::string FirstComment(const std::string& text) {
  std::istringstream lines(text);
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with("//");)
    comment += (line.size() > 3 ? line.substr(3) : "") + "\n";
  return comment;
}

// The words behind a type's line in variants.def.
std::string Title(const std::string& type) {
  std::istringstream lines(Read(HEED_SOURCE_DIR "/engine/attention/variants.def"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("VARIANT(" + type + ",")) return line.substr(line.find("// ") + 3);
  }
  return "";
}

std::string Place(const AttentionExample& example) {
  return example.place == Place::kEncoder   ? "encoder"
         : example.place == Place::kDecoder ? "decoder"
                                            : "cross";
}

// 1234567 as "1.2M".
std::string Short(double number) {
  const char* units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; number >= 1000 && unit < 4; ++unit) number /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), unit > 0 && number < 100 ? "%.1f%s" : "%.0f%s", number, units[unit]);
  return text;
}

std::string Row(const AttentionExample& example) {
  const Layer layer(example, Precision::kF32);
  const Attention& attention = layer.attention();
  const int64_t most = attention.max_tokens(), near = 1000,
                far = most == 0 ? 100000 : std::min<int64_t>(most, 100000);
  return Cat("| `", example.options, "` | ", Place(example), " | ", Name(attention.decode()), " | ",
             most == 0 ? "any" : Cat(most), " | ", Short(attention.StateBytes(near)), " | ",
             Short(attention.StateBytes(far)), " | ", Short(attention.Cost(near) / near), " | ",
             Short(attention.Cost(far) / far), " |\n");
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
                FirstComment(Read(Cat(HEED_SOURCE_DIR "/engine/attention/", name, ".cc"))), "```\n\n");
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
  EXPECT_EQ(Read(kDocument), document)
      << "HEED_UPDATE=1 ./dev test attention_test 'VariantsDocument.*' writes it anew";
}

TEST(VariantsDocument, EveryTypeHasATitleAndAFirstComment) {
  for (std::string_view type : AttentionTypes()) {
    EXPECT_NE(Title(std::string(type)), "") << type;
    EXPECT_NE(FirstComment(Read(Cat(HEED_SOURCE_DIR "/engine/attention/", type, ".cc"))), "") << type;
  }
}

}  // namespace
}  // namespace heed
