// RUN: scanweaver-opt %s | scanweaver-opt -f mlir | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | scanweaver-opt -f mlir | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// One state, its start a number.

// CHECK-LABEL: func.func @affine
// CHECK:         %y = recurrence.generic forward [r: parallel, t: time]
// CHECK-NEXT:      states(h[r] = %zero[] : f32)
// CHECK-NEXT:      inputs(a = %a[r, t] : tensor<?x?xf32>, b = %b[r, t] : tensor<?x?xf32>)
// CHECK-NEXT:      results(y[r, t] : tensor<?x?xf32>)
// CHECK-NEXT:    {
// CHECK-NEXT:    ^bb0(%h: f32, %a_t: f32, %b_t: f32):
// CHECK-NEXT:      %ah = arith.mulf %a_t, %h : f32
// CHECK-NEXT:      %new = arith.addf %ah, %b_t : f32
// CHECK-NEXT:      recurrence.yield states(%new : f32) outputs(%new : f32)
// CHECK-NEXT:    }

// GENERIC-LABEL: "func.func"() <{sym_name = "affine"
// GENERIC:       %y = "recurrence.generic"(%zero, %a, %b) <{
// GENERIC-SAME:    axes = ["r", "t"], iterator_types = [#recurrence<iterator parallel>, #recurrence<iterator time>]
// GENERIC-SAME:    direction = #recurrence<direction forward>
// GENERIC-SAME:    state_names = ["h"], input_names = ["a", "b"], output_names = ["y"]
// GENERIC-SAME:    state_maps = [affine_map<(d0, d1) -> (d0)>]
// GENERIC-SAME:    init_maps = [affine_map<(d0, d1) -> ()>]
// GENERIC-SAME:    input_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// GENERIC-SAME:    result_maps = [affine_map<(d0, d1) -> (d0, d1)>]
// GENERIC-SAME:    output_kinds = [#recurrence<result step>]
// GENERIC-SAME:    last = array<i64>
// GENERIC-SAME:    operandSegmentSizes = array<i32: 1, 2, 0, 0, 0>
// GENERIC-SAME:  }> ({
// GENERIC-NEXT:  ^{{.*}}(%h: f32, %a_t: f32, %b_t: f32):
// GENERIC:         "recurrence.yield"(%new, %new) <{operandSegmentSizes = array<i32: 1, 1>}> : (f32, f32) -> ()
// GENERIC-NEXT:  }) : (f32, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
func.func @affine(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(a = %a[r, t] : tensor<?x?xf32>, b = %b[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %a_t: f32, %b_t: f32):
    %ah = arith.mulf %a_t, %h : f32
    %new = arith.addf %ah, %b_t : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}

// Every clause: several states, an init with fewer axes, scalar inputs, the four kinds of results, layouts.

// CHECK-LABEL: func.func @all
// CHECK:         %y, %saved, %dA, %count, %last_h, %last_k = recurrence.generic reverse [b: parallel, d: parallel, n: state, t: time]
// CHECK-NEXT:      states(h[b, d, n] = %h0[d, n] : tensor<?x16xf32>, k[b] = %k0[] : i32)
// CHECK-NEXT:      inputs(u = %u[b, d, t] : tensor<?x?x128xbf16>, A = %A[d, n] : tensor<?x16xf32>, g = %g[] : f32, open = %open[t] : tensor<128xi1>)
// CHECK-NEXT:      results(y[b, t, d] : tensor<?x128x?xbf16>, sampled 32 saved[b, d, t, n] : tensor<?x?x4x16xf32>, reduced dA[n, d] : tensor<16x?xf32>, reduced count[] : tensor<i32>, last h[n, b, d] : tensor<16x?x?xf32>, last k[b] : tensor<?xi32>)
// CHECK-NEXT:      layouts("n" 16, "" 4, "t" 16, "n" 4, "" 4, "t" 1, "d" 16, "n" 16, "d" 4, "" 4, "" 4, "b" 4)
// CHECK-NEXT:    {
// CHECK-NEXT:    ^bb0(%h: f32, %k: i32, %u_t: bf16, %a: f32, %g_1: f32, %ok: i1):
// CHECK:           %sum = recurrence.reduce add %new over [n] : f32
// CHECK:           recurrence.yield states(%new : f32, %k_1 : i32) outputs(%y_t : bf16, %h : f32, %da : f32, %one : i32)

// GENERIC-LABEL: "func.func"() <{sym_name = "all"
// GENERIC:       "recurrence.generic"(%h0, %k0, %u, %A, %g, %open) <{
// GENERIC-SAME:    iterator_types = [#recurrence<iterator parallel>, #recurrence<iterator parallel>, #recurrence<iterator state>, #recurrence<iterator time>]
// GENERIC-SAME:    direction = #recurrence<direction reverse>
// GENERIC-SAME:    init_maps = [affine_map<(d0, d1, d2, d3) -> (d1, d2)>, affine_map<(d0, d1, d2, d3) -> ()>]
// GENERIC-SAME:    result_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, (d3 floordiv 32), d2)>, affine_map<(d0, d1, d2, d3) -> (d2, d1)>, affine_map<(d0, d1, d2, d3) -> ()>, affine_map<(d0, d1, d2, d3) -> (d2, d0, d1)>, affine_map<(d0, d1, d2, d3) -> (d0)>]
// GENERIC-SAME:    output_kinds = [#recurrence<result step>, #recurrence<result sampled>, #recurrence<result reduced>, #recurrence<result reduced>]
// GENERIC-SAME:    last = array<i64: 0, 1>
// GENERIC-SAME:    layouts = [#recurrence.layout<"n", 16>, #recurrence.layout<"", 4>, #recurrence.layout<"t", 16>
// GENERIC:       %sum = "recurrence.reduce"(%new) <{kind = #recurrence<reduce_kind add>, axes = ["n"]}> : (f32) -> f32
func.func @all(%h0: tensor<?x16xf32>, %k0: i32, %u: tensor<?x?x128xbf16>, %A: tensor<?x16xf32>, %g: f32, %open: tensor<128xi1>)
    -> (tensor<?x128x?xbf16>, tensor<?x?x4x16xf32>, tensor<16x?xf32>, tensor<i32>, tensor<16x?x?xf32>, tensor<?xi32>) {
  %y, %saved, %dA, %count, %last_h, %last_k = recurrence.generic reverse [b: parallel, d: parallel, n: state, t: time]
    states(h[b, d, n] = %h0[d, n] : tensor<?x16xf32>, k[b] = %k0[] : i32)
    inputs(u = %u[b, d, t] : tensor<?x?x128xbf16>, A = %A[d, n] : tensor<?x16xf32>, g = %g[] : f32, open = %open[t] : tensor<128xi1>)
    results(y[b, t, d] : tensor<?x128x?xbf16>, sampled 32 saved[b, d, t, n] : tensor<?x?x4x16xf32>, reduced dA[n, d] : tensor<16x?xf32>, reduced count[] : tensor<i32>, last h[n, b, d] : tensor<16x?x?xf32>, last k[b] : tensor<?xi32>)
    layouts("n" 16, "" 4, "t" 16, "n" 4, "" 4, "t" 1, "d" 16, "n" 16, "d" 4, "" 4, "" 4, "b" 4)
  {
  ^bb0(%h: f32, %k: i32, %u_t: bf16, %a: f32, %g_1: f32, %ok: i1):
    %x = arith.extf %u_t : bf16 to f32
    %ah = arith.mulf %a, %h : f32
    %gx = arith.mulf %g_1, %x : f32
    %step = arith.addf %ah, %gx : f32
    %new = arith.select %ok, %step, %h : f32
    %sum = recurrence.reduce add %new over [n] : f32
    %y_t = arith.truncf %sum : f32 to bf16
    %da = arith.mulf %new, %x : f32
    %one = arith.extui %ok : i1 to i32
    %k_1 = arith.addi %k, %one : i32
    recurrence.yield states(%new : f32, %k_1 : i32) outputs(%y_t : bf16, %h : f32, %da : f32, %one : i32)
  }
  return %y, %saved, %dA, %count, %last_h, %last_k : tensor<?x128x?xbf16>, tensor<?x?x4x16xf32>, tensor<16x?xf32>, tensor<i32>, tensor<16x?x?xf32>, tensor<?xi32>
}

// Memory references, an offset of each packed sequence, the last state alone.

// CHECK-LABEL: func.func @packed
// CHECK:         %last = recurrence.generic forward [s: parallel, t: time]
// CHECK-NEXT:      states(h[s] = %h0[s] : memref<?xf64>)
// CHECK-NEXT:      inputs(x = %x[t] : memref<?xf64, strided<[?], offset: ?>>)
// CHECK-NEXT:      offsets(%offsets : memref<?xi32>)
// CHECK-NEXT:      results(last h[s] : memref<?xf64>)
// CHECK-NEXT:    {
// CHECK:           recurrence.yield states(%new : f64) outputs()
// CHECK-NEXT:    } attributes {note = "kept"}

// GENERIC-LABEL: "func.func"() <{sym_name = "packed"
// GENERIC:       "recurrence.generic"(%h0, %x, %offsets) <{
// GENERIC-SAME:    output_kinds = [], last = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>
func.func @packed(%h0: memref<?xf64>, %x: memref<?xf64, strided<[?], offset: ?>>, %offsets: memref<?xi32>) -> memref<?xf64> {
  %last = recurrence.generic forward [s: parallel, t: time]
    states(h[s] = %h0[s] : memref<?xf64>)
    inputs(x = %x[t] : memref<?xf64, strided<[?], offset: ?>>)
    offsets(%offsets : memref<?xi32>)
    results(last h[s] : memref<?xf64>)
  {
  ^bb0(%h: f64, %x_t: f64):
    %new = arith.addf %h, %x_t : f64
    recurrence.yield states(%new : f64) outputs()
  } attributes {note = "kept"}
  return %last : memref<?xf64>
}

// What a body holds besides arith and math; outputs may be named as the words that begin a result.

// CHECK-LABEL: func.func @mixing
// CHECK:         results(last[d, t] : tensor<4x?xf32>, sampled[t] : tensor<?xi64>, reduced[t] : tensor<?xf32>, last h[d] : tensor<4xf32>)
// CHECK:         %other = recurrence.rename %h [d to e] : f32
// CHECK-NEXT:    %product = arith.mulf %w, %other {noted} : f32
// CHECK-NEXT:    %dot = recurrence.reduce add %product over [e] {noted} : f32
// CHECK-NEXT:    %best = recurrence.reduce argmax %dot over [d] : f32
// CHECK-NEXT:    %worst = recurrence.reduce argmin %dot over [d] : f32
// CHECK-NEXT:    %high = recurrence.reduce max %product over [d, e] : f32
// CHECK-NEXT:    %low = recurrence.reduce min %product over [e, d] : f32
// CHECK-NEXT:    %first = recurrence.take %dot at %best of d : f32, i64
// CHECK-NEXT:    %at_i = recurrence.take %other at %i of e {noted} : f32, i32

// GENERIC-LABEL: "func.func"() <{sym_name = "mixing"
// GENERIC:       %other = "recurrence.rename"(%h) <{source = "d", target = "e"}> : (f32) -> f32
// GENERIC:       %best = "recurrence.reduce"(%dot) <{kind = #recurrence<reduce_kind argmax>, axes = ["d"]}> : (f32) -> i64
// GENERIC:       %high = "recurrence.reduce"(%product) <{kind = #recurrence<reduce_kind max>, axes = ["d", "e"]}> : (f32) -> f32
// GENERIC:       %first = "recurrence.take"(%dot, %best) <{axis = "d"}> : (f32, i64) -> f32
func.func @mixing(%h0: tensor<4xf32>, %W: tensor<4x4xf32>, %at: tensor<?xi32>) -> (tensor<4x?xf32>, tensor<?xi64>, tensor<?xf32>, tensor<4xf32>) {
  %l, %s, %r, %last = recurrence.generic forward [d: state, e: state, t: time]
    states(h[d] = %h0[d] : tensor<4xf32>)
    inputs(W = %W[d, e] : tensor<4x4xf32>, at = %at[t] : tensor<?xi32>)
    results(last[d, t] : tensor<4x?xf32>, sampled[t] : tensor<?xi64>, reduced[t] : tensor<?xf32>, last h[d] : tensor<4xf32>)
  {
  ^bb0(%h: f32, %w: f32, %i: i32):
    %other = recurrence.rename %h [d to e] : f32
    %product = arith.mulf %w, %other {noted} : f32
    %dot = recurrence.reduce add %product over [e] {noted} : f32
    %best = recurrence.reduce argmax %dot over [d] : f32
    %worst = recurrence.reduce argmin %dot over [d] : f32
    %high = recurrence.reduce max %product over [d, e] : f32
    %low = recurrence.reduce min %product over [e, d] : f32
    %first = recurrence.take %dot at %best of d : f32, i64
    %at_i = recurrence.take %other at %i of e {noted} : f32, i32
    recurrence.yield states(%dot : f32) outputs(%dot : f32, %worst : i64, %first : f32)
  }
  return %l, %s, %r, %last : tensor<4x?xf32>, tensor<?xi64>, tensor<?xf32>, tensor<4xf32>
}

// States in slots of a pool: one advanced in place, one that starts from a copy and is rounded when stored.

// CHECK-LABEL: func.func @pooled
// CHECK:         %y, %last_h, %last_m = recurrence.generic forward [b: parallel, d: parallel, t: time]
// CHECK-NEXT:      states(h[b, d] = %h[@b, d] : tensor<?x?xf32>, m[b] = %start[b] : tensor<?xbf16>)
// CHECK-NEXT:      inputs(x = %x[b, d, t] : tensor<?x?x1xf32>)
// CHECK-NEXT:      slots(%slots[b] : tensor<?xi32>)
// CHECK-NEXT:      results(y[b, d, t] : tensor<?x?x1xf32>, last h[@b, d] into %h : tensor<?x?xf32>, last m[@b] into %m : tensor<?xbf16>)
// CHECK-NEXT:    {

// GENERIC-LABEL: "func.func"() <{sym_name = "pooled"
// GENERIC:       "recurrence.generic"(%h, %start, %x, %slots, %h, %m) <{
// GENERIC-SAME:    init_maps = [affine_map<(d0, d1, d2)[s0] -> (s0, d1)>, affine_map<(d0, d1, d2) -> (d0)>]
// GENERIC-SAME:    result_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2)[s0] -> (s0, d1)>, affine_map<(d0, d1, d2)[s0] -> (s0)>]
// GENERIC-SAME:    slot_axis = "b", operandSegmentSizes = array<i32: 2, 1, 0, 1, 2>
func.func @pooled(%h: tensor<?x?xf32>, %start: tensor<?xbf16>, %x: tensor<?x?x1xf32>, %slots: tensor<?xi32>, %m: tensor<?xbf16>) -> (tensor<?x?x1xf32>, tensor<?x?xf32>, tensor<?xbf16>) {
  %y, %last_h, %last_m = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %h[@b, d] : tensor<?x?xf32>, m[b] = %start[b] : tensor<?xbf16>)
    inputs(x = %x[b, d, t] : tensor<?x?x1xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(y[b, d, t] : tensor<?x?x1xf32>, last h[@b, d] into %h : tensor<?x?xf32>, last m[@b] into %m : tensor<?xbf16>)
  {
  ^bb0(%old: f32, %count: f32, %x_t: f32):
    %new = arith.addf %old, %x_t : f32
    %y_t = arith.addf %new, %count : f32
    recurrence.yield states(%new : f32, %count : f32) outputs(%y_t : f32)
  }
  return %y, %last_h, %last_m : tensor<?x?x1xf32>, tensor<?x?xf32>, tensor<?xbf16>
}
