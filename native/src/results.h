// What polling found, on its way to JavaScript: filled by whichever thread polls, emptied by the JavaScript thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "clock.h"
#include "notifications.h"
#include "transfers.h"

namespace kvcr {

class Results {
 public:
  // A peer that floods a process which does not take its notifications is cut off here.
  static constexpr size_t kMaxNotifications = 65536;
  static constexpr size_t kMaxNotificationBytes = size_t{64} << 20;

  // Moves both lists in. True when there was anything.
  bool add(std::vector<Completion>& completions, std::vector<Notification>& notifications) {
    if (completions.empty() && notifications.empty()) return false;
    std::lock_guard<Mutex> hold(mutex_);
    completions_.insert(completions_.end(), completions.begin(), completions.end());
    for (Notification& notification : notifications) {
      const size_t bytes = notification.payload.size();
      if (notifications_.size() >= kMaxNotifications || notificationBytes_ + bytes > kMaxNotificationBytes) {
        ++dropped_;
        continue;
      }
      notificationBytes_ += bytes;
      notifications_.push_back(std::move(notification));
    }
    completions.clear();
    notifications.clear();
    fresh_.store(true, std::memory_order_release);
    return true;
  }

  // True once after each addition.
  bool takeFresh() { return fresh_.load(std::memory_order_acquire) && fresh_.exchange(false, std::memory_order_acq_rel); }
  bool fresh() const { return fresh_.load(std::memory_order_acquire); }

  std::vector<Completion> takeCompletions() {
    std::lock_guard<Mutex> hold(mutex_);
    return std::exchange(completions_, {});
  }

  std::vector<Notification> takeNotifications() {
    std::lock_guard<Mutex> hold(mutex_);
    notificationBytes_ = 0;
    return std::exchange(notifications_, {});
  }

  size_t dropped() {
    std::lock_guard<Mutex> hold(mutex_);
    return dropped_;
  }

 private:
  Mutex mutex_;
  std::atomic<bool> fresh_{false};
  std::vector<Completion> completions_;
  std::vector<Notification> notifications_;
  size_t notificationBytes_ = 0;
  size_t dropped_ = 0;
};

}  // namespace kvcr
