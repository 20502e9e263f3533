// RUN: scanweaver-opt %s -p fuse-multiply-add | filecheck %s

func.func @step(%xs: tensor<?xf32>, %as: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %y, %z = recurrence.generic forward [t: time]
    states(h[] = %zero[] : f32)
    inputs(x = %xs[t] : tensor<?xf32>, a = %as[t] : tensor<?xf32>)
    results(y[t] : tensor<?xf32>, z[t] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x: f32, %a: f32):
    %ah = arith.mulf %a, %h : f32
    %new = arith.addf %ah, %x {recurrence.source = "step.py:3: h = a * h + x"} : f32
    %xx = arith.mulf %x, %x : f32
    %aa = arith.mulf %a, %a : f32
    %both = arith.addf %xx, %aa : f32
    %p = arith.mulf %x, %new : f32
    %q = arith.subf %p, %a : f32
    %r = arith.mulf %x, %a : f32
    %s = arith.subf %q, %r : f32
    %twice = arith.mulf %x, %h : f32
    %one = arith.addf %twice, %s : f32
    %two = arith.addf %twice, %both : f32
    recurrence.yield states(%new : f32) outputs(%one : f32, %two : f32)
  }
  return %y, %z : tensor<?xf32>, tensor<?xf32>
}

// CHECK:        ^bb0(%h: f32, %x: f32, %a: f32):
// CHECK-NEXT:     %new = math.fma %a, %h, %x {recurrence.source = "step.py:3: h = a * h + x"} : f32

// Of two products the first is fused, the other is its summand.
// CHECK-NEXT:     %aa = arith.mulf %a, %a : f32
// CHECK-NEXT:     %both = math.fma %x, %x, %aa : f32

// A difference changes a sign, which rounds nothing.
// CHECK-NEXT:     %[[MA:.*]] = arith.negf %a : f32
// CHECK-NEXT:     %[[Q:.*]] = math.fma %x, %new, %[[MA]] : f32
// CHECK-NEXT:     %[[MX:.*]] = arith.negf %x : f32
// CHECK-NEXT:     %[[S:.*]] = math.fma %[[MX]], %a, %[[Q]] : f32

// A product that is read twice stays.
// CHECK-NEXT:     %twice = arith.mulf %x, %h : f32
// CHECK-NEXT:     %one = arith.addf %twice, %[[S]] : f32
// CHECK-NEXT:     %two = arith.addf %twice, %both : f32
