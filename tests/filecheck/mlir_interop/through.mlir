// RUN: scanweaver-opt %s | %mlir-opt | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt --print-op-generic %s | %mlir-opt --mlir-print-op-generic | scanweaver-opt | filecheck %s

// A kernel as our lowerings leave it, there and back, in mlir-opt's custom and generic syntax.

module {
  gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx83">] {
    llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
    gpu.func @scan(%a: !llvm.ptr<1>, %y: !llvm.ptr<1> {llvm.noalias}, %n: i64) workgroup(%w: memref<8xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, nvvm.minctasm = 2 : i32} {
      %tid = gpu.thread_id x
      %lane = gpu.lane_id
      %one = arith.constant 1 : i32
      %warp = arith.constant 32 : i32
      %i = arith.index_cast %tid : index to i64
      %inside = arith.cmpi slt, %i, %n : i64
      %p = llvm.getelementptr %a[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %x = scf.if %inside -> (f32) {
        %loaded = llvm.load %p {alignment = 4 : i64} : !llvm.ptr<1> -> f32
        scf.yield %loaded : f32
      } else {
        %identity = arith.constant 0.000000e+00 : f32
        scf.yield %identity : f32
      }
      %before, %valid = gpu.shuffle up %x, %one, %warp : f32
      %sum = arith.addf %x, %before fastmath<contract> : f32
      %r = arith.select %valid, %sum, %x : f32
      memref.store %r, %w[%lane] : memref<8xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %e = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%r) : (f32) -> f32
      %q = llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>
      nvvm.cp.async.shared.global %q, %p, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0
      llvm.store %e, %y {alignment = 4 : i64} : f32, !llvm.ptr<1>
      gpu.return
    }
  }
}

// CHECK:      gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx83">] {
// CHECK-NEXT:   llvm.mlir.global external @dynamic_shared() {
// CHECK-NEXT:   gpu.func @scan(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1> {llvm.noalias}, %{{.*}}: i64) workgroup(%{{.*}}: memref<8xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 256, 1, 1>, nvvm.minctasm = 2 : i32} {
// CHECK-NEXT:     gpu.thread_id x
// CHECK-NEXT:     gpu.lane_id
// CHECK:          llvm.getelementptr %{{.*}}[%{{.*}}] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
// CHECK-NEXT:     scf.if
// CHECK-NEXT:       llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK:          %{{.*}}, %{{.*}} = gpu.shuffle up %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:     arith.addf %{{.*}}, %{{.*}} fastmath<contract> : f32
// CHECK-NEXT:     arith.select
// CHECK-NEXT:     memref.store %{{.*}}, %{{.*}}[%{{.*}}] : memref<8xf32, #gpu.address_space<workgroup>>
// CHECK-NEXT:     gpu.barrier
// CHECK-NEXT:     llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%{{.*}}) : (f32) -> f32
// CHECK-NEXT:     llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>
// CHECK-NEXT:     nvvm.cp.async.shared.global %{{.*}}, %{{.*}}, 4, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
// CHECK-NEXT:     nvvm.cp.async.commit.group
// CHECK-NEXT:     nvvm.cp.async.wait.group 0
// CHECK-NEXT:     llvm.store %{{.*}}, %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<1>
// CHECK-NEXT:     gpu.return
