#include "collectives/operation.h"

#include "absl/strings/str_cat.h"

namespace muonshard {

absl::string_view OperationKindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "AllReduce";
    case OperationKind::kReduce:
      return "Reduce";
    case OperationKind::kBroadcast:
      return "Broadcast";
    case OperationKind::kReduceScatterV:
      return "ReduceScatterV";
    case OperationKind::kAllGatherV:
      return "AllGatherV";
    case OperationKind::kAllToAllV:
      return "AllToAllV";
    case OperationKind::kSend:
      return "Send";
    case OperationKind::kRecv:
      return "Recv";
    case OperationKind::kBarrier:
      return "Barrier";
  }
  return "unknown operation";
}

std::string DescribeOperation(const Operation& operation) {
  const absl::string_view kind = OperationKindName(operation.kind);
  if (operation.options.label.empty()) return std::string(kind);
  return absl::StrCat(kind, " \"", operation.options.label, "\"");
}

}  // namespace muonshard
