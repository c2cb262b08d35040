#include "nixl_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <cstring>
#include <mutex>

#include "clock.h"
#include "error.h"

namespace kvcr {
namespace {

struct LoadState {
  Mutex mutex;
  NixlLibrary* library = nullptr;
};

// Leaked on purpose: other threads may still call into the library while static destructors run.
LoadState& loadState() {
  static LoadState* state = new LoadState();
  return *state;
}

std::string resolvedPath(void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return std::string();
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real != nullptr ? real : info.dli_fname;
  free(real);
  return path;
}

// The wheel brings netlink and verbs libraries of its own, and one of its UCX modules also loads the distribution's where
// they are installed. Loaded in that order, the distribution's netlink registers itself with the wheel's and takes its
// leave from the other one, which crashes every process when it exits. Loaded first and fully bound, the distribution's
// copies find only each other, and both sets start and end on their own.
void bindDistributionLibraries() {
  for (const char* name : {"libnl-route-3.so.200", "libibverbs.so.1"}) {
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL) == nullptr) dlerror();
  }
}

int findUcp(dl_phdr_info* info, size_t, void* out) {
  const char* name = info->dlpi_name != nullptr ? strrchr(info->dlpi_name, '/') : nullptr;
  if (name == nullptr || strncmp(name, "/libucp", 7) != 0) return 0;
  *static_cast<std::string*>(out) = info->dlpi_name;
  return 1;
}

}  // namespace

void prepareEnvironment() {
  setenv("UCX_MEM_EVENTS", "n", 0);
  // Otherwise loading a peer waits until TCP has connected to it, or has given up: minutes, where nobody answers.
  setenv("UCX_TCP_CONN_NB", "y", 0);
}

const NixlLibrary* loadNixlLibrary(const std::string& path) {
  LoadState& state = loadState();
  std::lock_guard<Mutex> hold(state.mutex);
  if (state.library != nullptr && state.library->path == path) return state.library;

  // The loader would take the part before it for the whole.
  if (path.find('\0') != std::string::npos) throw NativeError(kErrLibrary, "its path contains a NUL");

  bindDistributionLibraries();

  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw NativeError(kErrLibrary, reason != nullptr ? reason : "dlopen failed");
  }
  NixlApi api;
  const char* missing = nullptr;
#define KVCR_NIXL_LOOKUP(member, symbol, result, parameters)                                \
  api.member = reinterpret_cast<result(*) parameters>(dlsym(handle, "nixl_capi_" #symbol)); \
  if (api.member == nullptr && missing == nullptr) missing = "nixl_capi_" #symbol;
  KVCR_NIXL_FUNCTIONS(KVCR_NIXL_LOOKUP)
#undef KVCR_NIXL_LOOKUP
  if (missing != nullptr) {
    throw NativeError(kErrLibrary, path + ": not a usable NIXL C library, it has no symbol " + missing);
  }
  if (api.isStub()) {
    throw NativeError(kErrLibrary, path + ": this is NIXL's stub library, which moves no data");
  }
  const std::string resolved = resolvedPath(reinterpret_cast<void*>(api.createAgent));
  if (state.library != nullptr) {
    if (state.library->resolved == resolved) return state.library;
    throw NativeError(kErrLibrary, path + ": this process already uses the NIXL library " + state.library->resolved);
  }
  state.library = new NixlLibrary{path, resolved, api};
  return state.library;
}

std::string loadedUcxVersion() {
  std::string path;
  dl_iterate_phdr(findUcp, &path);
  if (path.empty()) return path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return std::string();
  using VersionFunction = const char* (*)();
  auto version = reinterpret_cast<VersionFunction>(dlsym(handle, "ucp_get_version_string"));
  std::string text = version != nullptr ? version() : "";
  dlclose(handle);  // balances the RTLD_NOLOAD above; NIXL's own reference stays
  return text;
}

}  // namespace kvcr
