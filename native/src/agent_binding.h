// The JavaScript class of one engine. It checks types and ranges where memory safety depends on them; everything that a
// user can get wrong is checked, with better words, by NixlTransferAgent in packages/kvcr-nixl.
#pragma once

#include <napi.h>

#include <memory>

#include "engine.h"
#include "loop_poller.h"

namespace kvcr {

class AgentBinding : public Napi::ObjectWrap<AgentBinding> {
 public:
  static void define(Napi::Env env, Napi::Object exports);

  explicit AgentBinding(const Napi::CallbackInfo& info);
  ~AgentBinding() override;

 private:
  friend class CreateAgentWork;
  friend class CloseWork;

  // createAgent(libraryPath, name, wake): Promise<Agent>
  static Napi::Value create(const Napi::CallbackInfo& info);

  Napi::Value createRegion(const Napi::CallbackInfo& info);
  Napi::Value dropRegion(const Napi::CallbackInfo& info);
  Napi::Value localMetadata(const Napi::CallbackInfo& info);
  Napi::Value addRemote(const Napi::CallbackInfo& info);
  Napi::Value dropRemote(const Napi::CallbackInfo& info);
  Napi::Value connect(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value cancel(const Napi::CallbackInfo& info);
  Napi::Value notify(const Napi::CallbackInfo& info);
  Napi::Value expect(const Napi::CallbackInfo& info);
  Napi::Value takeCompletions(const Napi::CallbackInfo& info);
  Napi::Value takeNotifications(const Napi::CallbackInfo& info);
  Napi::Value notificationsDropped(const Napi::CallbackInfo& info);
  Napi::Value endWithin(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  void begin(std::shared_ptr<Engine> engine, Napi::Function wake);
  void deliver();
  // Lets go of the engine, keeping it for ever when `quiescent` is false, and of the loop handles.
  void finish(bool quiescent);
  static void onEnvironmentExit(napi_async_cleanup_hook_handle handle, void* self);

  Engine& engine() const;

  std::shared_ptr<Engine> engine_;
  LoopPoller* poller_ = nullptr;
  Napi::FunctionReference wake_;
  std::unique_ptr<Napi::AsyncContext> context_;
  napi_async_cleanup_hook_handle exitHook_ = nullptr;
  bool closing_ = false;
  std::vector<Engine::Pair> pairs_;
};

}  // namespace kvcr
