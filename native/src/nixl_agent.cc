#include "nixl_agent.h"

#include <stdlib.h>

#include <mutex>
#include <utility>

#include "clock.h"
#include "error.h"

namespace kvcr {
namespace {

// UCX versions exist that hang when two agents of a process initialize at the same moment.
Mutex& creationMutex() {
  static Mutex* mutex = new Mutex();
  return *mutex;
}

// Ended regions whose addresses are kept: a process makes its regions at its start, and one that makes and ends them all
// the time must not run out of address space.
constexpr size_t kMaxVacated = 1024;

void require(NixlStatus status, const char* code, const std::string& what) {
  if (status != kNixlSuccess) throw NativeError(code, what + ": NIXL answered " + describeStatus(status));
}

}  // namespace

std::string describeStatus(NixlStatus status) {
  const char* meaning = "unknown status";
  switch (status) {
    case 0: meaning = "success"; break;
    case 1: meaning = "in progress"; break;
    case -1: meaning = "invalid parameter"; break;
    case -2: meaning = "backend error"; break;
    case -3: meaning = "invalid state"; break;
    case -4: meaning = "exception"; break;
    case -5: meaning = "no telemetry"; break;
    case -6: meaning = "not found"; break;
    default: break;
  }
  return "status " + std::to_string(status) + " (" + meaning + ")";
}

NixlAgentHandle::NixlAgentHandle(const NixlLibrary* library, const std::string& name) : library_(library), name_(name) {
  std::lock_guard<Mutex> alone(creationMutex());
  // No progress thread of NIXL's: it either spins without pause or reacts late. The engine polls by itself.
  NixlAgentConfig config{};
  config.threadSync = kNixlSyncStrict;
  config.workers = 1;
  require(api().createAgent(name.c_str(), &config, &agent_), kErrEngine, "creating agent " + name);
  try {
    NixlParams params = nullptr;
    require(api().createParams(&params), kErrEngine, "creating backend parameters");
    const NixlStatus created = api().createBackend(agent_, "UCX", params, &backend_);
    api().destroyParams(params);
    if (created != kNixlSuccess) {
      throw NativeError(kErrEngine, "creating the UCX backend: NIXL answered " + describeStatus(created) +
                                        "; is libplugin_UCX.so in the plugins folder beside " + library_->resolved + "?");
    }
    require(api().createOptArgs(&options_), kErrEngine, "creating options");
    require(api().optArgsAddBackend(options_, backend_), kErrEngine, "choosing the UCX backend");
    MappingRequest page;
    page.bytes = 4096;
    scratch_ = Mapping::create(page);
    registerRange(scratchAddress(), scratchBytes(), true);
  } catch (...) {
    if (options_ != nullptr) api().destroyOptArgs(options_);
    api().destroyAgent(agent_);
    if (backend_ != nullptr) api().destroyBackend(backend_);
    throw;
  }
}

NixlAgentHandle::~NixlAgentHandle() {
  for (const auto& entry : remotes_) {
    if (!entry.second.self) api().invalidateRemote(agent_, entry.second.name.c_str());
  }
  for (const auto& entry : regions_) deregister(entry.second);
  registerRange(scratchAddress(), scratchBytes(), false);
  api().destroyOptArgs(options_);
  api().destroyAgent(agent_);
  api().destroyBackend(backend_);
}

void NixlAgentHandle::registerRange(uint64_t addr, uint64_t bytes, bool add) {
  NixlRegList list = nullptr;
  require(api().createRegList(kNixlMemDram, &list), kErrEngine, "creating a registration list");
  NixlStatus status = api().regListAdd(list, static_cast<uintptr_t>(addr), static_cast<size_t>(bytes), 0, nullptr, 0);
  if (status == kNixlSuccess) {
    status = add ? api().registerMemory(agent_, list, options_) : api().deregisterMemory(agent_, list, options_);
  }
  api().destroyRegList(list);
  if (add) require(status, kErrEngine, "registering " + std::to_string(bytes) + " bytes");
}

bool NixlAgentHandle::registerNextSlice(Region& region) {
  const size_t slice = region.slicesRegistered;
  if (slice == 0) region.exportsBefore = exports_;
  const uint64_t base = reinterpret_cast<uint64_t>(region.mapping->data());
  registerRange(base + slice * region.sliceBytes, region.sliceLength(slice), true);
  return ++region.slicesRegistered < region.slices();
}

void NixlAgentHandle::adoptRegion(uint32_t id, Region region) { regions_[id] = std::move(region); }

const Region* NixlAgentHandle::findRegion(uint32_t id) const {
  const auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : &found->second;
}

void NixlAgentHandle::dropRegion(uint32_t id) {
  const auto found = regions_.find(id);
  if (found == regions_.end()) return;
  deregister(found->second);
  found->second.mapping->vacate();
  if (exports_ > found->second.exportsBefore) {
    vacated_.push_back(found->second.mapping);
    if (vacated_.size() > kMaxVacated) vacated_.pop_front();
  }
  regions_.erase(found);
}

void NixlAgentHandle::deregister(const Region& region) {
  const uint64_t base = reinterpret_cast<uint64_t>(region.mapping->data());
  for (size_t slice = 0; slice < region.slicesRegistered; ++slice) {
    registerRange(base + slice * region.sliceBytes, region.sliceLength(slice), false);
  }
  // The memory goes with the last view of it, which may be long after; its name goes now.
  region.mapping->removeName();
}

std::string NixlAgentHandle::localMetadata() {
  void* data = nullptr;
  size_t bytes = 0;
  require(api().getLocalMetadata(agent_, &data, &bytes), kErrEngine, "reading the local metadata");
  std::string blob(static_cast<const char*>(data), bytes);
  free(data);
  ++exports_;
  return blob;
}

void NixlAgentHandle::addRemote(uint32_t id, const std::string& name, const PeerMetadata& metadata,
                                std::vector<RemoteRegion> regions) {
  Remote remote;
  remote.name = name;
  remote.self = name == name_;
  remote.regions = std::move(regions);
  if (!remote.self) {
    // In two steps, since NIXL has one status for all failures: what failed may work another time, or never.
    load(name, metadata.connections, kErrEngine, "connecting to the peer");
    load(name, metadata.whole, kErrMetadata, "loading its memory");
  }
  try {
    checkCovered(remote);
  } catch (...) {
    if (!remote.self) api().invalidateRemote(agent_, name.c_str());
    throw;
  }
  remotes_[id] = std::move(remote);
}

void NixlAgentHandle::load(const std::string& name, const std::string& metadata, const char* code, const char* what) {
  char* loaded = nullptr;
  const NixlStatus status = api().loadRemoteMetadata(agent_, metadata.data(), metadata.size(), &loaded);
  const bool asNamed = loaded != nullptr && name == loaded;
  free(loaded);
  if (status == kNixlSuccess && asNamed) return;
  // A refused blob may leave half of itself behind.
  api().invalidateRemote(agent_, name.c_str());
  throw NativeError(code, std::string(what) + ": NIXL answered " + describeStatus(status));
}

void NixlAgentHandle::readdRemote(uint32_t id, const std::string& name, std::vector<RemoteRegion> regions) {
  Remote remote;
  remote.name = name;
  remote.self = name == name_;
  remote.regions = std::move(regions);
  checkCovered(remote);
  remotes_[id] = std::move(remote);
}

const Remote* NixlAgentHandle::findRemote(uint32_t id) const {
  const auto found = remotes_.find(id);
  return found == remotes_.end() ? nullptr : &found->second;
}

bool NixlAgentHandle::remoteLoaded(uint32_t id) const {
  const Remote* remote = findRemote(id);
  if (remote == nullptr) return false;
  if (remote->regions.empty()) return true;
  return covers(remote->name, remote->regions[0].addr, remote->regions[0].size);
}

void NixlAgentHandle::dropRemote(uint32_t id, bool unload) {
  const auto found = remotes_.find(id);
  if (found == remotes_.end()) return;
  if (unload && !found->second.self) api().invalidateRemote(agent_, found->second.name.c_str());
  remotes_.erase(found);
}

// Prepares the outermost elements of each region against the loaded metadata. Preparing every element would cost memory
// in proportion to the peer's pool, for each peer, and saves half a microsecond per write; requests are made from plain
// descriptors instead, which NIXL checks against the same metadata.
void NixlAgentHandle::checkCovered(const Remote& remote) const {
  for (size_t i = 0; i < remote.regions.size(); ++i) {
    const RemoteRegion& region = remote.regions[i];
    const uint64_t last = region.addr + (region.count - 1) * region.stride;
    if (!covers(remote.name, region.addr, region.size) || !covers(remote.name, last, region.size)) {
      throw NativeError(kErrCoverage, "it does not cover region " + std::to_string(i));
    }
  }
}

bool NixlAgentHandle::covers(const std::string& name, uint64_t addr, uint64_t bytes) const {
  NixlXferList list = nullptr;
  if (api().createXferList(kNixlMemDram, &list) != kNixlSuccess) return false;
  NixlXferHandle handle = nullptr;
  NixlStatus status = api().xferListAdd(list, static_cast<uintptr_t>(addr), static_cast<size_t>(bytes), 0);
  if (status == kNixlSuccess) status = api().prepareList(agent_, name.c_str(), list, &handle, options_);
  api().destroyXferList(list);
  if (status != kNixlSuccess) return false;
  api().releaseList(agent_, handle);
  return true;
}

}  // namespace kvcr
