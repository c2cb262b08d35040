// The event loop's share of the polling: for a window after each sign of activity the loop does not block, and
// polls in slices between its other work. Outside the window nothing runs here but a wake-up from the native thread.
#pragma once

#include <functional>

#include "engine.h"
#include "uv_abi.h"

namespace kvcr {

// All methods but `signal` belong to the thread of the loop.
class LoopPoller {
 public:
  // `deliver` is called on the loop when results are waiting.
  LoopPoller(uv_loop_s* loop, Engine& engine, std::function<void()> deliver);

  // Opens the window, or extends it.
  void open();
  // Any thread: results are waiting. Not after `close`.
  void signal() { uv_async_send(async_); }
  // Closes the window; no further `deliver`.
  void stop();
  // Gives the handles back to the loop, then calls `done` and deletes this.
  void close(std::function<void()> done);

 private:
  ~LoopPoller() = default;
  static void onAsync(uv_any_handle* handle);
  static void onCheck(uv_any_handle* handle);
  static void onIdle(uv_any_handle*) {}
  static void onClosed(uv_any_handle* handle);
  void slice();
  void shut();
  void hand();
  void updateReference();

  Engine& engine_;
  std::function<void()> deliver_;
  std::function<void()> closed_;
  // How long the window is, and when it was opened or extended last.
  Nanos window_;
  Nanos opened_ = 0;
  uv_any_handle* async_;
  uv_any_handle* check_;
  uv_any_handle* idle_;
  int open_handles_ = 3;
  bool active_ = false;
  bool stopped_ = false;
  bool referenced_ = false;
};

}  // namespace kvcr
