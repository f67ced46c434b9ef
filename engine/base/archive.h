// State to bytes and back. An object describes its state once, in Archive(StateArchive&), and the same
// description measures, saves and restores it:
//   void Run::Archive(StateArchive& a) { a.Number(length_); a.Bytes(keys_, KeyBytes(length_)); }
// A whole state begins with its origin, so that no other model takes it for its own. When restoring, sizes
// read come from outside: what does not fit is an error, never a crash.
#ifndef HEED_ENGINE_BASE_ARCHIVE_H_
#define HEED_ENGINE_BASE_ARCHIVE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/base/memory.h"

namespace heed {

// What a state is of: only the same can go on with it.
struct StateOrigin {
  std::string model;      // a fingerprint of its configuration and weights
  std::string precision;  // that it computes in, and keeps
};

class StateArchive {
 public:
  // Of all that is archived anywhere: goes up whenever any of it changes.
  static constexpr int64_t kFormat = 2;

  static StateArchive Measuring();                        // counts bytes of memory held
  static StateArchive Saving(std::string* out);           // appends
  static StateArchive Restoring(std::string_view bytes);  // reads

  bool measuring() const { return mode_ == Mode::kMeasure; }
  bool restoring() const { return mode_ == Mode::kRestore; }

  // The state's first bytes. Restoring: refuses a state of another format, model or precision, and names
  // both. Measures nothing: they are the bytes', not the memory's.
  void Origin(const StateOrigin& own);
  // Restoring: refuses a value outside [min, max], and then leaves `value` as it was.
  void Number(int64_t& value, int64_t min, int64_t max);
  // A buffer of which the first `used` bytes are saved; measuring counts the whole of it. Restoring: the
  // buffer must already have its size (Number() first). After a failure nothing is read any more.
  void Bytes(Buffer& buffer, int64_t used);
  void Bytes(void* data, int64_t size);

  void Fail(absl::Status status);
  // OK unless something failed; when restoring, also an error if bytes are left.
  absl::Status Finish();
  const absl::Status& status() const { return status_; }
  int64_t measured() const { return measured_; }

 private:
  enum class Mode { kMeasure, kSave, kRestore };
  explicit StateArchive(Mode mode) : mode_(mode) {}
  std::string Text(std::string text);
  Mode mode_;
  int64_t measured_ = 0;
  std::string* out_ = nullptr;
  std::string_view in_;
  absl::Status status_;
};

}  // namespace heed

#endif  // HEED_ENGINE_BASE_ARCHIVE_H_
