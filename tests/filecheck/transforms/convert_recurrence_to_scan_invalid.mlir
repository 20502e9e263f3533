// RUN: not scanweaver-opt %s -p "convert-recurrence-to-scan{parallel=require}" 2>&1 | filecheck %s --check-prefix REQUIRE
// RUN: not scanweaver-opt %s -p "convert-recurrence-to-scan{parallel=always}" 2>&1 | filecheck %s --check-prefix OPTION

// REQUIRE: state 'h' not proved associative: arith.mulf multiplies two values that depend on state 'h' (model.py:3: h * h)
// OPTION:  parallel is one of auto, require, never, got always
func.func @f(%xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %square = arith.mulf %h, %h {recurrence.source = "model.py:3: h * h"} : f32
    %new = arith.addf %square, %x : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}
