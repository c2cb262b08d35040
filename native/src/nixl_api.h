// The part of NIXL's C interface that this addon calls: opaque handles, integer statuses, plain C types. The functions
// are looked up at run time (see nixl_library.h), so nothing here links against NIXL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvcr {

// Statuses. Anything that is neither success nor in progress is a failure, known or not.
using NixlStatus = int;
constexpr NixlStatus kNixlSuccess = 0;
constexpr NixlStatus kNixlInProgress = 1;
constexpr NixlStatus kNixlInvalidParam = -1;
constexpr NixlStatus kNixlBackendError = -2;
constexpr NixlStatus kNixlNotFound = -6;  // newer libraries only; older ones say kNixlBackendError

constexpr int kNixlMemDram = 0;
constexpr int kNixlSyncStrict = 1;
constexpr int kNixlOpRead = 0;
constexpr int kNixlOpWrite = 1;

// Mirrors the configuration record of the library, field by field.
struct NixlAgentConfig {
  bool enableProgressThread;
  bool enableListenThread;
  int listenPort;
  int threadSync;
  unsigned workers;
  uint64_t progressDelayUs;
  uint64_t listenDelayUs;
  bool captureTelemetry;
};

using NixlAgent = struct nixl_capi_agent_s*;
using NixlParams = struct nixl_capi_params_s*;
using NixlBackend = struct nixl_capi_backend_s*;
using NixlOptArgs = struct nixl_capi_opt_args_s*;
using NixlXferList = struct nixl_capi_xfer_dlist_s*;
using NixlXferHandle = struct nixl_capi_xfer_dlist_handle_s*;
using NixlRegList = struct nixl_capi_reg_dlist_s*;
using NixlRequest = struct nixl_capi_xfer_req_s*;
using NixlNotifMap = struct nixl_capi_notif_map_s*;

// X(member, symbol suffix, result, parameters)
#define KVCR_NIXL_FUNCTIONS(X)                                                                                          \
  X(isStub, is_stub, bool, ())                                                                                          \
  X(createAgent, create_configured_agent, NixlStatus, (const char*, const NixlAgentConfig*, NixlAgent*))                \
  X(destroyAgent, destroy_agent, NixlStatus, (NixlAgent))                                                               \
  X(createBackend, create_backend, NixlStatus, (NixlAgent, const char*, NixlParams, NixlBackend*))                      \
  X(destroyBackend, destroy_backend, NixlStatus, (NixlBackend))                                                         \
  X(createParams, create_params, NixlStatus, (NixlParams*))                                                             \
  X(destroyParams, destroy_params, NixlStatus, (NixlParams))                                                            \
  X(getLocalMetadata, get_local_md, NixlStatus, (NixlAgent, void**, size_t*))                                           \
  X(loadRemoteMetadata, load_remote_md, NixlStatus, (NixlAgent, const void*, size_t, char**))                           \
  X(invalidateRemote, invalidate_remote_md, NixlStatus, (NixlAgent, const char*))                                       \
  X(createOptArgs, create_opt_args, NixlStatus, (NixlOptArgs*))                                                         \
  X(destroyOptArgs, destroy_opt_args, NixlStatus, (NixlOptArgs))                                                        \
  X(optArgsAddBackend, opt_args_add_backend, NixlStatus, (NixlOptArgs, NixlBackend))                                    \
  X(optArgsSetNotif, opt_args_set_notif_msg, NixlStatus, (NixlOptArgs, const void*, size_t))                            \
  X(optArgsSetHasNotif, opt_args_set_has_notif, NixlStatus, (NixlOptArgs, bool))                                        \
  X(createRegList, create_reg_dlist, NixlStatus, (int, NixlRegList*))                                                   \
  X(destroyRegList, destroy_reg_dlist, NixlStatus, (NixlRegList))                                                       \
  X(regListAdd, reg_dlist_add_desc, NixlStatus, (NixlRegList, uintptr_t, size_t, uint64_t, const void*, size_t))        \
  X(registerMemory, register_mem, NixlStatus, (NixlAgent, NixlRegList, NixlOptArgs))                                    \
  X(deregisterMemory, deregister_mem, NixlStatus, (NixlAgent, NixlRegList, NixlOptArgs))                                \
  X(createXferList, create_xfer_dlist, NixlStatus, (int, NixlXferList*))                                                \
  X(destroyXferList, destroy_xfer_dlist, NixlStatus, (NixlXferList))                                                    \
  X(xferListAdd, xfer_dlist_add_desc, NixlStatus, (NixlXferList, uintptr_t, size_t, uint64_t))                          \
  X(prepareList, prep_xfer_dlist, NixlStatus, (NixlAgent, const char*, NixlXferList, NixlXferHandle*, NixlOptArgs))     \
  X(releaseList, release_xfer_dlist_handle, NixlStatus, (NixlAgent, NixlXferHandle))                                    \
  X(createRequest, create_xfer_req, NixlStatus,                                                                         \
    (NixlAgent, int, NixlXferList, NixlXferList, const char*, NixlRequest*, NixlOptArgs))                               \
  X(postRequest, post_xfer_req, NixlStatus, (NixlAgent, NixlRequest, NixlOptArgs))                                      \
  X(requestStatus, get_xfer_status, NixlStatus, (NixlAgent, NixlRequest))                                               \
  X(releaseRequest, release_xfer_req, NixlStatus, (NixlAgent, NixlRequest))                                             \
  X(destroyRequest, destroy_xfer_req, NixlStatus, (NixlRequest))                                                        \
  X(sendNotif, gen_notif, NixlStatus, (NixlAgent, const char*, const void*, size_t, NixlOptArgs))                       \
  X(getNotifs, get_notifs, NixlStatus, (NixlAgent, NixlNotifMap, NixlOptArgs))                                          \
  X(createNotifMap, create_notif_map, NixlStatus, (NixlNotifMap*))                                                      \
  X(destroyNotifMap, destroy_notif_map, NixlStatus, (NixlNotifMap))                                                     \
  X(notifMapSize, notif_map_size, NixlStatus, (NixlNotifMap, size_t*))                                                  \
  X(notifMapAgent, notif_map_get_agent_at, NixlStatus, (NixlNotifMap, size_t, const char**))                            \
  X(notifMapCount, notif_map_get_notifs_size, NixlStatus, (NixlNotifMap, const char*, size_t*))                         \
  X(notifMapGet, notif_map_get_notif, NixlStatus, (NixlNotifMap, const char*, size_t, const void**, size_t*))           \
  X(notifMapClear, notif_map_clear, NixlStatus, (NixlNotifMap))

// The loaded functions.
struct NixlApi {
#define KVCR_NIXL_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  KVCR_NIXL_FUNCTIONS(KVCR_NIXL_MEMBER)
#undef KVCR_NIXL_MEMBER
};

}  // namespace kvcr
