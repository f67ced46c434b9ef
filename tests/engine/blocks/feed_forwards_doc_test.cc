// docs/feed_forwards.md, made of what the code says: the lines of feed_forwards.def, the first comment of
// each one's file, and what small layers declare. HEED_UPDATE=1 in the environment writes it anew.
#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/base/status.h"
#include "gtest/gtest.h"
#include "tests/engine/blocks/layer.h"
#include "tests/testing/documents.h"

namespace heed {
namespace {

constexpr const char* kDocument = HEED_SOURCE_DIR "/docs/feed_forwards.md";

std::string Title(const std::string& type) {
  return WordsBehind("FEED_FORWARD(" + type + ",", HEED_SOURCE_DIR "/engine/blocks/feed_forwards.def");
}

std::string Comment(const std::string& type) {
  return FirstComment(ReadText(Cat(HEED_SOURCE_DIR "/engine/blocks/", type, ".cc")));
}

std::string Row(const FeedForwardExample& example) {
  const FeedForwardLayer layer(example, Precision::kF32);
  return Cat("| `", example.options, "` | ", example.type == "pkm" ? "" : example.act, " | ",
             Short(layer->multiply_adds()), " | ", Short(layer->weight_bytes()), " | ",
             Short(layer->SharedBytes(kMaxBlockRows)), " |\n");
}

std::string Document() {
  std::string text =
      "# Feed-forwards\n\n"
      "Made by `tests/engine/blocks/feed_forwards_doc_test.cc` from the sources; do not edit. In a model's "
      "`config.json` a\n"
      "layer's `\"ffn\"` object names the `\"type\"` and its options (`dense` where there is none); tensors "
      "lie "
      "under\n"
      "`layers.I.ffn.`. Any stands beside any attention, in any layer; none remembers anything, so all "
      "decode "
      "exactly.\n\n"
      "The tables show what layers of width 40 (`intermediate_size` 72) declare in f32: the multiply-adds of "
      "a "
      "row, the bytes\n"
      "of the weights as they lie in memory, and the bytes between a block's products, for each thread.\n";
  for (std::string_view type : FeedForwardTypes()) {
    const std::string name(type);
    text += Cat("\n## ", name, ": ", Title(name), "\n\n```\n", Comment(name), "```\n");
    std::string rows;
    for (const FeedForwardExample& example : FeedForwardExamples()) {
      if (example.type == name) rows += Row(example);
    }
    if (rows.empty()) continue;
    text += Cat("\n| options | hidden_act | work a row | weights | between |\n|---|---|---|---|---|\n", rows);
  }
  return text;
}

TEST(FeedForwardsDocument, SaysWhatTheCodeSays) {
  const std::string document = Document();
  if (std::getenv("HEED_UPDATE")) std::ofstream(kDocument) << document;
  EXPECT_EQ(ReadText(kDocument), document)
      << "HEED_UPDATE=1 ./dev test blocks_test 'FeedForwardsDocument.*' writes it anew";
}

TEST(FeedForwardsDocument, EveryTypeHasATitleAndAFirstComment) {
  for (std::string_view type : FeedForwardTypes()) {
    EXPECT_NE(Title(std::string(type)), "") << type;
    EXPECT_NE(Comment(std::string(type)), "") << type;
  }
}

}  // namespace
}  // namespace heed
