// CSV files: what is a cell, what a row is by a model's columns, what is told of files that are wrong; and
// heed classify --csv.
#include "client/cli/csv.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Records = std::vector<std::vector<std::string>>;

absl::StatusOr<Records> Read(const std::string& text) {
  std::istringstream in(text);
  CsvReader reader(&in, "t.csv");
  Records records;
  for (;;) {
    ASSIGN_OR_RETURN(const auto record, reader.Next());
    if (!record) return records;
    records.push_back(*record);
  }
}

TEST(Csv, CellsStandBetweenCommas) {
  EXPECT_THAT(*Read("a,b\nc,d\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(*Read("a,b"), ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(*Read("a, b c ,\t\n"), ElementsAre(ElementsAre("a", "b c", "")));
  EXPECT_THAT(*Read(",\n,"), ElementsAre(ElementsAre("", ""), ElementsAre("", "")));
  EXPECT_THAT(*Read("a,b\r\nc,d\r\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(*Read(""), IsEmpty());
}

TEST(Csv, QuotesKeepCommasLineEndsAndSpace) {
  EXPECT_THAT(*Read("\"a,b\", \" c \" ,\"\"\n"), ElementsAre(ElementsAre("a,b", " c ", "")));
  EXPECT_THAT(*Read("\"say \"\"hi\"\"\",\"two\nlines\"\r\nx,y"),
              ElementsAre(ElementsAre("say \"hi\"", "two\nlines"), ElementsAre("x", "y")));
  EXPECT_THAT(*Read("5\" pipe,b"), ElementsAre(ElementsAre("5\" pipe", "b")));
}

TEST(Csv, EmptyLinesAreLeftOut) {
  EXPECT_THAT(*Read("\n \na,b\n\n\nc,d\n\n"), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
}

TEST(Csv, AByteOrderMarkIsNoPartOfTheFirstCell) {
  EXPECT_THAT(*Read("\xEF\xBB\xBF\"a\",b\n"), ElementsAre(ElementsAre("a", "b")));
  EXPECT_THAT(*Read("\xEF\xBB\xBF"), IsEmpty());
  EXPECT_THAT(*Read("\xEF\xBC\x81,b"), ElementsAre(ElementsAre("\xEF\xBC\x81", "b")));
}

TEST(Csv, WhatIsWrongIsToldWithItsLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"a,b\n\"c,d\ne,f\n", "t.csv:2: a quote that is not closed"},
      {"a,b\n\"c\nd\" e,f\n", "t.csv:3: text follows a quoted cell"},
      {"a,b\nc,\xff\n", "t.csv:2: not valid UTF-8"},
      {std::string(2 << 20, 'x'), "t.csv:1: a record of more than 1048576 bytes"},
      {std::string(2 << 20, ','), "t.csv:1: a record of more than 1048576 bytes"},
      {"\"" + std::string(2 << 20, '\n'), "t.csv:1: a record of more than 1048576 bytes"},
  };
  for (const auto& [text, message] : cases) {
    const auto read = Read(text);
    ASSERT_FALSE(read.ok()) << message;
    EXPECT_THAT(read.status().message(), HasSubstr(message));
  }
}

// ------------------------------------------------------------------------------------------------- the
// command

void DescribePeople(v1::ModelDescription& model, bool rows_meet = false) {
  model.set_model("people");
  v1::TableInput& table = *model.mutable_table_input();
  table.add_categorical()->set_name("job");
  table.add_numerical()->set_name("age");
  table.set_rows_meet(rows_meet);
}

// A server of people, that says of each row what its job is.
void ServePeople(FakeServer& server, std::vector<v1::ClassifyRequest>* sent, bool rows_meet = false) {
  server.describe_model = [rows_meet](auto&, auto&, v1::ModelDescription& model) {
    DescribePeople(model, rows_meet);
    return grpc::Status::OK;
  };
  server.classify = [sent](auto&, const v1::ClassifyRequest& request, v1::ClassifyResponse& response) {
    sent->push_back(request);
    const auto label = [](const v1::Row& row, v1::LabelScore& out) {
      out.set_label(row.categories().count("job") > 0 ? row.categories().at("job") : "none");
      out.set_score(0.5);
    };
    for (const v1::Input& input : request.inputs()) {
      v1::Classification& value = *response.add_results()->mutable_value();
      if (input.has_row()) label(input.row(), *value.add_labels());
      for (const v1::Row& row : input.table().rows()) label(row, *value.add_rows()->add_labels());
    }
    return grpc::Status::OK;
  };
}

TEST(ClassifyCsv, AnswersEachRowInALine) {
  FakeServer server;
  std::vector<v1::ClassifyRequest> sent;
  ServePeople(server, &sent);
  const Outcome run = RunAt(server, {"classify", "--model=people", "--csv=-", "--skip-column=id"},
                            "age, id, job\n40,1,clerk\n\n,2,\"a, b\"\n-1.5e1,3,\n");
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(run.out,
            "clerk 0.5000  standard input:2\na, b 0.5000  standard input:4\nnone 0.5000  standard input:5\n");
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].inputs_size(), 3);
  EXPECT_EQ(sent[0].target().model(), "people");
  EXPECT_EQ(sent[0].inputs(0).row().numbers().at("age"), 40);
  EXPECT_EQ(sent[0].inputs(1).row().numbers().size(), 0u) << "missing";
  EXPECT_EQ(sent[0].inputs(1).row().categories().at("job"), "a, b");
  EXPECT_EQ(sent[0].inputs(2).row().numbers().at("age"), -15);
  EXPECT_EQ(sent[0].inputs(2).row().categories().size(), 0u) << "missing";
}

TEST(ClassifyCsv, RowsThatMeetAreSentTogether) {
  FakeServer server;
  std::vector<v1::ClassifyRequest> sent;
  ServePeople(server, &sent, /*rows_meet=*/true);
  std::string text = "job,age\n", answers;
  for (int i = 0; i < 100; ++i) {
    text += Cat("job ", i, ",", i, "\n");
    answers += Cat("job ", i, " 0.5000  standard input:", i + 2, "\n");
  }
  const Outcome run = RunAt(server, {"classify", "--csv=-"}, text);
  EXPECT_EQ(run.exit, kDone) << run.err;
  EXPECT_EQ(run.out, answers);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].inputs_size(), 1);
  EXPECT_EQ(sent[0].inputs(0).table().rows_size(), 100);
}

TEST(ClassifyCsv, AFileThatIsWrongIsToldWithItsLine) {
  FakeServer server;
  std::vector<v1::ClassifyRequest> sent;
  ServePeople(server, &sent);
  const std::pair<std::string, std::string> cases[] = {
      {"", "standard input: no header, which names the columns job, age"},
      {"age,id,job\n", "standard input:1: the model has no column \"id\", it has job, age; --skip_column"},
      {"age,job,age\n", "standard input:1: the column \"age\" is there twice"},
      {"age\n1\n", "standard input:1: the column \"job\" of the model is missing"},
      {"age,job\n1,a\n2\n", "standard input:3: 1 cells, the header has 2"},
      {"age,job\n1,a\nforty,b\n", "standard input:3: in column \"age\" stands \"forty\", which is no number"},
      {"age,job\ninf,b\n", "standard input:2: in column \"age\" stands \"inf\", which is no number"},
      {"age,job\n1,\"a\n", "standard input:2: a quote that is not closed"},
  };
  for (const auto& [text, message] : cases) {
    const Outcome run = RunAt(server, {"classify", "--csv=-"}, text);
    EXPECT_EQ(run.exit, kFailed);
    EXPECT_THAT(run.err, HasSubstr(message));
  }
  EXPECT_THAT(sent, IsEmpty());
  const Outcome empty = RunAt(server, {"classify", "--csv=-"}, "age,job\n");
  EXPECT_EQ(empty.exit, kDone);
  EXPECT_EQ(empty.err, "heed: no row to answer: the input is empty\n");
  EXPECT_THAT(RunAt(server, {"classify", "--csv=/nowhere/people.csv"}).err,
              HasSubstr("/nowhere/people.csv: No such file"));
  const Outcome both = RunAt(server, {"classify", "--csv=-", "text"});
  EXPECT_EQ(both.exit, kUsage);
  EXPECT_THAT(both.err, HasSubstr("--csv"));
}

TEST(ClassifyCsv, AModelThatReadsNoTablesSaysSo) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    model.set_model("polarity");
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"classify", "--csv=-"}, "age\n1\n");
  EXPECT_EQ(run.exit, kFailed);
  EXPECT_THAT(run.err, HasSubstr("'polarity' reads no tables"));
}

}  // namespace
}  // namespace heed::cli
