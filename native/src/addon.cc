// Entry point of the addon.
#include <napi.h>

#include <cstdlib>

#include "agent_binding.h"
#include "binding_util.h"
#include "region_binding.h"

namespace {

// environment(name): the variable as the process has it, which is what UCX reads. A worker's process.env may be its own.
Napi::Value environment(const Napi::CallbackInfo& info) {
  return kvcr::guarded(info.Env(), [&]() -> Napi::Value {
    const char* value = std::getenv(kvcr::stringOf(info[0]).c_str());
    if (value == nullptr) return info.Env().Undefined();
    return Napi::String::New(info.Env(), value);
  });
}

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  kvcr::AgentBinding::define(env, exports);
  exports.Set("detach", Napi::Function::New<&kvcr::detachBuffers>(env, "detach"));
  exports.Set("environment", Napi::Function::New<&environment>(env, "environment"));
  return exports;
}

}  // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, initialize)
