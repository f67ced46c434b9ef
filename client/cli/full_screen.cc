#include "client/cli/full_screen.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/status.h"

namespace heed::cli {
namespace {

// Private modes: 1049 the alternate screen, 25 the cursor, 7 that long lines go on in the next.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H", kRestOfLine = "\x1b[K", kRestOfScreen = "\x1b[J";
constexpr std::string_view kReversed = "\x1b[7m", kPlain = "\x1b[0m";

}  // namespace

FullScreen::FullScreen(int in, int out) : in_(in), out_(out) {
  termios modes;
  if (tcgetattr(in_, &modes) == 0) {
    before_ = modes;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    modes.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    tcflush(in_, TCIFLUSH);
    tcsetattr(in_, TCSANOW, &modes);
  }
  Write(kEnter);
}

FullScreen::~FullScreen() {
  Write(kLeave);
  if (before_) tcsetattr(in_, TCSANOW, &*before_);
}

FrameSize FullScreen::size() const {
  winsize size{};
  if (ioctl(out_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

bool FullScreen::Show(const Frame& frame) {
  std::string bytes(kHome);
  for (int i = 0; i < static_cast<int>(frame.lines.size()); ++i) {
    const bool titles = i == frame.titles;
    bytes +=
        Cat(i == 0 ? "" : "\r\n", titles ? kReversed : "", frame.lines[i], titles ? kPlain : "", kRestOfLine);
  }
  return Write(bytes += kRestOfScreen);
}

std::string FullScreen::Typed() {
  char bytes[256];
  ssize_t count = 0;
  do {
    count = read(in_, bytes, sizeof(bytes));
  } while (count < 0 && errno == EINTR);
  return count > 0 ? std::string(bytes, count) : "";
}

bool FullScreen::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(out_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(count);
  }
  return true;
}

}  // namespace heed::cli
