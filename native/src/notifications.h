// Notifications in both directions. Nothing here locks: the caller holds the agent's lock.
#pragma once

#include <string>
#include <vector>

#include "nixl_agent.h"

namespace kvcr {

struct Notification {
  std::string from;
  std::string payload;
};

class Notifications {
 public:
  // Throws NativeError(kErrEngine).
  explicit Notifications(NixlAgentHandle& agent);
  ~Notifications();
  Notifications(const Notifications&) = delete;
  Notifications& operator=(const Notifications&) = delete;

  // Makes progress and appends what has arrived, per sender in order.
  void poll(std::vector<Notification>& out);
  // False when the peer is not loaded or NIXL refuses.
  bool send(uint32_t remoteId, const std::string& payload);

 private:
  NixlAgentHandle& agent_;
  NixlNotifMap map_ = nullptr;
};

}  // namespace kvcr
