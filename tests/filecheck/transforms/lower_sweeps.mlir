// RUN: scanweaver-opt %s -p lower-block-scan --split-input-file | filecheck %s --check-prefix SWEEPS
// RUN: scanweaver-opt %s -p lower-block-scan,lower-sweeps --split-input-file | filecheck %s

// Blelloch's scan of 256 participants: 8 warps of 32 lanes that share one row. The tree has 8 levels; the up-sweep
// stops below the root, the down-sweep starts with the carry there.

gpu.module @kernels {
  llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @sums(%x: f32, %carry: f32, %lane: i32, %warp: i32, %row: i32, %buffer: !llvm.ptr<3>, %states: !llvm.ptr<3>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {
    %before = scan.block_scan blelloch [lanes 32, row_lanes 1, warps 8] elements(%x : f32) carry(%carry : f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%buffer, %states : !llvm.ptr<3>, !llvm.ptr<3>) combine {
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      scan.yield %ab : f32
    } apply {
    ^bb0(%e: f32, %h: f32):
      %new = arith.addf %h, %e : f32
      scan.yield %new : f32
    }
    llvm.store %before, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// SWEEPS:       %[[LANES:.*]] = arith.constant 32 : i32
// SWEEPS-NEXT:  %[[FIRST:.*]] = arith.muli %warp, %[[LANES]] : i32
// SWEEPS-NEXT:  %[[P:.*]] = arith.addi %[[FIRST]], %lane : i32
// SWEEPS-NEXT:  scan.up_sweep [participants 256] elements(%x : f32) position(%[[P]], %row : i32, i32) buffers(%buffer : !llvm.ptr<3>) combine {
// SWEEPS:       %before = scan.down_sweep [participants 256] carry(%carry : f32) position(%[[P]], %row : i32, i32) buffers(%buffer : !llvm.ptr<3>) states(%states : !llvm.ptr<3>) apply {

// Every participant's element into its slot: one slot in 32 is left out, so that the strides of the upper levels do not
// meet in one bank.
// CHECK:        %[[P:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-NEXT:   arith.extui %row : i32 to i64
// CHECK-NEXT:   %[[PADS:.*]] = arith.divui %[[P]], %{{.*}} : i64
// CHECK-NEXT:   %[[SLOT:.*]] = arith.addi %[[P]], %[[PADS]] : i64
// CHECK:        llvm.store %x, %{{.*}}
// CHECK-NEXT:   gpu.barrier

// Up: for d = 1, 2, 4, … 64, participant p < 256/2d combines slots i-d and i, with i = 2d(p+1) - 1.
// CHECK:        scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} : i64 {
// CHECK:          %[[D:.*]] = arith.shli %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:     %[[SPAN:.*]] = arith.addi %[[D]], %[[D]] : i64
// CHECK:          %[[I:.*]] = arith.subi %{{.*}}, %{{.*}} : i64
// CHECK-NEXT:     %[[J:.*]] = arith.subi %[[I]], %[[D]] : i64
// CHECK-NEXT:     %[[IN:.*]] = arith.cmpi slt, %[[I]], %{{.*}} : i64
// CHECK-NEXT:     scf.if %[[IN]] {
// CHECK:            %[[EARLIER:.*]] = llvm.load
// CHECK:            %[[LATER:.*]] = llvm.load
// CHECK:            %[[SUM:.*]] = arith.addf %[[EARLIER]], %[[LATER]] : f32
// CHECK:            llvm.store %[[SUM]]
// CHECK-NEXT:     }
// CHECK-NEXT:     gpu.barrier
// CHECK-NEXT:   }

// The root gets the carry.
// CHECK:        scf.if
// CHECK:          llvm.store %carry
// CHECK:        gpu.barrier

// Down: for d = 128, … 2, 1, the earlier half starts where both do, the later half after the earlier one.
// CHECK:        scf.for
// CHECK:          scf.if
// CHECK:            %[[BEFORE:.*]] = llvm.load
// CHECK:            %[[ELEMENT:.*]] = llvm.load
// CHECK:            %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[ELEMENT]] : f32
// CHECK:            llvm.store %[[BEFORE]]
// CHECK:            llvm.store %[[AFTER]]
// CHECK:          gpu.barrier
// CHECK:        %[[MINE:.*]] = llvm.load
// CHECK-NEXT:   gpu.barrier
// CHECK-NEXT:   llvm.store %[[MINE]], %out

// -----

// Lanes across rows: two warps across time and two across rows, so that a block has 64 rows, side by side in every node.

gpu.module @kernels {
  llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
  gpu.func @sums_of_rows(%x: f32, %carry: f32, %lane: i32, %warp: i32, %row: i32, %buffer: !llvm.ptr<3>, %states: !llvm.ptr<3>, %out: !llvm.ptr<1>) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %before = scan.block_scan blelloch [lanes 1, row_lanes 32, warps 2] elements(%x : f32) carry(%carry : f32) position(%lane, %warp, %row : i32, i32, i32) scratch(%buffer, %states : !llvm.ptr<3>, !llvm.ptr<3>) combine {
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      scan.yield %ab : f32
    } apply {
    ^bb0(%e: f32, %h: f32):
      %new = arith.addf %h, %e : f32
      scan.yield %new : f32
    }
    llvm.store %before, %out : f32, !llvm.ptr<1>
    gpu.return
  }
}

// SWEEPS-LABEL: @sums_of_rows
// SWEEPS:       scan.up_sweep [participants 2, by_row 64] elements(%x : f32)
// SWEEPS:       scan.down_sweep [participants 2, by_row 64] carry(%carry : f32)

// CHECK-LABEL:  @sums_of_rows
// CHECK:        arith.constant 64 : i64
// CHECK-NEXT:   arith.constant 1 : i64
// CHECK-NEXT:   %[[ROWS:.*]] = arith.constant 64 : i64
// CHECK:        %[[P:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK-NEXT:   %[[ROW:.*]] = arith.extui %row : i32 to i64
// CHECK-NEXT:   %[[NODE:.*]] = arith.muli %[[P]], %[[ROWS]] : i64
// CHECK-NEXT:   arith.addi %[[NODE]], %[[ROW]] : i64
