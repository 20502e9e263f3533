// RUN: scanweaver-opt %s -t nvvm | filecheck %s --check-prefix NVVM
// RUN: scanweaver-opt %s -t ptx | filecheck %s --check-prefix PTX
// RUN: scanweaver-opt %s -t ptx --chip sm_80 | filecheck %s --check-prefix OLDER
// RUN: scanweaver-opt %s -t "ptx{chip=sm_100}" --chip sm_80 | filecheck %s --check-prefix NEWER
// RUN: not scanweaver-opt %s -t ptx --chip sm_1 2>&1 | filecheck %s --check-prefix UNKNOWN

// NVVM:      llvm.func @copy(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>)
// NVVM-SAME: nvvm.kernel
// NVVM:      nvvm.read.ptx.sreg.tid.x

// PTX: .target sm_90
// PTX: .visible .entry copy(
// PTX: ld.global
// PTX: st.global

// OLDER: .target sm_80

// NEWER: .target sm_100

// UNKNOWN: scanweaver-opt: error: target 'sm_1' is not known; known are sm_80,

builtin.module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @copy(%from: !llvm.ptr<1>, %to: !llvm.ptr<1>) kernel {
      %i = gpu.thread_id x
      %j = arith.index_cast %i : index to i64
      %p = llvm.getelementptr %from[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %q = llvm.getelementptr %to[%j] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %x = llvm.load %p : !llvm.ptr<1> -> f32
      llvm.store %x, %q : f32, !llvm.ptr<1>
      gpu.return
    }
  }
}
