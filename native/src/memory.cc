#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "error.h"

namespace kvcr {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

[[noreturn]] void fail(const std::string& what, int error) {
  throw NativeError(kErrMemory, what + ": " + strerror(error));
}

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::string describe(size_t bytes) { return std::to_string(bytes) + " bytes"; }

[[noreturn]] void failOnHugePages(const std::string& what, int error) {
  throw NativeError(kErrMemory, what + " on huge pages: " + strerror(error) +
                                    " (reserve them with vm.nr_hugepages, or do not ask for huge pages)");
}

// Sizes a fresh shared-memory file and reserves its pages, so that a full file system is an error here and not a
// SIGBUS at the first touch.
void sizeFile(int fd, size_t bytes, const std::string& what, bool hugePages) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail(what + ": cannot size to " + describe(bytes), errno);
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return;
  if (hugePages) failOnHugePages(what + ": cannot reserve " + describe(bytes), error);
  fail(what + ": cannot reserve " + describe(bytes), error);
}

// The unit in which a file is mapped: larger than the system's page where the file is made of huge pages.
size_t pageOf(int fd, size_t pageBytes) {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0 || system.f_type != HUGETLBFS_MAGIC) return pageBytes;
  return static_cast<size_t>(system.f_bsize);
}

int openMemfd(bool hugePages) {
  const unsigned flags = MFD_CLOEXEC | (hugePages ? MFD_HUGETLB : 0u);
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "kvcr-region", flags));
  if (fd < 0) fail(hugePages ? "memfd with huge pages" : "memfd", errno);
  return fd;
}

int openShared(const std::string& name) {
  const std::string path = "/dev/shm/" + name;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) fail("shared memory " + path, errno);
  return fd;
}

int openFile(const MappingRequest& request, size_t pageBytes) {
  if (request.offset % pageBytes != 0) {
    throw NativeError(kErrMemory, request.name + ": offset " + std::to_string(request.offset) +
                                      " is not a multiple of the page size " + std::to_string(pageBytes));
  }
  const int fd = open(request.name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail(request.name, errno);
  struct stat status{};
  // The system call itself: the library's wrapper for it is too new a symbol (see glibc_floor.h).
  if (syscall(SYS_fstat, fd, &status) != 0) {
    const int error = errno;
    close(fd);
    fail(request.name, error);
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    throw NativeError(kErrMemory, request.name + ": not a regular file or shared-memory file");
  }
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (request.offset > size || size - request.offset < request.bytes) {
    close(fd);
    throw NativeError(kErrMemory, request.name + ": has " + describe(size) + ", needed are " + describe(request.bytes) +
                                      " from offset " + std::to_string(request.offset));
  }
  return fd;
}

}  // namespace

std::shared_ptr<Mapping> Mapping::create(const MappingRequest& request) {
  const size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::shared_ptr<Mapping> mapping(new Mapping());
  mapping->bytes_ = request.bytes;
  mapping->mappedBytes_ = roundUp(request.bytes, request.hugePages ? kHugePage : pageBytes);

  int flags = MAP_SHARED;
  off_t offset = 0;
  switch (request.backing) {
    case Backing::kAnonymous:
      flags = MAP_PRIVATE | MAP_ANONYMOUS | (request.hugePages ? MAP_HUGETLB : 0);
      break;
    case Backing::kMemfd:
      mapping->fd_ = openMemfd(request.hugePages);
      mapping->path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(mapping->fd_);
      sizeFile(mapping->fd_, mapping->mappedBytes_, "memfd", request.hugePages);
      break;
    case Backing::kSharedName:
      mapping->fd_ = openShared(request.name);
      mapping->path_ = "/dev/shm/" + request.name;
      mapping->name_ = std::make_unique<SharedName>(mapping->path_, mapping->fd_);
      sizeFile(mapping->fd_, mapping->mappedBytes_, mapping->path_, false);
      break;
    case Backing::kFile:
      mapping->fd_ = openFile(request, pageBytes);
      mapping->path_ = request.name;
      mapping->mappedBytes_ = roundUp(request.bytes, pageOf(mapping->fd_, pageBytes));
      offset = static_cast<off_t>(request.offset);
      break;
  }
  void* data = mmap(nullptr, mapping->mappedBytes_, PROT_READ | PROT_WRITE, flags, mapping->fd_, offset);
  if (data == MAP_FAILED) {
    const int error = errno;
    const std::string what = "mapping " + describe(request.bytes);
    if (request.hugePages) failOnHugePages(what, error);
    fail(what, error);
  }
  mapping->data_ = static_cast<uint8_t*>(data);
  // Blocks are copied from all over a pool: on small pages that costs a walk through the page tables every 4 KiB. Where the
  // kernel has no large page at hand, small ones do.
  if (request.backing == Backing::kAnonymous && !request.hugePages) madvise(data, mapping->mappedBytes_, MADV_HUGEPAGE);
  // A forked child must not inherit pages that a network adapter writes to.
  madvise(data, mapping->mappedBytes_, MADV_DONTFORK);
  return mapping;
}

void Mapping::vacate() {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  // Where the system refuses, the memory simply stays until the addresses go.
  if (mmap(data_, mappedBytes_, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return;
  madvise(data_, mappedBytes_, MADV_DONTFORK);
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, mappedBytes_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace kvcr
