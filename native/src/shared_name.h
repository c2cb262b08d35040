// The name of shared memory below /dev/shm, which outlives every process unless somebody removes it.
#pragma once

#include <sys/types.h>

#include <string>

namespace kvcr {

// Removes the name once: when told so, when destroyed, or as the process exits. A file that somebody else has put in its
// place meanwhile is left alone.
class SharedName {
 public:
  // `fd` is the file just made at `path`.
  SharedName(std::string path, int fd);
  ~SharedName();
  SharedName(const SharedName&) = delete;
  SharedName& operator=(const SharedName&) = delete;

  void remove();

 private:
  friend struct SharedNames;
  void unlinkIfOurs();

  const std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool known_ = false;
};

}  // namespace kvcr
