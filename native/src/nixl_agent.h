// One NIXL agent with its UCX backend, its registered regions and its loaded remotes. Nothing here locks: the caller
// (Engine) holds the agent's lock around every call.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory.h"
#include "nixl_api.h"
#include "nixl_library.h"

namespace kvcr {

// A registered local region: `count` elements of `size` bytes, contiguous. It is registered in slices of whole
// elements, so that no single registration or ArrayBuffer grows past what either side can handle.
struct Region {
  std::shared_ptr<Mapping> mapping;
  uint64_t size = 0;
  uint64_t count = 0;
  uint64_t sliceBytes = 0;
  size_t slicesRegistered = 0;
  // How often metadata had been given out when the registration began.
  uint64_t exportsBefore = 0;

  size_t slices() const { return static_cast<size_t>((size * count + sliceBytes - 1) / sliceBytes); }
  uint64_t sliceLength(size_t slice) const {
    const uint64_t begin = slice * sliceBytes;
    const uint64_t rest = size * count - begin;
    return rest < sliceBytes ? rest : sliceBytes;
  }
};

// Where a peer says that its region lies.
struct RemoteRegion {
  uint64_t addr = 0;
  uint64_t stride = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

// A peer's metadata, and what of it NIXL needs for connecting.
struct PeerMetadata {
  std::string connections;
  std::string whole;
};

struct Remote {
  std::string name;
  bool self = false;
  std::vector<RemoteRegion> regions;
};

class NixlAgentHandle {
 public:
  // Creates agent and backend (about half a second). Throws NativeError(kErrEngine).
  NixlAgentHandle(const NixlLibrary* library, const std::string& name);
  // Releases everything in the order NIXL needs. Requests must be released before.
  ~NixlAgentHandle();
  NixlAgentHandle(const NixlAgentHandle&) = delete;
  NixlAgentHandle& operator=(const NixlAgentHandle&) = delete;

  const NixlApi& api() const { return library_->api; }
  NixlAgent agent() const { return agent_; }
  NixlBackend backend() const { return backend_; }
  NixlOptArgs options() const { return options_; }
  const std::string& name() const { return name_; }
  // A private registered page: where connection probes read to.
  uint64_t scratchAddress() const { return reinterpret_cast<uint64_t>(scratch_->data()); }
  uint64_t scratchBytes() const { return scratch_->bytes(); }

  // Registers the next slice of a region; true while there are more. Throws NativeError(kErrEngine).
  bool registerNextSlice(Region& region);
  // Takes the region into the table under `id`.
  void adoptRegion(uint32_t id, Region region);
  const Region* findRegion(uint32_t id) const;
  // Deregisters and gives the memory back at once. Its addresses go with the last ArrayBuffer that shows them, and those that
  // peers may know of with the agent.
  void dropRegion(uint32_t id);
  void deregister(const Region& region);

  std::string localMetadata();
  // Loads a peer and checks that its metadata covers the regions. Throws NativeError: kErrEngine when it cannot be
  // connected to, else kErrMetadata or kErrCoverage; nothing usable stays loaded.
  void addRemote(uint32_t id, const std::string& name, const PeerMetadata& metadata, std::vector<RemoteRegion> regions);
  // Uses what is loaded for another handle's agent again, with other regions.
  void readdRemote(uint32_t id, const std::string& name, std::vector<RemoteRegion> regions);
  const Remote* findRemote(uint32_t id) const;
  // False when NIXL itself has dropped the peer meanwhile, as it does when a connection breaks.
  bool remoteLoaded(uint32_t id) const;
  // Forgets the handle; with `unload`, also what NIXL knows about the peer.
  void dropRemote(uint32_t id, bool unload);

 private:
  void load(const std::string& name, const std::string& metadata, const char* code, const char* what);
  void checkCovered(const Remote& remote) const;
  bool covers(const std::string& name, uint64_t addr, uint64_t bytes) const;
  void registerRange(uint64_t addr, uint64_t bytes, bool add);

  const NixlLibrary* library_;
  std::string name_;
  NixlAgent agent_ = nullptr;
  NixlBackend backend_ = nullptr;
  NixlOptArgs options_ = nullptr;
  std::shared_ptr<Mapping> scratch_;
  std::map<uint32_t, Region> regions_;
  // How often metadata was given out; addresses of regions that ended after that, oldest first, without memory.
  uint64_t exports_ = 0;
  std::deque<std::shared_ptr<Mapping>> vacated_;
  std::map<uint32_t, Remote> remotes_;
};

// "status -2 (backend error)" for messages.
std::string describeStatus(NixlStatus status);

}  // namespace kvcr
