// What every Runtime must do, and events and streams on top of it.
//
// A runtime joins with one statement:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, RuntimeContract,
//                            ::testing::Values(RuntimeCase{"Mine", &RunOnIt}));

#ifndef COLLECTIVES_RUNTIME_RUNTIME_CONTRACT_H_
#define COLLECTIVES_RUNTIME_RUNTIME_CONTRACT_H_

#include <functional>
#include <ostream>
#include <string>

#include "collectives/runtime/runtime.h"
#include "gtest/gtest.h"

namespace muonshard {

using RuntimeProgram = std::function<void(Runtime&)>;

struct RuntimeCase {
  std::string name;
  // Runs the program on a fresh runtime, at least once, and expects that the
  // runtime finds no fault with it.
  std::function<void(const RuntimeProgram&)> run;

  friend std::ostream& operator<<(std::ostream& out,
                                  const RuntimeCase& tested) {
    return out << tested.name;
  }
};

class RuntimeContract : public ::testing::TestWithParam<RuntimeCase> {
 protected:
  void OnRuntime(const RuntimeProgram& program) { GetParam().run(program); }
};

}  // namespace muonshard

#endif  // COLLECTIVES_RUNTIME_RUNTIME_CONTRACT_H_
