// The parameters of any model, from a JSON text.
//
//   {"parameters": [
//     {"name": "embedding", "shape": [50257, 768], "rule": "adamw"},
//     {"repeat": 12, "parameters": [
//       {"name": "layers.{}.qkv", "shape": [2304, 768], "rule": "muon",
//        "blocks": {"sizes": [768, 768, 768]}},
//       {"name": "layers.{}.experts", "shape": [4, 1408, 768], "rule": "muon",
//        "dtype": "bf16", "gradient_dtype": "f32",
//        "roles": {"ep": "distinct"}}]}]}
//
// In this file
//   fields    those of ParameterSpec, by name: name, shape, rule (required);
//             dtype, gradient_dtype, fan_out_dimension, roles, coordinates,
//             blockwise, blocks {dimension, sizes, padding}, gradient_mode,
//             absent_gradient, check_ins, learning_rate_scale, schedule,
//             weight_decay
//   repeat    copies of its parameters one after another, "{}" in a name being
//             the number of the copy, from 0; not inside another
//
// Result     In the order of the text. Not yet validated against a mesh.
// Errors     kInvalidArgument names the place in the text or the parameter and
//            field, what was wanted and what was got: a field of no such name,
//            one given twice, a wrong type, an unknown word.

#ifndef OPTIMIZER_SHAPES_SHAPES_FILE_H_
#define OPTIMIZER_SHAPES_SHAPES_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "optimizer/parameter_spec.h"

namespace muonshard {

absl::StatusOr<std::vector<ParameterSpec>> ParseShapes(absl::string_view json);

}  // namespace muonshard

#endif  // OPTIMIZER_SHAPES_SHAPES_FILE_H_
