// RMS normalisation along the last axis, y = x / sqrt(mean(x^2) + eps), its gradient, and a function with state, for XLA's FFI.
//
//   g++ -std=c++17 -O2 -shared -fPIC -I$(python -c "import teucer as jax; print(jax.ffi.include_dir())")
//       rms_norm.cc -o librms_norm.so

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;

namespace {

// How many rows an array has, and how long they are.
struct Rows {
  int64_t count, length;
};

ffi::ErrorOr<Rows> RowsOf(const Array& x) {
  auto shape = x.dimensions();
  if (shape.size() == 0) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("rms_norm: x needs an axis, it is a scalar"));
  }
  int64_t length = shape.back();
  return Rows{length ? static_cast<int64_t>(x.element_count()) / length : 0, length};
}

ffi::Error RmsNorm(float eps, Array x, ffi::Result<Array> y, ffi::Result<Array> scale) {
  if (!(eps >= 0)) {
    return ffi::Error::InvalidArgument("rms_norm: eps is " + std::to_string(eps) + ", it must not be negative");
  }
  ffi::ErrorOr<Rows> rows = RowsOf(x);
  if (rows.has_error()) return rows.error();
  const float* in = x.typed_data();
  float* out = y->typed_data();
  for (int64_t i = 0; i < rows->count; ++i, in += rows->length, out += rows->length) {
    double sum = 0;
    for (int64_t j = 0; j < rows->length; ++j) sum += static_cast<double>(in[j]) * in[j];
    float r = static_cast<float>(1 / std::sqrt(sum / rows->length + eps));
    scale->typed_data()[i] = r;
    for (int64_t j = 0; j < rows->length; ++j) out[j] = in[j] * r;
  }
  return ffi::Error::Success();
}

// With r the scale of a row: dx = r ct - x r^3 mean(x ct).
ffi::Error RmsNormGrad(Array x, Array scale, Array ct, ffi::Result<Array> dx) {
  ffi::ErrorOr<Rows> rows = RowsOf(x);
  if (rows.has_error()) return rows.error();
  const float *in = x.typed_data(), *back = ct.typed_data();
  float* out = dx->typed_data();
  for (int64_t i = 0; i < rows->count; ++i, in += rows->length, back += rows->length, out += rows->length) {
    double dot = 0, r = scale.typed_data()[i];
    for (int64_t j = 0; j < rows->length; ++j) dot += static_cast<double>(in[j]) * back[j];
    double shared = r * r * r * dot / rows->length;
    for (int64_t j = 0; j < rows->length; ++j) out[j] = static_cast<float>(r * back[j] - in[j] * shared);
  }
  return ffi::Error::Success();
}

// State: made when a program that calls the function is loaded, and kept from call to call.
struct Calls {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  std::atomic<int32_t> made;
};
ffi::TypeId Calls::id = {};
ffi::TypeInfo Calls::info = ffi::MakeTypeInfo<Calls>();

ffi::ErrorOr<std::unique_ptr<Calls>> StartCounting(int32_t start) {
  auto calls = std::make_unique<Calls>();
  calls->made = start;
  return calls;
}

ffi::Error Count(Calls* calls, int32_t /*start*/, ffi::ResultBufferR0<ffi::S32> n) {
  *n->typed_data() = calls->made++;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm, RmsNorm,
                              ffi::Ffi::Bind().Attr<float>("eps").Arg<Array>().Ret<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm_grad, RmsNormGrad,
                              ffi::Ffi::Bind().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_start, StartCounting, ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count,
                              ffi::Ffi::Bind().Ctx<ffi::State<Calls>>().Attr<int32_t>("start").Ret<ffi::BufferR0<ffi::S32>>());
extern "C" void* count_type_id() { return &Calls::id; }
extern "C" void* count_type_info() { return &Calls::info; }
