// RUN: scanweaver-opt %s -p convert-recurrence-to-scan | filecheck %s
// RUN: scanweaver-opt %s -p "convert-recurrence-to-scan{parallel=never}" | filecheck %s --check-prefix NEVER

// What needs no state goes to the prelude, once. The step keeps the rest of the body as it was.

// CHECK-LABEL: func.func @affine
// CHECK:         scan.generic forward [b: parallel, d: parallel, n: state, t: time]
// CHECK:         prelude {
// CHECK-NEXT:    ^bb0(%dt: f32, %u: f32, %A: f32, %C: f32):
// CHECK-NEXT:      %e = arith.mulf %dt, %A : f32
// CHECK-NEXT:      %decay = math.exp %e : f32
// CHECK-NEXT:      scan.yield %u, %C, %decay : f32, f32, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    components {
// CHECK-NEXT:      scan.component "affine" [0] lift {
// CHECK-NEXT:      ^bb0(%u_1: f32, %C_1: f32, %decay_1: f32):
// CHECK-NEXT:        %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        scan.yield %decay_1, %[[ZERO]], %u_1 : f32, f32, f32
// CHECK-NEXT:      } combine {
// CHECK-NEXT:      ^bb0(%[[A:.*]]: f32, %[[E:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32, %[[F:.*]]: f32, %[[D:.*]]: f32):
// CHECK-NEXT:        %[[CA:.*]] = arith.mulf %[[C]], %[[A]] : f32
// CHECK-NEXT:        %[[NEG:.*]] = arith.negf %[[CA]] : f32
// CHECK-NEXT:        %[[LOST:.*]] = math.fma %[[C]], %[[A]], %[[NEG]] : f32
// CHECK-NEXT:        %[[FA:.*]] = math.fma %[[F]], %[[A]], %[[LOST]] : f32
// CHECK-NEXT:        %[[ERROR:.*]] = math.fma %[[C]], %[[E]], %[[FA]] : f32
// CHECK-NEXT:        %[[FBD:.*]] = math.fma %[[F]], %[[B]], %[[D]] : f32
// CHECK:             %[[CORRECTS:.*]] = arith.andi
// CHECK-NEXT:        %[[ADDED:.*]] = arith.select %[[CORRECTS]], %[[FBD]], %[[D]] : f32
// CHECK-NEXT:        %[[CBD:.*]] = math.fma %[[C]], %[[B]], %[[ADDED]] : f32
// CHECK-NEXT:        scan.yield %[[CA]], %[[ERROR]], %[[CBD]] : f32, f32, f32
// CHECK-NEXT:      } apply {
// CHECK-NEXT:      ^bb0(%[[P:.*]]: f32, %[[R:.*]]: f32, %[[Q:.*]]: f32, %[[H:.*]]: f32):
// CHECK-NEXT:        %[[LOW:.*]] = math.fma %[[R]], %[[H]], %[[Q]] : f32
// CHECK-NEXT:        %[[SIZE:.*]] = math.absf %[[LOW]] : f32
// CHECK-NEXT:        %[[INF:.*]] = arith.constant 0x7f800000 : f32
// CHECK-NEXT:        %[[FINITE:.*]] = arith.cmpf olt, %[[SIZE]], %[[INF]] : f32
// CHECK-NEXT:        %[[REST:.*]] = arith.select %[[FINITE]], %[[LOW]], %[[Q]] : f32
// CHECK-NEXT:        %[[NEW:.*]] = math.fma %[[P]], %[[H]], %[[REST]] : f32
// CHECK-NEXT:        scan.yield %[[NEW]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    step {
// CHECK-NOT:       math.exp
// CHECK:           arith.mulf
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      arith.mulf
// CHECK-NEXT:      recurrence.reduce add
// CHECK-NEXT:      recurrence.yield

// NEVER-LABEL: func.func @affine
// NEVER:         scan.component "sequential" [0] because "parallel={{.*}}never{{.*}} was asked for"
// NEVER-NOT:     combine
// NEVER:         step
func.func @affine(%dts: tensor<?x?x?xf32>, %us: tensor<?x?x?xf32>, %As: tensor<?x16xf32>, %Cs: tensor<?x16x?xf32>) -> tensor<?x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [b: parallel, d: parallel, n: state, t: time]
    states(h[b, d, n] = %zero[] : f32)
    inputs(dt = %dts[b, d, t] : tensor<?x?x?xf32>, u = %us[b, d, t] : tensor<?x?x?xf32>, A = %As[d, n] : tensor<?x16xf32>, C = %Cs[b, n, t] : tensor<?x16x?xf32>)
    results(y[b, d, t] : tensor<?x?x?xf32>)
  {
  ^bb0(%h: f32, %dt: f32, %u: f32, %A: f32, %C: f32):
    %e = arith.mulf %dt, %A : f32
    %decay = math.exp %e : f32
    %kept = arith.mulf %decay, %h : f32
    %new = arith.addf %kept, %u : f32
    %ch = arith.mulf %C, %new : f32
    %sum = recurrence.reduce add %ch over [n] : f32
    recurrence.yield states(%new : f32) outputs(%sum : f32)
  }
  return %y : tensor<?x?x?xf32>
}

// A branch that does not read the state is a flag in the element: combine and apply select, and nothing is multiplied by 0.

// CHECK-LABEL: func.func @reset
// CHECK:         scan.component "affine" [0] lift {
// CHECK:           scan.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32, i1
// CHECK:         combine {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32, %[[B:.*]]: f32, %[[EARLY:.*]]: i1, %[[C:.*]]: f32, %{{.*}}: f32, %[[Q:.*]]: f32, %[[LATE:.*]]: i1):
// CHECK:           %[[ADDED:.*]] = arith.select %{{.*}}, %{{.*}}, %[[Q]] : f32
// CHECK-NEXT:      %[[SUM:.*]] = math.fma %[[C]], %[[B]], %[[ADDED]] : f32
// CHECK-NEXT:      %[[NEW:.*]] = arith.select %[[LATE]], %[[Q]], %[[SUM]] : f32
// CHECK-NEXT:      %[[ANY:.*]] = arith.ori %[[LATE]], %[[EARLY]] : i1
// CHECK-NEXT:      scan.yield %{{.*}}, %{{.*}}, %[[NEW]], %[[ANY]] : f32, f32, f32, i1
// CHECK-NEXT:    } apply {
// CHECK:           arith.select
func.func @reset(%opens: tensor<?xi1>, %xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f32)
    inputs(open = %opens[t] : tensor<?xi1>, x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%h: f32, %open: i1, %x: f32):
    %sum = arith.addf %h, %x : f32
    %new = arith.select %open, %x, %sum : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y : tensor<?x?xf32>
}

// Components in the order in which they read each other. A later lift sees earlier states, old and new; a delay keeps the
// later element; a refused component says the operation and its line.

// CHECK-LABEL: func.func @chain
// CHECK:         prelude {
// CHECK-NEXT:    ^bb0(%x: f32):
// CHECK-NEXT:      scan.yield %x : f32
// CHECK:         scan.component "affine" [2] lift {
// CHECK-NEXT:    ^bb0(%x_{{.*}}: f32):
// CHECK:         scan.component "delay" [1] lift {
// CHECK-NEXT:    ^bb0(%h: f32, %[[NEW:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      scan.yield %h : f32
// CHECK-NEXT:    } combine {
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %[[LATER:.*]]: f32):
// CHECK-NEXT:      scan.yield %[[LATER]] : f32
// CHECK-NEXT:    } apply {
// CHECK-NEXT:    ^bb0(%[[V:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      scan.yield %[[V]] : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    scan.component "sequential" [0] because "math.tanh is not affine in state 'w' (model.py:7: w = sw.tanh(w + h1))"
func.func @chain(%xs: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %y = recurrence.generic reverse [r: parallel, t: time]
    states(w[r] = %zero[] : f32, h1[r] = %zero[] : f32, h[r] = %zero[] : f32)
    inputs(x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  {
  ^bb0(%w: f32, %h1: f32, %h: f32, %x: f32):
    %half = arith.constant 0.5 : f32
    %kept = arith.mulf %half, %h : f32
    %new = arith.addf %kept, %x : f32
    %sum = arith.addf %w, %h1 : f32
    %bent = math.tanh %sum {recurrence.source = "model.py:7: w = sw.tanh(w + h1)"} : f32
    recurrence.yield states(%bent : f32, %h : f32, %new : f32) outputs(%bent : f32)
  }
  return %y : tensor<?x?xf32>
}

// States that read each other are one component: coefficients row by row, then offsets. Each of four entries is two products,
// each of two offsets two more.

// CHECK-LABEL: func.func @coupled
// CHECK:         scan.component "affine" [0, 1] lift {
// CHECK:           %[[ONE:.*]] = arith.constant 1.000000e+00 : f64
// CHECK:           scan.yield %{{.*}}, %{{.*}}, %[[ONE]], %{{.*}}, %{{.*}}, %{{.*}} : f64, f64, f64, f64, f64, f64
// CHECK:         combine {
// CHECK-COUNT-8:   math.fma
// CHECK-NOT:       math.fma
// CHECK:         apply {
// CHECK-COUNT-4:   math.fma
// CHECK-NOT:       math.fma
// CHECK:         step {
func.func @coupled(%as: tensor<?xf64>, %xs: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %zero = arith.constant 0.0 : f64
  %y = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %zero[] : f64, h1[r] = %zero[] : f64)
    inputs(a = %as[t] : tensor<?xf64>, x = %xs[r, t] : tensor<?x?xf64>)
    results(y[r, t] : tensor<?x?xf64>)
  {
  ^bb0(%h: f64, %h1: f64, %a: f64, %x: f64):
    %p = arith.mulf %a, %h : f64
    %q = arith.subf %p, %h1 : f64
    %new = arith.addf %q, %x : f64
    recurrence.yield states(%new : f64, %h : f64) outputs(%new : f64)
  }
  return %y : tensor<?x?xf64>
}
