// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// The iteration space is verified as recurrence.generic's.

// CHECK: Operation does not verify: at least one input must carry time axis 't'{{$}}
func.func @f(%f: f32, %x: tensor<?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r] : tensor<?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The prelude.

// CHECK: Operation does not verify: the prelude's arguments must be f32, got f64{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f64):
    scan.yield %x_t : f64
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the prelude's arguments must be f32, got none{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0():
    scan.yield
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the region ends in scan.yield{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    %s = arith.addf %x_t, %x_t : f32
    recurrence.yield states(%s : f32) outputs()
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.reduce is over axis 'r', which is parallel and not `state`{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    %s = recurrence.reduce add %x_t over [r] : f32
    scan.yield %s : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the body is straight-line, got scf.if with regions{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    %ok = arith.constant true
    scf.if %ok {
    }
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The step.

// CHECK: Operation does not verify: step takes 1 states and 1 prelude values, got 1 arguments{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32):
    recurrence.yield states(%h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: step's prelude values must be f32, got f64{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f64):
    recurrence.yield states(%h : f32) outputs(%h : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: step ends in recurrence.yield{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    scan.yield %h, %v : f32, f32
  }
  return
}

// -----

// CHECK: Operation does not verify: a step yields 1 states and 1 outputs, got 1 and 0{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs()
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded state #0 ('h') keeps axis 'r': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [0] because "asked for"
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%v : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: yielded output #0 ('y') keeps axis 'r': reduce it{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[t] : tensor<?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The components.

// CHECK: Operation does not verify: components holds scan.component only, got arith.constant{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    %c = arith.constant 0.0 : f32
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: every state is in one component, got []{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: every state is in one component, got [0, 0]{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
    scan.component "affine" [0] lift {
    ^bb0(%old: f32, %new: f32, %v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a component names states 0 to 0, got [1]{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [1] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a sequential component says the reason{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [0]
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a sequential component has no regions{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [0] because "asked for" lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: lift, combine and apply have one block each{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0]
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the region ends in scan.yield{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      recurrence.yield states(%v : f32) outputs()
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The first component sees no states.

// CHECK: Operation does not verify: lift's arguments must be f32, got f32, f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%h: f32, %v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The next one sees the old and the new ones.

// CHECK: Operation does not verify: lift's arguments must be f32, f32, f32, got f32, f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32, g[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
    scan.component "affine" [1] lift {
    ^bb0(%h: f32, %v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %g: f32, %v: f32):
    recurrence.yield states(%h : f32, %g : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: combine's arguments must be f32, f32, f32, f32, got f32, f32, f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32):
      scan.yield %p, %q : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: combine's yield must be f32, f32, got f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p : f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply's arguments must be f32, f32, got f64, f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f64, %q: f32, %s: f32):
      scan.yield %s : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply acts on 1 states, got 2{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32, %r: f32):
      scan.yield %s : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply's yield must be f32, got f32, f32{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %s, %q : f32, f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the states that apply acts on must be f32, got f64{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f64):
      scan.yield %s : f64
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: value #0 of an element keeps axis 'r' that no state of it has{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: recurrence.reduce is over axis 'n' that its value does not have{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, n: state, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      %s = recurrence.reduce add %v over [n] : f32
      scan.yield %s, %s : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// The schedule.

// CHECK: steps of a schedule must be 1 or more
func.func @f() attributes {
  schedule = #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 0>
} {
  return
}

// -----

// CHECK: warps of a schedule must be 1 or more
func.func @f() attributes {
  schedule = #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 32, warps = 0, row_lanes = 1, row_warps = 1, steps = 4>
} {
  return
}

// -----

// CHECK: a CPU walks time in order: lanes and warps must be 1
func.func @f() attributes {
  schedule = #scan.schedule<target = "cpu", order = [r], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 4>
} {
  return
}

// -----

// CHECK: lanes and row_lanes share the 32 lanes of a warp, got 32 x 2
func.func @f() attributes {
  schedule = #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 32, warps = 1, row_lanes = 2, row_warps = 1, steps = 4>
} {
  return
}

// -----

// The scan of a block.

// CHECK: Operation does not verify: combine's arguments must be f32, f32, got f32{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32):
    scan.yield %a : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: combine's yield must be f32, got none{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: apply's arguments must be f32, f32, got f32, f64{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f64):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: apply's yield must be f32, got f32, f32{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a, %s : f32, f32
  }
  return
}

// -----

// CHECK: Operation does not verify: results must be f32, got f64{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = "scan.block_scan"(%x, %x, %l, %l, %l) <{lanes = #builtin.int<32>, row_lanes = #builtin.int<1>, warps = #builtin.int<1>, operandSegmentSizes = array<i32: 1, 1, 3, 0>}> ({
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  }, {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }) : (f32, f32, i32, i32, i32) -> f64
  return
}

// -----

// CHECK: Operation does not verify: position is the lane and the warp across time, and the row in the block{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l : i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: lanes and row_lanes share the 32 lanes of a warp{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 2, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: scratch is there exactly where several warps share a row{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 2] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: scratch is there exactly where several warps share a row{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: scratch is one pointer per element value, got 2{{$}}
func.func @f(%x: f32, %l: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 4] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch(%m, %m : !llvm.ptr<3>, !llvm.ptr<3>) combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    scan.yield %a : f32
  }
  return
}

// -----

// Of elements, and of a schedule for this iteration space.

// CHECK: Operation does not verify: combine is straight-line and works position by position, got recurrence.reduce{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      %sum = recurrence.reduce add %p over [n] : f32
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: combine is straight-line and works position by position, got scf.if{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      %ok = arith.constant true
      scf.if %ok {
      }
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply is straight-line and works position by position, got recurrence.rename{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %other = recurrence.rename %s [n to m] : f32
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply is straight-line and works position by position, got recurrence.take{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      %i = arith.constant 0 : i64
      %first = recurrence.take %s at %i of n : f32, i64
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: apply is straight-line and works position by position, got recurrence.reduce{{$}}
func.func @f(%x: f32, %l: i32) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%x : f32) carry(%x : f32) position(%l, %l, %l : i32, i32, i32) scratch() combine {
  ^bb0(%a: f32, %b: f32):
    scan.yield %b : f32
  } apply {
  ^bb0(%a: f32, %s: f32):
    %sum = recurrence.reduce add %a over [n] : f32
    scan.yield %sum : f32
  }
  return
}

// -----

// CHECK: Operation does not verify: a component has one state or more{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [] because "asked for"
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: init #0 is of state 'h' of f32, got i64{{$}}
func.func @f(%f: i64, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : i64)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: the states of a proved component have the same axes, got states [0, 1]{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, n: state, t: time]
    states(h[r, n] = %f[] : f32, k[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0, 1] lift {
    ^bb0(%v: f32):
      scan.yield %v : f32
    } combine {
    ^bb0(%p: f32, %q: f32):
      scan.yield %q : f32
    } apply {
    ^bb0(%p: f32, %s: f32, %s2: f32):
      scan.yield %p, %p : f32, f32
    }
  } step {
  ^bb0(%h: f32, %k: f32, %v: f32):
    recurrence.yield states(%h : f32, %k : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a schedule orders the parallel axes [r], got []{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "sm_90", order = [], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a schedule orders the parallel axes [r], got [r, t]{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "sm_90", order = [r, t], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: a schedule orders the parallel axes [], got [r]{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "cpu", order = [r], vector = "r", lanes = 1, warps = 1, row_lanes = 8, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: vectors run along a parallel or state axis, got 't'{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "cpu", order = [r], vector = "t", lanes = 1, warps = 1, row_lanes = 8, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: vectors run along a parallel or state axis, got 'q'{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "cpu", order = [r], vector = "q", lanes = 1, warps = 1, row_lanes = 8, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v, %v : f32, f32
    } combine {
    ^bb0(%p: f32, %q: f32, %p2: f32, %q2: f32):
      scan.yield %p2, %q2 : f32, f32
    } apply {
    ^bb0(%p: f32, %q: f32, %s: f32):
      scan.yield %q : f32
    }
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: lanes and warps across time need a proof: a component is sequential{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [0] because "asked for"
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: lanes and warps across time need a proof: a component is sequential{{$}}
func.func @f(%f: f32, %x: tensor<?x?xf32>) {
  %y = scan.generic forward [r: parallel, t: time]
    states(h[r] = %f[] : f32)
    inputs(x = %x[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>)
    schedule #scan.schedule<target = "sm_90", order = [r], vector = "", lanes = 1, warps = 2, row_lanes = 32, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sequential" [0] because "asked for"
  } step {
  ^bb0(%h: f32, %v: f32):
    recurrence.yield states(%h : f32) outputs(%v : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: lanes and warps across time have no rows without a slot: the schedule is serial{{$}}
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>, %slots: tensor<?xi32>) {
  %y, %h = scan.generic forward [b: parallel, t: time]
    states(h[b] = %pool[@b] : tensor<?xf32>)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(y[b, t] : tensor<?x?xf32>, last h[@b] into %pool : tensor<?xf32>)
    schedule #scan.schedule<target = "sm_90", order = [b], vector = "", lanes = 32, warps = 1, row_lanes = 1, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sum" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v : f32
    } combine {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %c : f32
      scan.yield %s : f32
    } apply {
    ^bb0(%a: f32, %s: f32):
      %n = arith.addf %a, %s : f32
      scan.yield %n : f32
    }
  } step {
  ^bb0(%s: f32, %v: f32):
    %n = arith.addf %s, %v : f32
    recurrence.yield states(%n : f32) outputs(%n : f32)
  }
  return
}

// -----

// CHECK: Operation does not verify: vectors run along another axis than that of slots, got 'b'{{$}}
func.func @f(%pool: tensor<?xf32>, %x: tensor<?x?xf32>, %slots: tensor<?xi32>) {
  %y, %h = scan.generic forward [b: parallel, t: time]
    states(h[b] = %pool[@b] : tensor<?xf32>)
    inputs(x = %x[b, t] : tensor<?x?xf32>)
    slots(%slots[b] : tensor<?xi32>)
    results(y[b, t] : tensor<?x?xf32>, last h[@b] into %pool : tensor<?xf32>)
    schedule #scan.schedule<target = "cpu", order = [], vector = "b", lanes = 1, warps = 1, row_lanes = 8, row_warps = 1, steps = 4>
  prelude {
  ^bb0(%x_t: f32):
    scan.yield %x_t : f32
  } components {
    scan.component "sum" [0] lift {
    ^bb0(%v: f32):
      scan.yield %v : f32
    } combine {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %c : f32
      scan.yield %s : f32
    } apply {
    ^bb0(%a: f32, %s: f32):
      %n = arith.addf %a, %s : f32
      scan.yield %n : f32
    }
  } step {
  ^bb0(%s: f32, %v: f32):
    %n = arith.addf %s, %v : f32
    recurrence.yield states(%n : f32) outputs(%n : f32)
  }
  return
}

// -----

func.func @sweep_of_six(%q: f32, %p: i32, %m: !llvm.ptr<3>) {
  // CHECK: Operation does not verify: participants of a sweep are a power of two, 2 or more, got 6{{$}}
  scan.up_sweep [participants 6] elements(%q : f32) position(%p, %p : i32, i32) buffers(%m : !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  }
  return
}

// -----

func.func @sweep_without_row(%q: f32, %p: i32, %m: !llvm.ptr<3>) {
  // CHECK: Operation does not verify: position is the participant and the row in the block{{$}}
  scan.up_sweep [participants 8] elements(%q : f32) position(%p : i32) buffers(%m : !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  }
  return
}

// -----

func.func @sweep_buffers(%q: f32, %p: i32, %m: !llvm.ptr<3>) {
  // CHECK: Operation does not verify: buffers is one pointer per element value, got 2{{$}}
  scan.up_sweep [participants 8] elements(%q : f32) position(%p, %p : i32, i32) buffers(%m, %m : !llvm.ptr<3>, !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  }
  return
}

// -----

func.func @sweep_states(%c: f32, %p: i32, %m: !llvm.ptr<3>) {
  // CHECK: Operation does not verify: states is one pointer per state, got 0{{$}}
  %h = scan.down_sweep [participants 8] carry(%c : f32) position(%p, %p : i32, i32) buffers(%m : !llvm.ptr<3>) states() apply {
  ^bb0(%x: f32, %s: f32):
    scan.yield %s : f32
  }
  return
}

// -----

func.func @blelloch_scratch(%q: f32, %c: f32, %p: i32, %m: !llvm.ptr<3>) {
  // CHECK: Operation does not verify: scratch is one pointer per element value and state, got 1{{$}}
  %h = scan.block_scan blelloch [lanes 32, row_lanes 1, warps 1] elements(%q : f32) carry(%c : f32) position(%p, %p, %p : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {
  ^bb0(%x: f32, %y: f32):
    scan.yield %y : f32
  } apply {
  ^bb0(%x: f32, %s: f32):
    scan.yield %s : f32
  }
  return
}
