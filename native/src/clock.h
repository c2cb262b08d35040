// Monotonic nanoseconds, and waiting on a condition until such a moment. A thin layer on POSIX: the classes of the
// standard library would bind the artefact to a newer C++ runtime than the oldest supported distribution has.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace kvcr {

using Nanos = int64_t;
constexpr Nanos kMicro = 1000;
constexpr Nanos kMilli = 1000 * kMicro;
constexpr Nanos kSecond = 1000 * kMilli;

inline Nanos monotonicNow() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<Nanos>(t.tv_sec) * kSecond + t.tv_nsec;
}

inline void sleepFor(Nanos duration) {
  timespec t{duration / kSecond, duration % kSecond};
  nanosleep(&t, nullptr);
}

class Mutex {
 public:
  Mutex() { pthread_mutex_init(&handle_, nullptr); }
  ~Mutex() { pthread_mutex_destroy(&handle_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() { pthread_mutex_lock(&handle_); }
  bool try_lock() { return pthread_mutex_trylock(&handle_) == 0; }
  void unlock() { pthread_mutex_unlock(&handle_); }
  pthread_mutex_t* native() { return &handle_; }

 private:
  pthread_mutex_t handle_;
};

class Condition {
 public:
  Condition() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&handle_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~Condition() { pthread_cond_destroy(&handle_); }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;
  void wait(Mutex& mutex) { pthread_cond_wait(&handle_, mutex.native()); }
  void waitUntil(Mutex& mutex, Nanos moment) {
    timespec t{moment / kSecond, moment % kSecond};
    pthread_cond_timedwait(&handle_, mutex.native(), &t);
  }
  void notifyOne() { pthread_cond_signal(&handle_); }

 private:
  pthread_cond_t handle_;
};

}  // namespace kvcr
