// RUN: scanweaver-opt %s | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC
// RUN: scanweaver-opt --print-op-generic %s | scanweaver-opt | filecheck %s

gpu.module @kernels [#nvvm.target, #nvvm.target<features = "+ptx83", O = 3, link = ["lib.bc"], chip = "sm_90a", flags = {ftz}>, #nvvm.target<chip = "sm_50", O = 2>] {
  gpu.func @all(%dst: !llvm.ptr<3>, %src: !llvm.ptr<1>, %x: f32, %i: i32) kernel {
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %ntid = nvvm.read.ptx.sreg.ntid.x : i32
    %ctaid = nvvm.read.ptx.sreg.ctaid.x : i32
    %laneid = nvvm.read.ptx.sreg.laneid : i32
    nvvm.bar.warp.sync %i : i32
    nvvm.barrier0
    nvvm.barrier
    nvvm.barrier id = %i
    nvvm.barrier id = %i number_of_threads = %i
    %bfly = nvvm.shfl.sync bfly %i, %x, %i, %i : f32 -> f32
    %up = nvvm.shfl.sync up %i, %i, %i, %i : i32 -> i32
    %down = nvvm.shfl.sync down %i, %x, %i, %i {return_value_and_is_valid} : f32 -> !llvm.struct<(f32, i1)>
    %idx = nvvm.shfl.sync idx %i, %x, %i, %i : f32 -> f32
    nvvm.cp.async.shared.global %dst, %src, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.shared.global %dst, %src, 8, cache = ca, %i : !llvm.ptr<3>, !llvm.ptr<1>, i32
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 2
    gpu.return
  }
}

// CHECK:      gpu.module @kernels [#nvvm.target, #nvvm.target<O = 3, chip = "sm_90a", features = "+ptx83", flags = {ftz}, link = ["lib.bc"]>, #nvvm.target] {
// CHECK-NEXT:   gpu.func @all(%dst: !llvm.ptr<3>, %src: !llvm.ptr<1>, %x: f32, %i: i32) kernel {
// CHECK-NEXT:     %tid = nvvm.read.ptx.sreg.tid.x : i32
// CHECK-NEXT:     %ntid = nvvm.read.ptx.sreg.ntid.x : i32
// CHECK-NEXT:     %ctaid = nvvm.read.ptx.sreg.ctaid.x : i32
// CHECK-NEXT:     %laneid = nvvm.read.ptx.sreg.laneid : i32
// CHECK-NEXT:     nvvm.bar.warp.sync %i : i32
// CHECK-NEXT:     nvvm.barrier0
// CHECK-NEXT:     nvvm.barrier
// CHECK-NEXT:     nvvm.barrier id = %i
// CHECK-NEXT:     nvvm.barrier id = %i number_of_threads = %i
// CHECK-NEXT:     %bfly = nvvm.shfl.sync bfly %i, %x, %i, %i : f32 -> f32
// CHECK-NEXT:     %up = nvvm.shfl.sync up %i, %i, %i, %i : i32 -> i32
// CHECK-NEXT:     %down = nvvm.shfl.sync down %i, %x, %i, %i {return_value_and_is_valid} : f32 -> !llvm.struct<(f32, i1)>
// CHECK-NEXT:     %idx = nvvm.shfl.sync idx %i, %x, %i, %i : f32 -> f32
// CHECK-NEXT:     nvvm.cp.async.shared.global %dst, %src, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
// CHECK-NEXT:     nvvm.cp.async.shared.global %dst, %src, 8, cache = ca, %i : !llvm.ptr<3>, !llvm.ptr<1>, i32
// CHECK-NEXT:     nvvm.cp.async.commit.group
// CHECK-NEXT:     nvvm.cp.async.wait.group 2
// CHECK-NEXT:     gpu.return

// GENERIC:      %tid = "nvvm.read.ptx.sreg.tid.x"() : () -> i32
// GENERIC:      "nvvm.bar.warp.sync"(%i) : (i32) -> ()
// GENERIC-NEXT: "nvvm.barrier0"() : () -> ()
// GENERIC-NEXT: "nvvm.barrier"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
// GENERIC-NEXT: "nvvm.barrier"(%i) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i32) -> ()
// GENERIC-NEXT: "nvvm.barrier"(%i, %i) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i32, i32) -> ()
// GENERIC-NEXT: %bfly = "nvvm.shfl.sync"(%i, %x, %i, %i) <{kind = #nvvm<shfl_kind bfly>}> : (i32, f32, i32, i32) -> f32
// GENERIC:      %down = "nvvm.shfl.sync"(%i, %x, %i, %i) <{kind = #nvvm<shfl_kind down>, return_value_and_is_valid}> : (i32, f32, i32, i32) -> !llvm.struct<(f32, i1)>
// GENERIC:      "nvvm.cp.async.shared.global"(%dst, %src) <{size = 16 : i32, modifier = #nvvm<load_cache_modifier cg>}> : (!llvm.ptr<3>, !llvm.ptr<1>) -> ()
// GENERIC:      "nvvm.cp.async.wait.group"() <{n = 2 : i32}> : () -> ()
