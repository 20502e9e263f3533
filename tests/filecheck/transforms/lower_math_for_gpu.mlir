// RUN: scanweaver-opt %s -p lower-math-for-gpu | filecheck %s
// RUN: scanweaver-opt %s -p "lower-math-for-gpu{exp=fast}" | filecheck %s --check-prefix FAST
// RUN: scanweaver-opt %s -p lower-math-for-gpu -t ptx | filecheck %s --check-prefix PTX
// RUN: scanweaver-opt %s -p "lower-math-for-gpu{exp=fast}" -t ptx | filecheck %s --check-prefix FASTPTX

gpu.module @kernels {

// Constants stand once, before the loop; the loop holds eight operations and two reinterpretations.
// CHECK-LABEL: gpu.func @exponential
// CHECK:         scf.for
// CHECK-NEXT:      %[[SAT:.*]] = llvm.call_intrinsic "llvm.nvvm.fma.rn.sat.f"(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, f32, f32) -> f32
// CHECK-NEXT:      %[[N:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%[[SAT]], %{{.*}}, %{{.*}}) : (f32, f32, f32) -> f32
// CHECK-NEXT:      %[[MINUS_N:.*]] = arith.subf %{{.*}}, %[[N]] : f32
// CHECK-NEXT:      %[[HI:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %[[MINUS_N]]) : (f32, f32, f32) -> f32
// CHECK-NEXT:      %[[R:.*]] = llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %[[HI]]) : (f32, f32, f32) -> f32
// CHECK-NEXT:      %[[BITS:.*]] = arith.bitcast %[[N]] : f32 to i32
// CHECK-NEXT:      %[[MOVED:.*]] = arith.shli %[[BITS]], %{{.*}} : i32
// CHECK-NEXT:      %[[SCALE:.*]] = arith.bitcast %[[MOVED]] : i32 to f32
// CHECK-NEXT:      %[[P:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%[[R]]) : (f32) -> f32
// CHECK-NEXT:      %{{.*}} = arith.mulf %[[P]], %[[SCALE]] : f32
// CHECK-NEXT:      scf.yield

// FAST-LABEL:  gpu.func @exponential
// FAST-NEXT:     %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
// FAST:          scf.for
// FAST-NEXT:       %[[Y:.*]] = arith.mulf %{{.*}}, %[[LOG2E]] : f32
// FAST-NEXT:       %{{.*}} = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"(%[[Y]]) : (f32) -> f32
// FAST-NEXT:       scf.yield

// No mul or add may be left for ptxas to contract: each says .rn.
// PTX-LABEL:     .entry exponential(
// PTX:             fma.rn.sat.f32
// PTX-NEXT:        fma.rn.f32
// PTX:             sub.rn.f32
// PTX-NEXT:        fma.rn.f32
// PTX-NEXT:        fma.rn.f32
// PTX-NEXT:        shl.b32
// PTX-NEXT:        ex2.approx.ftz.f32
// PTX-NEXT:        mul.rn.f32

// FASTPTX-LABEL: .entry exponential(
// FASTPTX:         mul.rn.f32
// FASTPTX-NEXT:    ex2.approx.ftz.f32
gpu.func @exponential(%p: !llvm.ptr<1>, %x: f32, %n: i64) kernel {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> (f32) : i64 {
    %y = math.exp %v : f32
    scf.yield %y : f32
  }
  llvm.store %last, %p : f32, !llvm.ptr<1>
  gpu.return
}

// CHECK-LABEL: gpu.func @single
// CHECK-DAG:     llvm.call_intrinsic "llvm.nvvm.ex2.approx.f32"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.sqrt.f32"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.fabs.f32"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.floor.f32"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.roundeven.f32"(%{{.*}}) : (f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.copysign.f32"(%{{.*}}, %{{.*}}) : (f32, f32) -> f32
// CHECK-DAG:     llvm.call_intrinsic "llvm.fma.f32"(%{{.*}}, %{{.*}}, %{{.*}}) : (f32, f32, f32) -> f32
// CHECK-NOT:     math.
// PTX-LABEL:   .entry single(
// PTX-DAG:       ex2.approx.f32
// PTX-DAG:       rsqrt.approx.f32
// PTX-DAG:       sqrt.rn.f32
// PTX-DAG:       abs.f32
// PTX-DAG:       cvt.rmi.f32.f32
// PTX-DAG:       cvt.rni.f32.f32
// PTX-DAG:       copysign.f32
// PTX-DAG:       fma.rn.f32
gpu.func @single(%p: !llvm.ptr<1>, %x: f32, %y: f32) kernel {
  %0 = math.exp2 %x : f32
  %1 = math.rsqrt %y : f32
  %2 = math.sqrt %x : f32
  %3 = math.absf %y : f32
  %4 = math.floor %x : f32
  %5 = math.roundeven %x : f32
  %6 = math.copysign %0, %1 : f32
  %7 = math.fma %2, %3, %4 : f32
  %8 = arith.divf %5, %6 : f32
  %9 = arith.divf %7, %8 : f32
  llvm.store %9, %p : f32, !llvm.ptr<1>
  gpu.return
}

// Arithmetic alone: neither the special-function unit nor a call.
// CHECK-LABEL: gpu.func @arithmetic
// CHECK-NOT:     math.
// CHECK-NOT:     approx
// PTX-LABEL:   .entry arithmetic(
// PTX-NOT:       call
// PTX-NOT:       approx
// PTX:           div.rn.f32
// PTX-NOT:       call
// PTX-NOT:       approx
// PTX:           ret;
gpu.func @arithmetic(%p: !llvm.ptr<1>, %x: f32) kernel {
  %0 = math.expm1 %x : f32
  %1 = math.log %0 : f32
  %2 = math.log2 %1 : f32
  %3 = math.log1p %2 : f32
  %4 = math.tanh %3 : f32
  llvm.store %4, %p : f32, !llvm.ptr<1>
  gpu.return
}

// Doubles have their instructions too; the rest, and what is rare, stays for libdevice. So do vectors.
// CHECK-LABEL: gpu.func @left_alone
// CHECK-DAG:     llvm.call_intrinsic "llvm.fma.f64"(%{{.*}}, %{{.*}}, %{{.*}}) : (f64, f64, f64) -> f64
// CHECK-DAG:     llvm.call_intrinsic "llvm.sqrt.f64"(%{{.*}}) : (f64) -> f64
// CHECK-DAG:     math.exp %{{.*}} : f64
// CHECK-DAG:     math.log1p %{{.*}} : f64
// CHECK-DAG:     math.sin %{{.*}} : f32
// CHECK-DAG:     math.erf %{{.*}} : f32
// CHECK-DAG:     math.powf %{{.*}}, %{{.*}} : f32
// CHECK-DAG:     math.exp %{{.*}} : f16
// PTX-LABEL:   .entry left_alone(
// PTX-DAG:       fma.rn.f64
// PTX-DAG:       sqrt.rn.f64
gpu.func @left_alone(%p: !llvm.ptr<1>, %x: f64, %y: f32, %z: f16) kernel {
  %0 = math.exp %x : f64
  %1 = math.log1p %0 : f64
  %2 = math.sqrt %1 : f64
  %3 = math.fma %0, %1, %2 : f64
  llvm.store %3, %p : f64, !llvm.ptr<1>
  %4 = math.sin %y : f32
  %5 = math.erf %4 : f32
  %6 = math.powf %4, %5 : f32
  llvm.store %6, %p : f32, !llvm.ptr<1>
  %7 = math.exp %z : f16
  llvm.store %7, %p : f16, !llvm.ptr<1>
  gpu.return
}
}
