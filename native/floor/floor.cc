// The floor under the agent's figures: two processes that drive NIXL's C library directly and do nothing else. Built for
// the benchmark only, never shipped.
//
//   floor LIBRARY SECTION COUNT      SECTION: backToBack | paused | bulk | BLOCKSxBYTES, 64 MiB at most
//
// Prints one JSON line: {"p50": …, "p99": …, "micros": […], "cpuSeconds": …} in microseconds, CPU time for both processes. A
// round is one write of 64 KiB with a notification (bulk: 64 x 1 MiB), which the other process answers with a notification
// of its own.
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../src/clock.h"
#include "../src/nixl_api.h"

using namespace kvcr;

namespace {

constexpr size_t kBlock = 64 << 10;
constexpr size_t kBulkBlock = 1 << 20;
constexpr int kBulkBlocks = 64;
constexpr int kWarmup = 100;

NixlApi api;

[[noreturn]] void die(const char* what) {
  fprintf(stderr, "floor: %s\n", what);
  _exit(1);
}

void check(NixlStatus status, const char* what) {
  if (status != kNixlSuccess) die(what);
}

void loadApi(const char* path) {
  setenv("UCX_MEM_EVENTS", "n", 0);
  for (const char* name : {"libnl-route-3.so.200", "libibverbs.so.1"}) dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) die(dlerror());
#define KVCR_LOOKUP(member, symbol, result, parameters)                                     \
  api.member = reinterpret_cast<result(*) parameters>(dlsym(handle, "nixl_capi_" #symbol)); \
  if (api.member == nullptr) die("missing nixl_capi_" #symbol);
  KVCR_NIXL_FUNCTIONS(KVCR_LOOKUP)
#undef KVCR_LOOKUP
}

struct Side {
  NixlAgent agent;
  NixlOptArgs options;
  NixlOptArgs posting;
  NixlNotifMap notifs;
  uint8_t* memory;
  uint64_t peerAddress;
  std::string peer;

  bool notified() {
    api.getNotifs(agent, notifs, options);
    size_t senders = 0;
    api.notifMapSize(notifs, &senders);
    if (senders == 0) return false;
    api.notifMapClear(notifs);
    return true;
  }

  void awaitNotification() {
    while (!notified()) sched_yield();
  }

  void write(int blocks, size_t bytes) {
    NixlXferList local;
    NixlXferList remote;
    check(api.createXferList(kNixlMemDram, &local), "list");
    check(api.createXferList(kNixlMemDram, &remote), "list");
    for (int i = 0; i < blocks; ++i) {
      api.xferListAdd(local, reinterpret_cast<uintptr_t>(memory) + i * bytes, bytes, 0);
      api.xferListAdd(remote, peerAddress + i * bytes, bytes, 0);
    }
    NixlRequest request;
    check(api.createRequest(agent, kNixlOpWrite, local, remote, peer.c_str(), &request, posting), "request");
    NixlStatus status = api.postRequest(agent, request, posting);
    while (status == kNixlInProgress) {
      sched_yield();
      status = api.requestStatus(agent, request);
    }
    check(status, "transfer");
    awaitNotification();
    api.releaseRequest(agent, request);
    api.destroyRequest(request);
    api.destroyXferList(local);
    api.destroyXferList(remote);
  }
};

void transfer(int fd, void* data, size_t bytes, bool send) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t moved = send ? ::write(fd, at, bytes) : ::read(fd, at, bytes);
    if (moved <= 0) die("the other process is gone");
    at += moved;
    bytes -= static_cast<size_t>(moved);
  }
}

void start(Side& side, const char* name, int fd) {
  NixlAgentConfig config{};
  config.threadSync = kNixlSyncStrict;
  config.workers = 1;
  NixlBackend backend;
  NixlParams params;
  check(api.createAgent(name, &config, &side.agent), "agent");
  check(api.createParams(&params), "params");
  check(api.createBackend(side.agent, "UCX", params, &backend), "backend");
  check(api.createOptArgs(&side.options), "options");
  api.optArgsAddBackend(side.options, backend);
  check(api.createOptArgs(&side.posting), "options");
  api.optArgsAddBackend(side.posting, backend);
  api.optArgsSetNotif(side.posting, "ping", 4);
  api.optArgsSetHasNotif(side.posting, true);
  check(api.createNotifMap(&side.notifs), "map");

  const size_t bytes = kBulkBlock * kBulkBlocks;
  side.memory = static_cast<uint8_t*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  // The same kind of memory as the agent's.
  madvise(side.memory, bytes, MADV_HUGEPAGE);
  memset(side.memory, 1, bytes);
  NixlRegList list;
  check(api.createRegList(kNixlMemDram, &list), "registration");
  api.regListAdd(list, reinterpret_cast<uintptr_t>(side.memory), bytes, 0, nullptr, 0);
  check(api.registerMemory(side.agent, list, side.options), "registration");

  void* metadata;
  size_t metadataBytes;
  check(api.getLocalMetadata(side.agent, &metadata, &metadataBytes), "metadata");
  uint64_t mine[2] = {metadataBytes, reinterpret_cast<uint64_t>(side.memory)};
  transfer(fd, mine, sizeof mine, true);
  transfer(fd, metadata, metadataBytes, true);
  uint64_t theirs[2];
  transfer(fd, theirs, sizeof theirs, false);
  std::string blob(theirs[0], '\0');
  transfer(fd, &blob[0], blob.size(), false);
  char* peer;
  check(api.loadRemoteMetadata(side.agent, blob.data(), blob.size(), &peer), "peer");
  side.peer = peer;
  side.peerAddress = theirs[1];
}

double cpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: floor LIBRARY SECTION COUNT");
  const std::string section = argv[2];
  const int count = atoi(argv[3]);
  int blocks = section == "bulk" ? kBulkBlocks : 1;
  size_t bytes = section == "bulk" ? kBulkBlock : kBlock;
  sscanf(section.c_str(), "%dx%zu", &blocks, &bytes);
  if (blocks < 1 || bytes < 1 || blocks * bytes > kBulkBlock * kBulkBlocks) die("no such section");
  const int warmup = blocks * bytes > 16 * kBlock ? 3 : kWarmup;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) die("socketpair");
  const pid_t child = fork();
  const bool echo = child == 0;
  if (echo) prctl(PR_SET_PDEATHSIG, SIGKILL);
  loadApi(argv[1]);
  Side side;
  start(side, echo ? "floor-echo" : "floor-ping", sockets[echo]);
  if (echo) {
    for (int i = 0; i < warmup + count; ++i) {
      side.awaitNotification();
      check(api.sendNotif(side.agent, side.peer.c_str(), "pong", 4, side.options), "answer");
    }
    // The last answer may still be on its way out.
    const Nanos end = monotonicNow() + 20 * kMilli;
    while (monotonicNow() < end) side.notified();
    _exit(0);
  }
  std::vector<double> micros;
  double cpuBefore = 0;
  for (int i = 0; i < warmup + count; ++i) {
    if (section == "paused") sleepFor(2 * kMilli);
    if (i == warmup) cpuBefore = cpuSeconds(RUSAGE_SELF);
    const Nanos begin = monotonicNow();
    side.write(blocks, bytes);
    if (i >= warmup) micros.push_back(static_cast<double>(monotonicNow() - begin) / 1000.0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  // Of the other process, which does nothing else: what it used in all, by the share of rounds that counted.
  const double cpu = cpuSeconds(RUSAGE_SELF) - cpuBefore + cpuSeconds(RUSAGE_CHILDREN) * count / (warmup + count);
  std::sort(micros.begin(), micros.end());
  printf("{\"p50\": %.1f, \"p99\": %.1f, \"cpuSeconds\": %.3f, \"micros\": [", micros[micros.size() / 2],
         micros[micros.size() * 99 / 100], cpu);
  for (size_t i = 0; i < micros.size(); ++i) printf(i == 0 ? "%.1f" : ", %.1f", micros[i]);
  printf("]}\n");
  fflush(stdout);
  _exit(0);
}
