#include "shared_name.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "clock.h"

namespace kvcr {
namespace {

// The system call itself: the library's wrapper for it is too new a symbol (see glibc_floor.h).
bool statusOf(int fd, struct stat& status) { return syscall(SYS_fstat, fd, &status) == 0; }

}  // namespace

// Names that are still there. Never destroyed: regions may end after static objects did.
struct SharedNames {
  Mutex mutex;
  std::set<SharedName*> all;
  const pid_t owner = getpid();

  static SharedNames& get() {
    static auto* names = [] {
      // process.exit() runs neither finalizers nor environment hooks on the main thread.
      std::atexit([] { get().removeAll(); });
      return new SharedNames();
    }();
    return *names;
  }

  void removeAll() {
    if (getpid() != owner) return;
    std::lock_guard<Mutex> hold(mutex);
    for (SharedName* name : all) name->unlinkIfOurs();
    all.clear();
  }
};

SharedName::SharedName(std::string path, int fd) : path_(std::move(path)) {
  struct stat status{};
  known_ = statusOf(fd, status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  SharedNames& names = SharedNames::get();
  std::lock_guard<Mutex> hold(names.mutex);
  names.all.insert(this);
}

SharedName::~SharedName() { remove(); }

void SharedName::remove() {
  SharedNames& names = SharedNames::get();
  std::lock_guard<Mutex> hold(names.mutex);
  if (names.all.erase(this) > 0) unlinkIfOurs();
}

void SharedName::unlinkIfOurs() {
  const int fd = open(path_.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status{};
  const bool ours = known_ && statusOf(fd, status) && status.st_dev == device_ && status.st_ino == inode_;
  close(fd);
  if (ours) unlink(path_.c_str());
}

}  // namespace kvcr
