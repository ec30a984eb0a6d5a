#include "testing/run_difference.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "optimizer/compute/convert.h"

namespace muonshard::testing {
namespace {

absl::Status Different(const std::string& where, const std::string& want,
                       const std::string& got) {
  return absl::DataLossError(
      absl::StrCat(where, ": want ", want, ", got ", got));
}

std::string Quoted(const ParameterSpec& spec) {
  return absl::StrCat("parameter \"", spec.name, "\"");
}

absl::Status CheckParameter(const ParameterSpec& spec, const std::string& rank,
                            const ParameterBytes& got,
                            const ParameterBytes& want) {
  if (got == want) return absl::OkStatus();
  const std::string where = absl::StrCat(rank, ", ", Quoted(spec));
  if (got.size() != want.size()) {
    return Different(where, absl::StrCat(want.size(), " bytes"),
                     absl::StrCat(got.size()));
  }
  const size_t width = ByteWidth(spec.dtype);
  const auto at = static_cast<size_t>(
      std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin());
  const size_t element = at / width;
  const auto value = [&](const ParameterBytes& bytes) {
    std::vector<float> one(1);
    ToFloat(spec.dtype, bytes.data() + element * width, one);
    return absl::StrCat(one[0]);
  };
  return Different(absl::StrCat(where, ", element ", element), value(want),
                   value(got));
}

std::string Describe(const StepOutcome& outcome) {
  return absl::StrCat(outcome.updated ? "an update" : "a skip", " with norm ",
                      outcome.gradient_norm, ", factor ", outcome.clip_factor,
                      " and ", outcome.non_finite_count,
                      " elements that are not finite");
}

bool SameOutcome(const StepOutcome& a, const StepOutcome& b) {
  return a.updated == b.updated && a.gradient_norm == b.gradient_norm &&
         a.clip_factor == b.clip_factor &&
         a.non_finite_count == b.non_finite_count;
}

absl::Status CheckSteps(const ShardedRun& got, const UnshardedRun& want,
                        size_t r, const std::string& rank) {
  if (got.outcomes[r].size() != want.outcomes.size()) {
    return Different(absl::StrCat(rank, ", steps"),
                     absl::StrCat(want.outcomes.size()),
                     absl::StrCat(got.outcomes[r].size()));
  }
  for (size_t s = 0; s < want.outcomes.size(); ++s) {
    const std::string where = absl::StrCat(rank, ", step ", s + 1);
    const absl::Status& result = got.step_results[r][s];
    if (result.code() != want.step_results[s].code()) {
      return Different(where, want.step_results[s].ToString(),
                       result.ToString());
    }
    if (!SameOutcome(got.outcomes[r][s], want.outcomes[s])) {
      return Different(where, Describe(want.outcomes[s]),
                       Describe(got.outcomes[r][s]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameRun(const ShardedCase& sharded, const ShardedRun& got,
                          const UnshardedRun& want) {
  if (!got.ended.ok()) return got.ended;
  for (const absl::Status& result : got.results) {
    if (!result.ok()) return result;
  }
  if (got.parameters.size() != want.parameters.size()) {
    return Different("ranks", absl::StrCat(want.parameters.size()),
                     absl::StrCat(got.parameters.size()));
  }
  for (size_t r = 0; r < got.parameters.size(); ++r) {
    const std::string rank = absl::StrCat("rank ", r);
    if (absl::Status s = CheckSteps(got, want, r, rank); !s.ok()) return s;
    for (size_t p = 0; p < sharded.specs.size(); ++p) {
      const absl::Status s = CheckParameter(
          sharded.specs[p], rank, got.parameters[r][p], want.parameters[r][p]);
      if (!s.ok()) return s;
    }
    if (!(got.scalers[r] == want.scaler)) {
      return Different(absl::StrCat(rank, ", loss scale"),
                       absl::StrCat(want.scaler.scale),
                       absl::StrCat(got.scalers[r].scale));
    }
  }
  return absl::OkStatus();
}

}  // namespace muonshard::testing
