#include "notifications.h"

#include "error.h"

namespace kvcr {

Notifications::Notifications(NixlAgentHandle& agent) : agent_(agent) {
  if (agent_.api().createNotifMap(&map_) != kNixlSuccess) {
    throw NativeError(kErrEngine, "creating the notification map failed");
  }
}

Notifications::~Notifications() { agent_.api().destroyNotifMap(map_); }

void Notifications::poll(std::vector<Notification>& out) {
  const NixlApi& api = agent_.api();
  // A failure of one round is no reason to drop what other peers sent in it, and is not final either.
  api.getNotifs(agent_.agent(), map_, agent_.options());
  size_t senders = 0;
  if (api.notifMapSize(map_, &senders) != kNixlSuccess || senders == 0) return;
  for (size_t s = 0; s < senders; ++s) {
    const char* name = nullptr;
    size_t count = 0;
    // A name with a NUL inside is cut short by the C interface, and then not found: such a sender is dropped.
    if (api.notifMapAgent(map_, s, &name) != kNixlSuccess) continue;
    if (api.notifMapCount(map_, name, &count) != kNixlSuccess) continue;
    for (size_t n = 0; n < count; ++n) {
      const void* data = nullptr;
      size_t bytes = 0;
      if (api.notifMapGet(map_, name, n, &data, &bytes) != kNixlSuccess) continue;
      out.push_back({name, std::string(static_cast<const char*>(data), bytes)});
    }
  }
  api.notifMapClear(map_);
}

bool Notifications::send(uint32_t remoteId, const std::string& payload) {
  const Remote* remote = agent_.findRemote(remoteId);
  if (remote == nullptr) return false;
  return agent_.api().sendNotif(agent_.agent(), remote->name.c_str(), payload.data(), payload.size(),
                                agent_.options()) == kNixlSuccess;
}

}  // namespace kvcr
