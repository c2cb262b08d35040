// The native thread of an engine. It sleeps without a tick while there is nothing to do, leaves the polling to the event
// loop while that keeps up, and polls itself otherwise: hot at first, with a yield in every round, then with short,
// growing sleeps.
#pragma once

#include <pthread.h>

#include <atomic>

#include "clock.h"

namespace kvcr {

class Engine;

class CompletionThread {
 public:
  explicit CompletionThread(Engine& engine) : engine_(engine) {}
  ~CompletionThread() { stop(); }
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // Throws NativeError(kErrEngine) when the system has no thread left.
  void start();
  // Joins. Idempotent.
  void stop();
  // Ends a sleep that has no end of its own; costs nothing while the thread is awake or dozing.
  void wake();
  // Ends any sleep: there is work only the thread can do.
  void hurry();

 private:
  static void* main(void* self);
  void run();
  // Sleeps as far as there is nothing to do. False when it is time to end.
  bool rest();
  void pace(bool found);

  Engine& engine_;
  pthread_t thread_{};
  bool started_ = false;
  Mutex mutex_;
  Condition condition_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> sleeping_{false};
  Nanos lastWork_ = 0;
  Nanos handedOver_ = 0;
};

}  // namespace kvcr
