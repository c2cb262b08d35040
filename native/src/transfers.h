// Writes in flight. A small write is one NIXL request that carries its notification. A bulk write is cut into pieces,
// each a request of its own, because posting may copy the bytes on the spot; its notification leaves when the last
// piece is known to have arrived. Nothing here locks: the caller holds the agent's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "nixl_agent.h"

namespace kvcr {

using TransferId = uint64_t;

struct Span {
  uint64_t local;
  uint64_t remote;
  uint64_t bytes;
};

enum class OrderKind { kWrite, kProbe };

// One transfer as ordered: everything needed to run it later, from any thread.
struct TransferOrder {
  OrderKind kind = OrderKind::kWrite;
  TransferId id = 0;
  uint32_t remoteId = 0;
  std::vector<Span> spans;
  std::string notification;

  uint64_t bytes() const;
  bool bulk() const;
};

enum class Outcome : int { kDone = 0, kFailed = 1, kCancelled = 2 };

struct Completion {
  TransferId id;
  Outcome outcome;
  NixlStatus status;
};

class Transfers {
 public:
  explicit Transfers(NixlAgentHandle& agent) : agent_(agent) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Creates and posts a small order. Anything but success means that nothing was posted; failures after the creation
  // arrive as completions.
  NixlStatus post(TransferOrder order, std::vector<Completion>& out);
  // Takes a bulk order; its pieces are posted by `postPiece`.
  void adopt(TransferOrder order);
  // Posts one more piece of a bulk order, if one may be posted now. Remotes take turns, and one that takes nothing any
  // more holds up nobody else.
  bool postPiece();
  // Asks every request in flight for its status and reports the transfers that ended.
  void poll(std::vector<Completion>& out);
  // Stops posting further pieces. False for an unknown transfer.
  bool cancel(TransferId id);
  void cancelAll();
  // Writes that have not been reported yet.
  size_t writes() const { return writes_; }
  // Bulk writes among them: polling for these may copy bytes on the spot.
  size_t bulkWrites() const { return bulkWrites_; }
  // True while a connection probe is young enough to be worth polling for.
  bool probing(Nanos now) const { return now < probeUntil_; }
  // True while a bulk order has pieces that may be posted now.
  bool piecesLeft() const;
  // Ends the connection probes of a remote, or of all (0).
  void dropProbes(uint32_t remoteId);

 private:
  struct Transfer {
    TransferOrder order;
    std::vector<NixlRequest> requests;
    size_t nextSpan = 0;
    uint64_t nextOffset = 0;
    bool bulk = false;
    bool cancelled = false;
    NixlStatus failure = kNixlSuccess;

    bool posting() const { return bulk && !cancelled && failure == kNixlSuccess && nextSpan < order.spans.size(); }
  };

  bool postable(const Transfer& transfer) const;
  Transfer* nextToPost() const;
  void pieceEnded(uint32_t remoteId);
  NixlStatus createRequest(const Transfer& transfer, const std::vector<Span>& spans, NixlOptArgs options,
                           NixlRequest* request);
  NixlStatus notifyOf(const Transfer& transfer);
  void finishRequest(NixlRequest request);
  bool settle(Transfer& transfer, std::vector<Completion>& out);

  NixlAgentHandle& agent_;
  std::vector<std::unique_ptr<Transfer>> active_;
  std::vector<Span> piece_;
  size_t writes_ = 0;
  size_t bulkWrites_ = 0;
  // Pieces in flight, by remote.
  std::map<uint32_t, size_t> pieces_;
  // Whose turn it was last.
  uint32_t lastRemote_ = 0;
  Nanos probeUntil_ = 0;
};

}  // namespace kvcr
