#include "testing/sharded_case.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optimizer/compute/convert.h"
#include "testing/seeded_random.h"

namespace muonshard::testing {
namespace {

ParameterBytes ToBytes(DataType type, const std::vector<float>& values) {
  ParameterBytes bytes(values.size() * ByteWidth(type));
  FromFloat(type, values, bytes.data());
  return bytes;
}

// A number for the place where a parameter lives: its coordinates over the
// axes on which other values live.
uint64_t PlaceOf(const ParameterSpec& spec, const Mesh& mesh, Rank rank) {
  uint64_t place = 0;
  const std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  for (size_t a = 0; a < coordinates.size(); ++a) {
    const MeshAxis& axis = mesh.axes()[a];
    const AxisRole role = RoleOver(spec, axis.name);
    if (role != AxisRole::kDistinct && role != AxisRole::kSlice) continue;
    place = place * static_cast<uint64_t>(axis.degree) +
            static_cast<uint64_t>(coordinates[a]);
  }
  return place;
}

// The first of the ranks that have the same gradients as `rank`.
Rank FirstDuplicateOf(const ShardedCase& sharded, Rank rank, int32_t p) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  const auto duplicates = [](const auto& role) {
    return role.second == AxisRole::kDuplicate;
  };
  if (std::none_of(spec.roles.begin(), spec.roles.end(), duplicates)) {
    return rank;
  }
  const Mesh mesh = *Mesh::Parse(sharded.mesh);
  std::vector<int32_t> coordinates = mesh.Coordinates(rank);
  for (size_t a = 0; a < coordinates.size(); ++a) {
    if (RoleOver(spec, mesh.axes()[a].name) == AxisRole::kDuplicate) {
      coordinates[a] = 0;
    }
  }
  return mesh.RankOf(coordinates);
}

// What makes sums divisible by every divisor on the mesh, without a rounding.
float UnitOfExactSums(const ShardedCase& sharded) {
  int32_t odd = Mesh::Parse(sharded.mesh)->size();
  while (odd % 2 == 0) odd /= 2;
  return static_cast<float>(odd);
}

SeededRandom RandomOf(uint64_t seed, Rank rank, int32_t p, int64_t step) {
  SeededRandom random(seed);
  random.Mix(static_cast<uint64_t>(ToInt(rank)));
  random.Mix(static_cast<uint64_t>(p));
  random.Mix(static_cast<uint64_t>(step));
  return random;
}

}  // namespace

HostMap HostsOf(const ShardedCase& sharded, const Mesh& mesh) {
  if (!sharded.hosts.empty()) return HostMap::FromHostIds(sharded.hosts);
  return HostMap::FromHostIds(std::vector<std::string>(
      static_cast<size_t>(mesh.size()), "the only host"));
}

int32_t CheckInCountOf(const ShardedCase& sharded, Rank rank, int32_t p,
                       int64_t step) {
  const Rank first = FirstDuplicateOf(sharded, rank, p);
  if (sharded.has_gradient && !sharded.has_gradient(first, p, step)) return 0;
  const CheckIns check_ins = sharded.specs[static_cast<size_t>(p)].check_ins;
  if (check_ins == CheckIns::kExactly) return sharded.micro_batches;
  SeededRandom random = RandomOf(sharded.seed + 3, first, p, step);
  const auto limit = static_cast<uint64_t>(
      sharded.micro_batches + (check_ins == CheckIns::kSyncOnly ? 1 : 0));
  return 1 + static_cast<int32_t>(random.Below(limit));
}

ParameterBytes GradientOf(const ShardedCase& sharded, Rank rank, int32_t p,
                          int64_t step, int32_t check_in, double loss_scale) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  const Rank first = FirstDuplicateOf(sharded, rank, p);
  SeededRandom random = RandomOf(sharded.seed, first, p, step);
  random.Mix(static_cast<uint64_t>(check_in));
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  const auto scale = static_cast<float>(loss_scale);
  const float unit = UnitOfExactSums(sharded);
  for (float& value : values) {
    value = sharded.gradients == GradientValues::kExactSums
                ? unit * (static_cast<float>(random.Below(3)) - 1.0f)
                : random.Between(-1.0f, 1.0f);
    value *= scale;
  }
  for (const InjectedOverflow& overflow : sharded.overflows) {
    if (overflow.parameter == p && overflow.step == step && check_in == 0 &&
        FirstDuplicateOf(sharded, overflow.rank, p) == first) {
      values[values.size() / 2] = std::numeric_limits<float>::infinity();
    }
  }
  return ToBytes(spec.gradient_dtype, values);
}

void AddGradient(DataType type, const ParameterBytes& gradient,
                 std::byte* sum) {
  const size_t count = gradient.size() / ByteWidth(type);
  std::vector<float> a(count);
  std::vector<float> b(count);
  ToFloat(type, sum, a);
  ToFloat(type, gradient.data(), b);
  for (size_t i = 0; i < count; ++i) a[i] += b[i];
  FromFloat(type, a, sum);
}

ParameterBytes FirstValuesOf(const ShardedCase& sharded, const Mesh& mesh,
                             Rank rank, int32_t p) {
  const ParameterSpec& spec = sharded.specs[static_cast<size_t>(p)];
  SeededRandom random(sharded.seed + 1);
  random.Mix(PlaceOf(spec, mesh, rank));
  random.Mix(static_cast<uint64_t>(p));
  std::vector<float> values(static_cast<size_t>(ElementCount(spec)));
  for (float& value : values) value = random.Between(-0.5f, 0.5f);
  return ToBytes(spec.dtype, values);
}

std::string Describe(const ShardedCase& sharded) {
  std::string text = absl::StrCat(
      "seed ", sharded.seed, ", mesh ", sharded.mesh, ", hosts ",
      absl::StrJoin(sharded.hosts, " "), ", bucket_bytes_max ",
      sharded.options.plan.bucket_bytes_max, ", hierarchy ",
      static_cast<int>(sharded.options.plan.hierarchy), ", overlap ",
      sharded.options.overlap ? "on" : "off", ", micro-batches ",
      sharded.micro_batches, ", clip ", sharded.clip_norm, ", scaler ",
      sharded.scaler.has_value() ? "on" : "off", "\n");
  for (const ParameterSpec& spec : sharded.specs) {
    absl::StrAppend(&text, "  ", spec.name, " ", RuleName(spec.rule), " ",
                    DataTypeName(spec.dtype), " gradient ",
                    DataTypeName(spec.gradient_dtype), " mode ",
                    static_cast<int>(spec.gradient_mode), " check-ins ",
                    static_cast<int>(spec.check_ins), " [",
                    absl::StrJoin(spec.shape, " "), "]");
    for (const auto& [axis, role] : spec.roles) {
      absl::StrAppend(&text, " ", axis, ":", AxisRoleName(role));
    }
    for (const auto& [axis, at] : spec.coordinates) {
      absl::StrAppend(&text, " at ", axis, "=", absl::StrJoin(at, ","));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace muonshard::testing
