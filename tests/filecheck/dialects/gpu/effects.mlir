// RUN: scanweaver-opt %s -p cse,dce | filecheck %s

// Reading where a thread stands has no effect: done twice it is done once, unused it goes. An exchange stays.

gpu.module @kernels {
  gpu.func @k(%p: !llvm.ptr<1>, %x: f32, %i: i32, %dst: !llvm.ptr<3>) kernel {
    %unused = gpu.block_id y
    %shared = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %register = nvvm.read.ptx.sreg.laneid : i32
    %a = gpu.thread_id x
    %b = gpu.thread_id x
    %y = gpu.thread_id y
    "test.op"(%a, %b, %y) : (index, index, index) -> ()
    %s1, %v1 = gpu.shuffle up %x, %i, %i : f32
    gpu.barrier
    %s2, %v2 = gpu.shuffle up %x, %i, %i : f32
    gpu.barrier
    %s3 = nvvm.shfl.sync idx %i, %x, %i, %i : f32 -> f32
    nvvm.bar.warp.sync %i : i32
    nvvm.cp.async.shared.global %dst, %p, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 0
    gpu.return
  }
}

// CHECK:      gpu.func @k
// CHECK-NEXT:   %a = gpu.thread_id x
// CHECK-NEXT:   %y = gpu.thread_id y
// CHECK-NEXT:   "test.op"(%a, %a, %y)
// CHECK-NEXT:   %s1, %v1 = gpu.shuffle up
// CHECK-NEXT:   gpu.barrier
// CHECK-NEXT:   %s2, %v2 = gpu.shuffle up
// CHECK-NEXT:   gpu.barrier
// CHECK-NEXT:   %s3 = nvvm.shfl.sync idx
// CHECK-NEXT:   nvvm.bar.warp.sync
// CHECK-NEXT:   nvvm.cp.async.shared.global
// CHECK-NEXT:   nvvm.cp.async.commit.group
// CHECK-NEXT:   nvvm.cp.async.wait.group 0
// CHECK-NEXT:   gpu.return
