// RUN: scanweaver-opt %s -p regroup-products | filecheck %s
// RUN: scanweaver-opt %s -p regroup-products,regroup-products | filecheck %s

// dt and u first: b has the axis n as well. A product that something else reads is a factor of its own; where nothing is
// gained, the order stays. The line of the user's program stays with the product.

// CHECK-LABEL: func.func @products
// CHECK:         ^bb0(%h: f32, %dt: f32, %u: f32, %b: f32):
// CHECK-NEXT:      %two = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      %[[DTU:.*]] = arith.mulf %dt, %u {recurrence.source = "a.py:1"} : f32
// CHECK-NEXT:      %x = arith.mulf %[[DTU]], %b {recurrence.source = "a.py:1"} : f32
// CHECK-NEXT:      %read = arith.mulf %dt, %b : f32
// CHECK-NEXT:      %a = arith.mulf %read, %u : f32
// CHECK-NEXT:      %half = arith.mulf %two, %u : f32
// CHECK-NEXT:      %same = arith.mulf %half, %dt : f32
// CHECK-NEXT:      %[[HB:.*]] = arith.mulf %h, %b : f32
// CHECK-NEXT:      %[[UDT:.*]] = arith.mulf %u, %dt : f32
// CHECK-NEXT:      %long = arith.mulf %[[HB]], %[[UDT]] : f32
// CHECK-NEXT:      %sum = arith.addf %x, %read : f32
func.func @products(%dts: tensor<?x?xf32>, %us: tensor<?x?xf32>, %bs: tensor<8x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [d: parallel, n: state, t: time]
    states(h[d, n] = %zero[] : f32)
    inputs(dt = %dts[d, t] : tensor<?x?xf32>, u = %us[d, t] : tensor<?x?xf32>, b = %bs[n, t] : tensor<8x?xf32>)
    results(y[d, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %dt: f32, %u: f32, %b: f32):
    %two = arith.constant 2.0 : f32
    %dtb = arith.mulf %dt, %b {recurrence.source = "a.py:1"} : f32
    %x = arith.mulf %dtb, %u {recurrence.source = "a.py:1"} : f32
    %read = arith.mulf %dt, %b : f32
    %a = arith.mulf %read, %u : f32
    %half = arith.mulf %two, %u : f32
    %same = arith.mulf %half, %dt : f32
    %hb = arith.mulf %h, %b : f32
    %hbu = arith.mulf %hb, %u : f32
    %long = arith.mulf %hbu, %dt : f32
    %sum = arith.addf %x, %read : f32
    %sum2 = arith.addf %sum, %a : f32
    %sum3 = arith.addf %sum2, %same : f32
    %new = arith.addf %sum3, %long : f32
    %out = recurrence.reduce add %new over [n] : f32
    recurrence.yield states(%new : f32) outputs(%out : f32)
  }
  return %y : tensor<?x?xf32>
}
