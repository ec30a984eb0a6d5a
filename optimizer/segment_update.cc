#include "optimizer/segment_update.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/compute/update.h"
#include "optimizer/muon_unit.h"
#include "optimizer/step_fields.h"

namespace muonshard {
namespace {

std::string Describe(const StatePiece& piece) {
  return absl::StrCat(piece.count, " elements from ", piece.parameter_offset,
                      " with moments of ", piece.first.size(), ", ",
                      piece.second.size(), " and ", piece.row_moments.size());
}

// Whether `got` can take the place of `own`.
bool SameShape(const StatePiece& own, const StatePiece& got, bool has_master) {
  const bool right_master =
      got.master.empty() ||
      (has_master && got.master.size() == static_cast<size_t>(own.count));
  return got.parameter_offset == own.parameter_offset &&
         got.count == own.count && got.first.size() == own.first.size() &&
         got.second.size() == own.second.size() &&
         got.row_moments.size() == own.row_moments.size() && right_master;
}

}  // namespace

SegmentUpdater::SegmentUpdater(Runtime& runtime,
                               const OptimizerOptions& options,
                               BucketBuffers& buffers)
    : runtime_(runtime),
      options_(options),
      buffers_(buffers),
      plan_(buffers.plan()),
      bound_(plan_.specs.size(), nullptr),
      steps_(plan_.specs.size(), 0),
      states_(plan_.buckets.size()) {
  int64_t workspace_count = 0;
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    const std::vector<Piece>& pieces = plan_.buckets[b].pieces;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      if (piece.owner != buffers.group_rank(static_cast<int32_t>(b))) continue;
      const ParameterSpec& spec =
          plan_.specs[static_cast<size_t>(piece.parameter)];
      PieceState state{
          .piece = static_cast<int32_t>(i),
          .first = std::vector<float>(static_cast<size_t>(piece.count)),
          .second = {},
          .master = {}};
      if (spec.rule == Rule::kMuon) {
        const MuonUnit unit = MuonUnitOf(spec, piece.rows);
        workspace_count =
            std::max(workspace_count, MuonWorkspaceCount(unit, options.muon));
        state.second.resize(
            static_cast<size_t>(MuonRowMomentCount(unit, options.muon)));
      } else {
        state.second.resize(static_cast<size_t>(piece.count));
      }
      states_[b].push_back(std::move(state));
    }
  }
  workspace_.resize(static_cast<size_t>(workspace_count));
}

void SegmentUpdater::BeginStep(const StepDecision& decision) {
  for (size_t p = 0; p < steps_.size(); ++p) {
    const bool skipped =
        decision.absent_everywhere[p] &&
        plan_.specs[p].absent_gradient == AbsentGradient::kSkip;
    if (!skipped) ++steps_[p];
  }
}

absl::Duration SegmentUpdater::Update(int32_t bucket,
                                      const StepDecision& decision,
                                      const StepOptions& step) {
  absl::Duration muon;
  for (PieceState& state : states_[static_cast<size_t>(bucket)]) {
    const Piece& piece = plan_.buckets[static_cast<size_t>(bucket)]
                             .pieces[static_cast<size_t>(state.piece)];
    const auto p = static_cast<size_t>(piece.parameter);
    const ParameterSpec& spec = plan_.specs[p];
    if (decision.absent_everywhere[p] &&
        spec.absent_gradient == AbsentGradient::kSkip) {
      CopyPieceIn(bucket, piece);
      continue;
    }
    const absl::Time begin = runtime_.Now();
    UpdatePiece(bucket, state, step, decision.gradient_factor);
    if (spec.rule == Rule::kMuon) muon += runtime_.Now() - begin;
  }
  return muon;
}

void SegmentUpdater::UpdatePiece(int32_t bucket, PieceState& state,
                                 const StepOptions& step,
                                 double gradient_factor) {
  const Piece& piece = plan_.buckets[static_cast<size_t>(bucket)]
                           .pieces[static_cast<size_t>(state.piece)];
  const auto p = static_cast<size_t>(piece.parameter);
  const ParameterSpec& spec = plan_.specs[p];
  const bool muon = spec.rule == Rule::kMuon;
  const ParameterRates rates = RatesOf(spec, options_, step);
  const UpdateFactors factors{.learning_rate = rates.learning_rate,
                              .weight_decay = rates.weight_decay,
                              .gradient_factor = gradient_factor,
                              .step = steps_[p]};
  DataType dtype = spec.dtype;
  const void* old = bound_[p] + static_cast<size_t>(piece.parameter_offset) *
                                    ByteWidth(dtype);
  void* out = buffers_.parameter_of(bucket, piece);
  const bool mastered = has_master(piece.parameter);
  if (mastered) {
    if (state.master.empty()) {
      state.master.resize(static_cast<size_t>(piece.count));
      ToFloat(dtype, old, state.master);
    }
    dtype = DataType::kF32;
    old = out = state.master.data();
  }
  const std::byte* gradient = buffers_.gradient_of(bucket, piece);
  if (muon) {
    MuonUpdate(MuonUnitOf(spec, piece.rows), options_.muon, factors,
               spec.gradient_dtype, gradient,
               {.momentum = state.first, .row_moments = state.second}, dtype,
               old, out, workspace_);
  } else {
    AdamWUpdate(options_.adamw, factors, spec.gradient_dtype, gradient,
                state.first, state.second, dtype, old, out);
  }
  if (mastered) {
    FromFloat(spec.dtype, state.master, buffers_.parameter_of(bucket, piece));
  }
}

ParameterState SegmentUpdater::State(int32_t p) const {
  ParameterState result{.step_count = steps_[static_cast<size_t>(p)],
                        .pieces = {}};
  const auto bucket = static_cast<size_t>(buffers_.bucket_of(p));
  for (const PieceState& state : states_[bucket]) {
    const Piece& piece =
        plan_.buckets[bucket].pieces[static_cast<size_t>(state.piece)];
    if (piece.parameter != p) continue;
    const bool muon = plan_.specs[static_cast<size_t>(p)].rule == Rule::kMuon;
    const std::span<const float> second = state.second;
    result.pieces.push_back(
        {.parameter_offset = piece.parameter_offset,
         .count = piece.count,
         .first = state.first,
         .second = muon ? std::span<const float>() : second,
         .master = state.master,
         .row_moments = muon ? second : std::span<const float>()});
  }
  return result;
}

bool SegmentUpdater::has_master(int32_t p) const {
  return options_.master_weights &&
         plan_.specs[static_cast<size_t>(p)].dtype != DataType::kF32;
}

absl::Status SegmentUpdater::Restore(int32_t p, const ParameterState& state) {
  const std::string name =
      absl::StrCat("state of parameter \"",
                   plan_.specs[static_cast<size_t>(p)].name, "\": ");
  const std::vector<StatePiece> own = State(p).pieces;
  if (state.step_count < 0 || state.pieces.size() != own.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, "want ", own.size(), " pieces after 0 steps or more, got ",
        state.pieces.size(), " after ", state.step_count));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (SameShape(own[i], state.pieces[i], has_master(p))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, "piece ", i, ": want ", Describe(own[i]), ", got ",
                     Describe(state.pieces[i]), ", and ",
                     state.pieces[i].master.size(), " master weights"));
  }
  steps_[static_cast<size_t>(p)] = state.step_count;
  auto piece = state.pieces.begin();
  const auto bucket = static_cast<size_t>(buffers_.bucket_of(p));
  for (PieceState& to : states_[bucket]) {
    const auto index = static_cast<size_t>(to.piece);
    if (plan_.buckets[bucket].pieces[index].parameter != p) continue;
    const std::span<const float> second =
        piece->second.empty() ? piece->row_moments : piece->second;
    to.first.assign(piece->first.begin(), piece->first.end());
    to.second.assign(second.begin(), second.end());
    to.master.assign(piece->master.begin(), piece->master.end());
    ++piece;
  }
  return absl::OkStatus();
}

void SegmentUpdater::CopyPieceIn(int32_t bucket, const Piece& piece) {
  const auto p = static_cast<size_t>(piece.parameter);
  const size_t width = ByteWidth(plan_.specs[p].dtype);
  std::memcpy(buffers_.parameter_of(bucket, piece),
              bound_[p] + static_cast<size_t>(piece.parameter_offset) * width,
              static_cast<size_t>(piece.count) * width);
}

void SegmentUpdater::CopyIn(int32_t bucket) {
  const auto b = static_cast<size_t>(bucket);
  for (const PieceState& state : states_[b]) {
    CopyPieceIn(bucket,
                plan_.buckets[b].pieces[static_cast<size_t>(state.piece)]);
  }
}

void SegmentUpdater::CopyOut(int32_t bucket) {
  for (const Piece& piece : plan_.buckets[static_cast<size_t>(bucket)].pieces) {
    const auto p = static_cast<size_t>(piece.parameter);
    const size_t width = ByteWidth(plan_.specs[p].dtype);
    std::memcpy(bound_[p] + static_cast<size_t>(piece.parameter_offset) * width,
                buffers_.parameter_of(bucket, piece),
                static_cast<size_t>(piece.count) * width);
  }
}

}  // namespace muonshard
