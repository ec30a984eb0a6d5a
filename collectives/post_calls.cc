#include "collectives/post_calls.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "collectives/plugin_communicator.h"
#include "collectives/work_sequence.h"

namespace muonshard {
namespace {

struct Call {
  std::vector<LaunchLevel> levels;
  std::vector<Work> works;         // Of all launches posted so far.
  std::vector<Event> level_ended;  // Of the launches of the level before.
  absl::Status error;              // What kept a launch from starting.
};

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
    if (level >= call.levels.size() || !call.error.ok()) continue;
    const std::vector<Event> before = std::exchange(call.level_ended, {});
    for (Launch& launch : call.levels[level]) {
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
    if (call.levels[level].empty()) call.level_ended = before;
  }
  return posts;
}

Work WorkOf(Call& call) {
  if (call.works.empty()) return Work();
  if (call.works.size() == 1 && call.error.ok()) return call.works.front();
  Runtime* runtime = nullptr;
  for (const LaunchLevel& level : call.levels) {
    if (!level.empty()) runtime = &level.front().communicator->runtime();
  }
  return SequenceOf(*runtime, std::move(call.works), std::move(call.error));
}

}  // namespace

absl::StatusOr<std::vector<Work>> PostCalls(
    std::vector<std::vector<LaunchLevel>> calls) {
  std::vector<Call> progress;
  progress.reserve(calls.size());
  size_t level_count = 0;
  for (std::vector<LaunchLevel>& levels : calls) {
    level_count = std::max(level_count, levels.size());
    progress.push_back({std::move(levels), {}, {}, absl::OkStatus()});
  }
  bool started = false;
  for (size_t level = 0; level < level_count; ++level) {
    for (const Post& post : PostsOf(progress, level)) {
      absl::StatusOr<std::vector<Work>> works =
          PluginCommunicator::Post(post.launches);
      if (!works.ok() && !started) return works.status();
      started = true;
      for (size_t i = 0; i < post.calls.size(); ++i) {
        Call& call = progress[post.calls[i]];
        if (works.ok()) {
          call.level_ended.push_back((*works)[i].event());
          call.works.push_back(std::move((*works)[i]));
        } else {
          call.error = works.status();
          post.launches[i]->communicator->Abort(call.error);
        }
      }
    }
  }
  std::vector<Work> result;
  result.reserve(progress.size());
  for (Call& call : progress) result.push_back(WorkOf(call));
  return result;
}

}  // namespace muonshard
