// RUN: scanweaver-opt %s -t ptx | filecheck %s

// One stage of a pipeline: 16 bytes a lane from global to shared memory in the background, read back as four floats.

gpu.module @kernels {
  gpu.func @k(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>) workgroup(%w: memref<128xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %tid = gpu.thread_id x
    %i = arith.index_cast %tid : index to i64
    %src = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<4xf32>
    %base = "memref.extract_aligned_pointer_as_index"(%w) : (memref<128xf32, #gpu.address_space<workgroup>>) -> index
    %base64 = arith.index_cast %base : index to i64
    %shared = llvm.inttoptr %base64 : i64 to !llvm.ptr<3>
    %dst = llvm.getelementptr %shared[%i] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, vector<4xf32>
    nvvm.cp.async.shared.global %dst, %src, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    gpu.barrier
    %v = llvm.load %shared {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
    %out = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, vector<4xf32>
    llvm.store %v, %out {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    gpu.return
  }
}

// CHECK:      cp.async.cg.shared.global [%{{.*}}], [%{{.*}}], 16;
// CHECK-NEXT: cp.async.commit_group;
// CHECK-NEXT: cp.async.wait_group 0;
// CHECK-NEXT: bar.sync 0;
// CHECK:      ld.shared.v4.b32 {{.*}}, [__wg_k_0];
// CHECK:      st.global.v4.b32
