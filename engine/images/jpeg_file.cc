#include "engine/images/jpeg_file.h"

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include "engine/base/status.h"
#include "engine/images/png_file.h"

namespace heed {
namespace {

constexpr int kMostScans = 100;  // a progressive file has some ten; each passes over the whole image

// Warnings after which libjpeg makes up pixels that the file does not have. After the others, of bytes that
// belong to nothing or of an odd header, it has read all of them.
bool LosesPixels(int warning) {
  switch (warning) {
    case JWRN_JPEG_EOF:        // the file ends before the image
    case JWRN_HIT_MARKER:      // a scan does
    case JWRN_HUFF_BAD_CODE:   // bits that are no code
    case JWRN_ARITH_BAD_CODE:  // the same of arithmetic codes
    case JWRN_MUST_RESYNC:     // a part of a scan is missing
      return true;
    default:
      return false;
  }
}

// libjpeg ends what it cannot do by a jump back to where it was called. Nothing with a destructor is made
// between the two: members and the caller hold what is.
class JpegFile {
 public:
  explicit JpegFile(std::string_view file) : file_(file) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { Of(info)->Jump(); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      const bool warning = level < 0;
      if (warning && LosesPixels(info->err->msg_code)) Of(info)->Jump();
    };
    progress_.progress_monitor = [](j_common_ptr info) { Of(info)->CheckScans(); };
    info_.client_data = this;
  }
  ~JpegFile() {
    if (created_) jpeg_destroy_decompress(&info_);
  }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  absl::Status Open() { return Began() ? CheckImageSize(info_.image_height, info_.image_width) : Failed(); }

  absl::StatusOr<ByteImage> Read() {
    ByteImage image{.height = info_.image_height, .width = info_.image_width};
    image.values.resize(3 * image.height * image.width);
    if (!ReadLines(image.values.data())) return Failed();
    return image;
  }

 private:
  static JpegFile* Of(j_common_ptr info) { return static_cast<JpegFile*>(info->client_data); }

  bool Began() {
    if (setjmp(back_) != 0) return false;
    jpeg_create_decompress(&info_);
    created_ = true;
    info_.client_data = this;
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool ReadLines(uint8_t* values) {
    if (setjmp(back_) != 0) return false;
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW line = values + size_t{3} * info_.output_width * info_.output_scanline;
      jpeg_read_scanlines(&info_, &line, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  void CheckScans() {
    if (info_.input_scan_number > kMostScans) {
      std::snprintf(message_, sizeof(message_), "it has more than %d scans", kMostScans);
      std::longjmp(back_, 1);
    }
  }

  [[noreturn]] void Jump() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_);
    std::longjmp(back_, 1);
  }

  absl::Status Failed() const { return Invalid("the JPEG file cannot be read: ", message_); }

  std::string_view file_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_;
  char message_[JMSG_LENGTH_MAX] = {};
  bool created_ = false;
};

}  // namespace

absl::StatusOr<ByteImage> DecodeJpeg(std::string_view file) {
  JpegFile jpeg(file);
  RETURN_IF_ERROR(jpeg.Open());
  return jpeg.Read();
}

}  // namespace heed
