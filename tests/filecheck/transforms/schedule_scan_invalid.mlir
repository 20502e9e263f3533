// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{strategy=lanes}' 2>&1 | filecheck %s --check-prefix LANES
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{strategy=fast}' 2>&1 | filecheck %s --check-prefix STRATEGY
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=cpu strategy=lanes}' 2>&1 | filecheck %s --check-prefix CPU
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{sizes="r"}' 2>&1 | filecheck %s --check-prefix SIZES
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=h100}' 2>&1 | filecheck %s --check-prefix CHIP
// RUN: not scanweaver-opt %s -p 'convert-recurrence-to-scan,schedule-scan{target=sm_75}' 2>&1 | filecheck %s --check-prefix CHIP

// LANES:    strategy="lanes" needs an associative step, but math.tanh is not affine in state 'h'
// STRATEGY: strategy is one of auto, lanes, serial, blelloch, got 'fast'
// CPU:      strategy="lanes"
// CHIP:     target is cpu or a chip from sm_80 on, such as sm_90, got '{{h100|sm_75}}'
// SIZES:    sizes is written as "b=8,t=4096", got "r"
func.func @refused(%xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %x: f32):
    %sum = arith.addf %h, %x : f32
    %new = math.tanh %sum : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}
