// The laboratory through the plugin table: one rank alone, on a fake host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "plugins/loopback/plugin_test.h"

namespace muonshard::loopback {
namespace {

using ::testing::HasSubstr;

class PluginLaboratoryTest : public PluginTest {
 protected:
  // Opens the plugin anew.
  void Open(const char* options) {
    table_->close(plugin_);
    ASSERT_EQ(table_->open(fake_.host(), options, &plugin_, &status_),
              MUONSHARD_OK)
        << status_.text;
  }

  std::string Report() {
    std::string text(1000, '\0');
    uint64_t bytes = 0;
    EXPECT_EQ(
        table_->report(plugin_, text.data(), text.size(), &bytes, &status_),
        MUONSHARD_OK);
    text.resize(bytes);
    return text;
  }
};

TEST_F(PluginLaboratoryTest, AReportTellsItsSizeAndWritesNoMoreThanFits) {
  const std::string whole = Report();
  EXPECT_THAT(whole, HasSubstr("live works: 0\n"));
  char text[5] = {'x', 'x', 'x', 'x', 'x'};
  uint64_t bytes = 0;
  ASSERT_EQ(table_->report(plugin_, text, 4, &bytes, &status_), MUONSHARD_OK);
  EXPECT_EQ(bytes, whole.size());
  EXPECT_EQ(std::string(text, 5), "livex");
}

TEST_F(PluginLaboratoryTest, WhatLivesIsCountedUntilItsHandleIsFreed) {
  MakeSolo();
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({AllReduce()}, &work), MUONSHARD_OK);
  EXPECT_THAT(Report(), HasSubstr("operations of rank 0: 2\nlive works: 1\n"
                                  "live communicators: 1\n"));
  table_->work_free(work);
  table_->comm_free(comm_);
  comm_ = nullptr;
  EXPECT_THAT(Report(), HasSubstr("live works: 0\nlive communicators: 0\n"));
}

TEST_F(PluginLaboratoryTest, WhatIsRefusedIsNotCounted) {
  MakeSolo();
  muonshard_operation wrong = AllReduce();
  wrong.out.count = 1;
  muonshard_work work = nullptr;
  EXPECT_EQ(Post({wrong}, &work), MUONSHARD_E_ARGUMENT);
  EXPECT_THAT(Report(), HasSubstr("operations of rank 0: 1\n"));
}

TEST_F(PluginLaboratoryTest, AGroupCannotChangeThePlan) {
  muonshard_comm_config config = Config(0, 1);
  for (const char* options :
       {"{\"checks\": 1}", "{\"faults\": \"memory rank=0 at=0\"}"}) {
    config.options = options;
    EXPECT_EQ(New(config), MUONSHARD_E_ARGUMENT);
    EXPECT_THAT(status_.text, HasSubstr("a group cannot change them"));
  }
}

TEST_F(PluginLaboratoryTest, EachCallOfTheDeadReturnsTheFault) {
  Open("{\"faults\": \"die rank=0 before=2\"}");
  MakeSolo();
  void* data = nullptr;
  muonshard_window window = nullptr;
  ASSERT_EQ(table_->memory_new(comm_, 8, MUONSHARD_MEMORY_HOST, INT64_MAX,
                               &data, &window, &status_),
            MUONSHARD_OK);
  muonshard_work works[2] = {};
  // It lives to post the first of the two, so that both have works.
  ASSERT_EQ(Post({AllReduce(), AllReduce()}, works), MUONSHARD_OK);
  EXPECT_EQ(out_, in_) << "the first had started";
  const std::string fault =
      "rank 0 died by a fault at operation 2 (AllReduce \"w\" of group "
      "\"solo\")";
  for (muonshard_work work : works) {
    EXPECT_EQ(table_->work_wait(work, INT64_MAX, &status_),
              MUONSHARD_E_ABORTED);
    EXPECT_EQ(status_.text, fault);
    table_->work_free(work);
  }

  const auto expect_dead = [&](muonshard_code code) {
    EXPECT_EQ(code, MUONSHARD_E_ABORTED);
    EXPECT_EQ(status_.text, fault);
    EXPECT_EQ(status_.code, MUONSHARD_E_ABORTED);
    status_ = {};
  };
  expect_dead(Post({AllReduce()}, works));
  EXPECT_EQ(failed_, 0u);
  EXPECT_EQ(table_->comm_query(comm_, &status_), MUONSHARD_E_ABORTED);
  EXPECT_EQ(status_.rank, 0) << "to blame";
  expect_dead(table_->comm_query(comm_, &status_));
  uint64_t sent = 0;
  muonshard_counters counters = {};
  counters.header.size = MUONSHARD_END(muonshard_counters, peer_capacity);
  counters.bytes_sent_to = &sent;
  counters.peer_capacity = 1;
  expect_dead(table_->comm_counters(comm_, &counters, &status_));
  const muonshard_comm_config config = Config(0, 1);
  muonshard_comm child = nullptr;
  int32_t rank = 0;
  int32_t size = 0;
  expect_dead(
      table_->comm_split(comm_, 0, 0, &config, &child, &rank, &size, &status_));
  expect_dead(table_->comm_new(plugin_, &config, &child, &status_));
  muonshard_window other = nullptr;
  expect_dead(table_->memory_new(comm_, 8, MUONSHARD_MEMORY_HOST, INT64_MAX,
                                 &data, &other, &status_));
  expect_dead(table_->memory_register(comm_, in_.data(), 8,
                                      MUONSHARD_MEMORY_HOST, &other, &status_));
  expect_dead(table_->memory_free(comm_, window, &status_));
  table_->comm_abort(comm_, nullptr);
  expect_dead(table_->comm_query(comm_, &status_));
  EXPECT_THAT(Report(), HasSubstr("operations of rank 0: 3\n"));
}

TEST_F(PluginLaboratoryTest, AnOperationOfTheDeadIsNotCountedOrReached) {
  Open("{\"faults\": \"die rank=0 before=0; memory rank=0 at=1\"}");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(New(Config(0, 1)), MUONSHARD_E_ABORTED);
    EXPECT_THAT(status_.text, HasSubstr("(the making of group \"solo\")"));
  }
  EXPECT_THAT(Report(), HasSubstr("\"memory rank=0 at=1\": not reached\n"));
}

TEST_F(PluginLaboratoryTest, DeathAfterTheLastProducerLeavesTheResult) {
  Open("{\"faults\": \"die rank=0 after=1\"}");
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation behind = AllReduce();
  behind.ready = ready;
  behind.ready_count = 1;
  muonshard_work works[2] = {};
  ASSERT_EQ(Post({behind, AllReduce()}, works), MUONSHARD_OK);
  EXPECT_EQ(table_->comm_query(comm_, &status_), MUONSHARD_OK);
  event.Happen(MUONSHARD_OK, "");
  EXPECT_EQ(table_->work_test(works[0], &status_), MUONSHARD_OK);
  EXPECT_EQ(table_->work_test(works[1], &status_), MUONSHARD_E_ABORTED);
  for (muonshard_work work : works) table_->work_free(work);
}

TEST_F(PluginLaboratoryTest, WhatEndsInAnErrorEndsTheRankToo) {
  Open("{\"faults\": \"die rank=0 after=1\"}");
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation behind = AllReduce();
  behind.ready = ready;
  behind.ready_count = 1;
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({behind}, &work), MUONSHARD_OK);
  event.Happen(MUONSHARD_E_SYSTEM, "broken");
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_E_SYSTEM);
  EXPECT_EQ(table_->comm_query(comm_, &status_), MUONSHARD_E_ABORTED);
  EXPECT_THAT(status_.text, HasSubstr("died by a fault at operation 1"));
  table_->work_free(work);
}

TEST_F(PluginLaboratoryTest, AProducerOfTheDeadBreaksNothing) {
  Open("{\"faults\": \"die rank=0 before=2\"}");
  MakeSolo();
  FakeEvent event;
  void* ready[] = {event.handle()};
  muonshard_operation behind = AllReduce();
  behind.ready = ready;
  behind.ready_count = 1;
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({behind}, &work), MUONSHARD_OK);
  muonshard_work other = nullptr;
  EXPECT_EQ(Post({AllReduce()}, &other), MUONSHARD_E_ABORTED);
  event.Happen(MUONSHARD_E_SYSTEM, "broken");
  EXPECT_EQ(table_->work_test(work, &status_), MUONSHARD_E_ABORTED);
  table_->work_free(work);
}

TEST_F(PluginLaboratoryTest, TheOperationWithoutMemoryIsTheOneAtFault) {
  Open("{\"faults\": \"memory rank=0 at=2\"}");
  MakeSolo();
  muonshard_work works[2] = {};
  EXPECT_EQ(Post({AllReduce(), AllReduce()}, works), MUONSHARD_E_MEMORY);
  EXPECT_EQ(failed_, 1u);
  EXPECT_EQ(out_[0], 0) << "nothing was started";
  EXPECT_EQ(Post({AllReduce()}, works), MUONSHARD_OK);
  table_->work_free(works[0]);
}

TEST_F(PluginLaboratoryTest, AnAbortThatFindsNoTaskIsDoneAtOnce) {
  Open("{\"faults\": \"abort rank=0 at=1\"}");
  MakeSolo();
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({AllReduce()}, &work), MUONSHARD_OK);
  EXPECT_EQ(table_->comm_query(comm_, &status_), MUONSHARD_E_ABORTED);
  EXPECT_THAT(status_.text,
              HasSubstr("rank 0 of the world aborted the group by a fault at "
                        "operation 1 (AllReduce \"w\" of group \"solo\")"));
  table_->work_free(work);
}

TEST_F(PluginLaboratoryTest, ALateCallBlocksSoLong) {
  Open("{\"faults\": \"late rank=0 at=0 ns=70; late rank=0 at=1 ns=5\"}");
  MakeSolo();
  EXPECT_EQ(fake_.now_ns(), 70);
  muonshard_work work = nullptr;
  ASSERT_EQ(Post({AllReduce()}, &work), MUONSHARD_OK);
  EXPECT_EQ(fake_.now_ns(), 75);
  table_->work_free(work);
}

TEST_F(PluginLaboratoryTest, AGuardThatWasWrittenToIsSeenWhenItIsFreed) {
  Open("{\"checks\": 1}");
  MakeSolo();
  for (const bool broken : {false, true}) {
    void* data = nullptr;
    muonshard_window window = nullptr;
    ASSERT_EQ(table_->memory_new(comm_, 100, MUONSHARD_MEMORY_HOST, INT64_MAX,
                                 &data, &window, &status_),
              MUONSHARD_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    static_cast<char*>(data)[broken ? 100 : 99] = 1;
    EXPECT_EQ(table_->memory_free(comm_, window, &status_),
              broken ? MUONSHARD_E_CORRUPT : MUONSHARD_OK);
  }
  EXPECT_THAT(status_.text, HasSubstr("wrote behind the 100 bytes"));
  EXPECT_EQ(status_.rank, 0) << "whose window it is";
}

TEST_F(PluginLaboratoryTest, AGuardOfMemoryThatNobodyFreedIsSeenWithItsGroup) {
  Open("{\"checks\": 1}");
  MakeSolo();
  void* data = nullptr;
  muonshard_window window = nullptr;
  ASSERT_EQ(table_->memory_new(comm_, 100, MUONSHARD_MEMORY_HOST, INT64_MAX,
                               &data, &window, &status_),
            MUONSHARD_OK);
  static_cast<char*>(data)[-1] = 1;
  table_->comm_free(comm_);
  comm_ = nullptr;
  ASSERT_EQ(fake_.lines().size(), 1u);
  EXPECT_THAT(fake_.lines()[0], HasSubstr("wrote before the 100 bytes"));
  ::operator delete(window);  // Its group is gone, and cannot take it back.
}

}  // namespace
}  // namespace muonshard::loopback
