// RUN: scanweaver-opt %s --split-input-file -p 'convert-recurrence-to-scan,schedule-scan{strategy=lanes},lower-scan-to-gpu' | filecheck %s

// Every value once, at the outermost level that knows its axes; 8 steps a lane, whole tiles and then the masked rest.

// CHECK-LABEL: gpu.func @selective
// What varies over b, d, t: outside of the loop over n.
// CHECK:         scf.for
// CHECK-COUNT-8:   math.log1p
// CHECK-NOT:       math.log1p
// One loop over n, with one sum per step. The decay depends on n and t, the rate on n alone.
// CHECK:           %[[SUM:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = scf.for
// CHECK:             math.sqrt
// CHECK-NOT:         math.sqrt
// CHECK-COUNT-8:     math.exp
// CHECK-NOT:         math.exp
// CHECK:             scan.block_scan
// CHECK-NOT:         math.exp
// CHECK:             scf.if
// CHECK-NEXT:          arith.muli
// CHECK:             scf.yield
// After the sum: once a step.
// CHECK-NOT:       scf.for
// CHECK:           %[[GATE:.*]] = math.sin
// CHECK-NEXT:      arith.mulf %[[SUM]], %[[GATE]]
// CHECK-COUNT-7:   math.sin
// CHECK-NOT:       math.sin
// CHECK-COUNT-2:   llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK:         nvvm.bar.warp.sync
// CHECK-NEXT:  }
// CHECK-COUNT-8:   math.log1p
// CHECK:           scf.for
// CHECK-COUNT-8:     math.exp
// CHECK-NOT:         math.exp
// CHECK:             scan.block_scan
// CHECK:       gpu.return
func.func @selective(%us: tensor<?x?x?xf32>, %dts: tensor<?x?x?xf32>, %As: tensor<?x16xf32>, %Cs: tensor<?x16x?xf32>) -> tensor<?x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [b: parallel, d: parallel, n: state, t: time]
    states(h[b, d, n] = %zero[] : f32)
    inputs(u = %us[b, d, t] : tensor<?x?x?xf32>, dt = %dts[b, d, t] : tensor<?x?x?xf32>, A = %As[d, n] : tensor<?x16xf32>, C = %Cs[b, n, t] : tensor<?x16x?xf32>)
    results(y[b, d, t] : tensor<?x?x?xf32>)
    layouts("" 4, "t" 16, "t" 16, "n" 16, "t" 16, "t" 16)
  {
  ^bb0(%h: f32, %u: f32, %dt: f32, %A: f32, %C: f32):
    %delta = math.log1p %dt : f32
    %rate = math.sqrt %A : f32
    %e = arith.mulf %delta, %rate : f32
    %decay = math.exp %e : f32
    %kept = arith.mulf %decay, %h : f32
    %new = arith.addf %kept, %u : f32
    %ch = arith.mulf %C, %new : f32
    %sum = recurrence.reduce add %ch over [n] : f32
    %gate = math.sin %u : f32
    %out = arith.mulf %sum, %gate : f32
    recurrence.yield states(%new : f32) outputs(%out : f32)
  }
  return %y : tensor<?x?x?xf32>
}

// -----

// Backwards: step i is at T-1-i, so the lane's first step is the last of what it reads.

// CHECK-LABEL: gpu.func @reverse
// CHECK:         scf.for
// CHECK:           %[[LAST:.*]] = arith.subi %size_t, %{{.*}} : i64
// CHECK-COUNT-4:   arith.subi %[[LAST]],
// CHECK:           %[[X:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NEXT:      vector.extract %[[X]][0]
// CHECK-NEXT:      vector.extract %[[X]][1]
// CHECK-NEXT:      vector.extract %[[X]][2]
// CHECK-NEXT:      %[[FIRST:.*]] = vector.extract %[[X]][3] : f32
// CHECK:           %[[H:.*]] = scan.block_scan
// CHECK:           %[[NEW:.*]] = arith.addf %[[H]], %[[FIRST]]
// CHECK:           vector.insert %[[NEW]], %{{.*}} [3]
// CHECK-NEXT:      llvm.store {{.*}} {alignment = 16 : i64}
func.func @reverse(%xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic reverse [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    layouts("" 4, "t" 16, "t" 16)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}

// -----

// Neither contiguous nor aligned: one access an element, wherever the strides lead. Memory is read where it is.

// CHECK-LABEL: gpu.func @strided
// CHECK-SAME:    %stride_0_b: i64, %stride_0_d: i64, %stride_0_t: i64, %stride_1_b: i64, %stride_1_t: i64
// CHECK-NOT:     vector
// CHECK:         arith.muli %{{.*}}, %stride_0_t : i64
// CHECK:         llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK-NOT:     vector
// CHECK:       gpu.return
func.func @strided(%xs: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %zero[] : f32)
    inputs(x = %xs[b, d, t] : tensor<?x?x?xf32>)
    results(y[b, t, d] : tensor<?x?x?xf32>)
    layouts("" 4, "" 4, "d" 8)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?x?xf32>
}

// -----

// A row is a (b, d). What has no d is computed by the rows of every d, and stored by the first.

// CHECK-LABEL: gpu.func @shared
// CHECK:         %[[ROW:.*]] = arith.remui %{{.*}}, %size_d : i64
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %[[ROW]],
// CHECK-NEXT:    arith.andi %{{.*}}, %[[FIRST]] : i1
func.func @shared(%as: tensor<?x?xf32>, %xs: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %y, %z = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b] = %zero[] : f32, k[b, d] = %zero[] : f32)
    inputs(a = %as[b, t] : tensor<?x?xf32>, x = %xs[d, t] : tensor<?x?xf32>)
    results(y[b, t] : tensor<?x?xf32>, last k[b, d] : tensor<?x?xf32>)
    layouts("" 4, "" 4, "t" 16, "t" 16, "t" 16, "d" 4)
  {
  ^bb0(%h: f32, %k: f32, %a: f32, %x: f32):
    %new = arith.addf %h, %a : f32
    %both = arith.addf %k, %x : f32
    recurrence.yield states(%new : f32, %both : f32) outputs(%new : f32)
  }
  return %y, %z : tensor<?x?xf32>, tensor<?x?xf32>
}
