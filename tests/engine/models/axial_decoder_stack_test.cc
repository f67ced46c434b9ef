// The whole axial decoder with random weights. What it computes is the golden cases' affair.
#include <map>
#include <set>

#include "engine/models/kept_rows.h"
#include "engine/models/native.h"
#include "engine/ops/microkernel.h"
#include "gmock/gmock.h"
#include "tests/engine/models/state.h"
#include "tests/engine/models/whole_inputs.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Along(const std::string& axis) { return {{"type", "axial"}, {"axis", axis}}; }

Json Layer(const std::string& axis) { return {{"attention", Along(axis)}, {"ffn", {{"type", "dense"}}}}; }

Json Drawing(int64_t height, int64_t width, int64_t channels = 1) {
  Json config = SmallConfig("axial-decoder", "lm");
  config.erase("layers");
  config["height"] = height;
  config["width"] = width;
  config["outer_layers"] = {Layer("row"), Layer("column")};
  config["inner_layers"] = Json::array({Layer("row")});
  if (channels == 1) return config;
  config["channels"] = channels;
  config["exterior_layers"] = {Layer("row"), Layer("column")};
  return config;
}

// Any start row, then all pixels but the last.
std::vector<int32_t> Pixels(std::mt19937& random, int64_t count, int32_t start = 0) {
  std::vector<int32_t> pixels(count, start);
  for (int64_t i = 1; i < count; ++i) pixels[i] = static_cast<int32_t>(random() % 50);
  return pixels;
}

// Adds the answers of the next rows of a sequence.
void Extend(const Model& model, Sequence* sequence, std::span<const int32_t> tokens, Threads& threads,
            Output* out) {
  std::vector<Work> batch;
  batch.push_back(AskingAll(model, {.ids = {tokens.begin(), tokens.end()}, .numbers = {}}, sequence, out));
  const auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
}

TEST(AxialDecoderStack, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Json one = Drawing(5, 4), three = Drawing(5, 4, 3);
  const std::string outer = "/outer_layers/1/attention", where = "config.json: outer_layers[1].attention";
  const Case cases[] = {
      {Without(one, "vocab_size"), {"vocab_size"}},
      {Without(Without(one, "height"), "width"), {"height and width"}},
      {Without(one, "width"), {"width"}},
      {With(one, "/height", 0), {"height", "0"}},
      {With(one, "/shape", {5, 4}), {"shape"}},
      {With(one, "/width", 70000), {"width: 70000", "65536"}},
      {With(With(one, "/height", 1 << 20), "/width", 1 << 12), {"1048576 x 4096 x 1", "1073741824"}},
      {With(one, "/channels", 0), {"channels: 0", "below 1"}},
      {With(one, "/channels", 1025), {"channels", "1025", "1024"}},
      {With(one, "/channels", 2), {"exterior_layers is not a list"}},
      {With(three, "/vocab_size", 1), {"vocab_size: 1", "2 levels"}},
      {Without(one, "outer_layers"), {"outer_layers is not a list"}},
      {Without(one, "inner_layers"), {"inner_layers is not a list"}},
      {With(one, "/outer_layers/0", 3), {"config.json: outer_layers[0]", "3"}},
      {With(one, outer, 3), {"config.json: outer_layers[1]: attention is not an object"}},
      {With(one, outer, {{"type", "full"}}), {where + ".type", "\"full\"", "\"axial\""}},
      {With(one, outer, {{"axis", "row"}}), {where, "type is missing"}},
      {With(one, outer, {{"type", "axial"}}), {where, "axis is missing"}},
      {With(one, outer, Along("depth")), {where + ".axis", "\"depth\"", "\"column\""}},
      {With(one, outer, {{"type", "axial"}, {"axis", 1}, {"shape", {5, 4}}}), {where, "axis"}},
      {With(one, outer + "/shape", {5, 4}), {where, "shape"}},
      {With(one, outer + "/height", 6), {where, "height: 6", "5"}},
      {With(one, outer + "/width", 3), {where, "width: 3", "4"}},
      {With(one, outer + "/window", 3), {where, "unknown key \"window\""}},
      {With(one, outer + "/num_heads", 5), {where, "5 heads"}},
      {With(one, "/inner_layers/0/attention", Along("column")),
       {"config.json: inner_layers[0].attention.axis", "\"column\"", "\"row\""}},
      {With(three, "/exterior_layers/0/attention/axis", "up"),
       {"exterior_layers[0].attention.axis", "\"up\""}},
      {With(one, "/outer_layers/0/ffn", {{"type", "deep"}}), {"config.json: outer_layers[0].ffn"}},
      {With(one, "/reversible", true), {"reversible"}},
      {With(With(one, "/head", "classification"), "/num_labels", 3), {"head", "axial-decoder"}},
      {With(With(one, "/head", "none"), "/pooling", "mean"), {"head", "pooling"}},
      {With(one, "/depth", 1), {"unknown key \"depth\""}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says)
      EXPECT_THAT(RefusalOf(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

TEST(AxialDecoderStack, ReadsWhatMayBeLeftOutOrRepeated) {
  const Json one = Drawing(5, 4);
  for (const char* key : {"outer_layers", "inner_layers"})
    EXPECT_EQ(RefusalOf(With(one, std::string("/") + key, Json::array())), "accepted") << key;
  EXPECT_EQ(RefusalOf(With(Drawing(5, 4, 2), "/exterior_layers", Json::array())), "accepted");
  EXPECT_EQ(
      RefusalOf(With(With(one, "/outer_layers/1/attention/height", 5), "/inner_layers/0/attention/width", 4)),
      "accepted");
  EXPECT_EQ(RefusalOf(With(With(one, "/channels", 1), "/exterior_layers", one["outer_layers"])), "accepted");
  EXPECT_EQ(RefusalOf(With(one, "/head", "none")), "accepted");
  EXPECT_EQ(RefusalOf(With(With(one, "/head", "token_classification"), "/num_labels", 3)), "accepted");
}

TEST(AxialDecoderStack, AMissingAndAMisshapenTensorAreNamed) {
  const Json config = Drawing(5, 4, 2);
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const auto refusal = [&](const std::map<std::string, Tensor>& of) {
    return std::string(NewNativeModel(config, *Weights::Of(of), {}).status().message());
  };
  for (const char* name : {"embed.tokens.weight", "embed.rows.weight", "embed.columns.weight",
                           "exterior.input.weight", "exterior.input.bias", "exterior.rows.weight",
                           "exterior.columns.weight", "exterior.layers.1.attention.q.weight",
                           "outer.layers.0.norm1.weight", "inner.layers.0.ffn.up.weight", "norm.weight"}) {
    auto missing = tensors;
    ASSERT_EQ(missing.erase(name), 1u) << name;
    EXPECT_THAT(refusal(missing), HasSubstr(name));
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{32, 4, 2, 2}, {32, 4, 3, 1}, {32, 3, 3, 3}, {32, 4, 129, 129}}) {
    auto misshapen = tensors;
    Tensor& kernel = misshapen["exterior.input.weight"];
    const auto memory = std::make_shared<Buffer>(
        Buffer::Zeros(shape[0] * shape[1] * shape[2] * shape[3] * static_cast<int64_t>(sizeof(float))));
    kernel = {DType::kF32, shape, memory->as<char>(), memory};
    EXPECT_THAT(refusal(misshapen), HasSubstr("exterior.input.weight"));
    EXPECT_THAT(refusal(misshapen), HasSubstr(ShapeText(shape)));
  }
}

TEST(AxialDecoderStack, TellsWhatServersNeed) {
  const RandomModel model = MakeRandomModel(Drawing(5, 4, 3));
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, Architecture::kDecoder);
  EXPECT_EQ(info.decode, DecodeClass::kExact);
  EXPECT_EQ(info.max_tokens, 60);
  EXPECT_TRUE(info.start_row);
  EXPECT_EQ(info.layers, 5);
  EXPECT_EQ(info.attention, "axial");
  EXPECT_EQ(info.attentions.size(), 1u) << "the inner layer's, whose rows are answered";
  EXPECT_EQ(MakeRandomModel(With(Drawing(5, 4), "/max_position_embeddings", 12))->info().max_tokens, 12);
  const Json bare = With(With(Drawing(5, 4), "/outer_layers", Json::array()), "/inner_layers", Json::array());
  EXPECT_EQ(MakeRandomModel(bare)->info().max_tokens, 20);
  EXPECT_FALSE(MakeRandomModel(SmallConfig("decoder", "lm"))->info().start_row);
}

TEST(AxialDecoderStack, APixelsAnswerFollowsFromThePixelsBeforeItAndFromAllOfThem) {
  for (const Json& config : {Drawing(4, 3), Drawing(3, 3, 2), Drawing(1, 5, 2), Drawing(6, 1)}) {
    const RandomModel model = MakeRandomModel(config);
    const int64_t all = model->info().max_tokens, width = model->info().output_width;
    Threads threads(1);
    std::mt19937 random(3);
    const std::vector<int32_t> pixels = Pixels(random, all);
    const Output answers = Alone(*model, {.ids = pixels, .numbers = {}}, threads);
    for (int64_t changed = 0; changed < all; ++changed) {
      std::vector<int32_t> others = pixels;
      others[changed] = (others[changed] + 1) % 50;
      const Output of_others = Alone(*model, {.ids = others, .numbers = {}}, threads);
      // The start row's id says nothing; that at place p is pixel p - 1, on which all from pixel p on depend.
      for (int64_t place = 0; place < all; ++place) {
        const bool same = std::equal(answers.begin() + place * width, answers.begin() + (place + 1) * width,
                                     of_others.begin() + place * width);
        EXPECT_EQ(same, changed == 0 || place < changed) << config.dump() << changed << " at " << place;
      }
    }
  }
}

// Of one layer alone each, in a model that has but this one.
TEST(AxialDecoderStack, EmptyStacksLeaveRowsAsTheyAre) {
  Json config = Drawing(3, 4);
  config["norm"] = "post";
  config["head"] = "none";
  config["outer_layers"] = config["inner_layers"] = Json::array();
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  const auto table = [&](const std::string& name) {
    return ToFloats(tensors.at("embed." + name + ".weight"));
  };
  const std::vector<float> tokens = table("tokens"), rows = table("rows"), columns = table("columns");
  const RandomModel model = MakeRandomModel(config);
  Threads threads(1);
  std::mt19937 random(3);
  const std::vector<int32_t> pixels = Pixels(random, 12);
  const Output answers = Alone(*model, {.ids = pixels, .numbers = {}}, threads);
  for (int64_t place = 0; place < 12; ++place) {
    const int64_t row = place / 4, column = place % 4;
    for (int64_t c = 0; c < 32; ++c) {
      float expected = rows[row * 32 + c] + columns[column * 32 + c];
      if (column > 0) expected += tokens[pixels[place] * 32 + c];
      if (row > 0)
        expected += tokens[pixels[place - 3] * 32 + c] + rows[(row - 1) * 32 + c] + columns[column * 32 + c];
      ASSERT_NEAR(answers[place * 32 + c], expected, 1e-5) << place << ", " << c;
    }
  }
}

class AxialDecoderStackIn : public testing::TestWithParam<Precision> {};

TEST_P(AxialDecoderStackIn, SameBitsWhateverTheCompanyAndTheThreads) {
  ExpectSameBitsInAnyCompany(*MakeRandomModel(Drawing(30, 9), GetParam()), 270);
  ExpectSameBitsInAnyCompany(*MakeRandomModel(Drawing(11, 8, 3), GetParam()), 264);
}

// Row by row, pixel by pixel, and whatever else a picture is cut into: steps have the same bits.
TEST_P(AxialDecoderStackIn, SameBitsWhereverThePassesOfAPictureEnd) {
  for (const Json& config : {Drawing(12, 9), Drawing(5, 7, 3), Drawing(1, 40, 2), Drawing(40, 1)}) {
    const RandomModel model = MakeRandomModel(config, GetParam());
    const int64_t all = model->info().max_tokens;
    Threads one(1), two(2), seven(7);
    std::mt19937 random(5);
    const std::vector<int32_t> pixels = Pixels(random, all);
    const Output whole = Alone(*model, {.ids = pixels, .numbers = {}}, one);
    for (int round = 0; round < 6; ++round) {
      const auto sequence = model->Start();
      Output out;
      for (int64_t at = 0, count; at < all; at += count) {
        count = std::min<int64_t>(all - at, round == 0 ? 1 : 1 + random() % (round % 2 ? 5 : 40));
        Extend(*model, sequence.get(), std::span(pixels).subspan(at, count), round % 3 == 1 ? seven : two,
               &out);
      }
      EXPECT_EQ(out, whole) << config.dump() << " round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, AxialDecoderStackIn,
                         testing::Values(Precision::kF32, Precision::kBf16, Precision::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(AxialDecoderStack, ADroppedWorkIsNotReadAndTheOthersAreUnchanged) {
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Drawing(11, 8)), 4);
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Drawing(4, 6, 3)), 6);
}

TEST(AxialDecoderStack, GivesALayerBetweenTwoTurns) {
  const RandomModel model = MakeRandomModel(Drawing(4, 6, 3));
  Threads threads(2);
  std::mt19937 random(5);
  const auto sequence = model->Start();
  Output out;
  std::vector<Work> batch;
  batch.push_back(AskingAll(*model, {.ids = Pixels(random, 30), .numbers = {}}, sequence.get(), &out));
  const auto pass = model->Begin(&batch);
  for (int i = 0; i < 2 + 2 + 1; ++i) EXPECT_TRUE(pass->Advance(threads)) << i;
  EXPECT_TRUE(out.empty());
  EXPECT_FALSE(pass->Advance(threads));
  EXPECT_EQ(out.size(), 30u * 50);
}

TEST(AxialDecoderStack, ClonesAndRestoredSequencesGoOnFromAnyPixelWithTheSameBits) {
  for (const Json& config : {Drawing(6, 5), Drawing(3, 4, 2)}) {
    const RandomModel model = MakeRandomModel(config);
    const int64_t all = model->info().max_tokens;
    Threads threads(1);
    std::mt19937 random(7);
    const std::vector<int32_t> pixels = Pixels(random, all), others = Pixels(random, all);
    const std::span<const int32_t> rest(pixels);
    for (int64_t at = 1; at < all; ++at) {
      const auto first = model->Start();
      Output unread, expected, of_clone, of_restored, of_other;
      Extend(*model, first.get(), rest.first(at), threads, &unread);
      const auto clone = first->Clone(), other = first->Clone();
      const std::string bytes = StateOf(*first);
      Extend(*model, other.get(), std::span(others).subspan(at), threads, &of_other);
      Extend(*model, first.get(), rest.subspan(at), threads, &expected);
      for (int64_t i = at; i < all; ++i) Extend(*model, clone.get(), rest.subspan(i, 1), threads, &of_clone);
      const auto restored = RestoredSequence(*model, bytes);
      Extend(*model, restored.get(), rest.subspan(at), threads, &of_restored);
      EXPECT_EQ(of_clone, expected) << at;
      EXPECT_EQ(of_restored, expected) << at;
    }
  }
}

TEST(AxialDecoderStack, BytesThatAreNoStateAreAnErrorNotACrash) {
  for (const Json& config : {Drawing(6, 5), Drawing(3, 4, 2)}) {
    const RandomModel model = MakeRandomModel(config);
    Threads threads(1);
    std::mt19937 random(7);
    const auto sequence = model->Start();
    Output out;
    Extend(*model, sequence.get(), Pixels(random, 17), threads, &out);
    std::string bytes = StateOf(*sequence);
    ExpectDamageIsNoCrash(*model, bytes);
    // Its ids come behind the origin, three counters of tokens, pooled rows and ids.
    const size_t ids = OriginBytes(*model) + 3 * sizeof(int64_t);
    bytes[ids + 3] = '\x7f';
    EXPECT_THAT(std::string(Restored(*model, bytes).message()), HasSubstr("not below 50"));
  }
}

TEST(AxialDecoderStack, HoldsWhatItsClosedFormSaysFromTheFirstPixelToTheLast) {
  for (const Json& config : {Drawing(20, 7), Drawing(6, 5, 3), Drawing(1, 9), Drawing(9, 1, 2)}) {
    // What a pass's own rows attend with is beside the state, and nothing here.
    Json columns = config;
    columns["outer_layers"] = Json::array({Layer("column")});
    columns["exterior_layers"] = Json::array();
    const RandomModel model = MakeRandomModel(columns);
    Threads threads(1);
    std::mt19937 random(7);
    const auto sequence = model->Start();
    Output out;
    for (const int32_t pixel : Pixels(random, model->info().max_tokens)) {
      Extend(*model, sequence.get(), {&pixel, 1}, threads, &out);
      ASSERT_LE(MeasuredBytes(*sequence), model->StateBytes(sequence->tokens())) << sequence->tokens();
      ASSERT_GE(2 * MeasuredBytes(*sequence), model->StateBytes(sequence->tokens())) << sequence->tokens();
    }
  }
}

TEST(AxialDecoderStack, WhatAPictureHoldsWhileItIsReadIsDeclared) {
  const RandomModel model = MakeRandomModel(Drawing(12, 10, 3));
  Threads threads(1);
  std::mt19937 random(7);
  const auto sequence = model->Start();
  Output out;
  const std::vector<int32_t> pixels = Pixels(random, 360);
  const int64_t before = LastingMemory::Bytes(), declared = model->StateBytes(360);
  LastingMemory::MeasureAnew();
  Extend(*model, sequence.get(), pixels, threads, &out);
  EXPECT_LE(LastingMemory::Most() - before, declared);
  EXPECT_GE(2 * (LastingMemory::Most() - before), declared);
}

// What the pass held and what was declared for it.
struct Held {
  int64_t bytes, declared;
};

Held HeldBy(const Model& model, int64_t before, int64_t rows, int threads_count) {
  Threads threads(threads_count);
  std::mt19937 random(5);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  std::vector<Output> outputs(2);
  const std::vector<int32_t> pixels = Pixels(random, before + rows);
  const WholeInput rest{.ids = {pixels.begin() + before, pixels.end()}, .numbers = {}};
  for (Output& out : outputs) {
    sequences.push_back(model.Start());
    // Pixel by pixel: what passes before have needed is no more.
    for (int64_t i = 0; i < before; ++i)
      Extend(model, sequences.back().get(), std::span(pixels).subspan(i, 1), threads, &out);
    batch.push_back(AskingAll(model, rest, sequences.back().get(), &out));
  }
  // A pass that has ended gives its workspace back.
  for (const auto pass = model.Begin(&batch); pass->Advance(threads);) {
  }
  return {
      static_cast<const Transformer&>(model).workspaces().kept_bytes(),
      model.WorkspaceBytes({.rows = 2 * rows, .answers = 2 * rows, .threads = threads_count, .works = 2})};
}

TEST(AxialDecoderStack, APassHoldsNoMoreThanIsDeclared) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    for (const Json& config : {Drawing(9, 20), Drawing(8, 9, 3)}) {
      for (const int64_t rows : {1, 2, 21, 100, 180}) {
        const RandomModel model = MakeRandomModel(config, precision);
        const Held held = HeldBy(*model, 0, rows, 3);
        EXPECT_LE(held.bytes, held.declared) << rows;
      }
    }
  }
}

TEST(AxialDecoderStack, AStepThatEndsARowHoldsWhatIsDeclared) {
  const RandomModel model = MakeRandomModel(Drawing(9, 200));
  Threads threads(1);
  const Held held = HeldBy(*model, 200, 1, 1);
  EXPECT_LE(held.bytes, held.declared);
  EXPECT_GE(held.bytes, 0.9 * held.declared);
}

TEST(AxialDecoderStack, APixelCostsItsInnerLayersAndARowsLastTheOuterOnesToo) {
  const RandomModel whole = MakeRandomModel(Drawing(8, 40)),
                    inner = MakeRandomModel(With(Drawing(8, 40), "/outer_layers", Json::array()));
  const auto calls = [](const Model& model) {
    Threads threads(1);
    std::mt19937 random(5);
    const std::vector<int32_t> pixels = Pixels(random, 121);
    const auto sequence = model.Start();
    std::vector<int64_t> made;
    Output out;
    for (const int32_t pixel : pixels) {
      const int64_t before = MicroKernel::Calls();
      Extend(model, sequence.get(), {&pixel, 1}, threads, &out);
      made.push_back(MicroKernel::Calls() - before);
    }
    return made;
  };
  const std::vector<int64_t> of_whole = calls(*whole), of_inner = calls(*inner);
  for (size_t place = 0; place < of_whole.size(); ++place) {
    const bool ends = place > 0 && place % 40 == 0;
    EXPECT_EQ(of_whole[place] > of_inner[place], ends) << place;
    EXPECT_GE(of_whole[place], of_inner[place]) << place;
  }
  // Of n = height x width pixels every one meets its row and its column, not the image.
  const double small = MakeRandomModel(Drawing(64, 64))->Cost(64 * 64),
               large = MakeRandomModel(Drawing(128, 128))->Cost(128 * 128);
  EXPECT_LT(large, 4 * 1.3 * small);
}

TEST(KeptRows, AreTheNewestOfThoseThatCame) {
  KeptRows rows(3, 4);
  EXPECT_EQ(rows.rows(), nullptr);
  const std::vector<int32_t> numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto held = [](const KeptRows& of) {
    const auto* first = static_cast<const int32_t*>(of.rows());
    return std::vector<int32_t>(first, first + of.count());
  };
  rows.Take(&numbers[0], 4, 2);
  EXPECT_EQ(held(rows), (std::vector<int32_t>{1, 2}));
  rows.Take(&numbers[2], 8, 2);
  EXPECT_EQ(held(rows), (std::vector<int32_t>{2, 3, 5}));
  KeptRows copy = rows;
  EXPECT_EQ(copy.rows(), rows.rows()) << "nothing is copied before it must be";
  copy.Take(&numbers[5], 4, 1);
  EXPECT_EQ(held(copy), (std::vector<int32_t>{3, 5, 6}));
  EXPECT_EQ(held(rows), (std::vector<int32_t>{2, 3, 5}));
  rows.Take(&numbers[4], 4, 5);
  EXPECT_EQ(held(rows), (std::vector<int32_t>{7, 8, 9}));
}

}  // namespace
}  // namespace heed
