// Loading libnixl_capi.so at run time, once per process.
#pragma once

#include <memory>
#include <string>

#include "nixl_api.h"

namespace kvcr {

// A loaded library. It is never unloaded: UCX leaves threads, handlers and registered destructors behind.
struct NixlLibrary {
  std::string path;        // what was asked for
  std::string resolved;    // the file behind it
  NixlApi api;
};

// Sets what UCX reads when it is loaded, where the user has not. Its memory hooks patch functions that V8's threads are
// running; without them nothing is lost, because all memory that UCX sees is registered explicitly and outlives its
// registration. For the JavaScript thread: the environment is not to be changed from others.
void prepareEnvironment();

// Loads the library at `path` (a file, or a bare name for the loader's own search path), or returns the one already
// loaded from there. Throws NativeError(kErrLibrary) that tells what is wrong: no such file, wrong architecture, not a
// library, not NIXL, or the stub build. A second, different NIXL in one process is refused: two UCX would share state.
const NixlLibrary* loadNixlLibrary(const std::string& path);

// The version of the UCX that NIXL brought into this process, or an empty string.
std::string loadedUcxVersion();

}  // namespace kvcr
