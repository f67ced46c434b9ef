// The whole axial decoder with random weights. What it computes is the golden cases' affair.
#include <map>

#include "engine/models/native.h"
#include "gmock/gmock.h"
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

}  // namespace
}  // namespace heed
