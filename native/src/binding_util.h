// Small helpers between Node-API values and the engine's types.
#pragma once

#include <napi.h>

#include <memory>
#include <string>

#include "error.h"
#include "memory.h"

namespace kvcr {

// A JavaScript Error with the code of a NativeError.
inline Napi::Error toError(Napi::Env env, const char* code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code));
  return error;
}

// Runs `body`, turning a NativeError into a JavaScript exception.
template <typename Body>
Napi::Value guarded(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const NativeError& error) {
    throw toError(env, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    throw toError(env, kErrMemory, "out of memory");
  }
}

// The bytes of a Uint8Array. They are taken from the array itself: older releases of Node.js take no look at its buffer
// when that is shared between threads.
inline std::string bytesOf(const Napi::Value& value) {
  bool isTypedArray = false;
  napi_typedarray_type type = napi_uint8_array;
  size_t length = 0;
  void* data = nullptr;
  if (napi_is_typedarray(value.Env(), value, &isTypedArray) != napi_ok || !isTypedArray ||
      napi_get_typedarray_info(value.Env(), value, &type, &length, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array) {
    throw NativeError(kErrArgument, "bytes expected");
  }
  return data != nullptr ? std::string(static_cast<const char*>(data), length) : std::string();
}

inline uint32_t uint32Of(const Napi::Value& value) {
  if (!value.IsNumber()) throw NativeError(kErrArgument, "number expected");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number <= 4294967295.0)) throw NativeError(kErrArgument, "number out of range");
  return static_cast<uint32_t>(number);
}

inline uint64_t uint64Of(double number) {
  if (!(number >= 0 && number <= 9007199254740991.0)) throw NativeError(kErrArgument, "number out of range");
  return static_cast<uint64_t>(number);
}

inline uint64_t uint64Of(const Napi::Value& value) {
  if (!value.IsNumber()) throw NativeError(kErrArgument, "number expected");
  return uint64Of(value.As<Napi::Number>().DoubleValue());
}

inline uint64_t bigintOf(const Napi::Value& value) {
  if (!value.IsBigInt()) throw NativeError(kErrArgument, "bigint expected");
  bool lossless = false;
  const uint64_t number = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) throw NativeError(kErrArgument, "bigint out of range");
  return number;
}

inline std::string stringOf(const Napi::Value& value) {
  if (!value.IsString()) throw NativeError(kErrArgument, "string expected");
  return value.As<Napi::String>().Utf8Value();
}

}  // namespace kvcr
