#include "tools/trainer/step_meter.h"

namespace muonshard {

StepMeter::StepMeter(Runtime& runtime, int32_t ranks, int64_t steps,
                     bool keep_spans)
    : ranks_(ranks),
      keep_spans_(keep_spans),
      mutex_(runtime.NewMutex()),
      rows_(static_cast<size_t>(steps)) {
  for (StepRow& row : rows_) row.losses.resize(static_cast<size_t>(ranks));
}

StepTraceSink StepMeter::SinkOf(int32_t rank) {
  return [this, rank](const StepSpan& span) { Add(rank, span); };
}

void StepMeter::Add(int32_t rank, const StepSpan& span) {
  const MutexLock lock(*mutex_);
  if (keep_spans_) rank_spans_.push_back({rank, span});
  const auto row = static_cast<size_t>(span.step - 1);
  if (row >= rows_.size()) return;
  if (span.kind == SpanKind::kUpdate) {
    rows_[row].newton_schulz += span.newton_schulz;
  } else if (span.kind == SpanKind::kWait) {
    rows_[row].exposed_communication += span.end - span.begin;
  }
}

void StepMeter::AddProgramSpan(const ProgramSpan& span) {
  if (!keep_spans_) return;
  const MutexLock lock(*mutex_);
  program_spans_.push_back(span);
}

bool StepMeter::EndStep(int32_t rank, int64_t step, double loss,
                        absl::Duration duration) {
  const MutexLock lock(*mutex_);
  StepRow& row = rows_[static_cast<size_t>(step - 1)];
  row.losses[static_cast<size_t>(rank)] = loss;
  row.duration += duration;
  return ++row.ranks_done == ranks_;
}

StepShare StepMeter::ShareOf(int32_t rank, int64_t step) const {
  const MutexLock lock(*mutex_);
  const StepRow& row = rows_[static_cast<size_t>(step - 1)];
  return {row.losses[static_cast<size_t>(rank)], row.duration,
          row.newton_schulz, row.exposed_communication};
}

void StepMeter::AddShare(int32_t rank, int64_t step, const StepShare& share) {
  const MutexLock lock(*mutex_);
  StepRow& row = rows_[static_cast<size_t>(step - 1)];
  row.losses[static_cast<size_t>(rank)] = share.loss;
  row.duration += share.duration;
  row.newton_schulz += share.newton_schulz;
  row.exposed_communication += share.exposed_communication;
  ++row.ranks_done;
}

StepMeans StepMeter::MeansOf(const StepRow& row) const {
  StepMeans means;
  // In rank order, not in the order of arrival.
  for (const double loss : row.losses) means.loss += loss / ranks_;
  means.step_ms = absl::ToDoubleMilliseconds(row.duration) / ranks_;
  means.newton_schulz_ms =
      absl::ToDoubleMilliseconds(row.newton_schulz) / ranks_;
  means.exposed_communication_ms =
      absl::ToDoubleMilliseconds(row.exposed_communication) / ranks_;
  return means;
}

StepMeans StepMeter::MeansOf(int64_t step) const {
  const MutexLock lock(*mutex_);
  return MeansOf(rows_[static_cast<size_t>(step - 1)]);
}

std::vector<StepMeans> StepMeter::Means() const {
  const MutexLock lock(*mutex_);
  std::vector<StepMeans> means;
  for (const StepRow& row : rows_) means.push_back(MeansOf(row));
  return means;
}

std::vector<ProgramSpan> StepMeter::program_spans() const {
  const MutexLock lock(*mutex_);
  return program_spans_;
}

std::vector<RankSpan> StepMeter::rank_spans() const {
  const MutexLock lock(*mutex_);
  return rank_spans_;
}

}  // namespace muonshard
