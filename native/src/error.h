// The one exception of the addon. `code` is what JavaScript sees as the `code` of the error; the JavaScript side turns
// it into one of its typed errors.
#pragma once

#include <stdexcept>
#include <string>

namespace kvcr {

class NativeError : public std::runtime_error {
 public:
  NativeError(const char* code, const std::string& message) : std::runtime_error(message), code_(code) {}
  const char* code() const { return code_; }

 private:
  const char* code_;
};

// Codes. Kept in step with `translateNative` in packages/kvcr-nixl/src/errors.ts.
constexpr const char* kErrLibrary = "NATIVE_LIBRARY";    // the library cannot be used
constexpr const char* kErrEngine = "NATIVE_ENGINE";      // NIXL refused an operation
constexpr const char* kErrMetadata = "NATIVE_METADATA";  // bytes of a peer are unusable
constexpr const char* kErrCoverage = "NATIVE_COVERAGE";  // they do not cover the regions the peer speaks of
constexpr const char* kErrStale = "NATIVE_STALE";        // the remote is not loaded any more
constexpr const char* kErrArgument = "NATIVE_ARGUMENT";  // a value is out of range
constexpr const char* kErrMemory = "NATIVE_MEMORY";      // memory cannot be had
constexpr const char* kErrClosed = "NATIVE_CLOSED";      // used after close

}  // namespace kvcr
