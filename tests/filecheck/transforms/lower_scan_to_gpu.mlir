// RUN: sed 's/SHAPE/lanes = 32, warps = 1, row_lanes = 1, row_warps = 4/' %s | scanweaver-opt -p lower-scan-to-gpu | filecheck %s --check-prefix LANES
// RUN: sed 's/SHAPE/lanes = 1, warps = 1, row_lanes = 32, row_warps = 2/' %s | scanweaver-opt -p lower-scan-to-gpu | filecheck %s --check-prefix SERIAL
// RUN: sed 's/SHAPE/lanes = 1, warps = 4, row_lanes = 32, row_warps = 1/' %s | scanweaver-opt -p lower-scan-to-gpu | filecheck %s --check-prefix WARPS

// One recurrence on three schedules. Steps and rows are contiguous and aligned along t, so four steps are one access.

// What a launch needs to know. A contiguous axis has no stride; a number that stands for a start is no operand.

// LANES:      scan.recipe = {target = "sm_90", operands = [{name = "h", role = "init", axes = ["r"],
// LANES-SAME:   {name = "a", role = "input", axes = ["r", "t"], dtype = "f32", scalar = false, contiguous = "t", align = 16 : i64}
// LANES-SAME:   {name = "g", role = "input", axes = [], dtype = "f32", scalar = true
// LANES-SAME:   {name = "y", role = "output", axes = ["r", "t"]
// LANES-SAME:   {name = "h", role = "last", axes = ["r"]
// LANES-SAME:   kernels = [{name = "affine", params = ["pointer 0", "pointer 1", "scalar 2", "pointer 3", "pointer 4", "size r", "size t", "stride 1 r", "stride 3 r"], rows = ["r"], tile = 1 : i64, per_block = 4 : i64, block = 128 : i64, shared_bytes = {{[1-9][0-9]*}} : i64}]

// Lanes across time. The state between tiles lies in workgroup memory; one lane reads it in.

// LANES:        gpu.func @affine({{.*}}) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
// LANES:          scf.if
// LANES-NEXT:       %[[START:.*]] = llvm.load {{.*}} : !llvm.ptr<1> -> f32
// LANES:            llvm.store %[[START]], {{.*}} : f32, !llvm.ptr<3>
// LANES:          nvvm.bar.warp.sync

// A whole tile: each lane reads 16 bytes of a, folds its four steps' elements, gets the state before them and walks.

// LANES:          scf.for
// LANES:            %[[A:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// LANES:            %[[CARRY:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> f32
// LANES-COUNT-3:    math.fma
// LANES:            %[[H:.*]] = scan.block_scan [lanes 32, row_lanes 1, warps 1] elements(%{{.*}}, %{{.*}} : f32, f32) carry(%[[CARRY]] : f32) position({{.*}}) scratch() combine {
// LANES:            arith.mulf %{{.*}}, %[[H]] : f32
// LANES-NEXT:       arith.addf {{.*}} : f32
// LANES-COUNT-3:    arith.mulf
// LANES:            scf.if
// LANES:              llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// LANES:            scf.if
// LANES:              llvm.store {{.*}} : f32, !llvm.ptr<3>
// LANES:            nvvm.bar.warp.sync

// What is left over, as a tile with a mask: steps past the end read the last one and store nothing.

// LANES:          scf.if
// LANES-COUNT-4:    arith.cmpi slt
// LANES-COUNT-4:    arith.minsi
// LANES-NOT:        vector<4xf32>
// LANES:            scan.block_scan
// LANES-COUNT-4:    llvm.store {{.*}} : f32, !llvm.ptr<1>
// LANES:            llvm.store {{.*}} : f32, !llvm.ptr<3>

// The last state, by one lane.

// LANES:          scf.if
// LANES:            scf.if
// LANES:              llvm.load {{.*}} : !llvm.ptr<3> -> f32
// LANES-NEXT:         llvm.store {{.*}} : f32, !llvm.ptr<1>
// LANES:          gpu.return

// Serial: the walk alone. The state stays with the lane; what is left over is walked step by step.

// SERIAL:       per_block = 64 : i64, block = 64 : i64, shared_bytes = 0 : i64
// SERIAL-NOT:   @dynamic_shared
// SERIAL:       llvm.alloca {{.*}} x f32
// SERIAL-NOT:   scan.block_scan
// SERIAL-NOT:   sync
// SERIAL:       scf.for
// SERIAL:         llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// SERIAL-COUNT-4: arith.addf {{.*}}
// SERIAL-NOT:     math.fma
// SERIAL:         llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// SERIAL:       scf.for
// SERIAL-NOT:     vector
// SERIAL:         arith.addf
// SERIAL-NOT:     arith.addf
// SERIAL:       gpu.return

// Warps across time: their folds meet in workgroup memory, one buffer a value of the element.

// WARPS:        gpu.func
// WARPS:        gpu.barrier
// WARPS:        scf.for
// WARPS:          scan.block_scan [lanes 1, row_lanes 32, warps 4] elements({{.*}}) carry({{.*}}) position({{.*}}) scratch(%{{.*}}, %{{.*}} : !llvm.ptr<3>, !llvm.ptr<3>)
// WARPS:          gpu.barrier
// WARPS-NEXT:   }
func.func @affine(%as: tensor<?x?xf32>, %g: f32, %h0: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %y, %last = scan.generic forward [r: parallel, t: time]
    states(h[r] = %h0[r] : tensor<?xf32>)
    inputs(a = %as[r, t] : tensor<?x?xf32>, g = %g[] : f32)
    results(y[r, t] : tensor<?x?xf32>, last h[r] : tensor<?xf32>)
    layouts("r" 4, "t" 16, "" 4, "t" 16, "r" 4)
    schedule #scan.schedule<target = "sm_90", order = [r], vector = "", SHAPE, steps = 4>
  prelude {
  ^bb0(%a: f32, %x: f32):
    scan.yield %a, %x : f32, f32
  } components {
    scan.component "affine" [0] lift {
    ^bb0(%a1: f32, %x1: f32):
      scan.yield %a1, %x1 : f32, f32
    } combine {
    ^bb0(%p1: f32, %q1: f32, %p2: f32, %q2: f32):
      %p = arith.mulf %p2, %p1 : f32
      %q = math.fma %p2, %q1, %q2 : f32
      scan.yield %p, %q : f32, f32
    } apply {
    ^bb0(%p3: f32, %q3: f32, %s: f32):
      %n = math.fma %p3, %s, %q3 : f32
      scan.yield %n : f32
    }
  } step {
  ^bb0(%h: f32, %a2: f32, %x2: f32):
    %kept = arith.mulf %a2, %h : f32
    %new = arith.addf %kept, %x2 : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y, %last : tensor<?x?xf32>, tensor<?xf32>
}
