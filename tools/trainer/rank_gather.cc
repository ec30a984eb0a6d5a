#include "tools/trainer/rank_gather.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tools/trainer/byte_record.h"

namespace muonshard {
namespace {

void TakeTime(ByteReader& reader, absl::Time& time) {
  int64_t nanoseconds = 0;
  reader.Take(nanoseconds);
  time = absl::FromUnixNanos(nanoseconds);
}

void TakeDuration(ByteReader& reader, absl::Duration& duration) {
  int64_t nanoseconds = 0;
  reader.Take(nanoseconds);
  duration = absl::Nanoseconds(nanoseconds);
}

std::string ToBytes(const RankResult& result) {
  ByteWriter writer;
  writer.PutAll(result.held_out_first);
  writer.PutAll(result.held_out_last);
  writer.Put(absl::ToUnixNanos(result.training_begin));
  writer.Put(absl::ToUnixNanos(result.training_end));
  writer.Put(result.bytes.bucket_bytes_sent);
  writer.Put(result.bytes.control_bytes_sent);
  writer.Put(result.bytes.bucket_bytes_planned);
  writer.Put(result.skipped_steps);
  writer.Put(result.loss_scale);
  writer.PutAll(result.expert_positions);
  writer.Put(result.imbalance);
  writer.Put(result.padding_fraction);
  writer.Put(result.bucket_count);
  writer.PutText(result.plan_report);
  writer.Put(result.difference.max_abs);
  writer.Put(result.difference.different_count);
  writer.Put(result.parameter_hash);
  return writer.bytes();
}

absl::StatusOr<RankResult> RankResultOfBytes(absl::string_view bytes) {
  ByteReader reader(bytes);
  RankResult result;
  reader.TakeAll(result.held_out_first);
  reader.TakeAll(result.held_out_last);
  TakeTime(reader, result.training_begin);
  TakeTime(reader, result.training_end);
  reader.Take(result.bytes.bucket_bytes_sent);
  reader.Take(result.bytes.control_bytes_sent);
  reader.Take(result.bytes.bucket_bytes_planned);
  reader.Take(result.skipped_steps);
  reader.Take(result.loss_scale);
  reader.TakeAll(result.expert_positions);
  reader.Take(result.imbalance);
  reader.Take(result.padding_fraction);
  reader.Take(result.bucket_count);
  result.plan_report = std::string(reader.TakeText());
  reader.Take(result.difference.max_abs);
  reader.Take(result.difference.different_count);
  reader.Take(result.parameter_hash);
  if (!reader.exhausted()) {
    return absl::DataLossError(absl::StrCat(
        "the result of a rank: ", bytes.size(), " bytes are not of one"));
  }
  return result;
}

void PutShare(const StepShare& share, ByteWriter& writer) {
  writer.Put(share.loss);
  for (const absl::Duration duration :
       {share.duration, share.newton_schulz, share.exposed_communication}) {
    writer.Put(absl::ToInt64Nanoseconds(duration));
  }
}

StepShare TakeShare(ByteReader& reader) {
  StepShare share;
  reader.Take(share.loss);
  TakeDuration(reader, share.duration);
  TakeDuration(reader, share.newton_schulz);
  TakeDuration(reader, share.exposed_communication);
  return share;
}

}  // namespace

absl::Status GatherBackward(Rank own, int64_t step, double loss_scale,
                            RankExchange& exchange, Verifier& verifier) {
  const absl::StatusOr<std::vector<std::string>> contributions =
      exchange.Gather(verifier.Contribution(own, step, loss_scale));
  if (!contributions.ok()) return contributions.status();
  for (size_t r = 0; r < contributions->size(); ++r) {
    const Rank rank{static_cast<int32_t>(r)};
    const absl::Status status =
        rank == own
            ? verifier.EndBackward(rank, step, loss_scale)
            : verifier.TakeContribution(rank, step, (*contributions)[r]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GatherSteps(int64_t first, int64_t last, Rank own,
                         RankExchange& exchange, StepMeter& meter) {
  ByteWriter shares;
  for (int64_t step = first + 1; step <= last; ++step) {
    PutShare(meter.ShareOf(ToInt(own), step), shares);
  }
  const absl::StatusOr<std::vector<std::string>> gathered =
      exchange.Gather(shares.bytes());
  if (!gathered.ok()) return gathered.status();
  for (size_t r = 0; r < gathered->size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    if (Rank{rank} == own) continue;
    ByteReader reader((*gathered)[r]);
    for (int64_t step = first + 1; step <= last; ++step) {
      meter.AddShare(rank, step, TakeShare(reader));
    }
    if (reader.exhausted()) continue;
    return absl::DataLossError(
        absl::StrCat("what rank ", rank, " measured: want steps ", first + 1,
                     " to ", last, ", got another number"));
  }
  return absl::OkStatus();
}

absl::Status GatherResults(const RankResult& own, RankExchange& exchange,
                           std::vector<RankResult>& results) {
  const absl::StatusOr<std::vector<std::string>> gathered =
      exchange.Gather(ToBytes(own));
  if (!gathered.ok()) return gathered.status();
  results.clear();
  for (const std::string& bytes : *gathered) {
    absl::StatusOr<RankResult> result = RankResultOfBytes(bytes);
    if (!result.ok()) return result.status();
    results.push_back(*std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace muonshard
