#include "transfers.h"

#include <utility>

namespace kvcr {
namespace {

// Up to here a write is posted by the thread that asks for it; above, posting could hold up the event loop.
constexpr uint64_t kInlineBytes = 256 << 10;
constexpr size_t kInlineSpans = 16;
// One piece of a bulk write: a quarter of a millisecond of copying, or half of one on small pages.
constexpr uint64_t kPieceBytes = 2 << 20;
constexpr size_t kPieceSpans = 64;
// Of one remote: the rest of its pieces wait here and not inside UCX, where they could not be cancelled.
constexpr size_t kMaxPiecesInFlight = 128;
// How long a connection probe keeps the agent polling.
constexpr Nanos kProbeWindow = 1 * kSecond;

}  // namespace

uint64_t TransferOrder::bytes() const {
  uint64_t total = 0;
  for (const Span& span : spans) total += span.bytes;
  return total;
}

bool TransferOrder::bulk() const { return spans.size() > kInlineSpans || bytes() > kInlineBytes; }

Transfers::~Transfers() {
  for (const auto& transfer : active_) {
    for (NixlRequest request : transfer->requests) finishRequest(request);
  }
}

NixlStatus Transfers::post(TransferOrder order, std::vector<Completion>& out) {
  auto transfer = std::make_unique<Transfer>();
  transfer->order = std::move(order);
  const bool probe = transfer->order.kind == OrderKind::kProbe;
  NixlOptArgs options = agent_.options();
  if (!probe) {
    agent_.api().optArgsSetNotif(options, transfer->order.notification.data(), transfer->order.notification.size());
    agent_.api().optArgsSetHasNotif(options, true);
  }
  NixlRequest request = nullptr;
  const NixlStatus created = createRequest(*transfer, transfer->order.spans, options, &request);
  NixlStatus posted = kNixlSuccess;
  if (created == kNixlSuccess) posted = agent_.api().postRequest(agent_.agent(), request, options);
  if (!probe) agent_.api().optArgsSetHasNotif(options, false);
  if (created != kNixlSuccess) return created;

  if (probe) probeUntil_ = monotonicNow() + kProbeWindow;
  else ++writes_;
  if (posted == kNixlInProgress) {
    transfer->requests.push_back(request);
    active_.push_back(std::move(transfer));
    return kNixlSuccess;
  }
  transfer->failure = posted;
  finishRequest(request);
  settle(*transfer, out);
  return kNixlSuccess;
}

void Transfers::adopt(TransferOrder order) {
  auto transfer = std::make_unique<Transfer>();
  transfer->order = std::move(order);
  transfer->bulk = true;
  ++writes_;
  ++bulkWrites_;
  active_.push_back(std::move(transfer));
}

bool Transfers::postable(const Transfer& transfer) const {
  if (!transfer.posting()) return false;
  const auto pieces = pieces_.find(transfer.order.remoteId);
  return pieces == pieces_.end() || pieces->second < kMaxPiecesInFlight;
}

bool Transfers::piecesLeft() const {
  for (const auto& transfer : active_) {
    if (postable(*transfer)) return true;
  }
  return false;
}

// The oldest transfer of the remote that comes next after the last one, in a circle of all remotes.
Transfers::Transfer* Transfers::nextToPost() const {
  Transfer* next = nullptr;
  uint32_t distance = 0;
  for (const auto& transfer : active_) {
    const uint32_t ahead = transfer->order.remoteId - lastRemote_ - 1;
    if ((next != nullptr && ahead >= distance) || !postable(*transfer)) continue;
    next = transfer.get();
    distance = ahead;
  }
  return next;
}

bool Transfers::postPiece() {
  Transfer* next = nextToPost();
  if (next == nullptr) return false;
  Transfer& transfer = *next;
  lastRemote_ = transfer.order.remoteId;
  piece_.clear();
  uint64_t room = kPieceBytes;
  while (transfer.nextSpan < transfer.order.spans.size() && room > 0 && piece_.size() < kPieceSpans) {
    const Span& span = transfer.order.spans[transfer.nextSpan];
    const uint64_t rest = span.bytes - transfer.nextOffset;
    const uint64_t bytes = rest < room ? rest : room;
    piece_.push_back({span.local + transfer.nextOffset, span.remote + transfer.nextOffset, bytes});
    room -= bytes;
    transfer.nextOffset += bytes;
    if (transfer.nextOffset == span.bytes) {
      transfer.nextOffset = 0;
      ++transfer.nextSpan;
    }
  }
  NixlRequest request = nullptr;
  NixlStatus status = createRequest(transfer, piece_, agent_.options(), &request);
  if (status == kNixlSuccess) {
    status = agent_.api().postRequest(agent_.agent(), request, agent_.options());
    if (status == kNixlInProgress) {
      transfer.requests.push_back(request);
      ++pieces_[transfer.order.remoteId];
      return true;
    }
    finishRequest(request);
  }
  if (status != kNixlSuccess) transfer.failure = status;
  return true;
}

void Transfers::poll(std::vector<Completion>& out) {
  for (size_t i = 0; i < active_.size();) {
    Transfer& transfer = *active_[i];
    for (size_t r = 0; r < transfer.requests.size();) {
      const NixlStatus status = agent_.api().requestStatus(agent_.agent(), transfer.requests[r]);
      if (status == kNixlInProgress) {
        ++r;
        continue;
      }
      // Only explicit success is success.
      if (status != kNixlSuccess) transfer.failure = status;
      finishRequest(transfer.requests[r]);
      if (transfer.bulk) pieceEnded(transfer.order.remoteId);
      transfer.requests[r] = transfer.requests.back();
      transfer.requests.pop_back();
    }
    if (transfer.requests.empty() && !transfer.posting() && settle(transfer, out)) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void Transfers::pieceEnded(uint32_t remoteId) {
  const auto pieces = pieces_.find(remoteId);
  if (pieces != pieces_.end() && --pieces->second == 0) pieces_.erase(pieces);
}

bool Transfers::cancel(TransferId id) {
  for (const auto& transfer : active_) {
    if (transfer->order.kind != OrderKind::kWrite || transfer->order.id != id) continue;
    transfer->cancelled = true;
    return true;
  }
  return false;
}

void Transfers::cancelAll() {
  for (const auto& transfer : active_) transfer->cancelled = true;
}

void Transfers::dropProbes(uint32_t remoteId) {
  for (size_t i = 0; i < active_.size();) {
    Transfer& transfer = *active_[i];
    if (transfer.order.kind != OrderKind::kProbe || (remoteId != 0 && transfer.order.remoteId != remoteId)) {
      ++i;
      continue;
    }
    for (NixlRequest request : transfer.requests) finishRequest(request);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Reports a transfer whose requests have all ended.
bool Transfers::settle(Transfer& transfer, std::vector<Completion>& out) {
  if (transfer.order.kind == OrderKind::kProbe) {
    probeUntil_ = 0;
    return true;
  }
  Outcome outcome = Outcome::kDone;
  if (transfer.failure != kNixlSuccess) {
    outcome = Outcome::kFailed;
  } else if (transfer.bulk && transfer.cancelled) {
    outcome = Outcome::kCancelled;
  } else if (transfer.bulk) {
    transfer.failure = notifyOf(transfer);
    if (transfer.failure != kNixlSuccess) outcome = Outcome::kFailed;
  }
  out.push_back({transfer.order.id, outcome, transfer.failure});
  --writes_;
  if (transfer.bulk) --bulkWrites_;
  return true;
}

NixlStatus Transfers::createRequest(const Transfer& transfer, const std::vector<Span>& spans, NixlOptArgs options,
                                    NixlRequest* request) {
  const NixlApi& api = agent_.api();
  const Remote* remote = agent_.findRemote(transfer.order.remoteId);
  if (remote == nullptr) return kNixlNotFound;
  NixlXferList local = nullptr;
  NixlXferList target = nullptr;
  NixlStatus status = api.createXferList(kNixlMemDram, &local);
  if (status == kNixlSuccess) status = api.createXferList(kNixlMemDram, &target);
  for (size_t i = 0; status == kNixlSuccess && i < spans.size(); ++i) {
    status = api.xferListAdd(local, static_cast<uintptr_t>(spans[i].local), static_cast<size_t>(spans[i].bytes), 0);
    if (status == kNixlSuccess) {
      status = api.xferListAdd(target, static_cast<uintptr_t>(spans[i].remote), static_cast<size_t>(spans[i].bytes), 0);
    }
  }
  if (status == kNixlSuccess) {
    const int operation = transfer.order.kind == OrderKind::kProbe ? kNixlOpRead : kNixlOpWrite;
    status = api.createRequest(agent_.agent(), operation, local, target, remote->name.c_str(), request, options);
  }
  if (local != nullptr) api.destroyXferList(local);
  if (target != nullptr) api.destroyXferList(target);
  return status;
}

NixlStatus Transfers::notifyOf(const Transfer& transfer) {
  const Remote* remote = agent_.findRemote(transfer.order.remoteId);
  if (remote == nullptr) return kNixlNotFound;
  return agent_.api().sendNotif(agent_.agent(), remote->name.c_str(), transfer.order.notification.data(),
                                transfer.order.notification.size(), agent_.options());
}

void Transfers::finishRequest(NixlRequest request) {
  agent_.api().releaseRequest(agent_.agent(), request);
  agent_.api().destroyRequest(request);
}

}  // namespace kvcr
