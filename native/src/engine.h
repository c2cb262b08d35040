// One running agent: the lock around NIXL, the commands that wait for the native thread, the results on their way to
// JavaScript, and the knowledge of whether anything is worth polling for. It knows nothing of JavaScript.
//
// Who polls: the event loop for a short window after every sign of activity (LoopPoller), and the native thread after
// that, or when the loop is late, until nothing is outstanding or expected (CompletionThread).
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "clock.h"
#include "completion_thread.h"
#include "nixl_agent.h"
#include "notifications.h"
#include "results.h"
#include "transfers.h"

namespace kvcr {

class Engine {
 public:
  // Takes about half a second: not for the JavaScript thread. Throws NativeError(kErrEngine).
  Engine(const NixlLibrary* library, const std::string& name);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // -- regions and remotes. These wait for the lock; holders give it back within a fraction of a millisecond, but for
  // registrations, which are cut into slices.
  // Any thread. Throws NativeError; then nothing stays registered.
  void registerRegion(Region& region);
  // JavaScript thread, like all that follow.
  void adoptRegion(uint32_t id, Region region);
  void dropRegion(uint32_t id);
  std::string localMetadata();
  void addRemote(uint32_t id, const std::string& name, const PeerMetadata& metadata, std::vector<RemoteRegion> regions,
                 uint32_t replaces, bool reload);
  void dropRemote(uint32_t id);

  // -- JavaScript thread.
  // Resolves elements and posts a write, or hands it to the native thread. Throws NativeError, then nothing was posted.
  struct Pair {
    uint32_t region;
    uint64_t element;
    uint32_t remoteRegion;
    uint64_t remoteElement;
  };
  void write(TransferId id, uint32_t remoteId, const std::vector<Pair>& pairs, std::string notification);
  bool cancel(TransferId id);
  bool notify(uint32_t remoteId, std::string payload);
  void connect(uint32_t remoteId);
  void expect(int change);
  Results& results() { return results_; }

  // -- whoever polls.
  // One round under the lock, for the event loop: only if the lock can be had at once, and only while no bulk write is
  // under way, since polling for one may copy its bytes. True when something was found.
  bool tryPoll();
  bool poll();
  // Runs one waiting command or posts one piece of a bulk write. False when there was nothing to do.
  bool runCommand();
  bool bulkUnderWay() const { return bulk_.load(std::memory_order_relaxed); }
  bool commandsWaiting() const { return commandsWaiting_.load(std::memory_order_acquire); }
  // True while polling can find something.
  bool worthPolling(Nanos now) const;
  // True while the process should stay alive for this agent.
  bool holdsProcess() const { return outstanding_.load() > 0 || expecting_.load() > 0; }
  Nanos lastActivity() const { return lastActivity_.load(std::memory_order_relaxed); }
  void touch() { lastActivity_.store(monotonicNow(), std::memory_order_relaxed); }

  // -- the loop's window, seen by the thread.
  std::atomic<bool> loopPolling{false};
  std::atomic<Nanos> loopDeadline{0};
  std::atomic<Nanos> loopHeartbeat{0};
  // Called by the native thread after it found something; set once, before the thread starts.
  void start(std::function<void()> onResults);
  // Wakes the native thread if it is in its long sleep.
  void wakeThread() { thread_.wake(); }

  // Ends everything within the time given. True: nothing can touch memory any more and NIXL is closed. False: a
  // transfer may still be running; the engine must then be kept for ever (see `abandon`). Idempotent.
  bool shutdown(Nanos patience);
  // A shutdown under way, or that comes, takes no longer than this from now on.
  void hurry(Nanos patience);
  // Waits at most so long for writes in flight, and for notifications on their way out: the process is about to end.
  void flush(Nanos patience);
  // Keeps an engine, and with it all memory it registered, until the process ends.
  static void abandon(std::shared_ptr<Engine> engine);

 private:
  struct Command {
    enum class Kind { kPost, kNotify } kind;
    TransferOrder order;
    std::string payload;
    uint32_t remoteId;
  };

  // The agent's lock. Waiters raise a flag that makes the native thread stand back, since it would otherwise take the
  // lock again at once.
  bool lockSoon(Nanos patience);
  bool pollLocked();
  void note();
  void enqueue(Command command);
  void finished(const std::vector<Completion>& completions);
  void linger(Nanos duration);
  void lingerForNotification();
  TransferOrder resolve(TransferId id, uint32_t remoteId, const std::vector<Pair>& pairs) const;

  mutable Mutex mutex_;
  std::atomic<int> waiters_{0};
  std::unique_ptr<NixlAgentHandle> agent_;
  std::unique_ptr<Notifications> notifications_;
  std::unique_ptr<Transfers> transfers_;
  std::vector<Completion> foundCompletions_;
  std::vector<Notification> foundNotifications_;

  Mutex commandMutex_;
  std::deque<Command> commands_;
  std::atomic<bool> commandsWaiting_{false};

  Results results_;
  std::atomic<size_t> outstanding_{0};
  std::atomic<int> expecting_{0};
  std::atomic<Nanos> lingerUntil_{0};
  std::atomic<Nanos> lastActivity_{0};
  // Notifications may be on their way out until then.
  std::atomic<Nanos> flushUntil_{0};
  std::atomic<Nanos> endBy_{std::numeric_limits<Nanos>::max()};
  std::atomic<bool> probing_{false};
  std::atomic<bool> bulk_{false};
  Mutex shutdownMutex_;
  bool closed_ = false;
  std::function<void()> onResults_;
  CompletionThread thread_;
};

}  // namespace kvcr
