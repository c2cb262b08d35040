#include "engine.h"

#include <sched.h>

#include <utility>

#include "error.h"

namespace kvcr {
namespace {

// How long the JavaScript thread tries for the lock before it leaves a command to the native thread.
constexpr Nanos kLockPatience = 30 * kMicro;
// Polling that goes on after events which leave no request behind to ask for its status.
constexpr Nanos kAfterNotify = 50 * kMilli;
constexpr Nanos kAfterAddRemote = 200 * kMilli;
constexpr Nanos kMetadataShared = 500 * kMilli;

}  // namespace

Engine::Engine(const NixlLibrary* library, const std::string& name)
    : agent_(new NixlAgentHandle(library, name)),
      notifications_(new Notifications(*agent_)),
      transfers_(new Transfers(*agent_)),
      thread_(*this) {}

Engine::~Engine() { shutdown(0); }

void Engine::start(std::function<void()> onResults) {
  onResults_ = std::move(onResults);
  thread_.start();
}

// ---- regions and remotes

void Engine::registerRegion(Region& region) {
  bool more = true;
  while (more) {
    std::lock_guard<Mutex> hold(mutex_);
    if (closed_) throw NativeError(kErrClosed, "the agent was closed during the registration");
    try {
      more = agent_->registerNextSlice(region);
    } catch (...) {
      agent_->deregister(region);
      throw;
    }
  }
}

void Engine::adoptRegion(uint32_t id, Region region) {
  ++waiters_;
  std::lock_guard<Mutex> hold(mutex_);
  --waiters_;
  if (closed_) throw NativeError(kErrClosed, "the agent was closed during the registration");
  agent_->adoptRegion(id, std::move(region));
}

void Engine::dropRegion(uint32_t id) {
  ++waiters_;
  std::lock_guard<Mutex> hold(mutex_);
  --waiters_;
  if (!closed_) agent_->dropRegion(id);
}

std::string Engine::localMetadata() {
  ++waiters_;
  std::lock_guard<Mutex> hold(mutex_);
  --waiters_;
  // Whoever asks is about to hand it out: peers will want to connect, and that takes both sides.
  linger(kMetadataShared);
  return agent_->localMetadata();
}

void Engine::addRemote(uint32_t id, const std::string& name, const PeerMetadata& metadata,
                       std::vector<RemoteRegion> regions, uint32_t replaces, bool reload) {
  {
    ++waiters_;
    std::lock_guard<Mutex> hold(mutex_);
    --waiters_;
    // The new one first: bytes that turn out to be unusable must not cost the peer that is loaded.
    if (reload) {
      agent_->addRemote(id, name, metadata, std::move(regions));
    } else {
      agent_->readdRemote(id, name, std::move(regions));
    }
    if (replaces != 0) {
      transfers_->dropProbes(replaces);
      agent_->dropRemote(replaces, reload);
    }
  }
  linger(kAfterAddRemote);
}

void Engine::dropRemote(uint32_t id) {
  ++waiters_;
  std::lock_guard<Mutex> hold(mutex_);
  --waiters_;
  if (closed_) return;
  transfers_->dropProbes(id);
  agent_->dropRemote(id, true);
}

// ---- what the JavaScript thread asks for

void Engine::write(TransferId id, uint32_t remoteId, const std::vector<Pair>& pairs, std::string notification) {
  TransferOrder order = resolve(id, remoteId, pairs);
  order.notification = std::move(notification);
  if (!order.bulk() && !commandsWaiting() && lockSoon(kLockPatience)) {
    std::vector<Completion> done;
    NixlStatus created;
    {
      std::lock_guard<Mutex> hold(mutex_, std::adopt_lock);
      ++outstanding_;
      created = transfers_->post(std::move(order), done);
      if (created != kNixlSuccess) {
        --outstanding_;
        if (!agent_->remoteLoaded(remoteId)) throw NativeError(kErrStale, "NIXL has dropped the peer");
        throw NativeError(kErrEngine, "creating the request: NIXL answered " + describeStatus(created));
      }
    }
    touch();
    finished(done);
    std::vector<Notification> none;
    results_.add(done, none);
    wakeThread();
    return;
  }
  ++outstanding_;
  touch();
  enqueue({Command::Kind::kPost, std::move(order), std::string(), remoteId});
}

// Reads only tables that change on the JavaScript thread, which is the caller: no lock.
TransferOrder Engine::resolve(TransferId id, uint32_t remoteId, const std::vector<Pair>& pairs) const {
  const Remote* remote = agent_->findRemote(remoteId);
  if (remote == nullptr) throw NativeError(kErrStale, "the remote is not loaded");
  TransferOrder order;
  order.id = id;
  order.remoteId = remoteId;
  order.spans.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    const Region* region = agent_->findRegion(pair.region);
    if (region == nullptr || pair.element >= region->count) throw NativeError(kErrArgument, "no such local element");
    if (pair.remoteRegion >= remote->regions.size()) throw NativeError(kErrArgument, "no such remote region");
    const RemoteRegion& target = remote->regions[pair.remoteRegion];
    if (pair.remoteElement >= target.count) throw NativeError(kErrArgument, "no such remote element");
    if (region->size != target.size) throw NativeError(kErrArgument, "the elements differ in size");
    const uint64_t base = reinterpret_cast<uint64_t>(region->mapping->data());
    order.spans.push_back(
        {base + pair.element * region->size, target.addr + pair.remoteElement * target.stride, region->size});
  }
  return order;
}

bool Engine::cancel(TransferId id) {
  {
    std::lock_guard<Mutex> hold(commandMutex_);
    for (auto command = commands_.begin(); command != commands_.end(); ++command) {
      if (command->kind != Command::Kind::kPost || command->order.id != id) continue;
      commands_.erase(command);
      std::vector<Completion> done{{id, Outcome::kCancelled, kNixlSuccess}};
      std::vector<Notification> none;
      finished(done);
      results_.add(done, none);
      return true;
    }
  }
  ++waiters_;
  std::lock_guard<Mutex> hold(mutex_);
  --waiters_;
  return transfers_->cancel(id);
}

bool Engine::notify(uint32_t remoteId, std::string payload) {
  if (agent_->findRemote(remoteId) == nullptr) return false;
  bool accepted = true;
  if (!commandsWaiting() && lockSoon(kLockPatience)) {
    std::lock_guard<Mutex> hold(mutex_, std::adopt_lock);
    accepted = notifications_->send(remoteId, payload);
  } else {
    enqueue({Command::Kind::kNotify, TransferOrder(), std::move(payload), remoteId});
  }
  touch();
  lingerForNotification();
  return accepted;
}

// A few bytes read from the peer's memory into a private page make UCX set the connection up, and nobody sees them.
void Engine::connect(uint32_t remoteId) {
  const Remote* remote = agent_->findRemote(remoteId);
  if (remote == nullptr || remote->regions.empty()) return;
  const RemoteRegion& region = remote->regions[0];
  TransferOrder order;
  order.kind = OrderKind::kProbe;
  order.remoteId = remoteId;
  order.spans.push_back({agent_->scratchAddress(), region.addr, region.size < 8 ? region.size : 8});
  touch();
  enqueue({Command::Kind::kPost, std::move(order), std::string(), remoteId});
}

void Engine::expect(int change) {
  expecting_ += change;
  if (change <= 0) return;
  touch();
  wakeThread();
}

void Engine::linger(Nanos duration) {
  const Nanos until = monotonicNow() + duration;
  if (until > lingerUntil_.load()) lingerUntil_.store(until);
  touch();
  wakeThread();
}

void Engine::lingerForNotification() {
  flushUntil_.store(monotonicNow() + kAfterNotify);
  linger(kAfterNotify);
}

void Engine::enqueue(Command command) {
  {
    std::lock_guard<Mutex> hold(commandMutex_);
    commands_.push_back(std::move(command));
    commandsWaiting_.store(true, std::memory_order_release);
  }
  thread_.hurry();
}

// ---- polling

bool Engine::lockSoon(Nanos patience) {
  if (mutex_.try_lock()) return true;
  ++waiters_;
  const Nanos end = monotonicNow() + patience;
  bool got = false;
  while (!(got = mutex_.try_lock()) && monotonicNow() < end) sched_yield();
  --waiters_;
  return got;
}

bool Engine::tryPoll() {
  if (bulkUnderWay() || !mutex_.try_lock()) return false;
  std::lock_guard<Mutex> hold(mutex_, std::adopt_lock);
  return pollLocked();
}

bool Engine::poll() {
  while (waiters_.load() > 0) sched_yield();
  bool found;
  {
    std::lock_guard<Mutex> hold(mutex_);
    found = pollLocked();
  }
  if (found && onResults_) onResults_();
  return found;
}

bool Engine::pollLocked() {
  if (closed_) return false;
  transfers_->poll(foundCompletions_);
  notifications_->poll(foundNotifications_);
  note();
  // Requests that ended make room for further pieces of a bulk write.
  if (transfers_->piecesLeft() && !commandsWaiting_.exchange(true)) thread_.hurry();
  // A notification that ends a bulk write may still be on its way out.
  if (!foundCompletions_.empty()) lingerForNotification();
  finished(foundCompletions_);
  return results_.add(foundCompletions_, foundNotifications_);
}

// What those who do not hold the lock want to know of the transfers.
void Engine::note() {
  probing_.store(transfers_->probing(monotonicNow()), std::memory_order_relaxed);
  bulk_.store(transfers_->bulkWrites() > 0, std::memory_order_relaxed);
}

bool Engine::runCommand() {
  while (waiters_.load() > 0) sched_yield();
  bool ran = false;
  std::vector<Completion> done;
  {
    std::lock_guard<Mutex> hold(mutex_);
    if (closed_) return false;
    Command command;
    bool have = false;
    {
      std::lock_guard<Mutex> holdCommands(commandMutex_);
      if (!commands_.empty()) {
        command = std::move(commands_.front());
        commands_.pop_front();
        have = true;
      }
    }
    ran = have;
    if (have && command.kind == Command::Kind::kNotify) {
      notifications_->send(command.remoteId, command.payload);
    } else if (have && command.order.bulk()) {
      transfers_->adopt(std::move(command.order));
    } else if (have) {
      const bool probe = command.order.kind == OrderKind::kProbe;
      const TransferId id = command.order.id;
      const NixlStatus created = transfers_->post(std::move(command.order), done);
      if (created != kNixlSuccess && !probe) done.push_back({id, Outcome::kFailed, created});
    }
    if (transfers_->postPiece()) ran = true;
    note();
    std::lock_guard<Mutex> holdCommands(commandMutex_);
    commandsWaiting_.store(!commands_.empty() || transfers_->piecesLeft(), std::memory_order_release);
  }
  if (!done.empty()) {
    std::vector<Notification> none;
    finished(done);
    results_.add(done, none);
    if (onResults_) onResults_();
  }
  return ran;
}

bool Engine::worthPolling(Nanos now) const {
  return outstanding_.load(std::memory_order_relaxed) > 0 || expecting_.load(std::memory_order_relaxed) > 0 ||
         probing_.load(std::memory_order_relaxed) || now < lingerUntil_.load(std::memory_order_relaxed);
}

void Engine::finished(const std::vector<Completion>& completions) { outstanding_ -= completions.size(); }

// ---- the end

bool Engine::shutdown(Nanos patience) {
  std::lock_guard<Mutex> alone(shutdownMutex_);
  if (closed_) return true;
  std::vector<Completion> cancelled;
  {
    std::lock_guard<Mutex> hold(commandMutex_);
    for (Command& command : commands_) {
      if (command.kind != Command::Kind::kPost || command.order.kind != OrderKind::kWrite) continue;
      cancelled.push_back({command.order.id, Outcome::kCancelled, kNixlSuccess});
    }
    commands_.clear();
    commandsWaiting_.store(false);
  }
  std::vector<Notification> none;
  finished(cancelled);
  results_.add(cancelled, none);
  {
    std::lock_guard<Mutex> hold(mutex_);
    transfers_->cancelAll();
  }
  const Nanos end = monotonicNow() + patience;
  while (outstanding_.load() > 0 && monotonicNow() < end && monotonicNow() < endBy_.load()) {
    {
      std::lock_guard<Mutex> hold(mutex_);
      pollLocked();
    }
    sleepFor(50 * kMicro);
  }
  thread_.stop();
  std::lock_guard<Mutex> hold(mutex_);
  if (outstanding_.load() > 0) return false;
  closed_ = true;
  transfers_.reset();
  notifications_.reset();
  agent_.reset();
  return true;
}

void Engine::hurry(Nanos patience) { endBy_.store(monotonicNow() + patience); }

void Engine::flush(Nanos patience) {
  const Nanos end = monotonicNow() + patience;
  for (;;) {
    const Nanos now = monotonicNow();
    if (now >= end || (outstanding_.load() == 0 && !commandsWaiting() && now >= flushUntil_.load())) return;
    if (!tryPoll()) sleepFor(50 * kMicro);
  }
}

void Engine::abandon(std::shared_ptr<Engine> engine) {
  static Mutex* mutex = new Mutex();
  static auto* kept = new std::vector<std::shared_ptr<Engine>>();
  std::lock_guard<Mutex> hold(*mutex);
  kept->push_back(std::move(engine));
}

}  // namespace kvcr
