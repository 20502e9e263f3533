// RUN: scanweaver-opt %s -p convert-recurrence-to-scan,schedule-scan | filecheck %s
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{strategy=serial}' | filecheck %s --check-prefix SERIAL
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{sizes="r=16,t=65536,b=1,d=256"}' | filecheck %s --check-prefix FEW
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=sm_80 sizes="r=16384,t=1"}' | filecheck %s --check-prefix ONE
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=cpu}' | filecheck %s --check-prefix CPU
// RUN: scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=cpu sizes="r=1"}' | filecheck %s --check-prefix ROW

// A schedule is an attribute of the scan; nothing else changes. `lanes` and `warps` take consecutive stretches of one
// row's time, `row_lanes` and `row_warps` neighbouring rows; both 1 across time is the serial walk.

// Steps contiguous: the lanes of a warp across time, 16 bytes each. Few long rows: more warps of a block across time as
// well. A single step: nothing to share out. On the CPU a vector of rows, a few steps at a time.

// CHECK-LABEL:  func.func @steps
// CHECK:          schedule #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 4, steps = 4>
// CHECK-NEXT:   prelude
// SERIAL-LABEL: func.func @steps
// SERIAL:         lanes = 1, warps = 1, row_lanes = 32, row_warps = {{[124]}}, steps = 4>
// FEW-LABEL:    func.func @steps
// FEW:            lanes = 32, warps = 8, row_lanes = 1, row_warps = 1, steps = 4>
// ONE-LABEL:    func.func @steps
// ONE:            target = "sm_80", order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 32,
// CPU-LABEL:    func.func @steps
// CPU:            target = "cpu", order = [], vector = "r", lanes = 1, warps = 1, row_lanes = {{4|8|16}}, row_warps = 1, steps = {{4|8}}>
// ROW-LABEL:    func.func @steps
// ROW:            target = "cpu", order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 1, row_warps = 1,
func.func @steps(%as: tensor<?x?xf32>, %xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(a = %as[r, t] : tensor<?x?xf32>, x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    layouts("" 4, "t" 16, "t" 16, "t" 16)
  {
  ^bb0(%h: f32, %a: f32, %x: f32):
    %kept = arith.mulf %a, %h : f32
    %new = arith.addf %kept, %x : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}

// Channels contiguous, so that the lanes of a warp take neighbouring channels: they are the innermost rows, whatever the
// order in which the axes were named. Rows enough: one lane walks each. Few rows: warps across time.

// CHECK-LABEL:  func.func @channels
// CHECK:          order = [b, d], vector = "", lanes = 1, warps = 1, row_lanes = 32, row_warps = 4, steps = 8>
// SERIAL-LABEL: func.func @channels
// SERIAL:         order = [b, d], vector = "", lanes = 1, warps = 1, row_lanes = 32, row_warps = 4, steps = 8>
// FEW-LABEL:    func.func @channels
// FEW:            order = [b, d], vector = "", lanes = 1, warps = 8, row_lanes = 32, row_warps = 1, steps = 8>
// CPU-LABEL:    func.func @channels
// CPU:            order = [b], vector = "d", lanes = 1, warps = 1, row_lanes = {{16|32|64}}, row_warps = 1, steps = 4>
func.func @channels(%gs: tensor<?xbf16>, %xs: tensor<?x?x?xbf16>) -> tensor<?x?x?xbf16> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [d: parallel, b: parallel, t: time]
    states(h[b, d] = %zero[] : f32)
    inputs(g = %gs[d] : tensor<?xbf16>, x = %xs[b, t, d] : tensor<?x?x?xbf16>)
    results(y[b, t, d] : tensor<?x?x?xbf16>)
    layouts("" 4, "d" 16, "d" 16, "d" 16)
  {
  ^bb0(%h: f32, %g: bf16, %x: bf16):
    %gf = arith.extf %g : bf16 to f32
    %xf = arith.extf %x : bf16 to f32
    %kept = arith.mulf %gf, %h : f32
    %new = arith.addf %kept, %xf : f32
    %out = arith.truncf %new : f32 to bf16
    recurrence.yield states(%new : f32) outputs(%out : bf16)
  }
  return %y : tensor<?x?x?xbf16>
}

// What was refused is walked in time order; what reduces over its own states, one step at a time.

// CHECK-LABEL:  func.func @refused
// CHECK:          lanes = 1, warps = 1, row_lanes = 32, row_warps = {{[124]}}, steps = 4>
// CHECK-LABEL:  func.func @mixed
// CHECK:          lanes = 1, warps = 1, row_lanes = 32, row_warps = {{[124]}}, steps = 1>
// CPU-LABEL:    func.func @mixed
// CPU:            vector = "r", {{.*}} steps = 1>
// With one row, vectors run along its states.
// ROW-LABEL:    func.func @mixed
// ROW:            order = [r], vector = "n", lanes = 1, warps = 1, row_lanes = 4, row_warps = 1, steps = 1>
func.func @refused(%xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    layouts("" 4, "t" 16, "t" 16)
  {
  ^bb0(%h: f32, %x: f32):
    %sum = arith.addf %h, %x : f32
    %new = math.tanh %sum : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}

func.func @mixed(%xs: tensor<?x4x?xf32>) -> tensor<?x4x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %zero[] : f32)
    inputs(x = %xs[r, n, t] : tensor<?x4x?xf32>)
    results(y[r, n, t] : tensor<?x4x?xf32>)
    layouts("" 4, "t" 16, "t" 16)
  {
  ^bb0(%h: f32, %x: f32):
    %sum = recurrence.reduce add %h over [n] : f32
    %new = arith.subf %x, %sum : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x4x?xf32>
}
