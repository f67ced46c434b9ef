#include "engine/attention/pattern.h"

#include <algorithm>

#include "engine/base/round.h"

namespace heed {

int64_t TrackSet::Places(int64_t track, int64_t positions) const {
  if (!listed.empty()) return ahead + (std::ranges::lower_bound(listed, positions) - listed.begin());
  if (apart) return positions <= track ? 0 : Quotient(positions - track, period);
  positions = std::min(positions, limit);
  return ahead + positions / period * (end - begin) +
         std::clamp<int64_t>(positions % period - begin, 0, end - begin);
}

int64_t TrackSet::Position(int64_t track, int64_t place) const {
  if (!listed.empty()) return listed[place];
  if (apart) return track + place * period;
  return place / (end - begin) * period + begin + place % (end - begin);
}

Range TrackSet::Run(int64_t position) const {
  if (!listed.empty()) {
    const auto next = std::ranges::lower_bound(listed, position);
    return next == listed.end() ? Range{kUnlimited, kUnlimited} : Range{*next, *next + 1};
  }
  if (all()) return position < limit ? Range{position, limit} : Range{kUnlimited, kUnlimited};
  const int64_t base = (position + period - end) / period * period;  // of the first period not yet over
  const int64_t first = std::max(position, base + begin);
  return first < limit ? Range{first, std::min(base + end, limit)} : Range{kUnlimited, kUnlimited};
}

int Pattern::passes() const { return 1 + std::ranges::max_element(sets_, {}, &TrackSet::pass)->pass; }

int64_t Pattern::row_period(int pass) const {
  int64_t period = 1;
  for (const TrackSet& set : sets_) {
    if (set.apart && set.pass == pass) period = set.period;
  }
  return period;
}

int64_t Pattern::KeptFrom(int, int64_t) const { return 0; }

int64_t Pattern::MostKept(int, int64_t places) const { return places; }

std::vector<RowSection> Pattern::Sections(int64_t rows, int64_t tokens) const {
  return {{.rows = {0, rows}, .keys = Pairs(1, tokens)}};
}

BandPattern::BandPattern(Band band, int64_t dilation) : band_(band) {
  sets_[0].period = sets_[0].end = dilation;
  sets_[0].apart = dilation > 1;
}

Range BandPattern::Sees(int, int64_t position) const { return band_(position / sets_[0].period); }

// Nothing comes after the rows of an encoder.
int64_t BandPattern::KeptFrom(int, int64_t places) const {
  return band_.left == kUnlimited || band_.right > 0 ? 0
                                                     : WindowBegin(band_.left + 1, places, sets_[0].page());
}

int64_t BandPattern::MostKept(int, int64_t places) const {
  return band_.left == kUnlimited || band_.right > 0 ? places
                                                     : WindowKeeps(band_.left + 1, places, sets_[0].page());
}

// Of a track, the rows that still look over its beginning or end see less.
double BandPattern::Pairs(int64_t rows, int64_t tokens) const {
  const auto dilation = static_cast<double>(sets_[0].period);
  const auto until = [&](int64_t n) {
    const double places = static_cast<double>(n) / dilation;
    const double left = std::min(places, static_cast<double>(band_.left)),
                 right = std::min(places, static_cast<double>(band_.right));
    return dilation * (places * (1 + left + right) - (left * (left + 1) + right * (right + 1)) / 2);
  };
  if (band_.left == kUnlimited && band_.right == kUnlimited)
    return static_cast<double>(rows) * static_cast<double>(tokens);
  return until(tokens) - until(tokens - rows);
}

BlockPattern::BlockPattern(const Blocks& blocks) : blocks_(blocks) {
  sets_[0].period = sets_[0].end = blocks.step;
  sets_[0].apart = blocks.step > 1;
}

Range BlockPattern::Sees(int, int64_t position) const {
  const int64_t place = position / blocks_.step, begin = place / blocks_.block * blocks_.block;
  return {begin - blocks_.before, blocks_.causal ? place + 1 : begin + blocks_.block + blocks_.after};
}

int64_t BlockPattern::KeptFrom(int, int64_t places) const {
  return blocks_.causal ? std::max<int64_t>(0, places / blocks_.block * blocks_.block - blocks_.before) : 0;
}

// So many neighbours lie in their number, rounded up to pages, and one page more; in one page where blocks
// divide pages.
int64_t BlockPattern::MostKept(int, int64_t places) const {
  const int64_t seen = blocks_.block + blocks_.before, page = sets_[0].page();
  if (!blocks_.causal) return places;
  if (blocks_.before == 0 && page % blocks_.block == 0) return std::min(places, page);
  return std::min(places, RoundUp(seen - 1, page) + page);
}

double BlockPattern::PairsOfTrack(int64_t places) const {
  const int64_t block = blocks_.block, before = blocks_.before, whole = places / block, rest = places % block;
  const auto own = [&](int64_t n) {
    return static_cast<double>(n) * static_cast<double>(blocks_.causal ? n + 1 : 2 * n) / 2;
  };
  const int64_t near = std::min(whole, before / block + 1);  // blocks with fewer than `before` places before
  const double earlier = static_cast<double>(near * (near - 1) / 2 * block) +
                         static_cast<double>(whole - near) * static_cast<double>(before);
  // Of whole blocks, those with fewer than `after` places behind them are the last.
  const int64_t far = std::clamp<int64_t>((places - blocks_.after) / block, 0, whole);
  const double later = static_cast<double>(far) * static_cast<double>(blocks_.after) +
                       static_cast<double>(whole - far) *
                           (static_cast<double>(places) -
                            static_cast<double>(block) * static_cast<double>(whole + far + 1) / 2);
  return static_cast<double>(whole) * own(block) + static_cast<double>(block) * (earlier + later) +
         own(rest) + static_cast<double>(rest * std::min(before, whole * block));
}

double BlockPattern::AllPairs(int64_t tokens) const {
  const int64_t longer = tokens % blocks_.step;
  return static_cast<double>(longer) * PairsOfTrack(tokens / blocks_.step + 1) +
         static_cast<double>(blocks_.step - longer) * PairsOfTrack(tokens / blocks_.step);
}

double BlockPattern::Pairs(int64_t rows, int64_t tokens) const {
  if (!blocks_.causal) return AllPairs(tokens) * static_cast<double>(rows) / static_cast<double>(tokens);
  return AllPairs(tokens) - AllPairs(tokens - rows);
}

}  // namespace heed
