#include "region_binding.h"

#include <utility>

#include "binding_util.h"
#include "promise_work.h"

namespace kvcr {
namespace {

// An ArrayBuffer on a part of a mapping. The buffer shares ownership of the mapping, so that the memory stays valid for
// as long as any script can reach it, even by a buffer that was moved out of this one.
Napi::Value showSlice(Napi::Env env, const std::shared_ptr<Mapping>& mapping, uint64_t offset, uint64_t bytes) {
  auto* owner = new std::shared_ptr<Mapping>(mapping);
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_arraybuffer(
      env, mapping->data() + offset, static_cast<size_t>(bytes),
      [](napi_env, void*, void* hint) { delete static_cast<std::shared_ptr<Mapping>*>(hint); }, owner, &buffer);
  if (status != napi_ok) {
    delete owner;
    throw NativeError(kErrMemory, "this runtime cannot show native memory as an ArrayBuffer");
  }
  return Napi::Value(env, buffer);
}

class CreateRegionWork : public PromiseWork {
 public:
  CreateRegionWork(Napi::Env env, std::shared_ptr<Engine> engine, uint32_t id, MappingRequest request, Region region)
      : PromiseWork(env, "kvcr-nixl.createRegion"),
        engine_(std::move(engine)),
        id_(id),
        request_(std::move(request)),
        region_(std::move(region)) {}

 protected:
  void perform() override {
    region_.mapping = Mapping::create(request_);
    engine_->registerRegion(region_);
  }

  Napi::Value finish(Napi::Env env) override {
    const std::shared_ptr<Mapping> mapping = region_.mapping;
    Napi::Array buffers = Napi::Array::New(env, region_.slices());
    for (size_t slice = 0; slice < region_.slices(); ++slice) {
      buffers.Set(static_cast<uint32_t>(slice),
                  showSlice(env, mapping, slice * region_.sliceBytes, region_.sliceLength(slice)));
    }
    engine_->adoptRegion(id_, std::move(region_));
    Napi::Object result = Napi::Object::New(env);
    result.Set("addr", Napi::BigInt::New(env, reinterpret_cast<uint64_t>(mapping->data())));
    result.Set("path", Napi::String::New(env, mapping->path()));
    result.Set("buffers", buffers);
    return result;
  }

 private:
  std::shared_ptr<Engine> engine_;
  uint32_t id_;
  MappingRequest request_;
  Region region_;
};

}  // namespace

Napi::Value createRegionAsync(Napi::Env env, std::shared_ptr<Engine> engine, uint32_t id, Napi::Object spec) {
  Region region;
  region.size = uint64Of(spec.Get("elementBytes"));
  region.count = uint64Of(spec.Get("elementCount"));
  region.sliceBytes = uint64Of(spec.Get("sliceBytes"));
  MappingRequest request;
  request.backing = static_cast<Backing>(uint32Of(spec.Get("backing")));
  request.name = stringOf(spec.Get("name"));
  request.offset = uint64Of(spec.Get("offset"));
  request.hugePages = spec.Get("hugePages").ToBoolean().Value();
  if (region.size == 0 || region.count == 0 || region.sliceBytes < region.size ||
      region.sliceBytes % region.size != 0 || region.count > (uint64_t{1} << 53) / region.size ||
      uint32Of(spec.Get("backing")) > static_cast<uint32_t>(Backing::kFile)) {
    throw NativeError(kErrArgument, "impossible region");
  }
  request.bytes = static_cast<size_t>(region.size * region.count);
  auto* work = new CreateRegionWork(env, std::move(engine), id, std::move(request), std::move(region));
  return work->start();
}

Napi::Value detachBuffers(const Napi::CallbackInfo& info) {
  Napi::Array buffers = info[0].As<Napi::Array>();
  for (uint32_t i = 0; i < buffers.Length(); ++i) {
    Napi::Value buffer = buffers.Get(i);
    if (buffer.IsArrayBuffer()) napi_detach_arraybuffer(info.Env(), buffer);
  }
  return info.Env().Undefined();
}

}  // namespace kvcr
