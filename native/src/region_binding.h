// Regions on their way to JavaScript.
#pragma once

#include <napi.h>

#include <memory>

#include "engine.h"
#include "memory.h"

namespace kvcr {

// createRegion(id, {backing, name, offset, hugePages, elementBytes, elementCount, sliceBytes}):
// Promise<{addr, path, buffers}>. Maps and registers on a worker thread.
Napi::Value createRegionAsync(Napi::Env env, std::shared_ptr<Engine> engine, uint32_t id, Napi::Object spec);

// detach(buffers): ends every view of a region, whatever still refers to it.
Napi::Value detachBuffers(const Napi::CallbackInfo& info);

}  // namespace kvcr
