#include "agent_binding.h"

#include <utility>

#include "binding_util.h"
#include "promise_work.h"
#include "region_binding.h"

namespace kvcr {
namespace {

// How long a process or worker that ends without closing its agent waits for transfers in flight.
constexpr Nanos kExitPatience = 1 * kSecond;

struct Constructors {
  Napi::FunctionReference agent;
};

}  // namespace

// Loads the library and starts an agent on a worker thread.
class CreateAgentWork : public PromiseWork {
 public:
  CreateAgentWork(Napi::Env env, std::string path, std::string name, Napi::Function wake)
      : PromiseWork(env, "kvcr-nixl.createAgent"),
        path_(std::move(path)),
        name_(std::move(name)),
        wake_(Napi::Persistent(wake)) {}

 protected:
  void perform() override {
    const NixlLibrary* library = loadNixlLibrary(path_);
    resolved_ = library->resolved;
    engine_ = std::make_shared<Engine>(library, name_);
  }

  Napi::Value finish(Napi::Env env) override {
    Napi::Object object = env.GetInstanceData<Constructors>()->agent.New({});
    AgentBinding::Unwrap(object)->begin(std::move(engine_), wake_.Value());
    object.Set("library", Napi::String::New(env, resolved_));
    object.Set("ucxVersion", Napi::String::New(env, loadedUcxVersion()));
    return object;
  }

 private:
  std::string path_;
  std::string name_;
  std::string resolved_;
  Napi::FunctionReference wake_;
  std::shared_ptr<Engine> engine_;
};

// Ends an engine on a worker thread; resolves to whether quiescence was proved.
class CloseWork : public PromiseWork {
 public:
  CloseWork(Napi::Env env, AgentBinding* agent, Nanos patience)
      : PromiseWork(env, "kvcr-nixl.close"),
        agent_(agent),
        keepAlive_(Napi::Persistent(agent->Value())),
        engine_(agent->engine_),
        patience_(patience) {}

 protected:
  void perform() override { quiescent_ = engine_->shutdown(patience_); }

  Napi::Value finish(Napi::Env env) override {
    agent_->finish(quiescent_);
    return Napi::Boolean::New(env, quiescent_);
  }

 private:
  AgentBinding* agent_;
  Napi::ObjectReference keepAlive_;
  std::shared_ptr<Engine> engine_;
  Nanos patience_;
  bool quiescent_ = false;
};

void AgentBinding::define(Napi::Env env, Napi::Object exports) {
  Napi::Function constructor = DefineClass(env, "NativeAgent",
                                           {
                                               InstanceMethod<&AgentBinding::createRegion>("createRegion"),
                                               InstanceMethod<&AgentBinding::dropRegion>("dropRegion"),
                                               InstanceMethod<&AgentBinding::localMetadata>("localMetadata"),
                                               InstanceMethod<&AgentBinding::addRemote>("addRemote"),
                                               InstanceMethod<&AgentBinding::dropRemote>("dropRemote"),
                                               InstanceMethod<&AgentBinding::connect>("connect"),
                                               InstanceMethod<&AgentBinding::write>("write"),
                                               InstanceMethod<&AgentBinding::cancel>("cancel"),
                                               InstanceMethod<&AgentBinding::notify>("notify"),
                                               InstanceMethod<&AgentBinding::expect>("expect"),
                                               InstanceMethod<&AgentBinding::takeCompletions>("takeCompletions"),
                                               InstanceMethod<&AgentBinding::takeNotifications>("takeNotifications"),
                                               InstanceMethod<&AgentBinding::notificationsDropped>("notificationsDropped"),
                                               InstanceMethod<&AgentBinding::endWithin>("endWithin"),
                                               InstanceMethod<&AgentBinding::close>("close"),
                                           });
  auto* constructors = new Constructors();
  constructors->agent = Napi::Persistent(constructor);
  env.SetInstanceData(constructors);
  exports.Set("createAgent", Napi::Function::New<&AgentBinding::create>(env, "createAgent"));
}

AgentBinding::AgentBinding(const Napi::CallbackInfo& info) : Napi::ObjectWrap<AgentBinding>(info) {}

AgentBinding::~AgentBinding() = default;

Napi::Value AgentBinding::create(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    prepareEnvironment();
    auto* work = new CreateAgentWork(info.Env(), stringOf(info[0]), stringOf(info[1]), info[2].As<Napi::Function>());
    return work->start();
  });
}

void AgentBinding::begin(std::shared_ptr<Engine> engine, Napi::Function wake) {
  Napi::Env env = Env();
  uv_loop_s* loop = nullptr;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok) {
    throw NativeError(kErrEngine, "this runtime has no libuv event loop");
  }
  engine_ = std::move(engine);
  wake_ = Napi::Persistent(wake);
  context_ = std::make_unique<Napi::AsyncContext>(env, "kvcr-nixl", Value());
  poller_ = new LoopPoller(loop, *engine_, [this] { deliver(); });
  LoopPoller* poller = poller_;
  engine_->start([poller] { poller->signal(); });
  // An agent lives until it is closed or its environment ends, never shorter.
  Ref();
  napi_add_async_cleanup_hook(env, &AgentBinding::onEnvironmentExit, this, &exitHook_);
}

void AgentBinding::deliver() {
  Napi::Env env = Env();
  Napi::HandleScope scope(env);
  napi_value result = nullptr;
  const napi_status status =
      napi_make_callback(env, *context_, Value(), wake_.Value(), 0, nullptr, &result);
  if (status != napi_pending_exception) return;
  napi_value exception = nullptr;
  if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
}

Engine& AgentBinding::engine() const {
  if (engine_ == nullptr || closing_) throw NativeError(kErrClosed, "the agent is closed");
  return *engine_;
}

Napi::Value AgentBinding::createRegion(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine();
    return createRegionAsync(info.Env(), engine_, uint32Of(info[0]), info[1].As<Napi::Object>());
  });
}

Napi::Value AgentBinding::dropRegion(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine().dropRegion(uint32Of(info[0]));
    return info.Env().Undefined();
  });
}

Napi::Value AgentBinding::localMetadata(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const std::string blob = engine().localMetadata();
    return Napi::Buffer<char>::Copy(info.Env(), blob.data(), blob.size());
  });
}

// addRemote(id, name, connections, metadata, regions: BigUint64Array of (addr, stride, size, count), replaces, reload)
Napi::Value AgentBinding::addRemote(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    auto words = info[4].As<Napi::BigUint64Array>();
    std::vector<RemoteRegion> regions;
    for (size_t i = 0; i + 3 < words.ElementLength(); i += 4) {
      regions.push_back({words[i], words[i + 1], words[i + 2], words[i + 3]});
    }
    engine().addRemote(uint32Of(info[0]), stringOf(info[1]), {bytesOf(info[2]), bytesOf(info[3])}, std::move(regions),
                       uint32Of(info[5]), info[6].ToBoolean().Value());
    poller_->open();
    return info.Env().Undefined();
  });
}

Napi::Value AgentBinding::dropRemote(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine().dropRemote(uint32Of(info[0]));
    return info.Env().Undefined();
  });
}

Napi::Value AgentBinding::connect(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine().connect(uint32Of(info[0]));
    return info.Env().Undefined();
  });
}

// write(id, remoteId, pairs: Float64Array of (region, element, remoteRegion, remoteElement), pairCount, notification)
Napi::Value AgentBinding::write(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    Engine& target = engine();
    auto numbers = info[2].As<Napi::Float64Array>();
    const size_t count = uint32Of(info[3]);
    if (count == 0 || count > numbers.ElementLength() / 4) throw NativeError(kErrArgument, "impossible pair count");
    pairs_.clear();
    for (size_t i = 0; i < count * 4; i += 4) {
      pairs_.push_back({static_cast<uint32_t>(uint64Of(numbers[i])), uint64Of(numbers[i + 1]),
                        static_cast<uint32_t>(uint64Of(numbers[i + 2])), uint64Of(numbers[i + 3])});
    }
    target.write(uint64Of(info[0]), uint32Of(info[1]), pairs_, bytesOf(info[4]));
    poller_->open();
    return info.Env().Undefined();
  });
}

Napi::Value AgentBinding::cancel(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const bool known = engine().cancel(uint64Of(info[0]));
    poller_->open();
    return Napi::Boolean::New(info.Env(), known);
  });
}

Napi::Value AgentBinding::notify(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const bool accepted = engine().notify(uint32Of(info[0]), bytesOf(info[1]));
    poller_->open();
    return Napi::Boolean::New(info.Env(), accepted);
  });
}

Napi::Value AgentBinding::expect(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine().expect(info[0].As<Napi::Number>().Int32Value());
    poller_->open();
    return info.Env().Undefined();
  });
}

// [id, outcome, status, id, outcome, status, …]
Napi::Value AgentBinding::takeCompletions(const Napi::CallbackInfo& info) {
  const std::vector<Completion> taken =
      engine_ != nullptr ? engine_->results().takeCompletions() : std::vector<Completion>();
  Napi::Array list = Napi::Array::New(info.Env(), taken.size() * 3);
  uint32_t next = 0;
  for (const Completion& completion : taken) {
    list.Set(next++, static_cast<double>(completion.id));
    list.Set(next++, static_cast<double>(static_cast<int>(completion.outcome)));
    list.Set(next++, static_cast<double>(completion.status));
  }
  return list;
}

// [from, payload, from, payload, …]
Napi::Value AgentBinding::takeNotifications(const Napi::CallbackInfo& info) {
  const std::vector<Notification> taken =
      engine_ != nullptr ? engine_->results().takeNotifications() : std::vector<Notification>();
  Napi::Array list = Napi::Array::New(info.Env(), taken.size() * 2);
  uint32_t next = 0;
  for (const Notification& notification : taken) {
    list.Set(next++, Napi::String::New(info.Env(), notification.from));
    list.Set(next++, Napi::Buffer<char>::Copy(info.Env(), notification.payload.data(), notification.payload.size()));
  }
  return list;
}

Napi::Value AgentBinding::notificationsDropped(const Napi::CallbackInfo& info) {
  const size_t dropped = engine_ != nullptr ? engine_->results().dropped() : 0;
  return Napi::Number::New(info.Env(), static_cast<double>(dropped));
}

// endWithin(patienceMs): the process is about to end. Waits so long for writes in flight; a close under way takes no
// longer either.
Napi::Value AgentBinding::endWithin(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    if (engine_ == nullptr) return info.Env().Undefined();
    const Nanos patience = static_cast<Nanos>(uint64Of(info[0])) * kMilli;
    if (closing_) {
      engine_->hurry(patience);
    } else {
      engine_->flush(patience);
    }
    return info.Env().Undefined();
  });
}

// close(patienceMs): Promise<boolean>
Napi::Value AgentBinding::close(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    engine();
    closing_ = true;
    poller_->stop();
    auto* work = new CloseWork(info.Env(), this, static_cast<Nanos>(uint64Of(info[0])) * kMilli);
    return work->start();
  });
}

void AgentBinding::finish(bool quiescent) {
  if (poller_ == nullptr) return;
  if (!quiescent) Engine::abandon(engine_);
  // The engine's results stay readable; its loop handles go back now.
  napi_async_cleanup_hook_handle hook = std::exchange(exitHook_, nullptr);
  auto engine = engine_;
  std::exchange(poller_, nullptr)->close([hook, engine] {
    if (hook != nullptr) napi_remove_async_cleanup_hook(hook);
  });
  Unref();
}

void AgentBinding::onEnvironmentExit(napi_async_cleanup_hook_handle handle, void* data) {
  auto* self = static_cast<AgentBinding*>(data);
  self->closing_ = true;
  self->exitHook_ = nullptr;
  if (self->poller_ == nullptr) {
    napi_remove_async_cleanup_hook(handle);
    return;
  }
  std::shared_ptr<Engine> engine = self->engine_;
  LoopPoller* poller = std::exchange(self->poller_, nullptr);
  poller->stop();
  engine->hurry(kExitPatience);
  if (!engine->shutdown(kExitPatience)) Engine::abandon(engine);
  poller->close([handle, engine] { napi_remove_async_cleanup_hook(handle); });
}

}  // namespace kvcr
