// Inputs that are rows of tables, by the names of their columns. Real (small, random) models answer over a
// real socket what the engine says of the ids and numbers that the rows mean.
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/service/cases.h"
#include "tests/testing/random_model.h"

namespace heed {
namespace {

constexpr int64_t kLongest = 20;  // rows of a table, by the server's limit

// job: clerk 1, farmer 2, other 3, also for all that is unknown; sex: f 1, m 2. age and hours are normalised.
Json Columns() {
  return {{"categorical",
           {{{"name", "job"}, {"values", {"clerk", "farmer", "other"}}, {"unknown", "other"}},
            {{"name", "sex"}, {"values", {"f", "m"}}}}},
          {"numerical",
           {{{"name", "age"}, {"mean", 40}, {"deviation", 10}}, {{"name", "hours"}, {"deviation", 0.5}}}}};
}

Json PeopleConfig(const std::string& architecture) {
  Json layer = {{"attention", {{"type", "full"}}}, {"ffn", {{"type", "dense"}}}};
  Json config = {{"model_type", "heed"},    {"architecture", architecture},
                 {"categories", {3, 2}},    {"num_numerical", 2},
                 {"columns", Columns()},    {"hidden_size", 16},
                 {"num_labels", 3},         {"num_attention_heads", 2},
                 {"intermediate_size", 32}, {"layers", Json::array({layer})}};
  if (architecture == "ft-transformer") return config;
  config["mlp"] = {{"sizes", {8}}, {"act", "relu"}};
  config["layers"] = {layer, layer};
  config["layers"][0]["axis"] = "columns";
  config["layers"][1]["axis"] = "rows";
  return config;
}

Json Nameless() {
  Json config = PeopleConfig("ft-transformer");
  config.erase("columns");
  return config;
}

std::unique_ptr<World> TablesWorld() {
  const std::map<std::string, Json> configs = {{"people", PeopleConfig("ft-transformer")},
                                               {"together", PeopleConfig("saint")},
                                               {"nameless", Nameless()}};
  World::Models models;
  for (const auto& [name, config] : configs)
    models[name] = [config] { return LoadedModel{.model = MakeRandomModel(config).model}; };
  return World::Ready(std::move(models), [](config::v1::ServerConfig& config) {
    config.mutable_limits()->set_tokens(kLongest);
  });
}

v1::Row RowOf(const std::map<std::string, std::string>& categories,
              const std::map<std::string, double>& numbers) {
  v1::Row row;
  row.mutable_categories()->insert(categories.begin(), categories.end());
  row.mutable_numbers()->insert(numbers.begin(), numbers.end());
  return row;
}

v1::Row Clerk() { return RowOf({{"job", "clerk"}, {"sex", "m"}}, {{"age", 25}, {"hours", 1.5}}); }
v1::Row Farmer() { return RowOf({{"job", "farmer"}, {"sex", "f"}}, {{"age", 62}, {"hours", -2}}); }

v1::Input Alone(const v1::Row& row) {
  v1::Input input;
  *input.mutable_row() = row;
  return input;
}

v1::Input TableOf(const std::vector<v1::Row>& rows) {
  v1::Input input;
  input.mutable_table();
  for (const v1::Row& row : rows) *input.mutable_table()->add_rows() = row;
  return input;
}

// What the engine answers to rows of ids and numbers.
std::vector<std::vector<float>> Expected(const std::string& architecture, std::vector<int32_t> ids,
                                         std::vector<float> numbers) {
  const RandomModel model = MakeRandomModel(PeopleConfig(architecture));
  const auto sequence = model->Start();
  std::vector<std::vector<float>> outputs;
  std::vector<Work> batch(1);
  Work& work = batch[0];
  work.sequence = sequence.get();
  work.wanted.resize(ids.size() / 2);
  std::iota(work.wanted.begin(), work.wanted.end(), 0);
  work.tokens = std::move(ids);
  work.numbers = std::move(numbers);
  work.read = [&](int32_t, std::span<const float> row) { outputs.emplace_back(row.begin(), row.end()); };
  Threads threads(1);
  const auto pass = model->Begin(&batch);
  while (pass->Advance(threads)) {
  }
  return outputs;
}

v1::ClassifyRequest Asking(const std::string& model, const std::vector<v1::Input>& inputs) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_model(model);
  request.mutable_options()->set_raw_scores(true);
  for (const v1::Input& input : inputs) *request.add_inputs() = input;
  return request;
}

v1::ClassifyResponse Classified(World& world, const v1::ClassifyRequest& request) {
  v1::ClassifyResponse response;
  const grpc::Status status = world.inference()->Classify(NewContext().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

// By the labels' index.
template <typename Message>
std::vector<float> ScoresOf(const Message& message) {
  std::vector<float> scores(message.labels_size());
  for (const v1::LabelScore& label : message.labels()) scores.at(label.index()) = label.score();
  return scores;
}

std::vector<std::vector<float>> RowScoresOf(const v1::Classification& value) {
  std::vector<std::vector<float>> scores;
  for (const v1::ClassifiedRow& row : value.rows()) scores.push_back(ScoresOf(row));
  return scores;
}

TEST(Tables, RowsAreClassifiedAsTheirIdsAndNormalisedNumbers) {
  auto world = TablesWorld();
  const v1::ClassifyResponse response =
      Classified(*world, Asking("people", {Alone(Clerk()), Alone(Farmer())}));
  const auto expected = Expected("ft-transformer", {1, 2, 2, 1}, {-1.5, 3, 2.2f, -4});
  ASSERT_EQ(response.results_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const v1::Classification& value = response.results(i).value();
    EXPECT_EQ(ScoresOf(value), expected[i]);
    EXPECT_EQ(value.rows_size(), 0);
    EXPECT_EQ(value.usage().input_tokens(), 1);
  }
}

TEST(Tables, WhatIsLeftOutOrEmptyIsMissing) {
  auto world = TablesWorld();
  const std::vector<v1::Input> inputs = {Alone(RowOf({{"job", "farmer"}}, {{"hours", -2}})),
                                         Alone(RowOf({{"job", "farmer"}, {"sex", ""}}, {{"hours", -2}}))};
  const auto expected = Expected("ft-transformer", {2, 0}, {0, -4});
  const v1::ClassifyResponse response = Classified(*world, Asking("people", inputs));
  ASSERT_EQ(response.results_size(), 2);
  for (const auto& result : response.results()) EXPECT_EQ(ScoresOf(result.value()), expected[0]);
}

TEST(Tables, AnUnknownValueIsTheOneThatStandsForSuch) {
  auto world = TablesWorld();
  const auto expected = Expected("ft-transformer", {3, 1}, {0, 0});
  const v1::Input input = Alone(RowOf({{"job", "astronaut"}, {"sex", "f"}}, {}));
  EXPECT_EQ(ScoresOf(Classified(*world, Asking("people", {input})).results(0).value()), expected[0]);
}

TEST(Tables, EachRowOfATableHasAnAnswer) {
  auto world = TablesWorld();
  const std::vector<int32_t> ids = {1, 2, 2, 1, 1, 2};
  const std::vector<float> numbers = {-1.5, 3, 2.2f, -4, -1.5, 3};
  const std::pair<std::string, std::string> models[] = {{"people", "ft-transformer"}, {"together", "saint"}};
  for (const auto& [model, architecture] : models) {
    const v1::ClassifyResponse response = Classified(
        *world, Asking(model, {Alone(Clerk()), TableOf({Clerk(), Farmer(), Clerk()}), TableOf({Farmer()})}));
    ASSERT_EQ(response.results_size(), 3);
    const v1::Classification& value = response.results(1).value();
    EXPECT_EQ(RowScoresOf(value), Expected(architecture, ids, numbers)) << model;
    EXPECT_EQ(value.labels_size(), 0);
    EXPECT_EQ(value.usage().input_tokens(), 3);
    const bool meet = model == "together";
    EXPECT_EQ(RowScoresOf(value)[0] == ScoresOf(response.results(0).value()), !meet) << model;
  }
}

TEST(Tables, OptionsAreOfEachRow) {
  auto world = TablesWorld();
  v1::ClassifyRequest request = Asking("people", {TableOf({Clerk(), Farmer()})});
  request.mutable_options()->set_raw_scores(false);
  request.mutable_options()->set_top(2);
  const v1::Classification value = Classified(*world, request).results(0).value();
  ASSERT_EQ(value.rows_size(), 2);
  for (const v1::ClassifiedRow& row : value.rows()) {
    ASSERT_EQ(row.labels_size(), 2);
    EXPECT_GE(row.labels(0).score(), row.labels(1).score());
    EXPECT_GT(row.labels(1).score(), 0);
    EXPECT_LT(row.labels(0).score(), 1);
  }
}

struct BadTable {
  v1::Input input;
  std::string reason, field;  // after "inputs[0]"
  std::string message;
};

std::vector<BadTable> BadTables() {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  v1::Input text, vectors;
  text.set_text("clerk");
  vectors.mutable_vectors()->set_size(2);
  return {
      {Alone({}), "INPUT_EMPTY", ".row", "no column"},
      {Alone(RowOf({}, {{"weight", 80}})), "INVALID_VALUE", ".row.numbers",
       "the model has no column \"weight\""},
      {Alone(RowOf({}, {{"job", 3}})), "INVALID_VALUE", ".row.numbers", "\"job\" is not numerical"},
      {Alone(RowOf({{"age", "40"}}, {})), "INVALID_VALUE", ".row.categories", "\"age\" is not categorical"},
      {Alone(RowOf({{std::string(1 << 16, 'x'), "y"}}, {})), "INVALID_VALUE", ".row.categories",
       "the model has no column \"xxx"},
      {Alone(RowOf({{"sex", "x"}}, {})), "INVALID_VALUE", ".row.categories",
       "\"sex\" has the value \"x\", which is none of its 2 values"},
      {Alone(RowOf({}, {{"age", nan}})), "INVALID_VALUE", ".row.numbers", "nan"},
      {Alone(RowOf({}, {{"age", -infinity}})), "INVALID_VALUE", ".row.numbers", "-inf"},
      {Alone(RowOf({}, {{"hours", 3e38}})), "INVALID_VALUE", ".row.numbers", "not finite as a float"},
      {TableOf({}), "INPUT_EMPTY", ".table", "no rows"},
      {TableOf({Clerk(), {}}), "INPUT_EMPTY", ".table.rows[1]", "no column"},
      {TableOf({Clerk(), Farmer(), RowOf({{"sex", "x"}}, {})}), "INVALID_VALUE", ".table.rows[2].categories",
       "none of its 2 values"},
      {TableOf(std::vector<v1::Row>(kLongest + 1, Clerk())), "INPUT_TOO_LONG", ".table",
       "the input has 21 rows, 'people' reads at most 20"},
      {text, "INPUT_KIND_UNSUPPORTED", ".text", "it reads row, table"},
      {vectors, "INPUT_KIND_UNSUPPORTED", ".vectors", "it reads row, table"},
      {TokensOf({1}), "INPUT_KIND_UNSUPPORTED", ".tokens", "it reads row, table"},
  };
}

TEST(Tables, ThatAreWrongAreToldWhy) {
  auto world = TablesWorld();
  for (const BadTable& bad : BadTables()) {
    SCOPED_TRACE(bad.message);
    ExpectTold(Ask(*world, Asking("people", {bad.input})).status,
               {.reason = bad.reason, .field = Cat("inputs[0]", bad.field), .message = bad.message});
  }
  EXPECT_TRUE(Ask(*world, Asking("people", {Alone(Clerk())})).Answered(0));
}

TEST(Tables, RowsThatNameLittleOfVeryManyColumnsAreCountedByTheCell) {
  Json wide = PeopleConfig("ft-transformer");
  wide.erase("categories");
  wide["num_numerical"] = 60'000;
  wide["columns"] = {{"numerical", Json::array()}};
  for (int i = 0; i < 60'000; ++i) wide["columns"]["numerical"].push_back({{"name", Cat("n", i)}});
  auto world = World::Ready({{"wide", [&] { return LoadedModel{.model = MakeRandomModel(wide).model}; }}});
  const v1::Input table = TableOf(std::vector<v1::Row>(280, RowOf({}, {{"n7", 1}})));
  ExpectTold(Ask(*world, Asking("wide", {table})).status,
             {.reason = "INPUT_TOO_LONG",
              .field = "inputs[0].table",
              .message = "the table has 280 rows of 60000 columns, 16777216 cells are read at most"});
}

TEST(Tables, OfAModelWhoseColumnsHaveNoNamesAreNotRead) {
  auto world = TablesWorld();
  ExpectTold(Ask(*world, Asking("nameless", {Alone(Clerk())})).status,
             {.reason = "RPC_UNSUPPORTED", .field = "target.model", .message = "none of heed.v1.Inference"});
}

TEST(Tables, ADescriptionTellsTheSchema) {
  auto world = TablesWorld();
  const auto describe = [&](const std::string& model) { return DescriptionOf(*world, model); };
  const v1::ModelDescription people = describe("people");
  EXPECT_THAT(people.inputs(), testing::ElementsAre(v1::INPUT_KIND_ROW, v1::INPUT_KIND_TABLE));
  EXPECT_EQ(people.table_input().ShortDebugString(),
            "categorical { name: \"job\" values: \"clerk\" values: \"farmer\" values: \"other\" unknown: "
            "\"other\" } "
            "categorical { name: \"sex\" values: \"f\" values: \"m\" } "
            "numerical { name: \"age\" mean: 40 deviation: 10 } "
            "numerical { name: \"hours\" deviation: 0.5 }");
  EXPECT_TRUE(describe("together").table_input().rows_meet());
  EXPECT_EQ(describe("nameless").inputs_size(), 0);
}

}  // namespace
}  // namespace heed
