// Entry point of the addon.
#include <napi.h>

#include "agent_binding.h"
#include "region_binding.h"

namespace {

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  kvcr::AgentBinding::define(env, exports);
  exports.Set("detach", Napi::Function::New<&kvcr::detachBuffers>(env, "detach"));
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, initialize)
