// RUN: scanweaver-opt %s | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC
// RUN: scanweaver-opt --print-op-generic %s | scanweaver-opt | filecheck %s

gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx83">] {
  gpu.func @all(%p: !llvm.ptr<1> {llvm.noalias}, %n: i64, %x: f32) workgroup(%w: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %w2: memref<4xi8, #gpu.address_space<workgroup>>) private(%l: memref<4xf32, #gpu.address_space<private>>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 2 : i32, nvvm.maxnreg = 64 : i32} {
    %tid = gpu.thread_id x
    %bid = gpu.block_id y
    %bdim = gpu.block_dim z
    %gdim = gpu.grid_dim x upper_bound 65536
    %lane = gpu.lane_id
    %lane32 = gpu.lane_id upper_bound 32
    %one = arith.constant 1 : i32
    %warp = arith.constant 32 : i32
    %xor, %xor_ok = gpu.shuffle xor %x, %one, %warp : f32
    %up, %up_ok = gpu.shuffle up %n, %one, %warp : i64
    %down, %down_ok = gpu.shuffle down %one, %one, %warp : i32
    %idx, %idx_ok = gpu.shuffle idx %x, %one, %warp : f32
    gpu.barrier
    %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    gpu.return
  }
  gpu.func @helper(%x: f32) -> (f32, i32) {
    %one = arith.constant 1 : i32
    gpu.return %x, %one : f32, i32
  }
  gpu.func @one_result(%x: f32) -> f32 attributes {scan.note = "another dialect's attribute passes"} {
    gpu.return %x : f32
  }
}
gpu.module @empty attributes {scan.note} {
}

// CHECK:      gpu.module @kernels [#nvvm.target<chip = "sm_90", features = "+ptx83">] {
// CHECK-NEXT:   gpu.func @all(%p: !llvm.ptr<1> {llvm.noalias}, %n: i64, %x: f32) workgroup(%w: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %w2: memref<4xi8, #gpu.address_space<workgroup>>) private(%l: memref<4xf32, #gpu.address_space<private>>) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 2 : i32, nvvm.maxnreg = 64 : i32} {
// CHECK-NEXT:     %tid = gpu.thread_id x
// CHECK-NEXT:     %bid = gpu.block_id y
// CHECK-NEXT:     %bdim = gpu.block_dim z
// CHECK-NEXT:     %gdim = gpu.grid_dim x upper_bound 65536
// CHECK-NEXT:     %lane = gpu.lane_id
// CHECK-NEXT:     %lane32 = gpu.lane_id upper_bound 32
// CHECK-NEXT:     %one = arith.constant 1 : i32
// CHECK-NEXT:     %warp = arith.constant 32 : i32
// CHECK-NEXT:     %xor, %xor_ok = gpu.shuffle xor %x, %one, %warp : f32
// CHECK-NEXT:     %up, %up_ok = gpu.shuffle up %n, %one, %warp : i64
// CHECK-NEXT:     %down, %down_ok = gpu.shuffle down %one, %one, %warp : i32
// CHECK-NEXT:     %idx, %idx_ok = gpu.shuffle idx %x, %one, %warp : f32
// CHECK-NEXT:     gpu.barrier
// CHECK-NEXT:     %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
// CHECK-NEXT:     gpu.return
// CHECK-NEXT:   }
// CHECK-NEXT:   gpu.func @helper(%x: f32) -> (f32, i32) {
// CHECK-NEXT:     %one = arith.constant 1 : i32
// CHECK-NEXT:     gpu.return %x, %one : f32, i32
// CHECK-NEXT:   }
// CHECK-NEXT:   gpu.func @one_result(%x: f32) -> f32 attributes {scan.note = "another dialect's attribute passes"} {
// CHECK-NEXT:     gpu.return %x : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: gpu.module @empty attributes {scan.note} {
// CHECK-NEXT: }

// What mlir-opt keeps as a property is one, what it keeps as an attribute is one.
// GENERIC:      "gpu.module"() <{sym_name = "kernels", targets = [#nvvm.target<chip = "sm_90", features = "+ptx83">]}> ({
// GENERIC-NEXT:   "gpu.func"() <{function_type = (!llvm.ptr<1>, i64, f32) -> (), arg_attrs = [{llvm.noalias}, {}, {}], workgroup_attrib_attrs = [{llvm.align = 16 : i64}, {}], known_block_size = array<i32: 128, 1, 1>}> ({
// GENERIC-NEXT:   ^bb0(%p: !llvm.ptr<1>, %n: i64, %x: f32, %w: memref<128xf32, #gpu.address_space<workgroup>>, %w2: memref<4xi8, #gpu.address_space<workgroup>>, %l: memref<4xf32, #gpu.address_space<private>>):
// GENERIC-NEXT:     %tid = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
// GENERIC:          %gdim = "gpu.grid_dim"() <{dimension = #gpu<dim x>, upper_bound = 65536 : index}> : () -> index
// GENERIC-NEXT:     %lane = "gpu.lane_id"() : () -> index
// GENERIC:          %xor, %xor_ok = "gpu.shuffle"(%x, %one, %warp) <{mode = #gpu<shuffle_mode xor>}> : (f32, i32, i32) -> (f32, i1)
// GENERIC:          "gpu.barrier"() : () -> ()
// GENERIC-NEXT:     %bytes = "gpu.dynamic_shared_memory"() : () -> memref<?xi8, #gpu.address_space<workgroup>>
// GENERIC-NEXT:     "gpu.return"() : () -> ()
// GENERIC-NEXT:   }) {nvvm.minctasm = 2 : i32, nvvm.maxnreg = 64 : i32, sym_name = "all", gpu.kernel, workgroup_attributions = 2 : i64} : () -> ()
