// The images of a call of Generate: pixels as they come, then files.
#ifndef HEED_CLIENT_CLI_DRAWINGS_H_
#define HEED_CLIENT_CLI_DRAWINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "heed/v1/inference.pb.h"
#include "heed/v1/models.pb.h"

namespace heed::cli {

class Drawings {
 public:
  // One for each of the `samples` of each input, which begins with the pixels that its prompt has.
  // INVALID_ARGUMENT for what no PNG file holds: other than 1 to 4 channels, or more than 2^24 pixels.
  static absl::StatusOr<Drawings> Of(const v1::GeneratedImage& image, const v1::GenerateRequest& request,
                                     int samples);

  // Takes the tokens of a piece; other events have none.
  void Add(const v1::GenerateEvent& event);
  // Writes each of which a pixel at least has come: the only one to FILE, else the i-th to FILE with -i
  // before its ending, counted from 1, sample by sample of input by input. Levels are spread over 0 to 255;
  // what is not drawn yet is black. Gives the names.
  absl::StatusOr<std::vector<std::string>> Write(const std::string& file) const;

 private:
  struct Drawing {
    std::vector<int32_t> levels;  // of the pixels so far, in the order of the model's tokens
    bool drawn = false;           // whether any of them came
  };
  Drawings(const v1::GeneratedImage& image, int samples) : image_(image), samples_(samples) {}
  absl::Status WriteOne(const Drawing& drawing, const std::string& file) const;

  v1::GeneratedImage image_;
  int samples_ = 1;
  std::vector<Drawing> drawings_;  // sample by sample of input by input
};

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_DRAWINGS_H_
