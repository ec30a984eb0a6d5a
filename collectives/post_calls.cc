#include "collectives/post_calls.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/plugin_communicator.h"
#include "collectives/work_sequence.h"

namespace muonshard {
namespace {

struct Call {
  LoweredCall lowered;
  size_t first_level = 0;          // Of the post.
  std::vector<size_t> after = {};  // Earlier calls of the post to wait for.
  std::vector<Event> level_ended;  // Of the launches of the level before.
  std::vector<Work> works = {};    // Of all launches posted so far.
  absl::Status error = {};         // What kept a launch from starting.
};

// Calls of one order that share their levels, the newest such, and all calls
// of the order before them.
struct Wave {
  size_t first_level = 0;
  size_t end_level = 0;
  std::vector<size_t> calls = {};
  std::vector<size_t> earlier = {};
};

absl::Status CheckSharedMemory(const CallFootprint& later,
                               const CallFootprint& earlier) {
  if (!WaitsFor(later, earlier)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      later.name, " shares memory with ", earlier.name,
      ", which one of them writes; want them posted one after the other"));
}

// Gives every call its levels in the post, and what it waits for.
absl::Status PlaceCalls(std::vector<Call>& calls) {
  std::map<const CallOrder*, Wave> waves;
  for (size_t c = 0; c < calls.size(); ++c) {
    Call& call = calls[c];
    if (call.lowered.order == nullptr) continue;
    const CallFootprint& footprint = call.lowered.footprint;
    Wave& wave = waves[call.lowered.order.get()];
    if (!wave.calls.empty() &&
        !ShareLevels(calls[wave.calls.front()].lowered.footprint, footprint)) {
      wave.earlier.insert(wave.earlier.end(), wave.calls.begin(),
                          wave.calls.end());
      wave.calls.clear();
      wave.first_level = wave.end_level;
    }
    for (const size_t other : wave.calls) {
      if (absl::Status s =
              CheckSharedMemory(footprint, calls[other].lowered.footprint);
          !s.ok()) {
        return s;
      }
    }
    std::copy_if(wave.earlier.begin(), wave.earlier.end(),
                 std::back_inserter(call.after), [&](size_t other) {
                   return WaitsFor(footprint, calls[other].lowered.footprint);
                 });
    for (Event& end : call.lowered.order->Before(footprint)) {
      call.level_ended.push_back(std::move(end));
    }
    call.first_level = wave.first_level;
    wave.end_level =
        std::max(wave.end_level, call.first_level + call.lowered.levels.size());
    wave.calls.push_back(c);
  }
  return absl::OkStatus();
}

// Launches of one level that go to one plugin, with the calls they are of.
struct Post {
  const PluginInstance* plugin;
  std::vector<size_t> calls;
  std::vector<const Launch*> launches;
};

// The posts of `level`, plugins in the order in which calls name them.
std::vector<Post> PostsOf(std::vector<Call>& calls, size_t level) {
  std::vector<Post> posts;
  for (size_t c = 0; c < calls.size(); ++c) {
    Call& call = calls[c];
    if (level < call.first_level || !call.error.ok()) continue;
    const size_t own_level = level - call.first_level;
    if (own_level >= call.lowered.levels.size()) continue;
    std::vector<Event> before = std::exchange(call.level_ended, {});
    for (const size_t other : std::exchange(call.after, {})) {
      for (const Work& work : calls[other].works) {
        before.push_back(work.event());
      }
    }
    for (Launch& launch : call.lowered.levels[own_level]) {
      std::vector<Event>& ready = launch.operation.options.ready;
      ready.insert(ready.end(), before.begin(), before.end());
      const PluginInstance* const plugin = &launch.communicator->plugin();
      auto post =
          std::find_if(posts.begin(), posts.end(),
                       [plugin](const Post& p) { return p.plugin == plugin; });
      if (post == posts.end()) {
        post = posts.insert(posts.end(), Post{plugin, {}, {}});
      }
      post->calls.push_back(c);
      post->launches.push_back(&launch);
    }
    // A level without launches passes on what it would have waited for.
    if (call.lowered.levels[own_level].empty()) {
      call.level_ended = std::move(before);
    }
  }
  return posts;
}

// Takes note of what became of a post.
void NoteStarted(const Post& post, absl::StatusOr<std::vector<Work>> works,
                 std::vector<Call>& calls, size_t level) {
  for (size_t i = 0; i < post.calls.size(); ++i) {
    Call& call = calls[post.calls[i]];
    const CallOrder* const order = call.lowered.order.get();
    if (!works.ok()) {
      call.error = works.status();
      post.launches[i]->communicator->Abort(call.error);
      if (order != nullptr) order->PartFailed(call.error);
      continue;
    }
    Work& work = (*works)[i];
    if (order != nullptr) order->PartPosted(work);
    // Asking for an event costs a callback, so the last level is not asked.
    if (level + 1 < call.first_level + call.lowered.levels.size()) {
      call.level_ended.push_back(work.event());
    }
    call.works.push_back(std::move(work));
  }
}

Work WorkOf(Call& call) {
  if (call.error.ok()) {
    if (call.works.empty()) return Work();
    if (call.works.size() == 1) return call.works.front();
  }
  Runtime* runtime = nullptr;
  for (const LaunchLevel& level : call.lowered.levels) {
    if (!level.empty()) runtime = &level.front().communicator->runtime();
  }
  return SequenceOf(*runtime, std::move(call.works), std::move(call.error));
}

}  // namespace

absl::StatusOr<std::vector<Work>> PostCalls(std::vector<LoweredCall> calls) {
  std::vector<Call> progress;
  progress.reserve(calls.size());
  for (LoweredCall& call : calls) {
    std::vector<Event> ready = std::exchange(call.ready, {});
    progress.push_back(
        {.lowered = std::move(call), .level_ended = std::move(ready)});
  }
  if (absl::Status s = PlaceCalls(progress); !s.ok()) return s;
  size_t level_count = 0;
  for (const Call& call : progress) {
    level_count =
        std::max(level_count, call.first_level + call.lowered.levels.size());
  }

  bool started = false;
  for (size_t level = 0; level < level_count; ++level) {
    for (const Post& post : PostsOf(progress, level)) {
      absl::StatusOr<std::vector<Work>> works =
          PluginCommunicator::Post(post.launches);
      if (!works.ok() && !started) return works.status();
      started = true;
      NoteStarted(post, std::move(works), progress, level);
    }
  }
  std::vector<Work> result;
  result.reserve(progress.size());
  for (Call& call : progress) {
    result.push_back(WorkOf(call));
    const Work& work = result.back();
    if (!call.lowered.scratch.empty()) {
      work.event().Then([kept = std::move(call.lowered.scratch)](
                            const absl::Status&) { (void)kept; });
    }
    if (call.lowered.order != nullptr) {
      call.lowered.order->Posted(call.lowered.footprint, work);
    }
  }
  return result;
}

}  // namespace muonshard
