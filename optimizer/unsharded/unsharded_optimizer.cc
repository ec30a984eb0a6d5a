#include "optimizer/unsharded/unsharded_optimizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/exact_sum.h"
#include "optimizer/compute/gradient_norm.h"
#include "optimizer/compute/update.h"
#include "optimizer/muon_unit.h"

namespace muonshard {
namespace {

// A run of a Muon parameter that is orthogonalized alone.
struct Unit {
  int64_t offset = 0;  // In elements, from the parameter's start.
  int64_t rows = 0;
  int64_t cols = 0;
};

// One per matrix of a bank and per block of rows.
std::vector<Unit> UnitsOf(const ParameterSpec& spec) {
  const int64_t cols = spec.shape[spec.shape.size() - 1];
  const int64_t matrix_rows = spec.shape[spec.shape.size() - 2];
  const int64_t bank = spec.shape.size() == 3 ? spec.shape[0] : 1;
  std::vector<int64_t> row_blocks = {matrix_rows};
  if (spec.blocks.dimension == 0) {
    row_blocks = {matrix_rows - spec.blocks.padding};
    if (!spec.blocks.sizes.empty()) row_blocks = spec.blocks.sizes;
  }
  std::vector<Unit> units;
  for (int64_t matrix = 0; matrix < bank; ++matrix) {
    int64_t offset = matrix * matrix_rows * cols;
    for (const int64_t rows : row_blocks) {
      units.push_back({.offset = offset, .rows = rows, .cols = cols});
      offset += rows * cols;
    }
  }
  return units;
}

// Clears the padding of one reduced gradient and adds its squares; returns how
// many are not finite.
int64_t AddSquaresOf(const ParameterSpec& spec, std::byte* gradient,
                     ExactSum& squares) {
  const DataType type = spec.gradient_dtype;
  if (spec.rule != Rule::kMuon) {
    return AddSquares(type, gradient, ElementCount(spec), squares);
  }
  int64_t non_finite = 0;
  for (const Unit& unit : UnitsOf(spec)) {
    std::byte* begin =
        gradient + static_cast<size_t>(unit.offset) * ByteWidth(type);
    ClearPadding(MuonUnitOf(spec, unit.rows), type, begin);
    non_finite += AddSquares(type, begin, unit.rows * unit.cols, squares);
  }
  return non_finite;
}

absl::Status CheckSpec(const ParameterSpec& spec, size_t bytes) {
  const auto error = [&spec](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", spec.name, "\": ", what...));
  };
  const auto fits = [](DataType type) {
    return type == DataType::kBF16 || type == DataType::kF16 ||
           type == DataType::kF32;
  };
  if (!fits(spec.dtype)) {
    return error("want dtype bf16, f16 or f32, got ", DataTypeName(spec.dtype));
  }
  if (!fits(spec.gradient_dtype)) {
    return error("want gradient dtype bf16, f16 or f32, got ",
                 DataTypeName(spec.gradient_dtype));
  }
  if (spec.gradient_mode == GradientMode::kAccumulate &&
      spec.gradient_dtype != DataType::kF32) {
    return error("want gradient dtype f32 to accumulate, got ",
                 DataTypeName(spec.gradient_dtype));
  }
  if (spec.rule == Rule::kMuon && spec.shape.size() != 2 &&
      spec.shape.size() != 3) {
    return error("want 2 or 3 dimensions for muon, got ", spec.shape.size());
  }
  const size_t wanted =
      static_cast<size_t>(ElementCount(spec)) * ByteWidth(spec.dtype);
  if (bytes != wanted) {
    return error("want ", wanted, " bytes of first values, got ", bytes);
  }
  return absl::OkStatus();
}

}  // namespace

UnshardedOptimizer::UnshardedOptimizer(OptimizerOptions options)
    : options_(std::move(options)) {}

absl::StatusOr<UnshardedOptimizer> UnshardedOptimizer::Create(
    std::vector<ParameterSpec> specs, const OptimizerOptions& options,
    std::vector<int64_t> divisors,
    std::vector<std::vector<std::byte>> parameters) {
  if (absl::Status s = Validate(options); !s.ok()) return s;
  if (divisors.size() != specs.size() || parameters.size() != specs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("want one divisor and one value per spec: ", specs.size(),
                     " specs, got ", divisors.size(), " divisors and ",
                     parameters.size(), " values"));
  }
  UnshardedOptimizer optimizer(options);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (absl::Status s = CheckSpec(specs[i], parameters[i].size()); !s.ok()) {
      return s;
    }
    const size_t count = static_cast<size_t>(ElementCount(specs[i]));
    const size_t second_count = specs[i].rule == Rule::kAdamW ? count : 0;
    optimizer.parameters_.push_back({.spec = std::move(specs[i]),
                                     .divisor = divisors[i],
                                     .values = std::move(parameters[i]),
                                     .first = std::vector<float>(count),
                                     .second = std::vector<float>(second_count),
                                     .steps = 0});
  }
  return optimizer;
}

absl::StatusOr<UnshardedStepOutcome> UnshardedOptimizer::Step(
    const UnshardedStepInput& input) {
  OptimizerOptions options = options_;
  options.muon.learning_rate =
      input.muon_learning_rate.value_or(options.muon.learning_rate);
  options.adamw.learning_rate =
      input.adamw_learning_rate.value_or(options.adamw.learning_rate);
  if (absl::Status s = Validate(options); !s.ok()) return s;
  if (!(input.clip_norm >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("want clip_norm >= 0, got ", input.clip_norm));
  }
  absl::StatusOr<std::vector<Bytes>> reduced = Reduce(input.gradients);
  if (!reduced.ok()) return reduced.status();

  UnshardedStepOutcome outcome;
  ExactSum squares;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if ((*reduced)[i].empty()) continue;
    outcome.non_finite_count +=
        AddSquaresOf(parameters_[i].spec, (*reduced)[i].data(), squares);
  }
  if (outcome.non_finite_count > 0) return outcome;
  outcome.gradient_norm = GlobalNorm(squares);
  outcome.clip_factor = ClipFactor(outcome.gradient_norm, input.clip_norm);
  outcome.updated = true;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Bytes& gradient = (*reduced)[i];
    if (gradient.empty()) continue;
    Parameter& parameter = parameters_[i];
    ++parameter.steps;
    if (parameter.spec.rule == Rule::kMuon) {
      UpdateMuon(options.muon, gradient, outcome.clip_factor, parameter);
    } else {
      UpdateAdamW(options.adamw, gradient, outcome.clip_factor, parameter);
    }
  }
  return outcome;
}

absl::StatusOr<std::vector<UnshardedOptimizer::Bytes>>
UnshardedOptimizer::Reduce(const std::vector<LocalGradients>& gradients) const {
  if (gradients.size() != parameters_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("want gradients of ", parameters_.size(),
                     " parameters, got ", gradients.size()));
  }
  std::vector<Bytes> reduced(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterSpec& spec = parameters_[i].spec;
    if (IsAbsent(gradients[i])) {
      if (spec.absent_gradient == AbsentGradient::kError) {
        return absl::FailedPreconditionError(absl::StrCat(
            "parameter \"", spec.name, "\" has no gradient on any rank"));
      }
      if (spec.absent_gradient == AbsentGradient::kSkip) continue;
    }
    absl::StatusOr<Bytes> folded =
        FoldGradients(spec, gradients[i], parameters_[i].divisor);
    if (!folded.ok()) return folded.status();
    reduced[i] = *std::move(folded);
  }
  return reduced;
}

void UnshardedOptimizer::UpdateMuon(const MuonOptions& options,
                                    const Bytes& gradient, double clip_factor,
                                    Parameter& parameter) {
  const ParameterSpec& spec = parameter.spec;
  const UpdateFactors factors = {
      .learning_rate = options.learning_rate * spec.learning_rate_scale,
      .weight_decay = spec.weight_decay ? options.weight_decay : 0,
      .clip = clip_factor,
      .step = parameter.steps};
  for (const Unit& unit : UnitsOf(spec)) {
    const MuonUnit muon_unit = MuonUnitOf(spec, unit.rows);
    const size_t offset = static_cast<size_t>(unit.offset);
    const size_t count = static_cast<size_t>(unit.rows * unit.cols);
    std::vector<float> workspace(
        static_cast<size_t>(MuonWorkspaceCount(muon_unit)));
    std::byte* values =
        parameter.values.data() + offset * ByteWidth(spec.dtype);
    MuonUpdate(muon_unit, options, factors, spec.gradient_dtype,
               gradient.data() + offset * ByteWidth(spec.gradient_dtype),
               std::span(parameter.first).subspan(offset, count), spec.dtype,
               values, values, workspace);
  }
}

void UnshardedOptimizer::UpdateAdamW(const AdamWOptions& options,
                                     const Bytes& gradient, double clip_factor,
                                     Parameter& parameter) {
  const ParameterSpec& spec = parameter.spec;
  const UpdateFactors factors = {
      .learning_rate = options.learning_rate * spec.learning_rate_scale,
      .weight_decay = spec.weight_decay ? options.weight_decay : 0,
      .clip = clip_factor,
      .step = parameter.steps};
  AdamWUpdate(options, factors, spec.gradient_dtype, gradient.data(),
              parameter.first, parameter.second, spec.dtype,
              parameter.values.data(), parameter.values.data());
}

}  // namespace muonshard
