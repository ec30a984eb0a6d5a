// Watches started ranks until all have ended: passes on what they write, tells
// which failed first, and ends the others.
//
// Ordering     What a rank wrote before it ended is passed on before its end is
//              told. Of ranks that are found to have ended together, those
//              killed by a signal count as first: the others may have failed
//              because of them.
// Threads      One, which also started the ranks.

#ifndef TOOLS_LAUNCHER_SUPERVISOR_H_
#define TOOLS_LAUNCHER_SUPERVISOR_H_

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/launcher/line_writer.h"
#include "tools/launcher/rank_process.h"
#include "tools/launcher/signal_inbox.h"

namespace muonshard {

struct SupervisorOptions {
  bool prefix = true;
  bool keep_going = false;
  std::chrono::duration<double> grace{5};
};

class Supervisor {
 public:
  Supervisor(const SupervisorOptions& options, SignalInbox& signals,
             std::ostream& out, std::ostream& errors);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  // Kills the ranks that are left.
  ~Supervisor();

  // The next rank.
  void Add(RankProcess process);

  // Returns the exit status for the whole: 0, or what the first rank that
  // failed, or the first signal, makes of it.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  struct RankState {
    RankProcess process;
    LineWriter out;
    LineWriter errors;
    bool ended = false;
  };
  struct End {
    int32_t rank = 0;
    bool by_signal = false;
    int value = 0;  // The signal, or the exit status.
  };

  bool AnyLeft() const;
  bool AnyRunning() const;
  void Poll(std::vector<pollfd>& polled);
  void TakeSignals();
  void PassOn(int signal);
  static void Read(Descriptor& from, LineWriter& to);
  std::vector<End> TakeEnds();
  std::optional<End> TakeEnd(size_t index);
  void Note(const End& end);
  void SignalRunning(int signal);
  void StartGrace();
  void EndGrace();

  const SupervisorOptions options_;
  SignalInbox& signals_;
  std::ostream& out_;
  std::ostream& errors_;
  std::vector<RankState> ranks_;
  int exit_status_ = 0;
  bool ending_ = false;
  // When patience ends: with ranks that must end, or, when all have, with
  // processes that got away from them and still hold their pipes.
  std::optional<Clock::time_point> grace_end_;
};

}  // namespace muonshard

#endif  // TOOLS_LAUNCHER_SUPERVISOR_H_
