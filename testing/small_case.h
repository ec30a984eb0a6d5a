// A small fixed case that step tests vary: two Muon matrices and a vector over
// three ranks, with everything that a step can go wrong on.

#ifndef TESTING_SMALL_CASE_H_
#define TESTING_SMALL_CASE_H_

#include "testing/sharded_case.h"

namespace muonshard::testing {

// Parameters "qkv" [12, 8] with three blocks of rows, "proj" [8, 4] and "bias"
// [300] over the mesh "data=3".
inline ShardedCase SmallCase() {
  ShardedCase sharded;
  sharded.mesh = "data=3";
  sharded.seed = 17;
  ParameterSpec qkv;
  qkv.name = "qkv";
  qkv.rule = Rule::kMuon;
  qkv.shape = {12, 8};
  qkv.blocks.sizes = {4, 4, 4};
  ParameterSpec proj;
  proj.name = "proj";
  proj.rule = Rule::kMuon;
  proj.shape = {8, 4};
  ParameterSpec bias;
  bias.name = "bias";
  bias.shape = {300};
  sharded.specs = {qkv, proj, bias};
  sharded.options.plan.bucket_bytes_max = 600;
  return sharded;
}

}  // namespace muonshard::testing

#endif  // TESTING_SMALL_CASE_H_
