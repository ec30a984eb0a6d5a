#include "optimizer/unsharded/unsharded_optimizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"
#include "optimizer/compute/exact_sum.h"
#include "optimizer/compute/gradient_norm.h"
#include "optimizer/muon_unit.h"
#include "optimizer/step_fields.h"

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

// Of all units together.
size_t RowMomentCount(const ParameterSpec& spec, const MuonOptions& options) {
  int64_t count = 0;
  for (const Unit& unit : UnitsOf(spec)) {
    count += MuonRowMomentCount(MuonUnitOf(spec, unit.rows), options);
  }
  return static_cast<size_t>(count);
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
  optimizer.schedules_ = SchedulesOf(specs);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (absl::Status s = CheckSpec(specs[i], parameters[i].size()); !s.ok()) {
      return s;
    }
    const size_t count = static_cast<size_t>(ElementCount(specs[i]));
    const size_t second_count = specs[i].rule == Rule::kAdamW
                                    ? count
                                    : RowMomentCount(specs[i], options.muon);
    optimizer.parameters_.push_back({.spec = std::move(specs[i]),
                                     .divisor = divisors[i],
                                     .values = std::move(parameters[i]),
                                     .first = std::vector<float>(count),
                                     .second = std::vector<float>(second_count),
                                     .master = {},
                                     .steps = 0});
  }
  return optimizer;
}

absl::StatusOr<StepOutcome> UnshardedOptimizer::Step(
    const UnshardedStepInput& input) {
  const StepOptions& options = input.options;
  if (absl::Status s = Validate(options, schedules_); !s.ok()) return s;
  for (const Parameter& parameter : parameters_) {
    const absl::Status s = CheckRates(parameter.spec, options_, options);
    if (!s.ok()) return s;
  }
  absl::StatusOr<std::vector<Bytes>> reduced = Reduce(input.gradients);
  if (!reduced.ok()) return reduced.status();

  StepOutcome outcome;
  ExactSum squares;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if ((*reduced)[i].empty()) continue;
    outcome.non_finite_count +=
        AddSquaresOf(parameters_[i].spec, (*reduced)[i].data(), squares);
  }
  outcome.gradient_norm = GlobalNorm(squares, options.loss_scale);
  outcome.clip_factor = ClipFactor(outcome.gradient_norm, options.clip_norm);
  outcome.updated = outcome.non_finite_count == 0;
  if (outcome.updated &&
      !GradientFactorFits(outcome.gradient_norm, outcome.clip_factor,
                          options.loss_scale)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "want a loss scale with which f32 holds the gradients and their "
        "factor, got ",
        options.loss_scale, " with a norm of ", outcome.gradient_norm,
        " and a clip factor of ", outcome.clip_factor));
  }
  outcome.step = ++steps_;
  if (!outcome.updated) return outcome;
  const double gradient_factor =
      GradientFactor(outcome.clip_factor, options.loss_scale);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Bytes& gradient = (*reduced)[i];
    if (gradient.empty()) continue;
    Update(gradient, FactorsOf(parameters_[i].spec, options, gradient_factor),
           parameters_[i]);
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

UpdateFactors UnshardedOptimizer::FactorsOf(const ParameterSpec& spec,
                                            const StepOptions& options,
                                            double gradient_factor) const {
  const ParameterRates rates = RatesOf(spec, options_, options);
  return {.learning_rate = rates.learning_rate,
          .weight_decay = rates.weight_decay,
          .gradient_factor = gradient_factor};
}

void UnshardedOptimizer::Update(const Bytes& gradient, UpdateFactors factors,
                                Parameter& parameter) const {
  const ParameterSpec& spec = parameter.spec;
  factors.step = ++parameter.steps;
  DataType dtype = spec.dtype;
  std::byte* values = parameter.values.data();
  const bool has_master = options_.master_weights && dtype != DataType::kF32;
  if (has_master) {
    if (parameter.master.empty()) {
      parameter.master.resize(parameter.first.size());
      ToFloat(dtype, values, parameter.master);
    }
    dtype = DataType::kF32;
    values = std::as_writable_bytes(std::span(parameter.master)).data();
  }
  if (spec.rule == Rule::kMuon) {
    UpdateMuon(gradient, factors, parameter, dtype, values);
  } else {
    AdamWUpdate(options_.adamw, factors, spec.gradient_dtype, gradient.data(),
                parameter.first, parameter.second, dtype, values, values);
  }
  if (has_master) {
    FromFloat(spec.dtype, parameter.master, parameter.values.data());
  }
}

void UnshardedOptimizer::UpdateMuon(const Bytes& gradient,
                                    const UpdateFactors& factors,
                                    Parameter& parameter, DataType dtype,
                                    std::byte* values) const {
  const ParameterSpec& spec = parameter.spec;
  std::span<float> row_moments = parameter.second;
  for (const Unit& unit : UnitsOf(spec)) {
    const MuonUnit muon_unit = MuonUnitOf(spec, unit.rows);
    const auto moment_count =
        static_cast<size_t>(MuonRowMomentCount(muon_unit, options_.muon));
    const size_t offset = static_cast<size_t>(unit.offset);
    const size_t count = static_cast<size_t>(unit.rows * unit.cols);
    std::vector<float> workspace(
        static_cast<size_t>(MuonWorkspaceCount(muon_unit, options_.muon)));
    std::byte* unit_values = values + offset * ByteWidth(dtype);
    MuonUpdate(muon_unit, options_.muon, factors, spec.gradient_dtype,
               gradient.data() + offset * ByteWidth(spec.gradient_dtype),
               {.momentum = std::span(parameter.first).subspan(offset, count),
                .row_moments = row_moments.first(moment_count)},
               dtype, unit_values, unit_values, workspace);
    row_moments = row_moments.subspan(moment_count);
  }
}

}  // namespace muonshard
