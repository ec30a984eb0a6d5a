// The plugin table as a host meets it: one rank alone, on a fake host.

#include "plugins/loopback/plugin_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace muonshard::loopback {
namespace {

using ::testing::HasSubstr;

TEST_F(PluginTest, AnotherAbiIsRefused) {
  muonshard_host other = *fake_.host();
  other.abi_major = 2;
  EXPECT_EQ(muonshard_plugin_entry_v1(&other, &status_), nullptr);
  EXPECT_EQ(status_.code, MUONSHARD_E_VERSION);
  other = *fake_.host();
  other.header.size = MUONSHARD_END(muonshard_host, task_current);
  EXPECT_EQ(muonshard_plugin_entry_v1(&other, nullptr), nullptr);
}

TEST_F(PluginTest, WrongOptionsAreRefusedAtTheDoor) {
  muonshard_plugin other = nullptr;
  EXPECT_EQ(table_->open(fake_.host(), "{\"x\":1}", &other, &status_),
            MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(status_.text, HasSubstr("known: \"small_bytes\""));
  muonshard_comm_config config = Config(0, 1);
  config.options = "{\"y\":1}";
  EXPECT_EQ(New(config), MUONSHARD_E_ARGUMENT);
}

// The bit of each of `values`.
uint64_t Bits(std::initializer_list<uint32_t> values) {
  uint64_t bits = 0;
  for (const uint32_t value : values) bits |= uint64_t{1} << value;
  return bits;
}

TEST_F(PluginTest, CapabilitiesNameWhatThereIsAndNothingElse) {
  muonshard_caps caps = {};
  caps.header.size = MUONSHARD_END(muonshard_caps, reserved);
  caps.operations = caps.data_types = caps.reductions = caps.memory_kinds =
      UINT64_MAX;
  ASSERT_EQ(table_->caps(plugin_, -1, &caps, &status_), MUONSHARD_OK);
  EXPECT_EQ(caps.operations,
            Bits({MUONSHARD_ALL_REDUCE, MUONSHARD_REDUCE, MUONSHARD_BROADCAST,
                  MUONSHARD_REDUCE_SCATTER_V, MUONSHARD_ALL_GATHER_V,
                  MUONSHARD_ALL_TO_ALL_V, MUONSHARD_SEND, MUONSHARD_RECV,
                  MUONSHARD_BARRIER}));
  EXPECT_EQ(caps.data_types,
            Bits({MUONSHARD_F64, MUONSHARD_F32, MUONSHARD_F16, MUONSHARD_BF16,
                  MUONSHARD_I64, MUONSHARD_I32, MUONSHARD_U8}));
  EXPECT_EQ(caps.reductions, Bits({MUONSHARD_SUM, MUONSHARD_MIN, MUONSHARD_MAX,
                                   MUONSHARD_AVERAGE, MUONSHARD_SCALED_SUM}));
  EXPECT_EQ(caps.memory_kinds, Bits({MUONSHARD_MEMORY_HOST}));
}

TEST_F(PluginTest, StructsOfAnOlderVersionAreRefused) {
  muonshard_caps caps = {};
  EXPECT_EQ(table_->caps(plugin_, -1, &caps, &status_), MUONSHARD_E_VERSION);
  muonshard_comm_config config = Config(0, 1);
  config.header.size = 8;
  EXPECT_EQ(New(config), MUONSHARD_E_VERSION);
  MakeSolo();
  muonshard_comm child = nullptr;
  int32_t rank = 0;
  int32_t size = 0;
  EXPECT_EQ(
      table_->comm_split(comm_, 0, 0, &config, &child, &rank, &size, &status_),
      MUONSHARD_E_VERSION);
  muonshard_counters counters = {};
  EXPECT_EQ(table_->comm_counters(comm_, &counters, &status_),
            MUONSHARD_E_VERSION);
  counters.header.size = MUONSHARD_END(muonshard_counters, peer_capacity);
  EXPECT_EQ(table_->comm_counters(comm_, &counters, &status_),
            MUONSHARD_E_ARGUMENT);
}

TEST_F(PluginTest, AGroupNeedsARankANameAndAStore) {
  EXPECT_EQ(New(Config(1, 1)), MUONSHARD_E_ARGUMENT);
  muonshard_comm_config config = Config(0, 1);
  config.name = "";
  EXPECT_EQ(New(config), MUONSHARD_E_ARGUMENT);
  EXPECT_EQ(New(Config(0, 2)), MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(status_.text, HasSubstr("store"));
}

TEST_F(PluginTest, WhoDoesNotComeIsNamedAndTheNameIsSpent) {
  muonshard_comm_config config = Config(0, 3);
  config.store = fake_.store();
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  EXPECT_THAT(status_.text, HasSubstr("1 of 3 ranks came; missing ranks 1, 2"));
  EXPECT_EQ(fake_.now_ns(), config.deadline_ns);
  config.rank = 1;
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  EXPECT_THAT(status_.text, HasSubstr("given up before rank 1 came"));
}

TEST_F(PluginTest, ARankOfAnotherProcessIsToldSo) {
  muonshard_comm_config config = Config(0, 2);
  config.store = fake_.store();
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  fake_.values()["solo/loopback/0"] = "1:2:3";
  EXPECT_EQ(New(config), MUONSHARD_E_UNSUPPORTED);
  EXPECT_THAT(status_.text, HasSubstr("ranks of one process"));
}

TEST_F(PluginTest, AVerdictInTheStoreEndsTheWaitBeforeItsDeadline) {
  muonshard_comm_config config = Config(0, 2);
  config.store = fake_.store();
  fake_.values()["solo/loopback/0/verdict"] =
      std::to_string(MUONSHARD_E_UNSUPPORTED) + " rank 1 is elsewhere";
  EXPECT_EQ(New(config), MUONSHARD_E_UNSUPPORTED);
  EXPECT_STREQ(status_.text, "rank 1 is elsewhere");
  EXPECT_EQ(fake_.now_ns(), 0);
}

TEST_F(PluginTest, AVerdictThatIsNoneIsAnError) {
  muonshard_comm_config config = Config(0, 2);
  config.store = fake_.store();
  int32_t meeting = 0;
  for (const std::string verdict : {"elsewhere", "0 all came", "7"}) {
    fake_.values()["solo/loopback/" + std::to_string(meeting++) + "/verdict"] =
        verdict;
    EXPECT_EQ(New(config), MUONSHARD_E_SYSTEM);
    EXPECT_THAT(status_.text, HasSubstr("got \"" + verdict + "\""));
    // Takes the other place, so that the next rank opens a group of its own.
    EXPECT_EQ(New(config), MUONSHARD_E_SYSTEM);
  }
}

TEST_F(PluginTest, AStoreThatFailsFailsTheGroup) {
  muonshard_comm_config config = Config(0, 2);
  config.store = fake_.store();
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  fake_.values().clear();
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  EXPECT_THAT(status_.text, HasSubstr("no key"));
  fake_.FailStore();
  EXPECT_EQ(New(config), MUONSHARD_E_TIMEOUT);
  EXPECT_THAT(status_.text, HasSubstr("no store"));
}

TEST_F(PluginTest, AHostWithoutMemoryIsAnError) {
  fake_.FailObjects();
  EXPECT_EQ(New(Config(0, 1)), MUONSHARD_E_MEMORY);
  EXPECT_EQ(comm_, nullptr);
}

TEST_F(PluginTest, ABatchIsStartedWholeOrNotAtAll) {
  MakeSolo();
  muonshard_operation wrong = AllReduce();
  wrong.out.count = 2;
  muonshard_work works[3] = {};
  EXPECT_EQ(Post({AllReduce(), wrong, AllReduce()}, works),
            MUONSHARD_E_ARGUMENT);
  EXPECT_EQ(failed_, 1u);
  EXPECT_EQ(works[0], nullptr);
  EXPECT_EQ(out_, std::vector<float>({0, 0, 0}));
}

TEST_F(PluginTest, AnOperationWithNothingToWaitForEndsInThePost) {
  MakeSolo();
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({AllReduce()}, &work), MUONSHARD_OK) << status_.text;
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_OK);
  EXPECT_EQ(out_, in_);
  int calls = 0;
  EXPECT_EQ(table_->work_then(
                work,
                [](void* count, const muonshard_status* status) {
                  EXPECT_EQ(status->code, MUONSHARD_OK);
                  ++*static_cast<int*>(count);
                },
                &calls, &status_),
            MUONSHARD_OK);
  EXPECT_EQ(calls, 1);
  table_->work_free(work);
}

TEST_F(PluginTest, AnOperationWaitsForAllItsProducers) {
  MakeSolo();
  FakeEvent events[2];
  void* ready[] = {events[0].handle(), events[1].handle()};
  muonshard_operation operation = AllReduce();
  operation.ready = ready;
  operation.ready_count = 2;
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({operation}, &work), MUONSHARD_OK);
  events[1].Happen(MUONSHARD_OK, "");
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_IN_PROGRESS);
  EXPECT_EQ(table_->work_wait(work, fake_.now_ns() + 5, &status_),
            MUONSHARD_WAIT_EXPIRED);
  EXPECT_EQ(out_, std::vector<float>({0, 0, 0}));
  events[0].Happen(MUONSHARD_OK, "");
  EXPECT_EQ(table_->work_wait(work, INT64_MAX, &status_), MUONSHARD_OK);
  EXPECT_EQ(out_, in_);
  table_->work_free(work);
}

TEST_F(PluginTest, AProducerThatFailsBreaksTheGroupForGood) {
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation operation = AllReduce();
  operation.ready = ready;
  operation.ready_count = 1;
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({operation}, &work), MUONSHARD_OK);
  event.Happen(MUONSHARD_E_CORRUPT, "bad bits");
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_E_CORRUPT);
  EXPECT_THAT(status_.text,
              HasSubstr("a producer of operation 0 (AllReduce \"w\") of group "
                        "\"solo\" failed on rank 0: bad bits"));
  table_->comm_abort(comm_, nullptr);
  EXPECT_EQ(table_->comm_query(comm_, &status_), MUONSHARD_E_CORRUPT);
  muonshard_work late = nullptr;
  EXPECT_EQ(Post({operation}, &late), MUONSHARD_E_CORRUPT);
  table_->work_free(work);
}

TEST_F(PluginTest, AnAbortHasTheCodeOfItsReasonIfThatIsAnError) {
  struct Case {
    muonshard_code given;
    muonshard_code kept;
  };
  for (const auto& [given, kept] : {Case{MUONSHARD_E_PEER, MUONSHARD_E_PEER},
                                    Case{MUONSHARD_OK, MUONSHARD_E_ABORTED}}) {
    MakeSolo();
    const muonshard_status why = {.code = given, .rank = 3, .text = "why not"};
    table_->comm_abort(comm_, &why);
    EXPECT_EQ(table_->comm_query(comm_, &status_), kept);
    EXPECT_STREQ(status_.text, "why not");
    EXPECT_EQ(status_.rank, 3);
    table_->comm_free(comm_);
    comm_ = nullptr;
  }
}

TEST_F(PluginTest, ADeadlineIsSeenByWhoeverWaits) {
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation first = AllReduce();
  first.ready = ready;
  first.ready_count = 1;
  muonshard_operation second = AllReduce();
  muonshard_work works[2] = {};
  ASSERT_EQ(Post({first, second}, works), MUONSHARD_OK);
  EXPECT_EQ(table_->work_wait(works[1], 10, &status_), MUONSHARD_WAIT_EXPIRED);
  table_->comm_free(comm_);
  comm_ = nullptr;
  EXPECT_EQ(table_->work_test(works[0], &status_), MUONSHARD_E_ABORTED);
  event.Happen(MUONSHARD_OK, "");
  for (muonshard_work work : works) table_->work_free(work);
}

// A finite deadline wants a service task, which this host does not give.
TEST_F(PluginTest, AHostWithoutTasksIsAnError) {
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation operation = AllReduce();
  operation.ready = ready;
  operation.ready_count = 1;
  operation.deadline_ns = 1000;
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({operation}, &work), MUONSHARD_OK);
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_E_SYSTEM);
  EXPECT_THAT(status_.text, HasSubstr("cannot start a task"));
  event.Happen(MUONSHARD_OK, "");
  table_->work_free(work);
}

TEST_F(PluginTest, MemoryIsAlignedAndFreedWithItsGroup) {
  MakeSolo();
  void* data[2] = {};
  muonshard_window windows[2] = {};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(table_->memory_new(comm_, 100, MUONSHARD_MEMORY_HOST, INT64_MAX,
                                 &data[i], &windows[i], &status_),
              MUONSHARD_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data[i]) % 64, 0u);
    static_cast<char*>(data[i])[99] = 1;
  }
  for (muonshard_window window : windows) {
    EXPECT_EQ(table_->memory_free(comm_, window, &status_), MUONSHARD_OK);
  }
  muonshard_window own = nullptr;
  ASSERT_EQ(table_->memory_register(comm_, in_.data(), 12,
                                    MUONSHARD_MEMORY_HOST, &own, &status_),
            MUONSHARD_OK);
  EXPECT_EQ(table_->memory_free(comm_, own, &status_), MUONSHARD_OK);
  EXPECT_EQ(table_->memory_new(comm_, 1, MUONSHARD_MEMORY_CUDA, INT64_MAX,
                               &data[0], &windows[0], &status_),
            MUONSHARD_E_UNSUPPORTED);
  EXPECT_EQ(table_->memory_register(comm_, in_.data(), 12,
                                    MUONSHARD_MEMORY_CUDA, &own, &status_),
            MUONSHARD_E_UNSUPPORTED);
}

TEST_F(PluginTest, AColorBelowMinusOneIsRefused) {
  MakeSolo();
  const muonshard_comm_config config = Config(0, 1);
  muonshard_comm child = nullptr;
  int32_t rank = 7;
  int32_t size = 7;
  EXPECT_EQ(
      table_->comm_split(comm_, -2, 0, &config, &child, &rank, &size, &status_),
      MUONSHARD_E_ARGUMENT);
  EXPECT_EQ(
      table_->comm_split(comm_, -1, 0, &config, &child, &rank, &size, &status_),
      MUONSHARD_OK);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(rank, -1);
  EXPECT_EQ(size, 0);
}

}  // namespace
}  // namespace muonshard::loopback
