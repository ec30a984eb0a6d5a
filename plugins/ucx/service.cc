#include "plugins/ucx/service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "plugins/ucx/locked.h"

namespace muonshard::ucx {
namespace {

using plugins::HostLock;
using plugins::Outcome;

// How often a rank that waits looks in vain before it lets others run in
// between, which costs more than a message on one host; and before it sleeps.
constexpr int32_t kPollsBeforeYield = 60;
constexpr int32_t kPollsInVainMax = 260;
// The service leaves messages to the ranks for at least so long after one of
// them moved some, so that a rank that calls again and again need not wake it
// each time.
constexpr int64_t kLeaveToRanksNs = 1'000'000;
// How often a service that sees off looks again.
constexpr int64_t kLookAgainNs = 500'000;
// Longer than a message takes to a peer that lives.
constexpr int64_t kSeeOffNs = 500'000'000;

int OpenProcess(int64_t process) {
  return static_cast<int>(
      syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
}

std::string EndOf(int64_t process) {
  return "process " + std::to_string(process) + " has ended";
}

}  // namespace

Service::Service(const plugins::Host& host,
                 std::shared_ptr<Communicator> communicator)
    : host_(host), communicator_(std::move(communicator)), idle_(host) {}

Service::~Service() {
  Leave();
  if (task_ != nullptr) host_.JoinTask(task_);
  for (const Watched& watched : watched_) close(watched.descriptor);
  if (wake_descriptor_ >= 0) close(wake_descriptor_);
}

void Service::Watch(const std::vector<PeerProcess>& peers) {
  for (const PeerProcess& peer : peers) {
    const int descriptor = OpenProcess(peer.process);
    if (descriptor >= 0) {
      watched_.push_back({peer.rank, descriptor});
    } else if (errno == ESRCH) {
      Locked locked(communicator_);
      communicator_->Lose(peer.rank, EndOf(peer.process));
    }
    // A kernel that has no such descriptors leaves the deadlines.
  }
}

Outcome Service::Start() {
  wake_descriptor_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_descriptor_ < 0) {
    return {.code = MUONSHARD_E_SYSTEM,
            .text = std::string("eventfd: ") + std::strerror(errno)};
  }
  task_ = host_.StartTask(
      "ucx", [](void* argument) { static_cast<Service*>(argument)->Run(); },
      this);
  return {};
}

void Service::Wake() {
  const uint64_t one = 1;
  // It is full only if it is readable.
  (void)!write(wake_descriptor_, &one, sizeof(one));
}

void Service::Leave() {
  Locked locked(communicator_);
  communicator_->Leave();
  idle_.NotifyAll();
}

Outcome Service::Wait(Operation& operation, int64_t deadline_ns) {
  Locked locked(communicator_);
  ++waiting_ranks_;
  for (int32_t in_vain = 0;
       !operation.ended && !done_ && in_vain < kPollsInVainMax;) {
    const bool any = communicator_->Advance(/*in_a_hurry=*/true);
    locked.RunCallbacks();
    if (any) {
      in_vain = 0;
      continue;
    }
    if (++in_vain < kPollsBeforeYield) continue;
    if (host_.Now() >= deadline_ns) break;
    communicator_->CheckDeadlines();
    locked.lock().Unlock();
    host_.Yield();
    locked.lock().Lock();
  }
  --waiting_ranks_;
  moved_ = operation.ended;
  if (!operation.ended) {
    idle_.NotifyAll();
    while (!operation.ended && host_.Now() < deadline_ns) {
      communicator_->changed().Wait(locked.lock(), deadline_ns);
    }
  }
  if (operation.ended) return operation.outcome;
  return {.code = MUONSHARD_WAIT_EXPIRED};
}

void Service::Run() {
  Locked locked(communicator_);
  while (!communicator_->left()) {
    if (waiting_ranks_ > 0 || std::exchange(moved_, false)) {
      idle_.Wait(locked.lock(), host_.Now() + kLeaveToRanksNs);
      continue;
    }
    const bool any = communicator_->Advance();
    locked.RunCallbacks();
    if (any || communicator_->left()) continue;
    Sleep(locked.lock());
    if (communicator_->neighbours() != nullptr) {
      communicator_->neighbours()->channel().EndSleep();
    }
    LookAtProcesses();
  }
  SeeOff(locked);
}

void Service::Sleep(HostLock& lock) {
  // Something may have come since: then it cannot be slept through. Peers of a
  // broken group still have to hear of it.
  Neighbours* const neighbours = communicator_->neighbours();
  if (neighbours != nullptr) {
    neighbours->channel().BeginSleep();
    if (communicator_->Advance()) return;
  }
  if (!communicator_->worker().Arm()) return;
  const int64_t now = host_.Now();
  const int64_t deadline_ns = communicator_->NextDeadline();
  if (deadline_ns <= now) return;
  std::vector<pollfd> polled = {
      {.fd = wake_descriptor_, .events = POLLIN, .revents = 0},
      {.fd = communicator_->worker().descriptor(),
       .events = POLLIN,
       .revents = 0}};
  for (const Watched& watched : watched_) {
    polled.push_back(
        {.fd = watched.descriptor, .events = POLLIN, .revents = 0});
  }
  constexpr int64_t kNsPerMs = 1'000'000;
  // Not longer than this: a clock may be changed.
  const int64_t wait_ms =
      std::min<int64_t>((deadline_ns - now) / kNsPerMs + 1, 10'000);
  communicator_->ServiceSleeps([this] { Wake(); });
  lock.Unlock();
  (void)poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
  uint64_t count = 0;
  (void)!read(wake_descriptor_, &count, sizeof(count));
  lock.Lock();
  communicator_->ServiceIsAwake();
}

void Service::LookAtProcesses() {
  for (auto watched = watched_.begin(); watched != watched_.end();) {
    pollfd polled = {.fd = watched->descriptor, .events = POLLIN, .revents = 0};
    if (poll(&polled, 1, 0) <= 0) {
      ++watched;
      continue;
    }
    close(watched->descriptor);
    // What it had sent counts.
    while (communicator_->Advance()) {
    }
    communicator_->Lose(watched->rank, "its process has ended");
    watched = watched_.erase(watched);
  }
}

void Service::SeeOff(Locked& locked) {
  Worker& worker = communicator_->worker();
  const auto until = [&](auto condition) {
    const int64_t deadline_ns = host_.Now() + kSeeOffNs;
    while (!condition() && host_.Now() < deadline_ns) {
      if (!worker.Progress()) {
        idle_.Wait(locked.lock(), host_.Now() + kLookAgainNs);
      }
    }
  };
  // Peers may still be about to connect: UCX does so lazily.
  until([&] {
    communicator_->Advance();
    return communicator_->idle() && communicator_->has_told() &&
           communicator_->all_gone();
  });
  until([&] { return worker.Flush(); });
  worker.Close();
  until([&] { return worker.IsClosed(); });
  communicator_->DestroyWorker();
  done_ = true;
  communicator_->changed().NotifyAll();
}

}  // namespace muonshard::ucx
