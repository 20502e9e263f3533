// The sequential baseline: one thread a row walks time in order, h = a·h + b, float32, (rows, steps) contiguous.
#include <cuda_runtime.h>

__global__ void sequential(const float *a, const float *b, float *h, long rows, long steps) {
  long row = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (row >= rows) return;
  a += row * steps;
  b += row * steps;
  h += row * steps;
  float state = 0.0f;
  for (long t = 0; t < steps; ++t) {
    state = fmaf(a[t], state, b[t]);
    h[t] = state;
  }
}

extern "C" int launch(const void *a, const void *b, void *h, long rows, long steps, void *stream) {
  const int threads = 128;
  sequential<<<(unsigned)((rows + threads - 1) / threads), threads, 0, (cudaStream_t)stream>>>(
      (const float *)a, (const float *)b, (float *)h, rows, steps);
  return (int)cudaGetLastError();
}
