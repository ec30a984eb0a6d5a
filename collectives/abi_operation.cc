#include "collectives/abi_operation.h"

#include <cstdint>

#include "collectives/abi_time.h"
#include "collectives/host_table.h"

namespace muonshard {
namespace {

// Null for an empty list. Checked counts are not negative, so that they read
// the same without a sign.
const uint64_t* Counts(const std::vector<int64_t>& counts) {
  if (counts.empty()) return nullptr;
  return reinterpret_cast<const uint64_t*>(counts.data());
}

}  // namespace

AbiOperation::AbiOperation(const Operation& operation) : abi_{} {
  ready_.reserve(operation.options.ready.size());
  for (const Event& event : operation.options.ready) {
    ready_.push_back(EventHandle(event));
  }
  abi_.header.size = MUONSHARD_END(muonshard_operation, label);
  abi_.kind = static_cast<uint32_t>(operation.kind);
  abi_.data_type = static_cast<uint32_t>(operation.data_type);
  if (Reduces(operation.kind)) {
    abi_.reduction = static_cast<uint32_t>(operation.reduction.kind);
  }
  abi_.memory_kind = MUONSHARD_MEMORY_HOST;
  abi_.root = ToInt(operation.root);
  abi_.peer = ToInt(operation.peer);
  // The plugin only reads `in`; the ABI has one struct for both.
  abi_.in = {const_cast<void*>(operation.in.data),
             static_cast<uint64_t>(operation.in.count)};
  abi_.out = {operation.out.data, static_cast<uint64_t>(operation.out.count)};
  abi_.in_counts = Counts(operation.in_counts);
  abi_.in_displacements = Counts(operation.in_displacements);
  abi_.out_counts = Counts(operation.out_counts);
  abi_.out_displacements = Counts(operation.out_displacements);
  abi_.scale = operation.reduction.kind == ReductionKind::kScaledSum
                   ? operation.reduction.scale
                   : 1;
  abi_.ready = ready_.data();
  abi_.ready_count = static_cast<uint32_t>(ready_.size());
  abi_.deadline_ns = ToAbiNanoseconds(operation.options.deadline);
  abi_.user_fingerprint = operation.options.fingerprint;
  abi_.label = operation.options.label.c_str();
}

}  // namespace muonshard
