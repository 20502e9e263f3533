// RUN: scanweaver-opt %s --split-input-file -p lower-block-scan | filecheck %s

// A warp: log2(32) rounds of shuffles for both values of the element; in a round a lane combines what comes from
// `distance` lanes before it with its own, if there is such a lane. Then the fold acts on the carry and moves up by one lane.

// CHECK-LABEL: gpu.func @warp
// CHECK-NOT:     scan.block_scan
// CHECK:         %[[ONE:.*]] = arith.constant 1 : i32
// CHECK:         %[[E0:.*]], %{{.*}} = gpu.shuffle up %p, %[[ONE]],
// CHECK:         %[[E1:.*]], %{{.*}} = gpu.shuffle up %q,
// CHECK:         %[[P:.*]] = arith.mulf %p, %[[E0]] : f32
// CHECK-NEXT:    %[[Q:.*]] = math.fma %p, %[[E1]], %q : f32
// CHECK:         %[[REACHES:.*]] = arith.cmpi sge, %lane,
// CHECK-NEXT:    %[[P1:.*]] = arith.select %[[REACHES]], %[[P]], %p : f32
// CHECK-NEXT:    %[[Q1:.*]] = arith.select %[[REACHES]], %[[Q]], %q : f32
// CHECK-NEXT:    %[[TWO:.*]] = arith.constant 2 : i32
// CHECK:         gpu.shuffle up %[[P1]], %[[TWO]],
// CHECK:         gpu.shuffle up %[[Q1]],
// CHECK-COUNT-6: gpu.shuffle
// CHECK:         %[[AFTER:.*]] = math.fma %{{.*}}, %carry, %{{.*}} : f32
// CHECK:         %[[FIRST:.*]] = arith.cmpi eq, %lane,
// CHECK:         %[[MOVED:.*]], %{{.*}} = gpu.shuffle up %[[AFTER]],
// CHECK-NEXT:    %[[H:.*]] = arith.select %[[FIRST]], %carry, %[[MOVED]] : f32
// CHECK-NOT:     gpu.shuffle
// CHECK-NOT:     gpu.barrier
// CHECK:         llvm.store %[[H]], %out
gpu.module @kernels {
  gpu.func @warp(%p: f32, %q: f32, %carry: f32, %lane: i32, %warp: i32, %row: i32, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%p, %q : f32, f32) carry(%carry : f32) position(%lane, %warp, %row : i32, i32, i32) scratch() combine {
    ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
      %pp = arith.mulf %p2, %p1 : f32
      %qq = math.fma %p2, %q1, %q2 : f32
      scan.yield %pp, %qq : f32, f32
    } apply {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %n = math.fma %a, %s, %b : f32
      scan.yield %n : f32
    }
    llvm.store %h, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Eight lanes across time and four rows side by side: three rounds, at four times the distance.

// CHECK-LABEL: gpu.func @eight
// CHECK:         arith.constant 4 : i32
// CHECK:         gpu.shuffle
// CHECK:         arith.constant 8 : i32
// CHECK:         gpu.shuffle
// CHECK:         arith.constant 16 : i32
// CHECK:         gpu.shuffle
// CHECK-COUNT-1: gpu.shuffle
// CHECK-NOT:     gpu.shuffle
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @eight(%q: f32, %carry: f32, %lane: i32, %warp: i32, %row: i32, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %h = scan.block_scan [lanes 8, row_lanes 4, warps 1] elements(%q : f32) carry(%carry : f32) position(%lane, %warp, %row : i32, i32, i32) scratch() combine {
    ^bb0(%q1: f32, %q2: f32):
      %qq = arith.addf %q1, %q2 : f32
      scan.yield %qq : f32
    } apply {
    ^bb0(%b: f32, %s: f32):
      %n = arith.addf %s, %b : f32
      scan.yield %n : f32
    }
    llvm.store %h, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// A delay's fold is its later element: no rounds, only the move. A bool and a byte travel as 32 bits.

// CHECK-LABEL: gpu.func @delay
// CHECK:         %[[V:.*]] = arith.extui %v : i1 to i32
// CHECK:         gpu.shuffle up %[[V]],
// CHECK:         arith.cmpi ne
// CHECK:         %[[U:.*]] = arith.extui %u : i8 to i32
// CHECK:         gpu.shuffle up %[[U]],
// CHECK-NEXT:    arith.trunci %{{.*}} : i32 to i8
// CHECK-NOT:     gpu.shuffle
// CHECK:         gpu.return
gpu.module @kernels {
  gpu.func @delay(%v: i1, %u: i8, %c: i1, %d: i8, %lane: i32, %warp: i32, %row: i32, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %g, %h = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%v, %u : i1, i8) carry(%c, %d : i1, i8) position(%lane, %warp, %row : i32, i32, i32) scratch() combine {
    ^bb0(%v1: i1, %u1: i8, %v2: i1, %u2: i8):
      scan.yield %v2, %u2 : i1, i8
    } apply {
    ^bb0(%w: i1, %x: i8, %s: i1, %s1: i8):
      scan.yield %w, %x : i1, i8
    }
    %z = arith.extui %g : i1 to i8
    %sum = arith.addi %z, %h : i8
    llvm.store %sum, %out : i8, !llvm.ptr<1>
    gpu.return
  }
}

// -----

// Four warps of 32 rows each, a step of time a warp: no shuffle. Each warp's total to workgroup memory, one barrier, the
// totals of earlier warps applied in order, a barrier before the memory serves again.

// CHECK-LABEL: gpu.func @warps
// CHECK-NOT:     gpu.shuffle
// CHECK:         scf.if
// CHECK-NEXT:      llvm.store %q, {{.*}} : f32, !llvm.ptr<3>
// CHECK-NEXT:    }
// CHECK-NEXT:    gpu.barrier
// CHECK:         llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK-NEXT:    %[[S1:.*]] = arith.addf %carry,
// CHECK:         %[[BEFORE:.*]] = arith.cmpi sgt, %warp,
// CHECK-NEXT:    arith.select %[[BEFORE]], %[[S1]], %carry : f32
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK-NOT:     llvm.load
// CHECK:         gpu.barrier
// CHECK-NEXT:    llvm.store {{.*}}, %out
gpu.module @kernels {
  gpu.func @warps(%q: f32, %carry: f32, %lane: i32, %warp: i32, %row: i32, %m: !llvm.ptr<3>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %h = scan.block_scan [lanes 1, row_lanes 32, warps 4] elements(%q : f32) carry(%carry : f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {
    ^bb0(%q1: f32, %q2: f32):
      %qq = arith.addf %q1, %q2 : f32
      scan.yield %qq : f32
    } apply {
    ^bb0(%b: f32, %s: f32):
      %n = arith.addf %s, %b : f32
      scan.yield %n : f32
    }
    llvm.store %h, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}
