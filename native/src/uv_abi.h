// The few functions of libuv that the addon uses, as the Node.js executable exports them. Handles are allocated by
// `uv_handle_size` at run time, so that a prebuilt addon depends on no structure of the libuv it was built beside, and
// builds need no header of it.
#pragma once

#include <cstddef>

struct uv_loop_s;
extern "C" {
using uv_any_handle = void;
using uv_handle_callback = void (*)(uv_any_handle*);

size_t uv_handle_size(int type);
void uv_handle_set_data(uv_any_handle* handle, void* data);
void* uv_handle_get_data(const uv_any_handle* handle);
void uv_ref(uv_any_handle* handle);
void uv_unref(uv_any_handle* handle);
void uv_close(uv_any_handle* handle, uv_handle_callback callback);
int uv_async_init(uv_loop_s* loop, uv_any_handle* handle, uv_handle_callback callback);
int uv_async_send(uv_any_handle* handle);
int uv_check_init(uv_loop_s* loop, uv_any_handle* handle);
int uv_check_start(uv_any_handle* handle, uv_handle_callback callback);
int uv_check_stop(uv_any_handle* handle);
int uv_idle_init(uv_loop_s* loop, uv_any_handle* handle);
int uv_idle_start(uv_any_handle* handle, uv_handle_callback callback);
int uv_idle_stop(uv_any_handle* handle);
}

namespace kvcr {
// Positions in `enum uv_handle_type`, fixed for libuv 1.x.
constexpr int kUvAsync = 1;
constexpr int kUvCheck = 2;
constexpr int kUvIdle = 6;
}  // namespace kvcr
