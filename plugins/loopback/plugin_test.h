// What the tests of the plugin table share: one rank alone, on a fake host.

#ifndef PLUGINS_LOOPBACK_PLUGIN_TEST_H_
#define PLUGINS_LOOPBACK_PLUGIN_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "collectives/plugin_abi.h"
#include "plugins/loopback/fake_host.h"

extern "C" const muonshard_plugin_table* muonshard_plugin_entry_v1(
    const muonshard_host* host, muonshard_status* status);

namespace muonshard::loopback {

class PluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    table_ = muonshard_plugin_entry_v1(fake_.host(), &status_);
    ASSERT_NE(table_, nullptr);
    ASSERT_EQ(table_->open(fake_.host(), "{}", &plugin_, &status_),
              MUONSHARD_OK);
  }

  void TearDown() override {
    if (comm_ != nullptr) table_->comm_free(comm_);
    table_->close(plugin_);
    EXPECT_EQ(fake_.live_objects(), 0) << "all that was made is freed";
  }

  static muonshard_comm_config Config(int32_t rank, int32_t size) {
    muonshard_comm_config config = {};
    config.header.size = MUONSHARD_END(muonshard_comm_config, program_rank);
    config.rank = rank;
    config.size = size;
    config.name = "solo";
    config.deadline_ns = 1000;
    config.options = "{}";
    config.device = -1;
    return config;
  }

  void MakeSolo() {
    const muonshard_comm_config config = Config(0, 1);
    ASSERT_EQ(table_->comm_new(plugin_, &config, &comm_, &status_),
              MUONSHARD_OK)
        << status_.text;
  }

  muonshard_code New(const muonshard_comm_config& config) {
    return table_->comm_new(plugin_, &config, &comm_, &status_);
  }

  muonshard_operation AllReduce() {
    muonshard_operation o = {};
    o.header.size = MUONSHARD_END(muonshard_operation, label);
    o.kind = MUONSHARD_ALL_REDUCE;
    o.data_type = MUONSHARD_F32;
    o.reduction = MUONSHARD_SUM;
    o.in = {in_.data(), in_.size()};
    o.out = {out_.data(), out_.size()};
    o.deadline_ns = INT64_MAX;
    o.label = "w";
    return o;
  }

  muonshard_code Post(const std::vector<muonshard_operation>& operations,
                      muonshard_work* works) {
    const std::vector<muonshard_comm> comms(operations.size(), comm_);
    std::vector<const muonshard_operation*> pointers;
    for (const muonshard_operation& operation : operations) {
      pointers.push_back(&operation);
    }
    return table_->post(comms.data(), pointers.data(),
                        static_cast<uint32_t>(operations.size()), works,
                        &failed_, &status_);
  }

  FakeHost fake_;
  const muonshard_plugin_table* table_ = nullptr;
  muonshard_plugin plugin_ = nullptr;
  muonshard_comm comm_ = nullptr;
  muonshard_status status_ = {};
  uint32_t failed_ = 99;
  std::vector<float> in_ = {1, 2, 3};
  std::vector<float> out_ = {0, 0, 0};
};

}  // namespace muonshard::loopback

#endif  // PLUGINS_LOOPBACK_PLUGIN_TEST_H_
