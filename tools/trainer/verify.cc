#include "tools/trainer/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/data_type.h"
#include "optimizer/compute/convert.h"
#include "optimizer/step_options.h"
#include "tools/trainer/byte_record.h"

namespace muonshard {
namespace {

// Every parameter at every place is a parameter of its own here.
absl::StatusOr<UnshardedOptimizer> MakeOptimizer(
    const VerifySetup& setup, const std::vector<GradientPlace>& places) {
  std::vector<ParameterSpec> specs;
  std::vector<int64_t> divisors;
  std::vector<std::vector<std::byte>> values;
  for (const GradientPlace& place : places) {
    ParameterSpec spec = setup.specs[static_cast<size_t>(place.parameter)];
    for (const auto& [axis, coordinate] : place.coordinates) {
      absl::StrAppend(&spec.name, "@", axis, "=", coordinate);
    }
    specs.push_back(std::move(spec));
    divisors.push_back(place.divisor);
    values.push_back(setup.first_values(place.groups[0][0], place.parameter));
  }
  return UnshardedOptimizer::Create(std::move(specs), setup.options,
                                    std::move(divisors), std::move(values));
}

// sum += in, rounded to `type`.
void AddRounded(DataType type, std::span<const std::byte> in,
                std::span<std::byte> sum) {
  std::vector<float> total(sum.size() / ByteWidth(type));
  ToFloat(type, sum.data(), total);
  AddToFloat(type, in.data(), total);
  FromFloat(type, total, sum.data());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Verifier>> Verifier::Create(Runtime& runtime,
                                                           VerifySetup setup) {
  absl::StatusOr<std::vector<GradientPlace>> places = GradientPlaces(
      setup.specs, setup.mesh, setup.hosts, setup.options.plan.hierarchy);
  if (!places.ok()) return places.status();
  absl::StatusOr<UnshardedOptimizer> optimizer = MakeOptimizer(setup, *places);
  if (!optimizer.ok()) return optimizer.status();
  absl::StatusOr<GradScaler> scaler =
      GradScaler::Create(setup.scaler.value_or(GradScalerOptions()));
  if (!scaler.ok()) return scaler.status();
  return std::unique_ptr<Verifier>(
      new Verifier(runtime, std::move(setup), *std::move(places),
                   *std::move(optimizer), *std::move(scaler)));
}

Verifier::Verifier(Runtime& runtime, VerifySetup setup,
                   std::vector<GradientPlace> places,
                   UnshardedOptimizer optimizer, GradScaler scaler)
    : setup_(std::move(setup)),
      places_(std::move(places)),
      place_of_(static_cast<size_t>(setup_.mesh.size()),
                std::vector<int32_t>(setup_.specs.size(), -1)),
      mutex_(runtime.NewMutex()),
      optimizer_(std::move(optimizer)),
      scaler_(std::move(scaler)) {
  for (size_t i = 0; i < places_.size(); ++i) {
    for (const Rank rank : RanksOf(places_[i])) {
      place_of_[static_cast<size_t>(ToInt(rank))]
               [static_cast<size_t>(places_[i].parameter)] =
                   static_cast<int32_t>(i);
    }
  }
}

Verifier::OfStep& Verifier::At(int64_t step) {
  OfStep& of_step = steps_[step];
  of_step.ranks.resize(place_of_.size());
  return of_step;
}

void Verifier::Deposit(Rank rank, int64_t step, int32_t parameter,
                       std::span<const std::byte> gradient) {
  const MutexLock lock(*mutex_);
  const auto p = static_cast<size_t>(parameter);
  OfRank& of_rank = At(step).ranks[static_cast<size_t>(ToInt(rank))];
  of_rank.sums.resize(setup_.specs.size());
  std::vector<std::byte>& sum = of_rank.sums[p];
  if (sum.empty()) {
    sum.assign(gradient.begin(), gradient.end());
  } else {
    AddRounded(setup_.specs[p].gradient_dtype, gradient, sum);
  }
}

absl::Status Verifier::EndBackward(Rank rank, int64_t step, double loss_scale) {
  const MutexLock lock(*mutex_);
  if (!status_.ok()) return status_;
  OfStep& of_step = At(step);
  of_step.ranks[static_cast<size_t>(ToInt(rank))].loss_scale = loss_scale;
  if (++of_step.ranks_done < setup_.mesh.size()) return absl::OkStatus();
  status_ = CheckScales(of_step);
  if (status_.ok()) status_ = TakeStep(of_step);
  if (!status_.ok()) {
    status_ = absl::Status(status_.code(),
                           absl::StrCat("verify: step ", step, " on rank ",
                                        ToInt(rank), ": ", status_.message()));
  }
  steps_.erase(step);
  return status_;
}

std::string Verifier::Contribution(Rank rank, int64_t step, double loss_scale) {
  const MutexLock lock(*mutex_);
  const OfRank& of_rank = At(step).ranks[static_cast<size_t>(ToInt(rank))];
  ByteWriter writer;
  writer.Put(loss_scale);
  for (size_t p = 0; p < setup_.specs.size(); ++p) {
    if (of_rank.sums.empty()) {
      writer.PutText("");
    } else {
      const std::vector<std::byte>& sum = of_rank.sums[p];
      std::string text(sum.size(), '\0');
      if (!sum.empty()) std::memcpy(text.data(), sum.data(), sum.size());
      writer.PutText(text);
    }
  }
  return writer.bytes();
}

absl::Status Verifier::TakeContribution(Rank rank, int64_t step,
                                        absl::string_view contribution) {
  ByteReader reader(contribution);
  double loss_scale = 0;
  reader.Take(loss_scale);
  for (size_t p = 0; p < setup_.specs.size(); ++p) {
    const absl::string_view sum = reader.TakeText();
    if (sum.empty()) continue;
    Deposit(rank, step, static_cast<int32_t>(p),
            std::as_bytes(std::span(sum.data(), sum.size())));
  }
  if (!reader.exhausted()) {
    return absl::DataLossError(absl::StrCat(
        "verify: step ", step, ": what rank ", ToInt(rank),
        " gave does not hold ", setup_.specs.size(), " gradients"));
  }
  return EndBackward(rank, step, loss_scale);
}

absl::Status Verifier::CheckScales(const OfStep& of_step) const {
  const double wanted = setup_.scaler.has_value() ? scaler_.scale() : 1;
  for (size_t rank = 0; rank < of_step.ranks.size(); ++rank) {
    const double scale = of_step.ranks[rank].loss_scale;
    if (scale == wanted) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", rank, ": want a loss scale of ", wanted, ", got ", scale));
  }
  return absl::OkStatus();
}

absl::Status Verifier::TakeStep(const OfStep& of_step) {
  UnshardedStepInput input;
  input.options.clip_norm = setup_.clip_norm;
  input.options.loss_scale = of_step.ranks[0].loss_scale;
  for (const GradientPlace& place : places_) {
    const auto p = static_cast<size_t>(place.parameter);
    LocalGradients local;
    local.dtype = setup_.specs[p].gradient_dtype;
    local.group_lanes = place.group_lanes;
    local.replica_lanes = place.replica_lanes;
    for (const std::vector<Rank>& group : place.groups) {
      std::vector<RankGradients>& ranks = local.groups.emplace_back();
      for (const Rank rank : group) {
        const OfRank& of_rank = of_step.ranks[static_cast<size_t>(ToInt(rank))];
        const bool absent = of_rank.sums.empty() || of_rank.sums[p].empty();
        ranks.push_back(absent ? RankGradients{}
                               : RankGradients{of_rank.sums[p].data()});
      }
    }
    input.gradients.push_back(std::move(local));
  }
  const absl::StatusOr<StepOutcome> outcome = optimizer_.Step(input);
  if (!outcome.ok()) return outcome.status();
  scaler_.Update(*outcome);
  return absl::OkStatus();
}

void Verifier::Compare(Rank rank, int32_t parameter,
                       std::span<const std::byte> values,
                       VerifyDifference& difference) const {
  const MutexLock lock(*mutex_);
  const auto p = static_cast<size_t>(parameter);
  const int32_t place = place_of_[static_cast<size_t>(ToInt(rank))][p];
  if (place < 0) return;
  const std::span<const std::byte> wanted =
      optimizer_.parameter(static_cast<size_t>(place));
  const DataType type = setup_.specs[p].dtype;
  const size_t width = ByteWidth(type);
  std::vector<float> got_floats(values.size() / width);
  std::vector<float> wanted_floats(wanted.size() / width);
  ToFloat(type, values.data(), got_floats);
  ToFloat(type, wanted.data(), wanted_floats);
  for (size_t i = 0; i < got_floats.size(); ++i) {
    if (std::memcmp(values.data() + i * width, wanted.data() + i * width,
                    width) == 0) {
      continue;
    }
    ++difference.different_count;
    const double distance =
        std::abs(static_cast<double>(got_floats[i]) - wanted_floats[i]);
    // A NaN must not get lost in a comparison.
    difference.max_abs = std::isnan(distance)
                             ? std::numeric_limits<double>::quiet_NaN()
                             : std::max(difference.max_abs, distance);
  }
}

}  // namespace muonshard
