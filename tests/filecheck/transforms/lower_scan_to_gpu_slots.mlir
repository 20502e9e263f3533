// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan{parallel=never},schedule-scan{target=sm_90 sizes="b=8,d=64,t=1"},lower-scan-to-gpu' | filecheck %s
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan{parallel=never},schedule-scan{target=cpu sizes="b=8,d=64,t=1"},lower-scan-to-cpu' | filecheck %s --check-prefix CPU
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=sm_90 strategy=lanes}' 2>&1 | filecheck %s --check-prefix LANES
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=sm_90 strategy=blelloch}' 2>&1 | filecheck %s --check-prefix BLELLOCH

// One step on states in the slots of a pool: h is advanced in place, m starts from a copy by row and is rounded to bf16.

// The slots follow the starts. Pool and rows have strides of their own; the one step is no parameter's business.

// CHECK:      scan.recipe = {{.*}}{name = "h", role = "init", {{.*}}{name = "m", role = "init", axes = ["b"], dtype = "bf16", {{.*}}{name = "slots", role = "slots", axes = ["b"], dtype = "i32", {{.*}}{name = "x", role = "input"
// CHECK-SAME:   {name = "h", role = "last", {{.*}}{name = "m", role = "last", axes = ["b"], dtype = "bf16"

// CHECK:      gpu.func @pooled(%[[H:[^ ]*]]: !llvm.ptr<1>, %[[COPY:[^ ]*]]: !llvm.ptr<1>, %[[SLOTS:[^ ]*]]: !llvm.ptr<1>,
// CHECK-DAG:    %[[MINUS:.*]] = arith.constant -1 : i32
// CHECK-DAG:    %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:        %[[SLOT:.*]] = llvm.load {{.*}} : !llvm.ptr<1> -> i32
// CHECK-NEXT:   %[[TAKEN:.*]] = arith.cmpi slt, %[[MINUS]], %[[SLOT]] : i32
// CHECK-NEXT:   %[[PLACE:.*]] = arith.extsi %[[SLOT]] : i32 to i64
// A pool at the slot, a copy at the row.
// CHECK-NEXT:   %[[AT:.*]] = arith.muli %[[PLACE]], %stride_0_b : i64
// CHECK:        %[[OLD:.*]] = llvm.getelementptr %[[H]][
// CHECK:        arith.muli %[[ROW:.*]], %stride_1_b : i64
// CHECK:        arith.muli %[[ROW]], %stride_2_b : i64
// CHECK:        arith.muli %[[PLACE]], %stride_5_b : i64
// CHECK:        arith.muli %[[PLACE]], %stride_6_b : i64
// Nothing of a pool is read or written by a row without a slot, which stores 0.
// CHECK-NOT:    llvm.load
// CHECK-NOT:    llvm.store
// CHECK:        scf.if %[[TAKEN]] {
// CHECK-NEXT:     %[[START:.*]] = llvm.load %[[OLD]] {{.*}} : !llvm.ptr<1> -> f32
// CHECK:          arith.extf %{{.*}} : bf16 to f32
// CHECK:          arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT:     llvm.store {{.*}} : bf16, !llvm.ptr<1>
// CHECK:        } else {
// CHECK:          llvm.store %[[ZERO]], {{.*}} : f32, !llvm.ptr<1>
// CHECK-NOT:      llvm.store
// CHECK:        gpu.return

// Vectors run along d, not along the rows that have slots. In place every row is walked once: a tail by itself.

// CPU:      rows = ["b"], tiled = "d", tile = [[WIDTH:[0-9]+]] : i64
// CPU:      func.func @pooled(
// CPU:        scf.for
// CPU:          %[[FIRST:.*]] = arith.muli %{{.*}}, %[[WIDTH_OF_ONE:.*]] : i64
// CPU-NEXT:     %[[LAST:.*]] = arith.subi %size_d, %[[WIDTH_OF_ONE]] : i64
// CPU-NEXT:     %[[SHORT:.*]] = arith.cmpi slt, %[[LAST]], %[[FIRST]] : i64
// CPU-NEXT:     scf.if %[[SHORT]] {
// CPU-NEXT:       scf.for %{{.*}} = %[[FIRST]] to %size_d
// CPU:              scf.if
// CPU:              } else {
// CPU:                llvm.store %{{.*}}, %{{.*}} : f32, !llvm.ptr
// CPU:          } else {
// CPU:            arith.truncf
// CPU:            vector.broadcast

// LANES:    strategy="lanes" has no rows without a slot: states in slots are walked serially
// BLELLOCH: strategy="blelloch" has no rows without a slot

func.func @pooled(%h: tensor<?x?xf32>, %copy: tensor<?xbf16>, %xs: tensor<?x?x1xf32>, %slots: tensor<?xi32>, %m: tensor<?xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?xf32>, tensor<?xbf16>) {
  %y, %last_h, %last_m = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %h[@b, d] : tensor<?x?xf32>, m[b] = %copy[b] : tensor<?xbf16>)
    inputs(x = %xs[b, d, t] : tensor<?x?x1xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(y[b, d, t] : tensor<?x?x1xf32>, last h[@b, d] into %h : tensor<?x?xf32>, last m[@b] into %m : tensor<?xbf16>)
  {
  ^bb0(%old: f32, %count: f32, %x: f32):
    %new = arith.addf %old, %x : f32
    %one = arith.constant 1.0 : f32
    %more = arith.addf %count, %one : f32
    %sum = arith.addf %new, %count : f32
    recurrence.yield states(%new : f32, %more : f32) outputs(%sum : f32)
  }
  return %y, %last_h, %last_m : tensor<?x?x1xf32>, tensor<?x?xf32>, tensor<?xbf16>
}
