// What makes the rows of a set of those of another, or of what a request brings, where that is not row by
// row: rows are pooled, repeated, merged, joined. Nothing is computed in it but sums: products are RowSteps'
// affair.
#ifndef HEED_ENGINE_MODELS_ROW_MOVE_H_
#define HEED_ENGINE_MODELS_ROW_MOVE_H_

#include <cstdint>
#include <span>

#include "engine/tensor/tensor.h"

namespace heed {

// What is one sequence's.
struct MovedFrom {
  std::span<const int32_t> ids;    // of its input, all rows of it
  std::span<const float> numbers;  // the same
  Matrix<const float> rows;        // of the set that is read: its residual stream
  int64_t columns = 0;             // of these where they are an image's
  // Of earlier passes: how many rows the input had, the newest of their ids, and the newest rows of the set
  // that is read, if the stack keeps such.
  int64_t first = 0;
  std::span<const int32_t> ids_before{};
  Matrix<const float> rows_before{};
};

// Const and thread-safe.
class RowMove {
 public:
  virtual ~RowMove() = default;
  // Writes (or adds to) rows first, first + 1, ... of the sequence in the set.
  virtual void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const = 0;
};

// The numbers of the input's rows, into the set's; its first `front` rows have none.
class TakeNumbers : public RowMove {
 public:
  explicit TakeNumbers(int64_t front = 0) : front_(front) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

 private:
  int64_t front_;
};

// The set's rows as they are: its own first ones or, `behind`, those behind as many as the input has.
class TakeRows : public RowMove {
 public:
  explicit TakeRows(bool behind) : behind_(behind) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

 private:
  bool behind_;
};

// Each row with its neighbours, `kernel` rows side by side, itself in the middle; zeros beyond the ends. Of a
// set whose rows come whole.
class TakeNeighbours : public RowMove {
 public:
  explicit TakeNeighbours(int64_t kernel) : kernel_(kernel) {}
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;

 private:
  int64_t kernel_;
};

// Adds the other set's rows, as many of their columns as there are.
class AddToRows : public RowMove {
 public:
  void Run(const MovedFrom& from, int64_t first, Matrix<float> to) const override;
};

}  // namespace heed

#endif  // HEED_ENGINE_MODELS_ROW_MOVE_H_
