#include "engine/weights/tensor_view.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "a": [[0, 1], [2, 3], ..., [22, 23]]; "row": [5, 6].
struct File {
  std::vector<float> numbers = std::vector<float>(24);
  std::vector<float> row = {5, 6};
  std::unique_ptr<Weights> weights;

  File() {
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    weights = Weights::Of(
        {{"a", {DType::kF32, {12, 2}, numbers.data()}}, {"row", {DType::kF32, {1, 2}, row.data()}}});
  }
  std::vector<float> Numbers(const ViewedTensor& viewed) const { return ToFloats(*viewed.Make(*weights)); }
  std::vector<int64_t> Shape(const ViewedTensor& viewed) const { return viewed.Make(*weights)->shape; }
  std::string Error(const ViewedTensor& viewed) const {
    return std::string(viewed.Make(*weights).status().message());
  }
};

TEST(ViewedTensor, RowsAreWhereTheFileHasThem) {
  const File file;
  const Tensor rows = *ViewedTensor("a").Rows(3, 2).Make(*file.weights);
  EXPECT_EQ(rows.data, file.numbers.data() + 6);
  EXPECT_EQ(rows.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_THAT(file.Numbers(ViewedTensor("a").RowsFrom(11)), ElementsAre(22, 23));
}

TEST(ViewedTensor, APartOfGroupsIsTakenFromEach) {
  const File file;
  // Two groups of six rows, each a query's four, a key's one, a value's one.
  EXPECT_THAT(file.Numbers(ViewedTensor("a").PartOfGroups(2, {4, 1, 1}, 1)), ElementsAre(8, 9, 20, 21));
  EXPECT_EQ(file.Shape(ViewedTensor("a").PartOfGroups(2, {4, 1, 1}, 0)), (std::vector<int64_t>{8, 2}));
  EXPECT_THAT(file.Error(ViewedTensor("a").PartOfGroups(5, {1, 1, 1}, 0)), HasSubstr("5 groups of 3 parts"));
}

TEST(ViewedTensor, GroupsAreWidenedWithZeros) {
  const File file;
  const ViewedTensor four = ViewedTensor("a").Rows(0, 4);
  EXPECT_THAT(file.Numbers(four.WidenedGroups(2, 3)), ElementsAre(0, 1, 2, 3, 0, 0, 4, 5, 6, 7, 0, 0));
  EXPECT_EQ(file.Shape(four.WidenedGroups(2, 3)), (std::vector<int64_t>{6, 2}));
  EXPECT_THAT(file.Numbers(four.WidenedGroups(4, 1)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(file.Error(four.WidenedGroups(2, 1)), HasSubstr("2 groups of 1 at most"));
  EXPECT_THAT(file.Error(four.WidenedGroups(3, 9)), HasSubstr("3 groups of 9 at most"));
}

TEST(ViewedTensor, AGridsPlacesHaveTheRowsOfItsAxes) {
  const File file;
  const ViewedTensor row = ViewedTensor("row").Shaped({2, 1}), two = ViewedTensor("a").Rows(0, 3);
  EXPECT_THAT(file.Numbers(ViewedTensor::OfGrid({row, two})),
              ElementsAre(5, 0, 1, 5, 2, 3, 5, 4, 5, 6, 0, 1, 6, 2, 3, 6, 4, 5));
  EXPECT_EQ(file.Shape(ViewedTensor::OfGrid({row, two})), (std::vector<int64_t>{6, 3}));
  EXPECT_THAT(file.Error(ViewedTensor::OfGrid({row, ViewedTensor("a").Shaped({24})})),
              HasSubstr("no table of a grid's axis"));
}

TEST(ViewedTensor, AMatrixIsTransposed) {
  const File file;
  const ViewedTensor transposed = ViewedTensor("a").Rows(0, 3).Transposed();
  EXPECT_THAT(file.Numbers(transposed), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_EQ(file.Shape(transposed), (std::vector<int64_t>{2, 3}));
  EXPECT_THAT(file.Error(ViewedTensor("a").Shaped({24}).Transposed()), HasSubstr("no matrix"));
}

TEST(ViewedTensor, StepsFollowOneAnother) {
  const File file;
  EXPECT_THAT(file.Numbers(ViewedTensor("row").Plus(1).Times(2)), ElementsAre(12, 14));
  EXPECT_EQ(file.Shape(ViewedTensor("a").Shaped({3, -1})), (std::vector<int64_t>{3, 8}));
  EXPECT_THAT(file.Error(ViewedTensor("a").Shaped({5, -1})), HasSubstr("cannot be read as"));
}

TEST(ViewedTensor, ColumnsOfAMatrixAreMultiplied) {
  const File file;
  const ViewedTensor matrix = ViewedTensor("a").Rows(0, 3);
  EXPECT_THAT(file.Numbers(matrix.TimesColumns(ViewedTensor("row").Shaped({2}))),
              ElementsAre(0, 6, 10, 18, 20, 30));
  EXPECT_EQ(matrix.TimesColumns(ViewedTensor("row").Shaped({2})).names(),
            (std::vector<std::string>{"a", "row"}));
  EXPECT_THAT(file.Error(ViewedTensor("a").Transposed().TimesColumns(ViewedTensor("row").Shaped({2}))),
              HasSubstr("has not columns for factors of shape [2]"));
}

TEST(ViewedTensor, RowsAreSummed) {
  const File file;
  EXPECT_THAT(file.Numbers(ViewedTensor("a").Rows(0, 3).RowSums()), ElementsAre(1, 5, 9));
  EXPECT_EQ(file.Shape(ViewedTensor("a").RowSums()), std::vector<int64_t>{12});
  EXPECT_THAT(file.Error(ViewedTensor("a").Shaped({24}).RowSums()), HasSubstr("is no matrix"));
}

TEST(ViewedTensor, MayBeZerosOfNoFile) {
  const File file;
  EXPECT_THAT(file.Numbers(ViewedTensor::Zeros({2, 2})), ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(ViewedTensor::Zeros({2, 2}).names().empty());
}

TEST(ViewedTensor, AMatrixOfSeveralIsTakenOut) {
  const File file;
  const ViewedTensor matrices = ViewedTensor("a").Shaped({3, 4, 2});
  EXPECT_THAT(file.Numbers(matrices.MatrixOf(2).Rows(0, 1)), ElementsAre(16, 17));
  EXPECT_EQ(file.Shape(matrices.MatrixOf(0)), (std::vector<int64_t>{4, 2}));
  EXPECT_THAT(file.Error(matrices.MatrixOf(3)), HasSubstr("has no rows 3 .. 3"));
  EXPECT_THAT(file.Error(ViewedTensor("a").MatrixOf(0)), HasSubstr("three dimensions"));
}

TEST(ViewedTensor, RowsAreJoined) {
  const File file;
  const ViewedTensor joined = ViewedTensor::Joined({ViewedTensor("row"), ViewedTensor("a").Rows(1, 1)});
  EXPECT_THAT(file.Numbers(joined), ElementsAre(5, 6, 2, 3));
  EXPECT_THAT(joined.names(), ElementsAre("row", "a"));
  EXPECT_THAT(file.Error(ViewedTensor::Joined({ViewedTensor("row"), ViewedTensor("a").Shaped({8, 3})})),
              HasSubstr("cannot be joined"));
}

TEST(TensorView, AScopeReadsTheModelsNamesAndTellsTheFiles) {
  const File file;
  TensorView view;
  view.Add("layers.0.q.weight", ViewedTensor("a").Rows(0, 2));
  view.Add("layers.0.k.weight", std::string("missing"));
  const WeightScope scope(*file.weights, &view);
  EXPECT_EQ(scope.Get("layers.0.q.weight", {2, 2})->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_FALSE(scope.Has("layers.0.k.weight"));
  EXPECT_THAT(scope.Get("layers.0.k.weight", {2, 2}).status().message(),
              HasSubstr("tensor \"missing\" (layers.0.k.weight) of shape [2, 2] is missing"));
  EXPECT_THAT(scope.Get("layers.0.q.weight", {3, 2}).status().message(),
              HasSubstr("tensor \"a\" (layers.0.q.weight) has shape [2, 2], not [3, 2]"));
}

TEST(TensorView, ATensorThatNobodyAskedForIsRefusedUnlessItIsIgnored) {
  const File file;
  TensorView view;
  view.Add("q.weight", std::string("a"));
  const WeightScope scope(*file.weights, &view);
  EXPECT_TRUE(scope.Get("q.weight", {12, 2}).ok());
  EXPECT_THAT(scope.AllUsed().message(), HasSubstr("\"row\""));
  view.Ignore("*ow");
  EXPECT_TRUE(scope.AllUsed().ok());
  EXPECT_TRUE(view.Ignores("elbow"));
  EXPECT_FALSE(view.Ignores("rows"));
}

}  // namespace
}  // namespace heed
