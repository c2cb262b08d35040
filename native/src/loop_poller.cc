#include "loop_poller.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace kvcr {
namespace {

// How long the loop polls after the last activity. Conversations decide: while what follows keeps coming soon after the
// window closed, the window grows up to the longest; a longer silence makes it short again. Being woken by the native
// thread instead costs a sleeping loop some ten to hundred microseconds.
constexpr Nanos kShortestWindow = 200 * kMicro;
constexpr Nanos kLongestWindow = 3 * kMilli;
// One slice; other work of the loop waits no longer than this.
constexpr Nanos kSlice = 15 * kMicro;

}  // namespace

LoopPoller::LoopPoller(uv_loop_s* loop, Engine& engine, std::function<void()> deliver)
    : engine_(engine),
      deliver_(std::move(deliver)),
      window_(kShortestWindow),
      async_(malloc(uv_handle_size(kUvAsync))),
      check_(malloc(uv_handle_size(kUvCheck))),
      idle_(malloc(uv_handle_size(kUvIdle))) {
  uv_async_init(loop, async_, &LoopPoller::onAsync);
  uv_check_init(loop, check_);
  uv_idle_init(loop, idle_);
  for (uv_any_handle* handle : {async_, check_, idle_}) {
    uv_handle_set_data(handle, this);
    // What keeps the process alive is decided in one place, by the reference on the wake-up handle.
    uv_unref(handle);
  }
}

void LoopPoller::open() {
  if (stopped_) return;
  const Nanos now = monotonicNow();
  const Nanos silence = now - opened_;
  opened_ = now;
  if (silence >= kLongestWindow) {
    window_ = kShortestWindow;
  } else if (!active_) {
    window_ = std::min(kLongestWindow, std::max(2 * window_, silence + silence / 2));
  }
  engine_.loopDeadline.store(now + window_, std::memory_order_relaxed);
  if (!active_) {
    engine_.loopHeartbeat.store(now, std::memory_order_relaxed);
    engine_.loopPolling.store(true, std::memory_order_release);
    active_ = true;
    uv_check_start(check_, &LoopPoller::onCheck);
    uv_idle_start(idle_, &LoopPoller::onIdle);
  }
  updateReference();
}

void LoopPoller::stop() {
  shut();
  stopped_ = true;
}

void LoopPoller::close(std::function<void()> done) {
  stop();
  closed_ = std::move(done);
  for (uv_any_handle* handle : {async_, check_, idle_}) uv_close(handle, &LoopPoller::onClosed);
}

void LoopPoller::onAsync(uv_any_handle* handle) {
  auto* self = static_cast<LoopPoller*>(uv_handle_get_data(handle));
  if (self->stopped_) return;
  if (self->engine_.results().takeFresh()) self->hand();
}

void LoopPoller::onCheck(uv_any_handle* handle) { static_cast<LoopPoller*>(uv_handle_get_data(handle))->slice(); }

void LoopPoller::onClosed(uv_any_handle* handle) {
  auto* self = static_cast<LoopPoller*>(uv_handle_get_data(handle));
  free(handle);
  if (--self->open_handles_ > 0) return;
  std::function<void()> done = std::move(self->closed_);
  delete self;
  done();
}

void LoopPoller::slice() {
  if (!active_) return;
  const Nanos begin = monotonicNow();
  Nanos now = begin;
  for (;;) {
    engine_.loopHeartbeat.store(now, std::memory_order_relaxed);
    if (engine_.results().fresh() || engine_.tryPoll()) break;
    // Without this a third process that needs the core would hold up the peer and thereby us.
    sched_yield();
    now = monotonicNow();
    if (now - begin >= kSlice) break;
  }
  if (engine_.results().takeFresh()) {
    hand();
    return;
  }
  if (now >= engine_.loopDeadline.load(std::memory_order_relaxed) || !engine_.worthPolling(now)) shut();
}

void LoopPoller::hand() {
  engine_.touch();
  open();
  deliver_();
  if (!stopped_) updateReference();
}

void LoopPoller::shut() {
  if (!active_) return;
  active_ = false;
  uv_check_stop(check_);
  uv_idle_stop(idle_);
  engine_.loopPolling.store(false, std::memory_order_release);
  if (engine_.worthPolling(monotonicNow())) engine_.wakeThread();
  if (!stopped_) updateReference();
}

void LoopPoller::updateReference() {
  const bool needed = engine_.holdsProcess() || engine_.results().fresh();
  if (needed == referenced_) return;
  referenced_ = needed;
  if (needed) uv_ref(async_);
  else uv_unref(async_);
}

}  // namespace kvcr
