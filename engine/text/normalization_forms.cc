#include "engine/text/normalization_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "engine/text/changes.h"

namespace heed {
namespace {

int CombiningClass(char32_t c) {
  return c < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

// Marks that follow a letter, in the order of their classes.
void SortMarks(std::vector<Change>& changes) {
  auto starter = [](const Change& c) { return CombiningClass(c.code) == 0; };
  for (auto begin = changes.begin(); begin != changes.end();) {
    begin = std::find_if_not(begin, changes.end(), starter);
    const auto end = std::find_if(begin, changes.end(), starter);
    std::stable_sort(begin, end, [](const Change& a, const Change& b) {
      return CombiningClass(a.code) < CombiningClass(b.code);
    });
    begin = end;
  }
}

// Canonical decomposition, or compatibility's.
std::vector<Change> Decompose(const Chars& text, bool compatibility) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<Change> changes;
  changes.reserve(text.size());
  for (const Char& c : text) {
    utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(c.code)};  // the longest has 18
    const utf8proc_ssize_t count =
        c.code < 0x80 ? 1 : utf8proc_decompose_char(parts[0], parts, std::size(parts), options, nullptr);
    for (utf8proc_ssize_t i = 0; i < count; ++i) changes.push_back({static_cast<char32_t>(parts[i]), i > 0});
  }
  SortMarks(changes);
  return changes;
}

// The character that two compose to; 0 if they do not.
char32_t Composed(char32_t first, char32_t second) {
  if (second < 0x300) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Canonical composition (Unicode 3.11, D117): each character joins the last starter unless one between them
// blocks it.
std::vector<Change> Compose(const std::vector<Change>& decomposed) {
  std::vector<Change> composed;
  composed.reserve(decomposed.size());
  ptrdiff_t starter = -1;
  int blocking = -1;  // the class of the last mark after the starter that did not join
  for (const Change& c : decomposed) {
    const int combining = CombiningClass(c.code);
    const char32_t joined =
        starter >= 0 && blocking < combining ? Composed(composed[starter].code, c.code) : 0;
    if (joined != 0) {
      composed[starter] = {joined, composed[starter].change + c.change - 1};
      continue;
    }
    composed.push_back(c);
    if (combining == 0) starter = std::ssize(composed) - 1;
    blocking = combining == 0 ? -1 : combining;
  }
  return composed;
}

bool IsAscii(const Chars& text) {
  return std::all_of(text.begin(), text.end(), [](const Char& c) { return c.code < 0x80; });
}

void ToForm(bool compatibility, bool compose, Chars& text) {
  if (IsAscii(text)) return;  // is in every form
  const std::vector<Change> decomposed = Decompose(text, compatibility);
  Apply(compose ? Compose(decomposed) : decomposed, text.front().begin, text);
}

}  // namespace

void ToNfc(Chars& text) { ToForm(/*compatibility=*/false, /*compose=*/true, text); }
void ToNfd(Chars& text) { ToForm(/*compatibility=*/false, /*compose=*/false, text); }
void ToNfkc(Chars& text) { ToForm(/*compatibility=*/true, /*compose=*/true, text); }
void ToNfkd(Chars& text) { ToForm(/*compatibility=*/true, /*compose=*/false, text); }

}  // namespace heed
