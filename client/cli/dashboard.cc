#include "client/cli/dashboard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/cli/columns.h"
#include "client/cli/figures.h"
#include "client/cli/terminal.h"
#include "engine/base/status.h"

namespace heed::cli {
namespace {

constexpr int kLongestLine = 300;  // of what is no table
constexpr int kShortestName = 8;   // of a model, where there is no room for more
constexpr int kGap = 2;            // between columns

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// In characters.
int Width(std::string_view text) {
  return static_cast<int>(text.size()) - static_cast<int>(std::ranges::count_if(text, Continues));
}

// Of a text that is too long its first characters, and "…".
std::string Cut(std::string_view text, int width) {
  if (Width(text) <= width) return std::string(text);
  size_t end = 0;
  for (int left = width - 1; left > 0; --left) {
    ++end;
    while (Continues(text[end])) ++end;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::string Spaces(int count) { return std::string(count, ' '); }

// --------------------------------------------------------------------------------------------- the table

std::vector<ModelActivity> Sorted(std::vector<ModelActivity> models, const View& view) {
  const Column& column = Columns()[view.sort];
  std::ranges::stable_sort(models, {}, &ModelActivity::name);
  std::ranges::stable_sort(models, [&](const ModelActivity& one, const ModelActivity& other) {
    return view.reversed ? Before(column, other, one) : Before(column, one, other);
  });
  return models;
}

std::string TitleOf(const Column& column, bool is_sorted, bool reversed) {
  if (!is_sorted) return std::string(column.title);
  return Cat(column.title, column.is_word() != reversed ? "↑" : "↓");
}

// A row for the titles and one for each model, a cell for each of Columns().
using Cells = std::vector<std::vector<std::string>>;

Cells CellsOf(const std::vector<ModelActivity>& models, const View& view) {
  Cells cells(1);
  for (size_t i = 0; i < Columns().size(); ++i)
    cells[0].push_back(TitleOf(Columns()[i], i == view.sort, view.reversed));
  for (const ModelActivity& model : models) {
    cells.emplace_back();
    for (const Column& column : Columns()) cells.back().push_back(CellOf(column, model));
  }
  return cells;
}

// Of each column what its cells need, and room for most numbers and the mark of what is sorted by, so that
// columns keep still.
std::vector<int> WidthsOf(const Cells& cells) {
  std::vector<int> widths;
  for (size_t i = 0; i < Columns().size(); ++i) {
    int width = std::max(6, Width(Columns()[i].title) + 1);
    for (const auto& row : cells) width = std::max(width, Width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

struct ShownColumns {
  std::vector<int> widths;      // of all
  std::vector<size_t> columns;  // that are shown
};

// The name, shortened where it must be; up to the sorted column as many as there is room for, and beyond it.
ShownColumns Choose(std::vector<int> widths, size_t sort, int width) {
  size_t begin = 1, end = widths.size();
  if (width > 0) {
    widths[0] = std::min(widths[0], std::max(kShortestName, width / 3));
    int left = width - widths[0];
    for (size_t i = 1; i <= sort; ++i) left -= kGap + widths[i];
    for (; left < 0 && begin < sort; ++begin) left += kGap + widths[begin];
    for (end = sort + 1; end < widths.size() && left >= kGap + widths[end]; ++end) left -= kGap + widths[end];
  }
  ShownColumns shown{.widths = std::move(widths), .columns = {0}};
  for (size_t i = begin; i < end; ++i) shown.columns.push_back(i);
  return shown;
}

std::string RowText(const std::vector<std::string>& row, const ShownColumns& shown) {
  std::string text;
  for (const size_t i : shown.columns) {
    const std::string cell = Cut(row[i], shown.widths[i]), pad = Spaces(shown.widths[i] - Width(cell));
    text += Cat(Spaces(i == 0 ? 0 : kGap), Columns()[i].is_word() ? cell + pad : pad + cell);
  }
  return text;
}

void AddModels(const ServerActivity& server, const View& view, FrameSize size, Frame* frame) {
  const Cells cells = CellsOf(Sorted(server.models, view), view);
  const ShownColumns columns = Choose(WidthsOf(cells), view.sort, size.width);
  frame->titles = static_cast<int>(frame->lines.size());
  frame->lines.push_back(RowText(cells[0], columns));
  const int models = static_cast<int>(server.models.size());
  const int room = size.height - static_cast<int>(frame->lines.size());
  const bool all = size.height == 0 || models <= room;
  const int shown = all ? models : std::max(0, room - 1);  // a line for where one is
  const int above = all ? 0 : std::min(view.above, models - shown);
  for (int i = 1; i <= shown; ++i) frame->lines.push_back(RowText(cells[above + i], columns));
  if (!all) frame->lines.push_back(Cat("models ", above + 1, " to ", above + shown, " of ", models));
}

// --------------------------------------------------------------------------------------------- the rest

std::string ProcessLine(const ServerActivity& server) {
  const std::string busy = server.cpus ? absl::StrFormat("%.2f", *server.cpus) : "-";
  return absl::StrFormat("CPU %s of %.0f, memory %s and %s left, state %s of %s, calls %.0f, streams %.0f",
                         busy, server.available_cpus, BytesText(server.resident_bytes),
                         BytesText(server.available_bytes), BytesText(server.state_bytes),
                         BytesText(server.state_limit_bytes), server.calls, server.streams);
}

void AddHelp(Frame* frame) {
  frame->lines.push_back(
      "q quits, p pauses, h shows this, and the models again, r sorts the other way round,");
  frame->lines.push_back("left and right sort by the next column, up and down scroll; and these sort by:");
  for (const Column& column : Columns()) {
    frame->lines.push_back(Cat(std::string(1, static_cast<char>(column.key)), "  ", column.title,
                               Spaces(10 - Width(column.title)), column.help));
  }
}

}  // namespace

bool Press(Key key, int models, View* view) {
  if (key == 'q' || key == kCtrlC) return false;
  if (key == 'h') view->help = !view->help;
  if (key == 'p') view->paused = !view->paused;
  if (key == 'r') view->reversed = !view->reversed;
  if (key == kUp) view->above = std::max(0, view->above - 1);
  if (key == kDown) view->above = std::max(0, std::min(models - 1, view->above + 1));
  size_t sort = view->sort;
  if (key == kLeft && sort > 0) --sort;
  if (key == kRight && sort + 1 < Columns().size()) ++sort;
  const auto chosen = std::ranges::find(Columns(), key, &Column::key);
  if (chosen != Columns().end()) sort = chosen - Columns().begin();
  if (std::exchange(view->sort, sort) != sort) view->reversed = false;
  return true;
}

Frame Layout(const ServerActivity& server, const View& view, std::string_view heading, std::string_view note,
             FrameSize size) {
  Frame frame;
  frame.lines = {OneLine(heading, kLongestLine), ProcessLine(server)};
  if (!note.empty()) frame.lines.push_back(OneLine(note, kLongestLine));
  view.help ? AddHelp(&frame) : AddModels(server, view, size, &frame);
  const int height = static_cast<int>(frame.lines.size());
  if (size.height > 0 && height > size.height) frame.lines.resize(size.height);
  if (frame.titles >= static_cast<int>(frame.lines.size())) frame.titles = -1;
  if (size.width > 0) {
    for (std::string& line : frame.lines) line = Cut(line, size.width);
  }
  return frame;
}

}  // namespace heed::cli
