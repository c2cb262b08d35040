// Work on another thread that a promise waits for.
#pragma once

#include <napi.h>

#include <string>

#include "binding_util.h"
#include "error.h"

namespace kvcr {

// Does `perform` on a worker thread, then `finish` on the thread of JavaScript, and rejects the promise with the
// NativeError of either. Napi::AsyncWorker by itself knows a failure by its text, and takes one without any for success.
class PromiseWork : public Napi::AsyncWorker {
 public:
  PromiseWork(Napi::Env env, const char* name)
      : Napi::AsyncWorker(env, name), deferred_(Napi::Promise::Deferred::New(env)) {}

  // Hands the work over: it deletes itself when it is done.
  Napi::Promise start() {
    Napi::Promise promise = deferred_.Promise();
    Queue();
    return promise;
  }

 protected:
  virtual void perform() = 0;
  // What the promise resolves to.
  virtual Napi::Value finish(Napi::Env env) = 0;

 private:
  void Execute() final {
    try {
      perform();
    } catch (const NativeError& error) {
      fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
      fail(kErrMemory, "out of memory");
    } catch (const std::exception& error) {
      fail(kErrEngine, error.what());
    }
  }

  void OnOK() final {
    Napi::Env env = Env();
    Napi::HandleScope scope(env);
    if (!failed_) {
      try {
        deferred_.Resolve(finish(env));
        return;
      } catch (const NativeError& error) {
        fail(error.code(), error.what());
      }
    }
    deferred_.Reject(toError(env, code_, reason_).Value());
  }

  void fail(const char* code, const char* reason) {
    failed_ = true;
    code_ = code;
    reason_ = *reason != '\0' ? reason : "no reason was given";
  }

  Napi::Promise::Deferred deferred_;
  bool failed_ = false;
  const char* code_ = kErrEngine;
  std::string reason_;
};

}  // namespace kvcr
