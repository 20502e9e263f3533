// RUN: scanweaver-opt %s | scanweaver-opt -f mlir | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | scanweaver-opt -f mlir | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// A proved component, one that only delays, and one that was refused; scheduled.

// CHECK-LABEL: func.func @components
// CHECK:         %y, %last = scan.generic reverse [r: parallel, n: state, t: time]
// CHECK-NEXT:      states(h[r, n] = %h0[n] : tensor<4xf32>, d[r] = %zero[] : f32, w[r] = %zero[] : f32)
// CHECK-NEXT:      inputs(a = %a[r, t] : tensor<?x?xbf16>, A = %A[n] : tensor<4xf32>)
// CHECK-NEXT:      offsets(%offsets : tensor<?xi32>)
// CHECK-NEXT:      results(y[r, t] : tensor<?x?xf32>, last h[r, n] : tensor<?x4xf32>)
// CHECK-NEXT:      layouts("n" 16, "" 4, "" 4, "t" 16, "n" 4, "t" 4, "n" 4)
// CHECK-NEXT:      schedule #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 32, row_warps = 2, steps = 4>
// CHECK-NEXT:    prelude {
// CHECK-NEXT:    ^bb0(%a_t: bf16, %A_n: f32):
// CHECK-NEXT:      %wide = arith.extf %a_t : bf16 to f32
// CHECK-NEXT:      %p = arith.mulf %wide, %A_n : f32
// CHECK-NEXT:      scan.yield %p, %wide : f32, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    components {
// CHECK-NEXT:      scan.component "affine" [0] lift {
// CHECK-NEXT:      ^bb0(%p_1: f32, %x: f32):
// CHECK-NEXT:        scan.yield %p_1, %x : f32, f32
// CHECK-NEXT:      } combine {
// CHECK-NEXT:      ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
// CHECK:             scan.yield %pp, %qq : f32, f32
// CHECK-NEXT:      } apply {
// CHECK-NEXT:      ^bb0(%p_2: f32, %q: f32, %s: f32):
// CHECK:             scan.yield %new : f32
// CHECK-NEXT:      } attributes {noted}
// CHECK-NEXT:      scan.component "delay" [1] lift {
// CHECK-NEXT:      ^bb0(%h: f32, %new_h: f32, %p_3: f32, %x_1: f32):
// CHECK-NEXT:        scan.yield %x_1 : f32
// CHECK:           scan.component "sequential" [2] because "math.tanh of the state at \22step.py\22:3"
// CHECK-NEXT:    }
// CHECK-NEXT:    step {
// CHECK-NEXT:    ^bb0(%h_1: f32, %d: f32, %w: f32, %p_4: f32, %x_3: f32):
// CHECK:           recurrence.yield states(%new_1 : f32, %x_3 : f32, %tanh : f32) outputs(%sum : f32)
// CHECK-NEXT:    } attributes {note = "kept"}

// GENERIC-LABEL: "func.func"() <{sym_name = "components"
// GENERIC:       "scan.generic"(%h0, %zero, %zero, %a, %A, %offsets) <{
// GENERIC-SAME:    direction = #recurrence<direction reverse>
// GENERIC-SAME:    schedule = #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 32, row_warps = 2, steps = 4>
// GENERIC-SAME:    operandSegmentSizes = array<i32: 3, 2, 1, 0, 0>
// GENERIC:       "scan.yield"(%p, %wide) : (f32, f32) -> ()
// GENERIC:       "scan.component"() <{algebra = "affine", states = array<i64: 0>}> ({
// GENERIC:       }) {noted} : () -> ()
// GENERIC:       "scan.component"() <{algebra = "delay", states = array<i64: 1>}> ({
// GENERIC:       "scan.component"() <{algebra = "sequential", states = array<i64: 2>, reason = "math.tanh of the state at \22step.py\22:3"}> ({
// GENERIC-NEXT:  }, {
// GENERIC-NEXT:  }, {
// GENERIC-NEXT:  }) : () -> ()
func.func @components(%h0: tensor<4xf32>, %a: tensor<?x?xbf16>, %A: tensor<4xf32>, %offsets: tensor<?xi32>) -> (tensor<?x?xf32>, tensor<?x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %y, %last = scan.generic reverse [r: parallel, n: state, t: time]
    states(h[r, n] = %h0[n] : tensor<4xf32>, d[r] = %zero[] : f32, w[r] = %zero[] : f32)
    inputs(a = %a[r, t] : tensor<?x?xbf16>, A = %A[n] : tensor<4xf32>)
    offsets(%offsets : tensor<?xi32>)
    results(y[r, t] : tensor<?x?xf32>, last h[r, n] : tensor<?x4xf32>)
    layouts("n" 16, "" 4, "" 4, "t" 16, "n" 4, "t" 4, "n" 4)
    schedule #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 32, row_warps = 2, steps = 4>
  prelude {
  ^bb0(%a_t: bf16, %A_n: f32):
    %wide = arith.extf %a_t : bf16 to f32
    %p = arith.mulf %wide, %A_n : f32
    scan.yield %p, %wide : f32, f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%p: f32, %x: f32):
      scan.yield %p, %x : f32, f32
    } combine {
    ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
      %pp = arith.mulf %p2, %p1 : f32
      %qq = math.fma %p2, %q1, %q2 : f32
      scan.yield %pp, %qq : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %new = math.fma %p, %s, %q : f32
      scan.yield %new : f32
    } attributes {noted}
    scan.component "delay" [1] lift {
    ^bb0(%h: f32, %new_h: f32, %p: f32, %x: f32):
      scan.yield %x : f32
    } combine {
    ^bb0(%x1: f32, %x2: f32):
      scan.yield %x2 : f32
    } apply {
    ^bb0(%x: f32, %s: f32):
      scan.yield %x : f32
    }
    scan.component "sequential" [2] because "math.tanh of the state at \"step.py\":3"
  } step {
  ^bb0(%h: f32, %d: f32, %w: f32, %p: f32, %x: f32):
    %ph = arith.mulf %p, %h : f32
    %new = arith.addf %ph, %x : f32
    %sum = recurrence.reduce add %new over [n] : f32
    %dw = arith.addf %d, %w : f32
    %tanh = math.tanh %dw : f32
    recurrence.yield states(%new : f32, %x : f32, %tanh : f32) outputs(%sum : f32)
  } attributes {note = "kept"}
  return %y, %last : tensor<?x?xf32>, tensor<?x4xf32>
}

// Two states inside one component; no schedule yet; memory references.

// CHECK-LABEL: func.func @coupled
// CHECK:         scan.component "affine" [1, 0] lift {
// GENERIC-LABEL: "func.func"() <{sym_name = "coupled"
// GENERIC:       "scan.component"() <{algebra = "affine", states = array<i64: 1, 0>}> ({
func.func @coupled(%x: memref<?xf64>) -> memref<f64> {
  %zero = arith.constant 0.0 : f64
  %last = scan.generic forward [t: time]
    states(p[] = %zero[] : f64, q[] = %zero[] : f64)
    inputs(x = %x[t] : memref<?xf64>)
    results(last q[] : memref<f64>)
  prelude {
  ^bb0(%x_t: f64):
    scan.yield %x_t : f64
  } components {
    scan.component "affine" [1, 0] lift {
    ^bb0(%x_t: f64):
      scan.yield %x_t : f64
    } combine {
    ^bb0(%a: f64, %b: f64):
      %sum = arith.addf %a, %b : f64
      scan.yield %sum : f64
    } apply {
    ^bb0(%a: f64, %q: f64, %p: f64):
      %new = arith.addf %a, %q : f64
      scan.yield %new, %new : f64, f64
    }
  } step {
  ^bb0(%p: f64, %q: f64, %x_t: f64):
    %new = arith.addf %q, %x_t : f64
    recurrence.yield states(%new : f64, %new : f64) outputs()
  }
  return %last : memref<f64>
}

// Schedules elsewhere than on a GPU.

// CHECK-LABEL: func.func @schedules
// CHECK-SAME:    cpu = #scan.schedule<target = "cpu", order = [b, d], vector = "d", lanes = 1, warps = 1, row_lanes = 16, row_warps = 1, steps = 64>
// CHECK-SAME:    one = #scan.schedule<target = "sm_80", order = [], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 1>
func.func @schedules() attributes {
  cpu = #scan.schedule<target = "cpu", order = [b, d], vector = "d", lanes = 1, warps = 1, row_lanes = 16, row_warps = 1, steps = 64>,
  one = #scan.schedule<target = "sm_80", order = [], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 1>
} {
  return
}

// The scan over a block's lanes and warps.

// CHECK-LABEL: func.func @block_scans
// CHECK:         %{{.*}} = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%p, %q : f32, f32) carry(%c : f32) position(%lane, %warp, %row : i32, i32, i32) scratch() combine {
// CHECK-NEXT:    ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
// CHECK:         } apply {
// CHECK-NEXT:    ^bb0(%p_1: f32, %q_1: f32, %s: f32):
// CHECK:         } attributes {noted}
// CHECK:         scan.block_scan [lanes 8, row_lanes 4, warps 2] elements(%q : f32) carry(%c, %c : f32, f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {

// GENERIC-LABEL: "func.func"() <{sym_name = "block_scans"
// GENERIC:       "scan.block_scan"(%p, %q, %c, %lane, %warp, %row) <{lanes = #builtin.int<32>, row_lanes = #builtin.int<1>, warps = #builtin.int<1>, algorithm = "shuffle", operandSegmentSizes = array<i32: 2, 1, 3, 0>}> ({
// GENERIC:       "scan.block_scan"(%q, %c, %c, %lane, %warp, %row, %m) <{lanes = #builtin.int<8>, row_lanes = #builtin.int<4>, warps = #builtin.int<2>, algorithm = "shuffle", operandSegmentSizes = array<i32: 1, 2, 3, 1>}> ({
func.func @block_scans(%p: f32, %q: f32, %c: f32, %lane: i32, %warp: i32, %row: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%p, %q : f32, f32) carry(%c : f32) position(%lane, %warp, %row : i32, i32, i32) scratch() combine {
  ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
    %pp = arith.mulf %p2, %p1 : f32
    %qq = math.fma %p2, %q1, %q2 : f32
    scan.yield %pp, %qq : f32, f32
  } apply {
  ^bb0(%p_1: f32, %q_1: f32, %s: f32):
    %new = math.fma %p_1, %s, %q_1 : f32
    scan.yield %new : f32
  } attributes {noted}
  %k, %l = scan.block_scan [lanes 8, row_lanes 4, warps 2] elements(%q : f32) carry(%c, %c : f32, f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  } apply {
  ^bb0(%x: f32, %s: f32, %s2: f32):
    scan.yield %x, %x : f32, f32
  }
  return
}

// CHECK-LABEL: func.func @sweeps
// CHECK:         scan.block_scan blelloch [lanes 32, row_lanes 1, warps 1] elements(%q : f32) carry(%c : f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%m, %n : !llvm.ptr<3>, !llvm.ptr<3>) combine {
// CHECK:         scan.up_sweep [participants 32] elements(%q : f32) position(%lane, %row : i32, i32) buffers(%m : !llvm.ptr<3>) combine {
// CHECK:         scan.down_sweep [participants 8, by_row 32] carry(%c : f32) position(%lane, %row : i32, i32) buffers(%m : !llvm.ptr<3>) states(%n : !llvm.ptr<3>) apply {

// GENERIC-LABEL: "func.func"() <{sym_name = "sweeps"
// GENERIC:       "scan.up_sweep"(%q, %lane, %row, %m) <{participants = #builtin.int<32>, operandSegmentSizes = array<i32: 1, 2, 1>}> ({
// GENERIC:       "scan.down_sweep"(%c, %lane, %row, %m, %n) <{participants = #builtin.int<8>, by_row = #builtin.int<32>, operandSegmentSizes = array<i32: 1, 2, 1, 1>}> ({
func.func @sweeps(%q: f32, %c: f32, %lane: i32, %warp: i32, %row: i32, %m: !llvm.ptr<3>, %n: !llvm.ptr<3>) {
  %h = scan.block_scan blelloch [lanes 32, row_lanes 1, warps 1] elements(%q : f32) carry(%c : f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%m, %n : !llvm.ptr<3>, !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  } apply {
  ^bb0(%x: f32, %s: f32):
    scan.yield %x : f32
  }
  scan.up_sweep [participants 32] elements(%q : f32) position(%lane, %row : i32, i32) buffers(%m : !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  }
  %k = scan.down_sweep [participants 8, by_row 32] carry(%c : f32) position(%lane, %row : i32, i32) buffers(%m : !llvm.ptr<3>) states(%n : !llvm.ptr<3>) apply {
  ^bb0(%x: f32, %s: f32):
    scan.yield %x : f32
  }
  return
}
