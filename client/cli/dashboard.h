// The dashboard of `heed top` as lines of text, and what a person chooses of it by keys. No terminal here.
#ifndef HEED_CLIENT_CLI_DASHBOARD_H_
#define HEED_CLIENT_CLI_DASHBOARD_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/keys.h"
#include "client/cli/rates.h"

namespace heed::cli {

// What a person has chosen.
struct View {
  size_t sort = 0;        // the place of a column among Columns()
  bool reversed = false;  // models in the order that is the other way round
  bool paused = false;
  bool help = false;  // the keys instead of the models
  int above = 0;      // models that are scrolled out of sight
};

// What a key does where there are so many models. False: it ends the dashboard.
bool Press(Key key, int models, View* view);

struct FrameSize {
  int width = 0, height = 0;  // in characters; 0: no limit
};
struct Frame {
  std::vector<std::string> lines;  // as many and as long as the size has room for
  int titles = -1;                 // which of them has the columns' titles; -1: none
};

// `heading` comes first, and `note`, where there is one, before the models. Where not all columns fit, some
// are left out, but not the model's name and not the one that is sorted by. Nothing that a server says is
// obeyed by a terminal.
Frame Layout(const ServerActivity& server, const View& view, std::string_view heading, std::string_view note,
             FrameSize size = {});

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_DASHBOARD_H_
