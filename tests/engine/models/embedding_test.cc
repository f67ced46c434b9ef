// How tokens become rows: tables of tokens, types and positions, their norm and their projection, in whole
// models.
#include "engine/blocks/embedding.h"

#include "engine/attention/attention.h"
#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/models/naive_rows.h"

namespace heed {
namespace {

using testing::HasSubstr;

Json Encoder(const Json& options) {
  Json config = SmallConfig("encoder", "none");
  config.update(options);
  return config;
}

// All that an embedding may have, narrow tables too.
Json Everything(const std::string& projection) {
  return Encoder({{"embedding_size", 20},
                  {"embedding_projection", projection},
                  {"embedding_norm", true},
                  {"embedding_scale", 1.5},
                  {"type_vocab_size", 3},
                  {"positions", "learned"},
                  {"max_position_embeddings", 400}});
}

// Tokens by clusters, whose rows are of several widths.
Json Clustered() {
  Json config = Everything("tokens");
  config.erase("embedding_size");
  config.erase("embedding_projection");
  config["embedding_clusters"] = {
      {{"tokens", 9}}, {{"tokens", 30}, {"width", 17}}, {{"tokens", 11}, {"width", 3}}};
  return config;
}

WholeInput TypedInput(int64_t rows, int types) {
  WholeInput input;
  for (int32_t i = 0; i < rows; ++i) {
    input.ids.push_back(i * 7 % 50);
    if (types > 0) input.types.push_back(i * i % types);
  }
  return input;
}

Row OfCluster(const Tensors& tensors, const Json& config, int64_t id) {
  std::string name = "embed.0";
  for (size_t i = 0; id >= config["embedding_clusters"][i]["tokens"]; name = "embed." + std::to_string(++i))
    id -= config["embedding_clusters"][i]["tokens"].get<int64_t>();
  return Projected(tensors, name + ".projection", RowOf(tensors, name + ".tokens.weight", id));
}

// The definition.
Row Embedded(const Tensors& tensors, const Json& config, const WholeInput& input, int64_t position) {
  const bool projects = tensors.contains("embed.projection.weight");
  const std::string projection = projects ? config.value("embedding_projection", "last") : "none";
  const bool clustered = config.contains("embedding_clusters");
  const int32_t id = input.ids[position];
  Row x = Times(clustered ? OfCluster(tensors, config, id) : RowOf(tensors, "embed.tokens.weight", id),
                config.value("embedding_scale", 1.0));
  if (projection == "tokens") x = Projected(tensors, "embed.projection", x);
  const bool normed = config.value("embedding_norm", false), of_tokens = config.contains("embedding_norm_of"),
             rms = config.value("norm_type", "layer") == "rms";
  if (normed && of_tokens) x = Normed(tensors, "embed.norm", x, rms);
  if (tensors.contains("embed.types.weight"))
    x = Sum(x, RowOf(tensors, "embed.types.weight", input.types.empty() ? 0 : input.types[position]));
  if (tensors.contains("embed.positions.weight"))
    x = Sum(x, RowOf(tensors, "embed.positions.weight", position));
  if (projection == "before_norm") x = Projected(tensors, "embed.projection", x);
  if (normed && !of_tokens) x = Normed(tensors, "embed.norm", x, rms);
  return projection == "last" ? Projected(tensors, "embed.projection", x) : x;
}

// What a model answers whose tokens are the rows that the definition makes of the input.
std::vector<Row> AnswersByDefinition(Json config, Tensors tensors, const WholeInput& input) {
  std::vector<Row> rows;
  WholeInput plain;
  for (int64_t position = 0; position < std::ssize(input.ids); ++position) {
    rows.push_back(Embedded(tensors, config, input, position));
    plain.ids.push_back(static_cast<int32_t>(position));
  }
  for (const char* key :
       {"embedding_size", "embedding_projection", "embedding_clusters", "embedding_norm", "embedding_norm_of",
        "embedding_scale", "type_vocab_size", "positions", "max_position_embeddings"}) {
    config.erase(key);
  }
  config["vocab_size"] = rows.size();
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.first.starts_with("embed.") && tensor.first != "embed.global.weight";
  });
  tensors["embed.tokens.weight"] = TensorOf(rows);
  return Answers(*ModelOf(config, tensors), plain);
}

TEST(Embedding, IsItsDefinition) {
  const Json positions = {{"positions", "learned"}, {"max_position_embeddings", 30}};
  const Json norm = {{"embedding_norm", true}, {"norm", "post"}};
  std::vector<Json> configs = {Encoder(norm),
                               Encoder({{"type_vocab_size", 3}}),
                               Encoder({{"embedding_size", 16}}),
                               Encoder({{"embedding_projection", "last"}}),
                               Encoder({{"embedding_norm", true}, {"norm_type", "rms"}}),
                               Clustered()};
  configs.push_back(
      Encoder({{"embedding_norm", true}, {"embedding_norm_of", "tokens"}, {"type_vocab_size", 3}}));
  configs.back().update(positions);
  for (const char* projection : {"last", "before_norm", "tokens"}) {
    configs.push_back(Everything(projection));
    configs.push_back(Everything(projection));
    configs.back()["extra_global_tokens"] = 3;
    configs.push_back(Everything(projection));
    configs.back()["reversible"] = true;
    configs.push_back(Encoder({{"embedding_projection", projection}, {"embedding_norm", true}}));
    configs.back().update(positions);
  }
  for (const Json& config : configs) {
    const Tensors tensors = RandomTensorsOf(config);
    for (int types : {0, 3}) {
      const WholeInput input = TypedInput(20, config.contains("type_vocab_size") ? types : 0);
      ExpectNear(Answers(*ModelOf(config, tensors), input), AnswersByDefinition(config, tensors, input), 2e-4,
                 CanonicalText(config));
    }
  }
}

TEST(Embedding, OfADecoderAndOfAFunnelToo) {
  Json decoder = Everything("before_norm"), funnel = Everything("last");
  decoder["architecture"] = "decoder";
  funnel["architecture"] = "funnel-encoder";
  const Json block = {{"layers", funnel["layers"]}};
  funnel["blocks"] = Json::array({block});
  funnel.erase("layers");
  const WholeInput input = TypedInput(20, 3);
  for (const Json& config : {decoder, funnel}) {
    const Tensors tensors = RandomTensorsOf(config);
    ExpectNear(Answers(*ModelOf(config, tensors), input), AnswersByDefinition(config, tensors, input), 2e-4,
               config["architecture"]);
  }
}

TEST(Embedding, OfReducedPrecisionIsNear) {
  for (const char* projection : {"last", "before_norm", "tokens"}) {
    const Json config = Everything(projection);
    const Tensors tensors = RandomTensorsOf(config);
    const WholeInput input = TypedInput(300, 3);
    const std::vector<Row> exact = Answers(*ModelOf(config, tensors), input);
    for (Precision precision : {Precision::kBf16, Precision::kInt8}) {
      const auto near = Answers(*ModelOf(config, tensors, precision), input);
      EXPECT_LT(MeanDistance(near, exact), 0.15) << projection << " in " << Name(precision);
    }
  }
}

TEST(Embedding, HasTheSameBitsInAnyCompany) {
  for (const char* projection : {"last", "before_norm", "tokens"}) {
    for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8})
      ExpectSameBitsInAnyCompany(*MakeRandomModel(Everything(projection), precision), 390);
  }
}

TEST(Embedding, OfClustersIsOneInAllPrecisionsAndCompanies) {
  const Tensors tensors = RandomTensorsOf(Clustered());
  const WholeInput input = TypedInput(300, 3);
  const std::vector<Row> exact = Answers(*ModelOf(Clustered(), tensors), input);
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    EXPECT_LT(MeanDistance(Answers(*ModelOf(Clustered(), tensors, precision), input), exact), 0.15);
    ExpectSameBitsInAnyCompany(*MakeRandomModel(Clustered(), precision), 390);
    ExpectAWorkspaceAsDeclared(Clustered(), precision);
  }
}

TEST(Embedding, CountsItsClusters) {
  const RandomModel model = MakeRandomModel(Clustered());
  EXPECT_EQ(model->info().embedding_bytes, (9 * 32 + 30 * 17 + 11 * 3 + 3 * 32 + 400 * 32) * 4);
  EXPECT_EQ(model->Cost(10) - MakeRandomModel(Encoder(Json::object()))->Cost(10), 10 * (32 + 17 + 3) * 32);
}

TEST(Embedding, WorksMayBeDroppedWithinItsModel) {
  ExpectDroppedWorksChangeNoOther(*MakeRandomModel(Everything("last")), 3);
}

TEST(Embedding, AWorkspaceIsAsDeclared) {
  for (Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
    ExpectAWorkspaceAsDeclared(Everything("last"), precision);
    ExpectAWorkspaceAsDeclared(Everything("tokens"), precision);
  }
}

TEST(Embedding, CountsItsTablesAndItsProduct) {
  const RandomModel model = MakeRandomModel(Everything("tokens"));
  EXPECT_EQ(model->info().embedding_bytes, (50 * 20 + 3 * 32 + 400 * 32) * 4);
  EXPECT_GE(model->info().weight_bytes,
            MakeRandomModel(Encoder(Json::object()))->info().weight_bytes + 20 * 32 * 4);
  EXPECT_EQ(model->Cost(10) - MakeRandomModel(Encoder(Json::object()))->Cost(10), 10 * 20 * 32);
}

TEST(Embedding, TypesThatAreLeftOutAreZero) {
  const RandomModel model = MakeRandomModel(Encoder({{"type_vocab_size", 2}}));
  EXPECT_EQ(model->info().type_vocab_size, 2);
  WholeInput none = TypedInput(20, 0), zeros = none, ones = none;
  zeros.types.assign(20, 0);
  ones.types.assign(20, 1);
  EXPECT_EQ(Answers(*model, none), Answers(*model, zeros));
  EXPECT_NE(Answers(*model, none), Answers(*model, ones));
  EXPECT_EQ(MakeRandomModel(Encoder(Json::object()))->info().type_vocab_size, 0);
}

TEST(Embedding, TypesComeInPiecesAsTokensDo) {
  Json config = Encoder({{"type_vocab_size", 3}});
  config["architecture"] = "decoder";
  const RandomModel model = MakeRandomModel(config);
  const WholeInput input = TypedInput(2 * kGrid + 9, 3);
  Threads threads(2);
  Output whole = Alone(*model, input, threads), pieces;
  const auto sequence = model->Start();
  for (int64_t at = 0; at < std::ssize(input.ids); at += kGrid) {
    const auto piece = [&](const std::vector<int32_t>& all) {
      return std::vector<int32_t>(all.begin() + at, all.begin() + std::min(at + kGrid, std::ssize(all)));
    };
    const WholeInput next{.ids = piece(input.ids), .types = piece(input.types)};
    std::vector<Work> batch = {AskingAll(*model, next, sequence.get(), &pieces)};
    batch[0].more = at + kGrid < std::ssize(input.ids);
    const auto pass = model->Begin(&batch);
    while (pass->Advance(threads)) {
    }
  }
  EXPECT_EQ(pieces, whole);
}

TEST(Embedding, OfAnEncoderDecoderHasTheFirstTypeAlone) {
  Json config = SmallConfig("encoder-decoder", "lm");
  config["type_vocab_size"] = 2;
  Tensors tensors = RandomTensorsOf(config);
  const auto typed = ModelOf(config, tensors);
  EXPECT_EQ(typed->info().type_vocab_size, 0) << "a request has none to give";
  tensors["lm_head.weight"] = tensors.at("decoder.embed.tokens.weight");
  for (const char* side : {"encoder", "decoder"}) {
    const std::string embed = Cat(side, ".embed.");
    std::vector<Row> rows;
    for (int id = 0; id < 50; ++id)
      rows.push_back(
          Sum(RowOf(tensors, embed + "tokens.weight", id), RowOf(tensors, embed + "types.weight")));
    tensors[embed + "tokens.weight"] = TensorOf(rows);
    tensors.erase(embed + "types.weight");
  }
  const auto plain = ModelOf(Without(config, "type_vocab_size"), tensors);
  const WholeInput input{.ids = {1, 2, 3, 4}, .global_ids = {5, 6, 7}};
  ExpectNear(Answers(*typed, input), Answers(*plain, input), 2e-4, "encoder-decoder");
}

TEST(Embedding, ThatIsNarrowerThanTheHeadReadsIsNotTiedToIt) {
  const Json config = Encoder({{"embedding_size", 20}, {"head", "lm"}});
  EXPECT_THAT(RefusalOf(config), HasSubstr("lm_head.weight: missing, and it cannot be the embedding's, whose "
                                           "rows have 20 numbers, where the head reads 32"));
}

TEST(Embedding, RefusalsNameTheFieldTheValueAndTheLimit) {
  const struct {
    Json config;
    std::string says;
  } cases[] = {
      {Encoder({{"embedding_size", 33}}), "config.json: embedding_size: 33 is above 32"},
      {Encoder({{"embedding_size", 0}}), "config.json: embedding_size: 0 is below 1"},
      {Encoder({{"embedding_projection", "first"}}), "embedding_projection: \"first\" is none of \"last\""},
      {Encoder({{"embedding_norm", 1}}), "config.json: embedding_norm: 1 is not true or false"},
      {Encoder({{"type_vocab_size", -1}}), "config.json: type_vocab_size: -1 is below 0"},
      {Encoder({{"type_vocab_size", 1 << 20}}), "config.json: type_vocab_size: 1048576 is above 65536"},
  };
  for (const auto& c : cases) EXPECT_THAT(RefusalOf(c.config), HasSubstr(c.says));
  Json etc = SmallConfig("etc-encoder", "none", {{"type", "etc"}, {"radius", 3}, {"max_distance", 2}});
  etc["embedding_norm"] = true;
  EXPECT_THAT(RefusalOf(etc), HasSubstr("unknown key \"embedding_norm\""));
  const Json config = Everything("last");
  for (const char* name : {"embed.projection.weight", "embed.types.weight", "embed.norm.bias"}) {
    Tensors tensors = RandomTensorsOf(config);
    tensors.erase(name);
    EXPECT_THAT(NewNativeModel(config, *Weights::Of(tensors), {}).status().message(), HasSubstr(name));
  }
}

TEST(Embedding, AnInputIsAsLongAsTheModelSaysWhateverItsPositions) {
  const auto longest = [](const Json& options) {
    return MakeRandomModel(Encoder(options))->info().max_tokens;
  };
  EXPECT_EQ(longest(Json::object()), 0);
  EXPECT_EQ(longest({{"max_seq_length", 20}}), 20);
  EXPECT_EQ(longest({{"positions", "learned"}, {"max_position_embeddings", 40}, {"max_seq_length", 20}}), 20);
  EXPECT_EQ(longest({{"positions", "learned"}, {"max_position_embeddings", 40}, {"max_seq_length", 400}}),
            40);
}

}  // namespace
}  // namespace heed
