// RUN: scanweaver-opt %s -t "ptx{chip=sm_80}" | filecheck %s --check-prefix SM80
// RUN: scanweaver-opt %s -t "ptx{chip=sm_90}" | filecheck %s --check-prefix SM90
// RUN: scanweaver-opt %s -t "ptx{chip=sm_100}" | filecheck %s --check-prefix SM100

// SM80:      .target sm_80
// SM90:      .target sm_90
// SM100:     .target sm_100
// SM80:      shfl.sync.up.b32
// SM80:      cvt.rn.bf16.f32
// SM90:      shfl.sync.up.b32
// SM90:      cvt.rn.bf16.f32
// SM100:     shfl.sync.up.b32
// SM100:     cvt.rn.bf16.f32
gpu.module @kernels {
  gpu.func @k(%y: !llvm.ptr<1>, %x: f32) kernel {
    %one = arith.constant 1 : i32
    %warp = arith.constant 32 : i32
    %up, %valid = gpu.shuffle up %x, %one, %warp : f32
    %h = arith.truncf %up : f32 to bf16
    llvm.store %h, %y : bf16, !llvm.ptr<1>
    gpu.return
  }
}
