// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// The iteration space.

// CHECK: Operation does not verify: axes must have different names, got t, t{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t", "t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: 1 axes need as many iterator types, got 2{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>, #recurrence<iterator parallel>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: exactly one axis is time, got 0{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: parallel]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: exactly one axis is time, got 2{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: time, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: expected 1 state names, got 2{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h", "g"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 1 init maps, got 0{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 2 inits, got 1{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h", "g"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 1 input names, got 0{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = [], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 1 input maps, got 0{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 0 output names, got 1{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = ["y"],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 1 results, got 0{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: expected 1 result maps, got 0{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  %y = "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> f32
  return
}

// -----

// CHECK: Operation does not verify: a recurrence has at least one state{{$}}
func.func @f(%x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states()
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%x_t: f32):
    recurrence.yield states() outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: `last` names states 0 to 0, got [1]{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  %y = "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [affine_map<(d0) -> ()>],
    output_kinds = [], last = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> tensor<f32>
  return
}

// -----

// Maps.

// CHECK: Operation does not verify: state map #0 must be over the 1 axes, got (d0, d1) -> (){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0, d1) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: input map #0 must be over the 1 axes, got (d0)[s0] -> (d0){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0)[s0] -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: input map #0 must name axes only, got (d0) -> ((d0 + 1)){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0 + 1)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// An input is not sampled.

// CHECK: Operation does not verify: input map #0 must name axes only, got (d0) -> ((d0 floordiv 2)){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0 floordiv 2)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: init map #0 must name axes only, got (d0) -> (0){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> (0)>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> ()
  return
}

// -----

// Only a sampled result is.

// CHECK: Operation does not verify: result map #0 must name axes only, got (d0) -> ((d0 floordiv 2)){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  %y = "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = ["y"],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [affine_map<(d0) -> (d0 floordiv 2)>],
    output_kinds = [#recurrence<result step>], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// CHECK: Operation does not verify: result map #0 must name axes only, got (d0) -> ((d0 mod 2)){{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  %y = "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = ["y"],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [affine_map<(d0) -> (d0 mod 2)>],
    output_kinds = [#recurrence<result sampled>], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

// CHECK: Operation does not verify: input map #0 names an axis twice: (d0, d1) -> (d1, d1){{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[t, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: state map #0 carries time axis 't'; a state has no time{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[t] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: init map #0 has axis 'r' that its state lacks{{$}}
func.func @f(%f: tensor<?xf32>, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[] = %f[r] : tensor<?xf32>)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: at least one input must carry time axis 't'{{$}}
func.func @f(%f: f32, %x: tensor<?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r] : tensor<?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result map #0 is stored by step and must carry time axis 't'{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result map #0 is stored by step and must carry time axis 't'{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(sampled 4 y[r] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result map #0 is the last value of state #0 and must have its axes{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(last h[] : tensor<f32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs()
  }
  return
}

// -----

// Operands and results.

// CHECK: Operation does not verify: input #0 must be a tensor, a memref or a scalar, got vector<4xf32>{{$}}
func.func @f(%f: f32, %x: vector<4xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[t] : vector<4xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result #0 must be a tensor, a memref or a scalar, got f32{{$}}
func.func @f(%h: f32, %x: tensor<?xf32>) {
  %y = "recurrence.generic"(%h, %x) <{
    axes = ["t"], iterator_types = [#recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0) -> ()>], init_maps = [affine_map<(d0) -> ()>], input_maps = [affine_map<(d0) -> (d0)>], result_maps = [affine_map<(d0) -> ()>],
    output_kinds = [], last = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (f32, tensor<?xf32>) -> f32
  return
}

// -----

// CHECK: Operation does not verify: init #0 is a scalar and its map must be empty{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[r] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: input #0 has 2 dimensions and its map has 1: tensor<?x?xf32>{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: axis 'r' has sizes 3 and 4 (input #0){{$}}
func.func @f(%f: tensor<3xf32>, %x: tensor<4x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[r] : tensor<3xf32>)
    inputs(x = %x[r, t] : tensor<4x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: axis 't' has sizes 8 and 4 (result #0){{$}}
func.func @f(%f: f32, %x: tensor<?x8xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x8xf32>)
    results(y[r, t] : tensor<?x4xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: layouts, where given, are one per init, input and result{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    layouts("t" 16)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: offsets are a tensor or memref of one dimension{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>, %o: tensor<?x?xi32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    offsets(%o : tensor<?x?xi32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// The body.

// CHECK: Operation does not verify: the body takes 1 states and 1 inputs' elements, got 1 arguments{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32):
    recurrence.yield states(%h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: body argument #1 is input 'x' and must be f32, got f64{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f64):
    recurrence.yield states(%h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the body ends in recurrence.yield{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    scan.yield %h : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: the body is straight-line, got scf.if with regions{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %ok = arith.cmpf ogt, %h, %x_t : f32
    scf.if %ok {
    }
    recurrence.yield states(%h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a step yields 1 states and 1 outputs, got 1 and 0{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: a step yields 1 states and 1 outputs, got 2 and 1{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32, %h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded state #0 ('h') must be f32, got i1{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %ok = arith.cmpf ogt, %h, %x_t : f32
    recurrence.yield states(%ok : i1) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded output #0 ('y') must be bf16, got f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xbf16>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result #0 is the last 'h' and must hold f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(last h[r] : tensor<?xi32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs()
  }
  return
}

// -----

// A value that keeps an axis it should lose.

// CHECK: Operation does not verify: yielded state #0 ('h') keeps axis 'r': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %new = arith.addf %h, %x_t : f32
    recurrence.yield states(%new : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded output #0 ('y') keeps axis 'r': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[t] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded output #0 ('y') keeps axis 'r': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(sampled 2 y[t] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded output #0 ('y') keeps axis 'n': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %other = arith.addf %x_t, %h : f32
    recurrence.yield states(%h : f32) outputs(%other : f32)
  }
  return
}

// -----

// Reduce, rename, take.

// CHECK: Operation does not verify: recurrence.reduce names axis 'q', the axes are r, n, t{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %x_t over [q] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.reduce is over axis 'r' that its value does not have{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %x_t over [r] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.reduce is over axis 'r', which is parallel and not `state`{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %h over [r] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.reduce is over axis 't', which is time and not `state`{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce max %x_t over [t] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// It is gone after the first.

// CHECK: Operation does not verify: recurrence.reduce is over axis 'n' that its value does not have{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %x_t over [n] : f32
    %again = recurrence.reduce add %s over [n] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: reduce is over one or more different axes{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %x_t over [] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: reduce is over one or more different axes{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce add %x_t over [n, n] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: argmax is over one axis{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, m: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.reduce argmax %x_t over [n, m] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: reduce argmin of f32 gives i64{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = "recurrence.reduce"(%x_t) <{kind = #recurrence<reduce_kind argmin>, axes = ["n"]}> : (f32) -> f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: reduce add of f32 gives f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = "recurrence.reduce"(%x_t) <{kind = #recurrence<reduce_kind add>, axes = ["n"]}> : (f32) -> f64
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: rename is to another axis{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.rename %x_t [n to n] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: rename keeps the type{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, m: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = "recurrence.rename"(%x_t) <{source = "n", target = "m"}> : (f32) -> f64
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.rename to 'r', which is not a `state` axis{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.rename %x_t [n to r] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.rename to 'm', an axis that its value has already{{$}}
func.func @f(%f: f32, %x: tensor<?x?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, m: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, m, t] : tensor<?x?x?xf32>)
    results(y[n, m, t] : tensor<?x?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.rename %x_t [n to m] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.rename is over axis 'r', which is parallel and not `state`{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %s = recurrence.rename %h [r to n] : f32
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: take keeps the type{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %i = arith.constant 0 : i64
    %s = "recurrence.take"(%x_t, %i) <{axis = "n"}> : (f32, i64) -> f64
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.take is over axis 'n' that its value does not have{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %i = arith.constant 0 : i64
    %s = recurrence.take %h at %i of n : f32, i64
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.take is over axis 'r', which is parallel and not `state`{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xf32>)
    results(y[n, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    %i = arith.constant 0 : i64
    %s = recurrence.take %h at %i of r : f32, i64
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// Text.

// CHECK: axis 'r' stands twice
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, r: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: unknown axis 'q', the axes are r, t
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, q] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: unknown state 'g', the states are h
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(last g[r] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: outputs come before last states
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y:2 = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(last h[r] : tensor<?xf32>, y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// An init holds what its state is computed in; a floating one may be of another width.

// CHECK-NOT: does not verify
// CHECK-LABEL: func.func @wider
func.func @wider(%f: f64, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f64)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: init #0 is of state 'h' of f32, got i32{{$}}
func.func @f(%i: i32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %i[] : i32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: init #0 is of state 'n' of i64, got i32{{$}}
func.func @f(%i: tensor<?xi32>, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(n[r] = %i[r] : tensor<?xi32>)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%n: i64, %x_t: f32):
    recurrence.yield states(%n : i64) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: offsets are i32 or i64, got f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>, %o: tensor<?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    offsets(%o : tensor<?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.rename [n to m]: the axes have sizes 4 and 5{{$}}
func.func @f(%f: f32, %x: tensor<4x?xf32>, %w: tensor<5xf32>) {
  %y = recurrence.generic forward [n: state, m: state, t: time]
    states(h[n] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<4x?xf32>, w = %w[m] : tensor<5xf32>)
    results(y[m, t] : tensor<5x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32, %w_m: f32):
    %z = recurrence.rename %x_t [n to m] : f32
    recurrence.yield states(%h : f32) outputs(%z : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: layout #1 is along axis 'r' that 'x' does not have{{$}}
func.func @f(%f: f32, %x: tensor<?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[t] : tensor<?xf32>)
    results(last h[r] : tensor<?xf32>)
    layouts("" 4, "r" 4, "" 4)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: layout #2 is along axis 'q' that 'y' does not have{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    layouts("" 4, "t" 4, "q" 4)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: a layout is aligned to 1 byte or more, got 0
func.func private @f() attributes {layout = #recurrence.layout<"t", 0>}

// -----

// CHECK: Operation does not verify: reduce of i1 has no one meaning: extend it to a wider integer first{{$}}
func.func @f(%f: f32, %x: tensor<?x?xi1>) {
  %y = recurrence.generic forward [n: state, t: time]
    states(h[n] = %f[] : f32)
    inputs(x = %x[n, t] : tensor<?x?xi1>)
    results(y[t] : tensor<?xi1>)
  {
  ^bb0(%h: f32, %x_t: i1):
    %any = recurrence.reduce max %x_t over [n] : i1
    recurrence.yield states(%h : f32) outputs(%any : i1)
  }
  return
}

// -----

// CHECK: Operation does not verify: result map #0 is sampled: every K-th step with K > 1{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(sampled 1 y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: result #0 has every 3-th of 10 steps: 4, got 3{{$}}
func.func @f(%f: f32, %x: tensor<?x10xf32>) {
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x10xf32>)
    results(sampled 3 y[r, t] : tensor<?x3xf32>)
  {
  ^bb0(%h: f32, %x_t: f32):
    recurrence.yield states(%h : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// Slots and destinations.

// CHECK: '@b' needs slots of that axis
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>) {
  %h = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %pool[@b] : tensor<?xf32>)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    results(last h[b] : tensor<?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%x_t : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: init map #0 has slots, and the operation none{{$}}
func.func @f(%h: tensor<?xf32>, %x: tensor<?xf32>) {
  "recurrence.generic"(%h, %x) <{
    axes = ["b", "t"], iterator_types = [#recurrence<iterator parallel>, #recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0, d1) -> (d0)>], init_maps = [affine_map<(d0, d1)[s0] -> (s0)>], input_maps = [affine_map<(d0, d1) -> (d1)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (tensor<?xf32>, tensor<?xf32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: slots and slot_axis stand together{{$}}
func.func @f(%h: tensor<?xf32>, %x: tensor<?xf32>, %slots: tensor<?xi32>) {
  "recurrence.generic"(%h, %x, %slots) <{
    axes = ["b", "t"], iterator_types = [#recurrence<iterator parallel>, #recurrence<iterator time>], direction = #recurrence<direction forward>,
    state_names = ["h"], input_names = ["x"], output_names = [],
    state_maps = [affine_map<(d0, d1) -> (d0)>], init_maps = [affine_map<(d0, d1) -> (d0)>], input_maps = [affine_map<(d0, d1) -> (d1)>], result_maps = [],
    output_kinds = [], last = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>
  }> ({
  ^bb0(%s: f32, %e: f32):
    "recurrence.yield"(%s) <{operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> ()
  }) : (tensor<?xf32>, tensor<?xf32>, tensor<?xi32>) -> ()
  return
}

// -----

// CHECK: Operation does not verify: slots are along a parallel axis, got 't'{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[t] : tensor<?xi32>)
    results(last h[b, d] : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: slots are a tensor or memref of one dimension{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?x?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?x?xi32>)
    results(last h[@b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: slots are i32 or i64, got i16{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi16>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?xi16>)
    results(last h[@b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: input map #0 has rows: only inits and last states have slots{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %x[@b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(last h[@b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: state map #0 lacks axis 'b': a row without a slot has none of it{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>, %h0: tensor<?xf32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[d] = %h0[d] : tensor<?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(last h[d] : tensor<?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: output map #0 lacks axis 'b': a row without a slot has none of it{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>, %z: tensor<?xf32>) {
  %y, %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %z[t] : tensor<?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(y[t] : tensor<?xf32>, last h[@b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs(%x_t : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: last state #0 is by row: a row without a slot leaves none{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(last h[b, d] : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: a last state that has slots goes into a pool{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(last h[@b, d] : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: axis 'b' has sizes 4 and 3 (slots #0){{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<3xi32>, %z: tensor<4x?xf32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[@b, d] : tensor<?x?xf32>)
    inputs(x = %z[b, t] : tensor<4x?xf32>)
    slots(%slots[b] : tensor<3xi32>)
    results(last h[@b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: state 'h' is advanced in place: its init and last maps must be one{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, t: time]
    states(h[b, d] = %pool[b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, d, t] : tensor<?x?x?xf32>)
    results(last h[d, b] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: state 'h' is advanced in place and lacks axis 'r': all rows along it would read what one of them writes{{$}}
func.func @f(%pool: tensor<?x?xf32>, %x: tensor<?x?x?xf32>, %slots: tensor<?xi32>) {
  %h = recurrence.generic forward [b: parallel, d: parallel, r: parallel, t: time]
    states(h[b, d] = %pool[b, d] : tensor<?x?xf32>)
    inputs(x = %x[b, r, t] : tensor<?x?x?xf32>)
    results(last h[b, d] into %pool : tensor<?x?xf32>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%s : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: expected 2 destinations, got 1{{$}}
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>) {
  %h, %k = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %pool[b] : tensor<?xf32>, k[b] = %pool[b] : tensor<?xf32>)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    results(last h[b] into %pool : tensor<?xf32>, last k[b] : tensor<?xf32>)
  {
  ^bb0(%s: f32, %r: f32, %x_t: f32):
    recurrence.yield states(%x_t : f32, %x_t : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: two last states have one destination{{$}}
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %h, %k = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %zero[] : f32, k[b] = %zero[] : f32)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    results(last h[b] into %pool : tensor<?xf32>, last k[b] into %pool : tensor<?xf32>)
  {
  ^bb0(%s: f32, %r: f32, %x_t: f32):
    recurrence.yield states(%x_t : f32, %x_t : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: the destination of last 'h' is an operand of something else too{{$}}
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %h = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %zero[] : f32, k[b] = %pool[b] : tensor<?xf32>)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    results(last h[b] into %pool : tensor<?xf32>)
  {
  ^bb0(%s: f32, %r: f32, %x_t: f32):
    recurrence.yield states(%x_t : f32, %r : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: result #0 is the last 'h' and must hold f32{{$}}
func.func @f(%pool: tensor<?xi64>, %x: tensor<?x?xf32>) {
  %zero = arith.constant 0.0 : f32
  %h = recurrence.generic forward [b: parallel, t: time]
    states(h[b] = %zero[] : f32)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    results(last h[b] into %pool : tensor<?xi64>)
  {
  ^bb0(%s: f32, %x_t: f32):
    recurrence.yield states(%x_t : f32) outputs()
  }
  return
}
