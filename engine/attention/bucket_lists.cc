#include "engine/attention/bucket_lists.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace heed {
namespace {

int64_t LinkBytes(const BucketLists::Shape& shape) {
  return shape.rounds * static_cast<int64_t>(sizeof(int32_t));
}

}  // namespace

BucketLists::BucketLists(const Shape& shape)
    : shape_(shape),
      pages_(shape.type, shape.head_dim, LinkBytes(shape)),
      lists_(shape.rounds * shape.buckets * sizeof(List)) {
  std::fill_n(lists_.as<List>(), lists_.size() / sizeof(List), List());
}

int64_t BucketLists::Bytes(const Shape& shape, int64_t tokens) {
  return TokenPages::Bytes(shape.type, shape.head_dim, LinkBytes(shape), tokens) +
         shape.rounds * shape.buckets * static_cast<int64_t>(sizeof(List));
}

void BucketLists::Link(int64_t round, std::span<const int32_t> buckets) {
  int32_t token = static_cast<int32_t>(pages_.tokens() - std::ssize(buckets));
  for (const int32_t bucket : buckets) {
    List* list = At(round, bucket);
    Links(token)[round] = std::exchange(list->newest, token);
    ++list->count;
    ++token;
  }
}

void BucketLists::Archive(StateArchive& archive, int64_t tokens) {
  pages_.Archive(archive, tokens);
  archive.Bytes(lists_, static_cast<int64_t>(lists_.size()));
  if (archive.restoring() && archive.status().ok() && !Consistent())
    archive.Fail(Invalid("the state's lists of tokens are broken"));
}

bool BucketLists::Consistent() const {
  for (int64_t round = 0; round < shape_.rounds; ++round) {
    if (!Consistent(round)) return false;
  }
  return true;
}

// Every list is as long as it says, and each token is in one list.
bool BucketLists::Consistent(int64_t round) const {
  int64_t sum = 0;
  for (int32_t bucket = 0; bucket < shape_.buckets; ++bucket) {
    const List list = *At(round, bucket);
    if (list.count < 0 || (sum += list.count) > pages_.tokens()) return false;
    int64_t token = list.newest, above = pages_.tokens();
    for (int32_t i = 0; i < list.count; ++i) {
      if (token < 0 || token >= above) return false;
      above = std::exchange(token, Previous(round, token));
    }
    if (token != -1) return false;
  }
  return sum == pages_.tokens();
}

}  // namespace heed
