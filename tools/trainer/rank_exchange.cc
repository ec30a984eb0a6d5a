#include "tools/trainer/rank_exchange.h"

#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/buffer.h"
#include "collectives/work.h"
#include "tools/trainer/byte_hash.h"

namespace muonshard {
namespace {

uint64_t Hash(uint64_t hash, absl::string_view text) {
  return HashBytes(hash, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankExchange>> RankExchange::Create(
    Collective& world, Store& store, absl::Duration timeout) {
  absl::StatusOr<std::unique_ptr<Collective>> group = world.Split(
      0, ToInt(world.rank()), "exchange", world.runtime().Now() + timeout);
  if (!group.ok()) return group.status();
  return std::unique_ptr<RankExchange>(
      new RankExchange(*std::move(group), store, timeout));
}

RankExchange::RankExchange(std::unique_ptr<Collective> group, Store& store,
                           absl::Duration timeout)
    : group_(std::move(group)),
      store_(store),
      timeout_(timeout),
      sent_(kByteHashStart),
      received_(static_cast<size_t>(group_->size()), kByteHashStart) {}

absl::Status RankExchange::AllGather(ConstBuffer in, MutableBuffer out,
                                     std::vector<int64_t> counts) {
  return AwaitEnd(
      group_->AllGatherV(in, out, std::move(counts),
                         {.label = "exchange", .deadline = Deadline()}));
}

absl::StatusOr<std::vector<std::string>> RankExchange::Gather(
    absl::string_view own) {
  const auto ranks = static_cast<size_t>(group_->size());
  const auto own_size = static_cast<int64_t>(own.size());
  std::vector<int64_t> sizes(ranks);
  if (absl::Status s = AllGather(
          ConstBuffer::Of<int64_t>(std::span(&own_size, 1)),
          MutableBuffer::Of<int64_t>(sizes), std::vector<int64_t>(ranks, 1));
      !s.ok()) {
    return s;
  }
  const std::vector<uint8_t> in(own.begin(), own.end());
  std::vector<uint8_t> out(static_cast<size_t>(
      std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  if (absl::Status s = AllGather(ConstBuffer::Of<uint8_t>(in),
                                 MutableBuffer::Of<uint8_t>(out), sizes);
      !s.ok()) {
    return s;
  }
  sent_ = Hash(sent_, own);
  std::vector<std::string> gathered;
  auto begin = out.begin();
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto end = begin + sizes[rank];
    gathered.emplace_back(begin, end);
    received_[rank] = Hash(received_[rank], gathered.back());
    begin = end;
  }
  return gathered;
}

absl::Status RankExchange::CheckGathered() {
  const Rank own = group_->rank();
  const absl::StatusOr<std::vector<std::string>> sent =
      ExchangeThroughStore(store_, "exchange-sent", own, group_->size(),
                           absl::StrCat(sent_), Deadline());
  if (!sent.ok()) return sent.status();
  for (size_t rank = 0; rank < sent->size(); ++rank) {
    if ((*sent)[rank] == absl::StrCat(received_[rank])) continue;
    return absl::DataLossError(
        absl::StrCat("rank ", ToInt(own), ": what rank ", rank,
                     " gave for all ranks was changed on the way: want hash ",
                     (*sent)[rank], ", got ", received_[rank]));
  }
  // The last that others ask of the store is here.
  if (own != Rank{0}) {
    return store_.Put(absl::StrCat("train/exchange-done/", ToInt(own)), "");
  }
  for (int32_t rank = 1; rank < group_->size(); ++rank) {
    const absl::StatusOr<std::string> done =
        store_.Get(absl::StrCat("train/exchange-done/", rank), Deadline());
    if (!done.ok()) return done.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExchangeThroughStore(
    Store& store, absl::string_view topic, Rank rank, int32_t size,
    absl::string_view own, absl::Time deadline) {
  if (absl::Status s =
          store.Put(absl::StrCat("train/", topic, "/", ToInt(rank)), own);
      !s.ok()) {
    return s;
  }
  std::vector<std::string> gathered;
  std::vector<int32_t> missing;
  for (int32_t r = 0; r < size; ++r) {
    absl::StatusOr<std::string> text =
        store.Get(absl::StrCat("train/", topic, "/", r), deadline);
    if (absl::IsDeadlineExceeded(text.status())) {
      // Those who came are found at once.
      missing.push_back(r);
      continue;
    }
    if (!text.ok()) return text.status();
    gathered.push_back(*std::move(text));
  }
  if (missing.empty()) return gathered;
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", ToInt(rank), " waited in the store for the ", topic, " of ",
      size, " ranks; missing ", missing.size() == 1 ? "rank " : "ranks ",
      absl::StrJoin(missing, ", ")));
}

}  // namespace muonshard
