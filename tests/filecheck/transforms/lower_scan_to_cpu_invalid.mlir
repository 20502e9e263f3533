// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics -p 'convert-recurrence-to-scan,schedule-scan{target=cpu},lower-scan-to-cpu' | filecheck %s
// RUN: not scanweaver-opt %s --split-input-file -p 'convert-recurrence-to-scan,lower-scan-to-cpu' 2>&1 | filecheck %s --check-prefix UNSCHEDULED

// UNSCHEDULED: scan.generic has no schedule: run schedule-scan first

// CHECK: output 'y' is sampled; only outputs at every step are lowered yet{{$}}
func.func @f(%xs: tensor<?x4x?xf32>) -> tensor<?x?xf32> {
  %start = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %start[] : f32)
    inputs(x = %xs[r, n, t] : tensor<?x4x?xf32>)
    results(sampled 4 y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    %sum = recurrence.reduce add %new over [n] : f32
    recurrence.yield states(%new : f32) outputs(%sum : f32)
  }
  return %y : tensor<?x?xf32>
}

// -----

// CHECK: output 'y' is reduced; only outputs at every step are lowered yet{{$}}
func.func @f(%xs: tensor<?x4x?xf32>) -> tensor<?xf32> {
  %start = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %start[] : f32)
    inputs(x = %xs[r, n, t] : tensor<?x4x?xf32>)
    results(reduced y[t] : tensor<?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    %sum = recurrence.reduce add %new over [n] : f32
    recurrence.yield states(%new : f32) outputs(%sum : f32)
  }
  return %y : tensor<?xf32>
}

// -----

// CHECK: packed sequences (offsets) are not lowered yet{{$}}
func.func @f(%xs: tensor<?x4x?xf32>, %offsets: tensor<?xi32>) -> tensor<?x?xf32> {
  %start = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %start[] : f32)
    inputs(x = %xs[r, n, t] : tensor<?x4x?xf32>)
    offsets(%offsets : tensor<?xi32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    %sum = recurrence.reduce add %new over [n] : f32
    recurrence.yield states(%new : f32) outputs(%sum : f32)
  }
  return %y : tensor<?x?xf32>
}

// -----

// CHECK: the function holds math.exp beside scan.generic; a kernel is made of one{{$}}
func.func @f(%xs: tensor<?x4x?xf32>, %g: f32) -> tensor<?x?xf32> {
  %start = math.exp %g : f32
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %start[] : f32)
    inputs(x = %xs[r, n, t] : tensor<?x4x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %new = arith.addf %h, %x : f32
    %sum = recurrence.reduce add %new over [n] : f32
    recurrence.yield states(%new : f32) outputs(%sum : f32)
  }
  return %y : tensor<?x?xf32>
}
