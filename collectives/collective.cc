#include "collectives/collective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/check_operation.h"
#include "collectives/post_calls.h"

namespace muonshard {

Collective::Collective(Runtime& runtime, Rank rank, int32_t size,
                       std::string name, Capabilities capabilities)
    : runtime_(runtime),
      rank_(rank),
      size_(size),
      name_(std::move(name)),
      capabilities_(capabilities) {}

absl::StatusOr<Work> Collective::Start(Operation operation) {
  if (absl::Status s = CheckOperation(operation, rank_, size_, capabilities_);
      !s.ok()) {
    return s;
  }
  return PostAlone(std::move(operation));
}

absl::StatusOr<Work> Collective::PostAlone(Operation operation) {
  absl::StatusOr<LoweredCall> call = Lower(std::move(operation));
  if (!call.ok()) return call.status();
  std::vector<LoweredCall> calls;
  calls.push_back(*std::move(call));
  absl::StatusOr<std::vector<Work>> works = PostCalls(std::move(calls));
  if (!works.ok()) return works.status();
  return std::move(works->front());
}

absl::StatusOr<std::unique_ptr<CollectiveMemory>> Collective::NewMemory(
    int64_t bytes, absl::Time) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("group \"", name_, "\", rank ", ToInt(rank_),
                     ": want memory of at least 0 bytes, got ", bytes));
  }
  return NewOrdinaryMemory(bytes);
}

absl::StatusOr<LoweredCall> Collective::LowerWith(Collective& collective,
                                                  Operation operation) {
  return collective.Lower(std::move(operation));
}

void Collective::BreakWith(Collective& collective, const absl::Status& error) {
  collective.Break(error);
}

absl::StatusOr<Work> Collective::AllReduce(ConstBuffer in, MutableBuffer out,
                                           Reduction reduction,
                                           CallOptions options) {
  return Start({.kind = OperationKind::kAllReduce,
                .data_type = in.type,
                .reduction = reduction,
                .in = in,
                .out = out,
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::Reduce(ConstBuffer in, MutableBuffer out,
                                        Reduction reduction, Rank root,
                                        CallOptions options) {
  return Start({.kind = OperationKind::kReduce,
                .data_type = in.type,
                .reduction = reduction,
                .root = root,
                .in = in,
                .out = out,
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::Broadcast(ConstBuffer in, MutableBuffer out,
                                           Rank root, CallOptions options) {
  return Start({.kind = OperationKind::kBroadcast,
                .data_type = out.type,
                .root = root,
                .in = in,
                .out = out,
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::ReduceScatterV(ConstBuffer in,
                                                MutableBuffer out,
                                                std::vector<int64_t> counts,
                                                Reduction reduction,
                                                CallOptions options) {
  return Start({.kind = OperationKind::kReduceScatterV,
                .data_type = in.type,
                .reduction = reduction,
                .in = in,
                .out = out,
                .in_counts = std::move(counts),
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::AllGatherV(ConstBuffer in, MutableBuffer out,
                                            std::vector<int64_t> counts,
                                            CallOptions options) {
  return Start({.kind = OperationKind::kAllGatherV,
                .data_type = out.type,
                .in = in,
                .out = out,
                .out_counts = std::move(counts),
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::AllToAllV(ConstBuffer in, MutableBuffer out,
                                           std::vector<int64_t> in_counts,
                                           std::vector<int64_t> out_counts,
                                           CallOptions options) {
  return Start({.kind = OperationKind::kAllToAllV,
                .data_type = in.count > 0 ? in.type : out.type,
                .in = in,
                .out = out,
                .in_counts = std::move(in_counts),
                .out_counts = std::move(out_counts),
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::Send(ConstBuffer in, Rank peer,
                                      CallOptions options) {
  return Start({.kind = OperationKind::kSend,
                .data_type = in.type,
                .peer = peer,
                .in = in,
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::Recv(MutableBuffer out, Rank peer,
                                      CallOptions options) {
  return Start({.kind = OperationKind::kRecv,
                .data_type = out.type,
                .peer = peer,
                .out = out,
                .options = std::move(options)});
}

absl::StatusOr<Work> Collective::Barrier(CallOptions options) {
  return Start(
      {.kind = OperationKind::kBarrier, .options = std::move(options)});
}

}  // namespace muonshard
