// What happens to a program that uses NIXL and takes no care: it opens an agent and exits with code 42. Beside the
// distribution's RDMA user space it dies instead, which shows that the tests of the addon's exit codes are run where it
// matters. Built for those tests only, never shipped.
//
//   plain LIBRARY
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "../src/nixl_api.h"

using namespace kvcr;

int main(int argc, char** argv) {
  void* handle = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (handle == nullptr) {
    fprintf(stderr, "usage: plain LIBRARY\n");
    return 1;
  }
  NixlApi api;
#define KVCR_LOOKUP(member, symbol, result, parameters)                                     \
  api.member = reinterpret_cast<result(*) parameters>(dlsym(handle, "nixl_capi_" #symbol)); \
  if (api.member == nullptr) return 2;
  KVCR_NIXL_FUNCTIONS(KVCR_LOOKUP)
#undef KVCR_LOOKUP
  NixlAgentConfig config{};
  config.workers = 1;
  NixlAgent agent;
  NixlParams params;
  NixlBackend backend;
  if (api.createAgent("plain", &config, &agent) != kNixlSuccess) return 3;
  if (api.createParams(&params) != kNixlSuccess) return 4;
  if (api.createBackend(agent, "UCX", params, &backend) != kNixlSuccess) return 5;
  exit(42);
}
