#include "engine/models/stack.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "engine/models/kept_rows.h"

namespace heed {

RowCount RowCount::OfInput(int64_t front) {
  return {[=](const ShareSize& size) { return front + size.rows; },
          [=](const ShareSize& sum, int64_t sequences) { return front * sequences + sum.rows; }};
}

RowCount RowCount::OfSource() {
  return {[](const ShareSize& size) { return size.source; },
          [](const ShareSize& sum, int64_t) { return sum.source; }};
}

RowCount RowCount::OfBoth() {
  return {[](const ShareSize& size) { return size.rows + size.source; },
          [](const ShareSize& sum, int64_t) { return sum.rows + sum.source; }};
}

RowCount RowCount::OfEachInput(int64_t rows) {
  return {[=](const ShareSize& size) { return rows * size.rows; },
          [=](const ShareSize& sum, int64_t) { return rows * sum.rows; }};
}

RowCount RowCount::Fixed(int64_t rows) {
  return {[=](const ShareSize&) { return rows; },
          [=](const ShareSize&, int64_t sequences) { return rows * sequences; }, rows};
}

int Stack::AddSet(RowSet set) {
  scratch_bytes_ =
      std::max(scratch_bytes_, Scratch::Piece(set.width * SizeOf(DType::kF32)));  // of a pooled row
  sets_.push_back(std::move(set));
  answered_ = static_cast<int>(sets_.size()) - 1;
  return answered_;
}

Stack::Phase& Stack::NewPhase(Phase phase) {
  order_.push_back(static_cast<int>(phases_.size()));
  return phases_.emplace_back(std::move(phase));
}

Stack::Phase& Stack::ProgramOf(int set) {
  for (size_t i = phases_.size(); i > first_open_ && phases_[i - 1].kind == Phase::Kind::kProgram; --i) {
    if (phases_[i - 1].set == set) return phases_[i - 1];
  }
  return NewPhase({.kind = Phase::Kind::kProgram, .set = set});
}

void Stack::Add(int set, std::unique_ptr<RowStep> step) {
  Phase& program = ProgramOf(set);
  program.multiply_adds += step->multiply_adds();
  program.apart_multiply_adds += step->apart_multiply_adds();
  program.block_rows = std::max(program.block_rows, step->block_rows());
  block_rows_ = std::max(block_rows_, program.block_rows);
  scratch_bytes_ = std::max(scratch_bytes_, step->scratch_bytes());
  program.steps.push_back(std::move(step));
}

void Stack::AddMove(int set, int from, std::unique_ptr<RowMove> move) {
  NewPhase({.kind = Phase::Kind::kMove, .set = set, .from = from, .move = std::move(move)});
}

void Stack::AddAttention(Attend attend) {
  std::vector<Attend> one;
  one.push_back(std::move(attend));
  AddAttentions(std::move(one));
}

void Stack::AddAttentions(std::vector<Attend> attends) {
  const int first = static_cast<int>(attentions_.size());
  for (Attend& attend : attends) {
    attend.index = static_cast<int>(std::ranges::count(attentions_, attend.set, &Attend::set));
    if (attend.lender != kItself) Borrow(attend);
    if (keeps_run(attend))
      attend.run = static_cast<int>(
          std::ranges::count_if(attentions_, [&](const Attend& other) { return keeps_run(other); }));
    attentions_.push_back(std::move(attend));
  }
  const int end = static_cast<int>(attentions_.size());
  for (int number = first; number < end; ++number) Open(number);
  for (int number = first; number < end; ++number) {
    Attend& attend = attentions_[number];
    if (attend.beside) Add(attend.set, std::move(attend.beside));
  }
  for (int number = first; number < end; ++number) {
    const Attend& attend = attentions_[number];
    if (attend.cross()) NewPhase({.kind = Phase::Kind::kTakeSource, .set = attend.set, .attend = number});
    NewPhase({.kind = Phase::Kind::kAttend, .set = attend.set, .attend = number});
  }
  for (int number = first; number < end; ++number)
    Add(attentions_[number].set, std::make_unique<CloseStep>(*attentions_[number].sublayer));
}

// It takes up its lender's run, as the last so far.
void Stack::Borrow(Attend& attend) {
  Attend& lender = attentions_[attend.lender];
  CHECK(keeps_run(lender) && lender.set == attend.set);
  for (Attend& other : attentions_) {
    if (other.lender == attend.lender) other.releases = false;
  }
  lender.lends = attend.releases = true;
  attend.run = lender.run;
}

// What the attention reads of both sets.
void Stack::Open(int number) {
  const Attend& attend = attentions_[number];
  const AttentionSublayer& sublayer = *attend.sublayer;
  CHECK_EQ(sublayer.cross(), attend.cross());
  scratch_bytes_ = std::max(scratch_bytes_, sublayer.attention().ScratchBytes());
  RowSet& rows = sets_[attend.set];
  rows.products_width = std::max(rows.products_width, sublayer.products_width());
  rows.attended_width = std::max(rows.attended_width, sublayer.attention().out_width());
  Add(attend.set, std::make_unique<OpenStep>(sublayer));
  if (sublayer.source_products_width() == 0) return;
  int64_t& width = sets_[attend.source].source_products_width;
  width = std::max(width, sublayer.source_products_width());
  Add(attend.source, std::make_unique<OpenSourceStep>(sublayer));
}

int Stack::Mark() {
  first_open_ = phases_.size();
  return static_cast<int>(first_open_);
}

void Stack::Repeat(int begin, int end) {
  for (int phase = begin; phase < end; ++phase) order_.push_back(phase);
  first_open_ = phases_.size();
}

void Stack::LeaveOutUnread() {
  std::vector<bool> read(sets_.size());
  read[answered_] = true;
  for (size_t set = 0; set < sets_.size(); ++set) {
    if (sets_[set].remembered || sets_[set].kept > 0) read[set] = true;
  }
  std::vector<bool> stepped(sets_.size());  // by a program that stays: it has what was attended to added
  std::vector<int> order;                   // from the last on
  for (auto number = order_.rbegin(); number != order_.rend(); ++number) {
    const Phase& phase = phases_[*number];
    const bool attends = phase.kind == Phase::Kind::kAttend || phase.kind == Phase::Kind::kTakeSource;
    if (!read[phase.set] || (attends && !stepped[phase.set])) continue;
    order.push_back(*number);
    if (phase.kind == Phase::Kind::kProgram) stepped[phase.set] = true;
    const int from = attends ? attentions_[phase.attend].source : phase.from;
    if (from != kItself) read[from] = true;
  }
  order_.assign(order.rbegin(), order.rend());
}

BlockWidths Stack::WidthsOf(int64_t block_rows) const {
  BlockWidths widths{.rows = block_rows};
  for (const RowSet& set : sets_)
    widths.width = std::max({widths.width, set.width - set.beside, set.inputs_width});
  widths.reads = std::max(widths.width, head_reads_);
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) {
      widths.reads = std::max(widths.reads, step->reads());
      widths.shared_bytes = std::max(widths.shared_bytes, step->SharedBytes(block_rows));
    }
  }
  return widths;
}

int64_t Stack::weight_bytes() const {
  int64_t bytes = 0;
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) bytes += step->weight_bytes();
  }
  return bytes;
}

bool Stack::data_dependent() const {
  for (const Phase& phase : phases_) {
    for (const auto& step : phase.steps) {
      if (step->data_dependent()) return true;
    }
  }
  return std::ranges::any_of(attentions_, [](const Attend& a) { return a.attention().data_dependent(); });
}

bool Stack::Reads(const Attend& attend, int64_t labelled) const {
  return labelled >= 0 && !sets_[attend.set].remembered && reads_labels(attend);
}

bool Stack::reads_labels(const Attend& attend) const {
  return sets_[attend.set].input != WorkInput::kNone && attend.attention().labels().kind == RowLabel::kGlobal;
}

bool Stack::gives_weights(const Attend& attend) const {
  return attend.set == answered_ && sets_[attend.set].input == WorkInput::kTokens;
}

// What is read of a source is gone before the first that a sequence remembers.
int64_t Stack::StateBytes(const ShareSize& size, int64_t labelled) const {
  return std::max(LargestStateBytes(size, labelled, /*of_source=*/true),
                  RememberedBytes(size) + LargestStateBytes(size, labelled, /*of_source=*/false));
}

int64_t Stack::RememberedBytes(const ShareSize& size) const {
  int64_t sum = 0, pass = 0;
  if (kept_ids_ > 0) sum += KeptRows::Bytes(kept_ids_, sizeof(int32_t), size.rows);
  for (const RowSet& set : sets_) {
    if (set.kept > 0)
      sum += KeptRows::Bytes(set.kept, set.width * SizeOf(DType::kF32), set.count.exact(size));
  }
  for (const Attend& attend : attentions_) {
    if (!keeps_run(attend)) continue;
    const RowSet& read = sets_[attend.cross() ? attend.source : attend.set];
    sum += attend.attention().StateBytes(read.count.exact(size));
    pass = std::max(pass, attend.attention().PassBytes());
  }
  return sum + pass;
}

int64_t Stack::LargestStateBytes(const ShareSize& size, int64_t labelled, bool of_source) const {
  int64_t largest = 0;
  for (const Attend& attend : attentions_) {
    const RowSet& set = sets_[attend.set];
    if (remembers(attend) || (set.input == WorkInput::kSource) != of_source) continue;
    const Attention& attention = attend.attention();
    const int64_t rows = (attend.cross() ? sets_[attend.source] : set).count.exact(size);
    const int64_t group = this->group(attend);
    const int64_t groups = group == 0 ? 1 : std::min(rows / group, RowSet::kGroupsAtOnce);
    const int64_t own = attention.also_own_rows() ? attention.OwnStateBytes(set.count.exact(size)) : 0;
    const int64_t bytes = Reads(attend, labelled) ? attention.LabelledStateBytes(rows, labelled)
                                                  : attention.StateBytes(group == 0 ? rows : group);
    largest = std::max(largest, groups * (bytes + own + attention.PassBytes()));
  }
  return largest;
}

double Stack::multiply_adds(const ShareSize& size, int64_t labelled) const {
  double sum = 0;
  for (int64_t i = 0; i < passed(); ++i) {
    const int64_t n = sets_[phase(i).set].count.exact(size);
    sum += phase(i).multiply_adds * static_cast<double>(n);
    if (phase(i).kind != Phase::Kind::kAttend) continue;
    const Attend& attend = attentions_[phase(i).attend];
    const int64_t group = this->group(attend);
    if (Reads(attend, labelled)) {
      sum += attend.sublayer->apart_multiply_adds() * static_cast<double>(labelled) +
             attend.attention().LabelledCost(n, labelled);
    } else if (group > 0) {
      sum += attend.attention().Cost(group, group) * static_cast<double>(n / group);
    } else {
      sum += attend.attention().Cost(n, attend.cross() ? sets_[attend.source].count.exact(size) : n);
    }
  }
  return sum;
}

}  // namespace heed
