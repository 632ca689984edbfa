// RMS normalisation and its gradient on NVIDIA GPUs: one block of threads a row. The functions of rms_norm.cc, for platform "cuda".
//
//   nvcc -std=c++17 -O2 -shared -Xcompiler -fPIC -I$(python -c "import teucer as jax; print(jax.ffi.include_dir())")
//        rms_norm.cu -o librms_norm_cuda.so

#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;

namespace {

constexpr int kThreads = 256;

// The sum over the threads of a block, in all of them.
__device__ float BlockSum(float value) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  float sum = parts[0];
  __syncthreads();
  return sum;
}

__global__ void Forward(float eps, int64_t length, const float* x, float* y, float* scale) {
  const float* in = x + blockIdx.x * length;
  float* out = y + blockIdx.x * length;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < length; j += kThreads) sum += in[j] * in[j];
  float r = rsqrtf(BlockSum(sum) / length + eps);
  if (threadIdx.x == 0) scale[blockIdx.x] = r;
  for (int64_t j = threadIdx.x; j < length; j += kThreads) out[j] = in[j] * r;
}

__global__ void Backward(int64_t length, const float* x, const float* scale, const float* ct, float* dx) {
  const float *in = x + blockIdx.x * length, *back = ct + blockIdx.x * length;
  float* out = dx + blockIdx.x * length;
  float dot = 0, r = scale[blockIdx.x];
  for (int64_t j = threadIdx.x; j < length; j += kThreads) dot += in[j] * back[j];
  float shared = r * r * r * BlockSum(dot) / length;
  for (int64_t j = threadIdx.x; j < length; j += kThreads) out[j] = r * back[j] - in[j] * shared;
}

ffi::Error Started() {
  cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? ffi::Error::Success() : ffi::Error::Internal(cudaGetErrorString(status));
}

ffi::Error RmsNorm(cudaStream_t stream, float eps, Array x, ffi::Result<Array> y, ffi::Result<Array> scale) {
  if (!(eps >= 0)) {
    return ffi::Error::InvalidArgument("rms_norm: eps is " + std::to_string(eps) + ", it must not be negative");
  }
  if (x.element_count() == 0) return ffi::Error::Success();
  int64_t length = x.dimensions().back();
  Forward<<<x.element_count() / length, kThreads, 0, stream>>>(eps, length, x.typed_data(), y->typed_data(),
                                                                scale->typed_data());
  return Started();
}

ffi::Error RmsNormGrad(cudaStream_t stream, Array x, Array scale, Array ct, ffi::Result<Array> dx) {
  if (x.element_count() == 0) return ffi::Error::Success();
  int64_t length = x.dimensions().back();
  Backward<<<x.element_count() / length, kThreads, 0, stream>>>(length, x.typed_data(), scale.typed_data(),
                                                                 ct.typed_data(), dx->typed_data());
  return Started();
}

}  // namespace

using Stream = ffi::PlatformStream<cudaStream_t>;
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rms_norm, RmsNorm, ffi::Ffi::Bind().Ctx<Stream>().Attr<float>("eps").Arg<Array>().Ret<Array>().Ret<Array>(),
    {xla::ffi::Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    rms_norm_grad, RmsNormGrad, ffi::Ffi::Bind().Ctx<Stream>().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>(),
    {xla::ffi::Traits::kCmdBufferCompatible});
