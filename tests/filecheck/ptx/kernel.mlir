// RUN: scanweaver-opt %s -t ptx | filecheck %s

// What a kernel says of itself. Only kernels become entries.

gpu.module @kernels {
  llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @k(%y: !llvm.ptr<1>, %n: i64, %x: f32) workgroup(%w: memref<128xbf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 128, 2, 1>, nvvm.minctasm = 3 : i32, nvvm.maxnreg = 80 : i32} {
    %tid = gpu.thread_id x
    %h = arith.truncf %x : f32 to bf16
    memref.store %h, %w[%tid] : memref<128xbf16, #gpu.address_space<workgroup>>
    %s = llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>
    llvm.store %x, %s : f32, !llvm.ptr<3>
    gpu.barrier
    %zero = arith.constant 0 : index
    %first = memref.load %w[%zero] : memref<128xbf16, #gpu.address_space<workgroup>>
    %wide = arith.extf %first : bf16 to f32
    %again = llvm.load %s : !llvm.ptr<3> -> f32
    %sum = arith.addf %wide, %again : f32
    llvm.store %sum, %y : f32, !llvm.ptr<1>
    gpu.return
  }
}

// CHECK:      .version 8.3
// CHECK:      .target sm_90
// CHECK:      .extern .shared .align 16 .b8 dynamic_shared[];
// CHECK:      .visible .entry k(
// CHECK-NEXT:   .param .u64 .ptr .global .align 1 k_param_0,
// CHECK-NEXT:   .param .u64 k_param_1,
// CHECK-NEXT:   .param .f32 k_param_2
// CHECK-NEXT: )
// CHECK-NEXT: .maxntid 128, 2, 1
// CHECK-NEXT: .minnctapersm 3
// CHECK-NEXT: .maxnreg 80
// CHECK-NOT:  .func
// CHECK:      .shared .align 16 .b8 __wg_k_0[256];
// CHECK:      st.shared.b16
// CHECK:      st.shared.b32 [dynamic_shared]
// CHECK:      bar.sync 0;
// CHECK:      ld.shared.b16
// CHECK:      ld.shared.b32 %{{.*}}, [dynamic_shared];
// CHECK:      st.global.b32
