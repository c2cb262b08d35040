#include "completion_thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <mutex>

#include "engine.h"
#include "error.h"

namespace kvcr {
namespace {

// After the last work the thread dozes in short steps for a while, so that steady traffic does not pay for waking it.
constexpr Nanos kDozeTime = 20 * kMilli;
constexpr Nanos kDozeStep = 1 * kMilli;
// The event loop is late when it has not polled for this long inside its own window.
constexpr Nanos kLoopLate = 200 * kMicro;
// What was found is the loop's for so long: polling on would only compete with it for the lock and the core.
constexpr Nanos kHandOver = 100 * kMicro;
// Hot polling after the last activity; longer than a common pause between two requests of one conversation.
constexpr Nanos kHotTime = 5 * kMilli;
constexpr Nanos kFirstSleep = 20 * kMicro;
// Never longer than this while the last activity is recent, and never whole milliseconds after it.
constexpr Nanos kLongSleep = 250 * kMicro;
constexpr Nanos kIdleSleep = 900 * kMicro;
constexpr Nanos kRecent = 2 * kSecond;

}  // namespace

void CompletionThread::start() {
  // Signals belong to the threads of the runtime.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, &CompletionThread::main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) throw NativeError(kErrEngine, "the completion thread cannot be started");
  started_ = true;
}

void CompletionThread::stop() {
  if (!started_) return;
  stopping_.store(true);
  hurry();
  pthread_join(thread_, nullptr);
  started_ = false;
}

void CompletionThread::wake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!sleeping_.load(std::memory_order_seq_cst)) return;
  hurry();
}

void CompletionThread::hurry() {
  std::lock_guard<Mutex> hold(mutex_);
  condition_.notifyOne();
}

void* CompletionThread::main(void* self) {
  prctl(PR_SET_NAME, "kvcr-nixl");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  static_cast<CompletionThread*>(self)->run();
  return nullptr;
}

void CompletionThread::run() {
  while (rest()) {
    if (engine_.runCommand()) {
      lastWork_ = monotonicNow();
      if (engine_.poll()) engine_.touch();
      // Pieces of a bulk write follow each other without a sleep; whoever shares the core gets a turn between them.
      sched_yield();
      continue;
    }
    pace(engine_.poll());
  }
}

bool CompletionThread::rest() {
  for (;;) {
    if (stopping_.load()) return false;
    if (engine_.commandsWaiting()) return true;
    const Nanos now = monotonicNow();
    const bool work = engine_.worthPolling(now);
    if (work) lastWork_ = now;
    const Nanos deadline = engine_.loopDeadline.load(std::memory_order_relaxed);
    const bool loopKeepsUp = !engine_.bulkUnderWay() && engine_.loopPolling.load(std::memory_order_acquire) && now < deadline &&
                             now - engine_.loopHeartbeat.load(std::memory_order_relaxed) < kLoopLate;
    const bool handedOver =
        now - handedOver_ < kHandOver && engine_.results().fresh() && !engine_.bulkUnderWay();
    if (work && !loopKeepsUp && !handedOver) return true;

    std::lock_guard<Mutex> hold(mutex_);
    if (stopping_.load() || engine_.commandsWaiting()) continue;
    if (work) {
      condition_.waitUntil(mutex_, handedOver ? handedOver_ + kHandOver : std::max(deadline, now + kLoopLate));
    } else if (now - lastWork_ < kDozeTime) {
      condition_.waitUntil(mutex_, now + kDozeStep);
    } else {
      sleeping_.store(true, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      // Work announced between the look above and the flag would otherwise wake nobody.
      if (!engine_.worthPolling(monotonicNow()) && !engine_.commandsWaiting()) condition_.wait(mutex_);
      sleeping_.store(false, std::memory_order_seq_cst);
      lastWork_ = monotonicNow();
    }
  }
}

void CompletionThread::pace(bool found) {
  if (found) {
    engine_.touch();
    handedOver_ = monotonicNow();
    return;
  }
  const Nanos quiet = monotonicNow() - engine_.lastActivity();
  if (quiet < kHotTime) {
    sched_yield();
    return;
  }
  const Nanos longest = quiet < kRecent ? kLongSleep : kIdleSleep;
  sleepFor(std::min(longest, kFirstSleep + (quiet - kHotTime) / 64));
}

}  // namespace kvcr
