// Models of tables, "tab-transformer", "ft-transformer" and "saint", with random weights: which
// configurations are refused, what missing values are, and that neither other rows nor other tables nor
// threads change a bit of a row's answer, except where rows are meant to meet.

#include <cmath>
#include <numeric>
#include <random>

#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "engine/models/config.h"
#include "engine/models/golden.h"
#include "engine/models/native.h"
#include "engine/models/table_rows.h"
#include "engine/models/transformer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/base/temp_folder.h"
#include "tests/engine/models/state.h"
#include "tests/engine/weights/safetensors_writer.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Output = std::vector<float>;

constexpr Precision kPrecisions[] = {Precision::kF32, Precision::kBf16, Precision::kInt8};

// Three categorical columns and four numerical ones; a perceptron that is wider than the rows.
Json SmallTable(const std::string& architecture, const Json& attention = {{"type", "full"}}) {
  Json layer = {{"attention", attention}, {"ffn", {{"type", "dense"}}}};
  Json config = {{"model_type", "heed"},     {"architecture", architecture},
                 {"categories", {5, 3, 40}}, {"num_numerical", 4},
                 {"hidden_size", 32},        {"num_attention_heads", 4},
                 {"intermediate_size", 64},  {"hidden_act", "reglu"},
                 {"num_labels", 3},          {"layers", {layer, layer}}};
  if (architecture != "ft-transformer") config["mlp"] = {{"sizes", {300, 20}}, {"act", "selu"}};
  if (architecture == "saint") {
    config["layers"] = {layer, layer, layer};
    config["layers"][0]["axis"] = config["layers"][2]["axis"] = "columns";
    config["layers"][1]["axis"] = "rows";
    config["layers"][1]["attention"] = {{"type", "softmax"}, {"head_dim", 16}};
    config["rows"] = {{"num_attention_heads", 2}, {"intermediate_size", 48}};
  }
  return config;
}

Json With(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  return config;
}

Json SaintOf(const std::string& axis) {
  Json config = SmallTable("saint");
  for (Json& layer : config["layers"]) layer["axis"] = axis;
  return config;
}

struct Table {
  std::vector<int32_t> ids;
  std::vector<float> numbers;
  int64_t rows = 0;

  // Rows [first, first + count) of it.
  Table Rows(int64_t first, int64_t count) const {
    const int64_t i = std::ssize(ids) / rows, x = std::ssize(numbers) / rows;
    return {{ids.begin() + first * i, ids.begin() + (first + count) * i},
            {numbers.begin() + first * x, numbers.begin() + (first + count) * x},
            count};
  }
};

Table RandomTable(const ModelInfo& info, int64_t rows, std::mt19937& random) {
  Table table{.rows = rows};
  std::normal_distribution<float> normal;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t limit : info.id_limits) table.ids.push_back(static_cast<int32_t>(random() % limit));
    for (int64_t j = 0; j < info.input.numbers; ++j) table.numbers.push_back(normal(random));
  }
  return table;
}

Work Asking(Sequence* sequence, const Table& table, Output* out) {
  Work work{.sequence = sequence, .tokens = table.ids, .numbers = table.numbers};
  work.wanted.resize(table.rows);
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.read = [out](int32_t, std::span<const float> row) { out->insert(out->end(), row.begin(), row.end()); };
  return work;
}

// The answers of some tables in one pass.
std::vector<Output> Answers(const Model& model, const std::vector<Table>& tables, Threads& threads) {
  std::vector<Output> outputs(tables.size());
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Work> batch;
  for (size_t i = 0; i < tables.size(); ++i) {
    sequences.push_back(model.Start());
    batch.push_back(Asking(sequences.back().get(), tables[i], &outputs[i]));
  }
  auto pass = model.Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return outputs;
}

Output Answer(const Model& model, const Table& table, Threads& threads) {
  return Answers(model, {table}, threads)[0];
}

std::string Refusal(const Json& config) {
  auto parsed = ParseModelConfig(config);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

TEST(TableStacks, EveryRefusalNamesTheFieldTheValueAndTheLimit) {
  const Json tab = SmallTable("tab-transformer"), ft = SmallTable("ft-transformer"),
             saint = SmallTable("saint");
  const Json none = With(With(tab, "categories", Json::array()), "num_numerical", 0);
  Json without_sizes = tab, fourth = saint, linear = saint, rope = saint, no_axis = saint, no_rows = saint;
  without_sizes["mlp"].erase("sizes");
  fourth["layers"][1]["axis"] = "diagonals";
  no_axis["layers"][0].erase("axis");
  linear["layers"][1]["attention"] = {{"type", "linear"}};
  rope["layers"][1]["attention"]["rope"] = {{"theta", 10000}};
  no_rows["rows"]["hidden_size"] = 3;
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {none, {"categories", "num_numerical: 0", "1 column"}},
      {With(ft, "categories", {5, 0}), {"categories", "0", "1"}},
      {With(ft, "categories", {5, int64_t{1} << 40}), {"categories", "1099511627776", "16777216"}},
      {With(ft, "categories", 7), {"categories", "7", "65536"}},
      {With(ft, "num_numerical", -1), {"num_numerical", "-1", "0"}},
      {With(ft, "num_numerical", 100000), {"num_numerical", "100000", "65536"}},
      {With(With(tab, "hidden_size", 65536), "categories", std::vector<int>(17, 2)),
       {"hidden_size 65536", "17 tokens", "1114116", "1048576"}},
      {With(With(saint, "hidden_size", 65536), "num_numerical", 60000), {"hidden_size 65536", "1048576"}},
      {With(ft, "vocab_size", 50), {"vocab_size", "table"}},
      {With(ft, "positions", "sinusoidal"), {"positions", "table"}},
      {With(ft, "max_position_embeddings", 9), {"max_position_embeddings", "table"}},
      {With(ft, "pooling", "mean"), {"pooling", "row"}},
      {With(ft, "head", "lm"), {"head", "lm", "classification"}},
      {With(ft, "norm", "post"), {"norm", "pre"}},
      {With(ft, "mlp", Json::object()), {"mlp"}},
      {With(tab, "column_embedding", "sum"), {"column_embedding", "sum", "concat"}},
      {With(tab, "column_size", 32), {"column_size", "32", "31"}},
      {With(With(tab, "hidden_size", 4), "column_size", nullptr), {"column_size", "0", "3"}},
      {With(tab, "mlp", nullptr), {"mlp"}},
      {without_sizes, {"mlp", "sizes"}},
      {With(tab, "mlp", {{"sizes", {0}}}), {"mlp", "sizes", "0", "1"}},
      {With(tab, "mlp", {{"sizes", {8}}, {"act", "silu"}}), {"mlp", "act", "silu", "selu"}},
      {With(tab, "mlp", {{"sizes", {8}}, {"dropout", 0.1}}), {"mlp", "dropout"}},
      {fourth, {"layers[1]", "axis", "diagonals", "columns"}},
      {no_axis, {"layers[0]", "axis"}},
      {linear, {"layers[1].attention.type", "linear", "softmax"}},
      {rope, {"layers[1].attention.rope", "positions"}},
      {no_rows, {"rows", "hidden_size"}},
      {With(saint, "rows", {{"num_attention_heads", 257}}), {"rows", "num_attention_heads", "257", "256"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says) EXPECT_THAT(Refusal(c.config), HasSubstr(word)) << Shown(c.config);
  }
}

// The columns of SmallTable.
Json SmallColumns() {
  std::vector<std::string> forty;
  for (int i = 0; i < 40; ++i) forty.push_back(Cat("value ", i));
  return {{"categorical",
           {{{"name", "job"}, {"values", {"a", "b", "c", "d", "e"}}, {"unknown", "e"}},
            {{"name", "sex"}, {"values", {"f", "m", "x"}}},
            {{"name", "city"}, {"values", forty}}}},
          {"numerical",
           {{{"name", "age"}, {"mean", 40}, {"deviation", 10}},
            {{"name", "height"}},
            {{"name", "weight"}},
            {{"name", "income"}}}}};
}

TEST(TableStacks, ColumnsHaveNamesIfTheConfigurationSaysSo) {
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    EXPECT_TRUE(MakeRandomModel(SmallTable(architecture))->info().schema.empty());
    const RandomModel model = MakeRandomModel(With(SmallTable(architecture), "columns", SmallColumns()));
    const TableSchema& schema = model->info().schema;
    ASSERT_EQ(schema.categorical.size(), 3u);
    ASSERT_EQ(schema.numerical.size(), 4u);
    EXPECT_EQ(schema.Categorical("sex"), 1);
    EXPECT_EQ(schema.Numerical("weight"), 2);
    EXPECT_EQ(schema.Categorical("weight"), -1);
    EXPECT_EQ(schema.categorical[0].IdOf("b"), 2);
    EXPECT_EQ(schema.categorical[0].IdOf("z"), 5) << "the unknown one";
    EXPECT_EQ(schema.categorical[1].IdOf("z"), std::nullopt);
    EXPECT_EQ(schema.categorical[1].IdOf(""), 0) << "missing";
    EXPECT_EQ(schema.numerical[0].Normalized(25), -1.5);
    EXPECT_EQ(schema.numerical[1].Normalized(25), 25);
    EXPECT_EQ(model->info().rows_meet, std::string(architecture) == "saint");
  }
  EXPECT_FALSE(MakeRandomModel(SaintOf("columns"))->info().rows_meet);
}

TEST(TableStacks, EveryRefusalOfColumnsNamesTheFieldTheValueAndTheLimit) {
  const auto with = [](const std::function<void(Json&)>& change) {
    Json columns = SmallColumns();
    change(columns);
    return With(SmallTable("ft-transformer"), "columns", columns);
  };
  struct Case {
    Json config;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {with([](Json& c) { c = 3; }), {"columns", "3"}},
      {with([](Json& c) { c.erase("numerical"); }), {"columns", "numerical", "4"}},
      {with([](Json& c) { c["numerical"].erase(c["numerical"].begin()); }), {"columns", "numerical", "4"}},
      {with([](Json& c) { c["categorical"] = 7; }), {"columns", "categorical", "7", "3"}},
      {with([](Json& c) { c["categorical"][1].erase("name"); }),
       {"categorical[1]", "name", "0 bytes", "256"}},
      {with([](Json& c) { c["numerical"][1]["name"] = std::string(257, 'n'); }),
       {"numerical[1]", "name", "257", "256"}},
      {with([](Json& c) { c["numerical"][1]["name"] = "sex"; }), {"name", "sex", "two columns"}},
      {with([](Json& c) { c["categorical"][2]["name"] = "sex"; }), {"name", "sex", "two columns"}},
      {with([](Json& c) { c["categorical"][1]["values"] = {"f", "m"}; }), {"categorical[1]", "values", "3"}},
      {with([](Json& c) { c["categorical"][1]["values"] = {"f", "m", 3}; }),
       {"categorical[1]", "values", "3", "text"}},
      {with([](Json& c) { c["categorical"][1]["values"] = {"f", "m", "f"}; }),
       {"categorical[1]", "values", "\"f\"", "twice"}},
      {with([](Json& c) { c["categorical"][1]["values"] = {"f", "m", ""}; }), {"values", "0 bytes"}},
      {with([](Json& c) { c["categorical"][0]["unknown"] = "z"; }), {"categorical[0]", "unknown", "z"}},
      {with([](Json& c) { c["categorical"][0]["mean"] = 1; }), {"categorical[0]", "mean"}},
      {with([](Json& c) { c["numerical"][0]["deviation"] = 0; }), {"numerical[0]", "deviation", "0"}},
      {with([](Json& c) { c["numerical"][0]["mean"] = 1e300; }), {"numerical[0]", "mean", "1e+300"}},
      {with([](Json& c) { c["numerical"][0]["values"] = {"a"}; }), {"numerical[0]", "values"}},
      {with([](Json& c) { c["rows"] = 1; }), {"columns", "rows"}},
      {With(SmallConfig("encoder", "classification"), "columns", SmallColumns()), {"columns"}},
  };
  for (const Case& c : cases) {
    for (const std::string& word : c.says) EXPECT_THAT(Refusal(c.config), HasSubstr(word));
  }
}

TEST(TableStacks, AMissingTensorIsNamed) {
  const std::pair<const char*, const char*> missing[] = {{"tab-transformer", "embed.categorical.2.weight"},
                                                         {"tab-transformer", "embed.columns.weight"},
                                                         {"tab-transformer", "numerical_norm.bias"},
                                                         {"tab-transformer", "mlp.2.weight"},
                                                         {"ft-transformer", "embed.cls"},
                                                         {"ft-transformer", "embed.numerical.bias"},
                                                         {"ft-transformer", "embed.categorical.bias"},
                                                         {"ft-transformer", "layers.0.norm2.weight"},
                                                         {"ft-transformer", "classifier.weight"},
                                                         {"saint", "embed.numerical.up.weight"},
                                                         {"saint", "embed.numerical.down.bias"},
                                                         {"saint", "layers.1.attention.q.weight"},
                                                         {"saint", "norm.weight"}};
  for (const auto& [architecture, name] : missing) {
    const Json config = SmallTable(architecture);
    std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
    ASSERT_EQ(tensors.erase(name), 1u) << name;
    const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
    ASSERT_FALSE(model.ok()) << name;
    EXPECT_THAT(model.status().message(), HasSubstr(name));
  }
}

TEST(TableStacks, TheFirstAttentionOfAnFtTransformerHasNoNorm) {
  const Json config = SmallTable("ft-transformer");
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  EXPECT_FALSE(tensors.contains("layers.0.norm1.weight"));
  EXPECT_TRUE(tensors.contains("layers.1.norm1.weight"));
  tensors["layers.0.norm1.weight"] = tensors["layers.1.norm1.weight"];
  const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("layers.0.norm1.weight"));
}

TEST(TableStacks, ANumberThatIsRaisedToNothingIsRefused) {
  const Json config = SmallTable("saint");
  std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  tensors["embed.numerical.up.weight"].shape = {4, 0};
  const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("embed.numerical.up.weight"));
}

TEST(TableStacks, AnAttentionThatTakesFewerTokensThanARowHasIsRefused) {
  Json config =
      SmallTable("ft-transformer", {{"type", "linformer"}, {"k", 3}, {"n_max", 7}, {"sharing", "headwise"}});
  const auto model = TryRandomModel(config);
  ASSERT_FALSE(model.ok());
  for (const char* word : {"layer 0", "linformer", "7"})
    EXPECT_THAT(model.status().message(), HasSubstr(word));
  for (Json& layer : config["layers"]) layer["attention"]["n_max"] = 8;
  EXPECT_TRUE(TryRandomModel(config).ok());
}

TEST(TableStacks, TellWhatServersNeed) {
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    RandomModel model = MakeRandomModel(SmallTable(architecture));
    const ModelInfo& info = model->info();
    EXPECT_EQ(info.input.ids, 3);
    EXPECT_EQ(info.input.numbers, 4);
    EXPECT_EQ(info.id_limits, (std::vector<int64_t>{6, 4, 41}));
    EXPECT_EQ(info.head, Head::kClassification);
    EXPECT_FALSE(info.pooled);
    EXPECT_EQ(info.output_width, 3);
    EXPECT_EQ(info.labels.size(), 3u);
    EXPECT_EQ(info.max_tokens, 0) << "any number of rows";
    EXPECT_EQ(info.max_global_tokens, 0);
    EXPECT_EQ(info.decode, DecodeClass::kNone);
    EXPECT_EQ(model->Answers(17, 0), 17);
  }
}

TEST(TableStacks, ATableOfManyRowsIsEachRowAlone) {
  std::mt19937 random(7);
  Threads one(1), three(3);
  const Json first_is_global = {{"type", "sliding_window"}, {"window", 2}, {"global_tokens", {0}}};
  const Json configs[] = {SmallTable("tab-transformer"),
                          SmallTable("ft-transformer"),
                          SaintOf("columns"),
                          SmallTable("ft-transformer", first_is_global),
                          With(SmallTable("tab-transformer"), "categories", Json::array()),
                          With(SmallTable("ft-transformer"), "num_numerical", 0)};
  for (const Json& config : configs) {
    for (Precision precision : kPrecisions) {
      RandomModel model = MakeRandomModel(config, precision);
      const Table table = RandomTable(model->info(), 150, random);
      const Output all = Answer(*model, table, three);
      ASSERT_EQ(all.size(), 150u * 3);
      for (int64_t r = 0; r < table.rows; ++r) {
        ASSERT_EQ(Answer(*model, table.Rows(r, 1), one), Output(all.begin() + 3 * r, all.begin() + 3 * r + 3))
            << Shown(config["architecture"]) << " " << Name(precision) << " row " << r;
      }
    }
  }
}

TEST(TableStacks, SameBitsWhateverTheCompanyAndTheThreads) {
  std::mt19937 random(9);
  Threads one(1), two(2), seven(7);
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    for (Precision precision : kPrecisions) {
      RandomModel model = MakeRandomModel(SmallTable(architecture), precision);
      std::vector<Table> tables;
      for (int64_t rows : {1, 3, 70, 2, 260}) tables.push_back(RandomTable(model->info(), rows, random));
      std::vector<Output> alone;
      for (const Table& table : tables) alone.push_back(Answer(*model, table, one));
      for (Threads* threads : {&one, &two, &seven})
        ASSERT_EQ(Answers(*model, tables, *threads), alone) << architecture << " " << Name(precision);
    }
  }
}

TEST(TableStacks, AMissingValueIsTheFirstRowOfItsTable) {
  std::mt19937 random(3);
  Threads threads(1);
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    const Json config = SmallTable(architecture);
    std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
    // In the first column a missing value is as the value 4.
    Tensor& values = tensors.at("embed.categorical.0.weight");
    std::vector<float> numbers = ToFloats(values);
    std::copy_n(numbers.begin() + 4 * values.dim(1), values.dim(1), numbers.begin());
    values = {DType::kF32, values.shape, numbers.data()};
    const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
    ASSERT_TRUE(model.ok()) << model.status();
    Table table = RandomTable((*model)->info(), 1, random), missing = table, other = table;
    table.ids[0] = 4;
    missing.ids[0] = 0;
    other.ids[0] = 3;
    const Output expected = Answer(**model, table, threads);
    EXPECT_EQ(Answer(**model, missing, threads), expected);
    EXPECT_NE(Answer(**model, other, threads), expected);
  }
}

TEST(TableStacks, RowsOfSaintMeetButInNoOrder) {
  std::mt19937 random(5);
  Threads threads(2);
  RandomModel model = MakeRandomModel(SmallTable("saint"));
  const Table a = RandomTable(model->info(), 1, random), b = RandomTable(model->info(), 1, random),
              c = RandomTable(model->info(), 1, random);
  const auto join = [](const std::vector<Table>& parts) {
    Table all;
    for (const Table& part : parts) {
      all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
      all.numbers.insert(all.numbers.end(), part.numbers.begin(), part.numbers.end());
      all.rows += part.rows;
    }
    return all;
  };
  const Output abc = Answer(*model, join({a, b, c}), threads), bca = Answer(*model, join({b, c, a}), threads),
               alone = Answer(*model, a, threads);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(abc[i], bca[6 + i], 1e-5);
    EXPECT_NEAR(abc[3 + i], bca[i], 1e-5);
  }
  double moved = 0;
  for (int i = 0; i < 3; ++i) moved = std::max<double>(moved, std::abs(abc[i] - alone[i]));
  EXPECT_GT(moved, 1e-3) << "the other rows have changed nothing";
}

TEST(TableStacks, OfNumbersAloneATabTransformerIsAPerceptronOfTheirNorm) {
  Json config = With(SmallTable("tab-transformer"), "categories", Json::array());
  config["mlp"] = {{"sizes", Json::array()}};
  const std::map<std::string, Tensor> tensors = RandomTensorsOf(config);
  EXPECT_EQ(tensors.size(), 4u) << "no layers";
  const auto model = NewNativeModel(config, *Weights::Of(tensors), {});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<float> x = {3, -1, 0.5f, 7};
  const auto of = [&](const char* name) { return ToFloats(tensors.at(name)); };
  double mean = 0, variance = 0;
  for (float v : x) mean += v / 4;
  for (float v : x) variance += (v - mean) * (v - mean) / 4;
  Threads threads(1);
  const Output scores = Answer(**model, {.numbers = x, .rows = 1}, threads);
  ASSERT_EQ(scores.size(), 3u);
  for (int label = 0; label < 3; ++label) {
    double sum = of("mlp.0.bias")[label];
    for (int j = 0; j < 4; ++j) {
      const double normed = (x[j] - mean) / std::sqrt(variance + 1e-5) * of("numerical_norm.weight")[j] +
                            of("numerical_norm.bias")[j];
      sum += of("mlp.0.weight")[label * 4 + j] * normed;
    }
    EXPECT_NEAR(scores[label], sum, 1e-5);
  }
}

TEST(TableStacks, GiveALayerBetweenTwoTurns) {
  std::mt19937 random(2);
  Threads threads(2);
  const std::pair<const char*, int> layers[] = {{"tab-transformer", 2}, {"ft-transformer", 2}, {"saint", 3}};
  for (const auto& [architecture, count] : layers) {
    RandomModel model = MakeRandomModel(SmallTable(architecture));
    Output out;
    auto sequence = model->Start();
    std::vector<Work> batch;
    batch.push_back(Asking(sequence.get(), RandomTable(model->info(), 2, random), &out));
    auto pass = model->Begin(&batch);
    for (int i = 0; i < count; ++i) EXPECT_TRUE(pass->Advance(threads)) << architecture << " " << i;
    EXPECT_TRUE(out.empty());
    EXPECT_FALSE(pass->Advance(threads)) << architecture;
    EXPECT_EQ(out.size(), 6u);
    EXPECT_EQ(sequence->tokens(), 2) << "rows of the table";
  }
}

TEST(TableStacks, AWorkThatIsDroppedLeavesTheOthersUnchanged) {
  std::mt19937 random(4);
  Threads threads(2);
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    RandomModel model = MakeRandomModel(SmallTable(architecture));
    const Table given_up = RandomTable(model->info(), 40, random),
                table = RandomTable(model->info(), 5, random);
    const Output alone = Answer(*model, table, threads);
    for (int at = 0; at < 3; ++at) {
      auto a = model->Start(), b = model->Start();
      Output dropped, kept;
      std::vector<Work> batch;
      batch.push_back(Asking(a.get(), given_up, &dropped));
      batch.push_back(Asking(b.get(), table, &kept));
      auto pass = model->Begin(&batch);
      for (int i = 0; i < at; ++i) ASSERT_TRUE(pass->Advance(threads));
      pass->Drop(0);
      while (pass->Advance(threads)) {
      }
      EXPECT_TRUE(dropped.empty());
      EXPECT_EQ(kept, alone) << architecture << " dropped after " << at;
    }
  }
}

TEST(TableStacks, HoldWhatTheyDeclare) {
  std::mt19937 random(8);
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    for (Precision precision : kPrecisions) {
      for (int64_t rows : {1, 70, 300}) {
        for (int count : {1, 3}) {
          RandomModel model = MakeRandomModel(SmallTable(architecture), precision);
          Threads threads(count);
          Output out;
          auto sequence = model->Start();
          std::vector<Work> batch;
          batch.push_back(Asking(sequence.get(), RandomTable(model->info(), rows, random), &out));
          auto pass = model->Begin(&batch);
          while (pass->Advance(threads)) {
          }
          pass.reset();
          const int64_t kept = static_cast<const Transformer&>(*model).workspaces().kept_bytes();
          const int64_t declared =
              model->WorkspaceBytes({.rows = rows, .answers = rows, .threads = count, .works = 1});
          EXPECT_LE(kept, declared) << architecture << " " << rows << " rows, " << count << " threads";
          EXPECT_GE(kept, declared * 0.9) << architecture << " " << rows << " rows, " << count << " threads";
          EXPECT_LE(MeasuredBytes(*sequence), model->StateBytes(rows));
        }
      }
    }
    RandomModel model = MakeRandomModel(SmallTable(architecture));
    EXPECT_GE(model->StateBytes(64), 64 * 3 * 2 * 32 * 4)
        << architecture << ": the keys and values of the columns are not counted";
    EXPECT_LE(model->StateBytes(100'000) - model->StateBytes(64),
              architecture == std::string("saint") ? 1e9 : 0)
        << architecture << ": rows that attend alone do so some after another";
    EXPECT_GT(model->Cost(200), 1.9 * model->Cost(100));
  }
}

TEST(TableStacks, WhatTheirAttentionsHoldIsDeclared) {
  std::mt19937 random(6);
  Threads threads(1);
  for (const char* architecture : {"tab-transformer", "ft-transformer", "saint"}) {
    for (int64_t rows : {1, 40, 1000}) {
      RandomModel model = MakeRandomModel(SmallTable(architecture));
      const Table table = RandomTable(model->info(), rows, random);
      const int64_t before = LastingMemory::Bytes();
      LastingMemory::MeasureAnew();
      Answer(*model, table, threads);
      EXPECT_LE(LastingMemory::Most() - before, model->StateBytes(rows)) << architecture << " " << rows;
    }
  }
}

// What the engine says of a golden case of one row.
std::string GoldenProblem(const Json& config, const std::vector<int64_t>& ids,
                          const std::vector<float>& numbers) {
  TempFolder folder;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : RandomTensorsOf(config))
    tensors.push_back(ToWrite(name, DType::kF32, tensor.shape, ToFloats(tensor)));
  folder.Write("config.json", config.dump());
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  folder.Write("cases.safetensors",
               SafetensorsOf({ToWrite("c0.categorical", DType::kI64, {1, std::ssize(ids)}, ids),
                              ToWrite("c0.numerical", DType::kF32, {1, std::ssize(numbers)}, numbers),
                              ToWrite("c0.logits", DType::kF32, {1, 3}, std::vector<float>(3, 1e9f))}));
  Threads threads(1);
  const auto results = CheckModelCases(folder.path(), Precision::kF32, threads);
  return results.ok() ? results->at(0).problem : std::string(results.status().message());
}

TEST(TableStacks, AGoldenCaseThatIsNoTableOfTheModelsIsAnErrorNotACrash) {
  const Json config = SmallTable("ft-transformer");
  EXPECT_THAT(GoldenProblem(config, {5, 3, 40}, {1, 2, 3, 4}), HasSubstr("whole")) << "it can be read";
  for (const char* word : {"c0.categorical", "column 1", "4 is not below 4"})
    EXPECT_THAT(GoldenProblem(config, {5, 4, 40}, {1, 2, 3, 4}), HasSubstr(word));
  EXPECT_THAT(GoldenProblem(config, {5, 3}, {1, 2, 3, 4}), HasSubstr("2 ids and 4 numbers"));
  EXPECT_THAT(GoldenProblem(config, {5, 3, 40}, {1, 2, 3}), HasSubstr("3 ids and 3 numbers"));
  EXPECT_THAT(GoldenProblem(config, {5, -1, 40}, {1, 2, 3, 4}), HasSubstr("-1"));
}

TEST(TableRows, AreJoinedSplitAndFollowedByTheirNumbers) {
  std::vector<float> tokens(12), numbers = {70, 71, 80, 81}, wide(16), cls(4), again(12);
  std::iota(tokens.begin(), tokens.end(), 0.0f);
  const MovedFrom from{.numbers = numbers, .rows = {tokens.data(), 6, 2, 2}};
  JoinRows(3).Run(from, 0, {wide.data(), 2, 8, 8});
  EXPECT_EQ(wide, (std::vector<float>{0, 1, 2, 3, 4, 5, 70, 71, 6, 7, 8, 9, 10, 11, 80, 81}));
  JoinRows(3).Run(from, 0, {cls.data(), 2, 2, 2});
  EXPECT_EQ(cls, (std::vector<float>{0, 1, 6, 7})) << "the first of each three";
  JoinRows(3).Run(from, 1, {cls.data(), 1, 2, 2});
  EXPECT_EQ(cls[1], 7) << "from the second on";
  SplitRows(3).Run({.rows = {wide.data(), 2, 6, 8}}, 0, {again.data(), 6, 2, 2});
  EXPECT_EQ(again, tokens);
  SplitRows(3).Run({.rows = {wide.data(), 2, 6, 8}}, 4, {again.data(), 1, 2, 2});
  EXPECT_EQ(again[1], 9) << "from the fifth on";
}

}  // namespace
}  // namespace heed
