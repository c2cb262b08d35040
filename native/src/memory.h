// Memory that peers can write to: one contiguous mapping, owned jointly by the agent that registered it and by every
// ArrayBuffer that shows it to JavaScript. It is unmapped when the last of them lets go, so that neither garbage
// collection nor closing can pull it from under a transfer or a view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "shared_name.h"

namespace kvcr {

enum class Backing { kAnonymous, kMemfd, kSharedName, kFile };

struct MappingRequest {
  Backing backing = Backing::kAnonymous;
  size_t bytes = 0;
  std::string name;      // kSharedName: the name below /dev/shm; kFile: a path
  uint64_t offset = 0;   // kFile: where to begin, a multiple of the page size
  bool hugePages = false;
};

class Mapping {
 public:
  // Throws NativeError(kErrMemory) naming what failed and why.
  static std::shared_ptr<Mapping> create(const MappingRequest& request);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // A path by which other processes of this user can map the same memory; empty for anonymous memory.
  const std::string& path() const { return path_; }
  // Gives the memory back and keeps its addresses: what a slow peer still writes there lands on pages nobody reads.
  // (UCX over TCP writes wherever it is told to; an address without memory would end the process.)
  void vacate();
  // Nobody can map it by its name from now on. Whoever has it mapped keeps it.
  void removeName() {
    if (name_ != nullptr) name_->remove();
  }

 private:
  Mapping() = default;

  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  size_t mappedBytes_ = 0;
  int fd_ = -1;
  std::string path_;
  std::unique_ptr<SharedName> name_;
};

}  // namespace kvcr
