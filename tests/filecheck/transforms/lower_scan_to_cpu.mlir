// RUN: sed 's/SHAPE/order = [], vector = "r", lanes = 1, warps = 1, row_lanes = 4/' %s | scanweaver-opt -p lower-scan-to-cpu | filecheck %s --check-prefix ROWS
// RUN: sed 's/SHAPE/order = [r], vector = "", lanes = 1, warps = 1, row_lanes = 1/' %s | scanweaver-opt -p lower-scan-to-cpu | filecheck %s --check-prefix SCALAR

// Vectors across rows: a task is four neighbouring rows; the last one ends with the axis. The function walks the tasks from
// `begin` to `end`. What is long to write is a function of its own: four steps of four rows are four loads and a transpose
// of log2(4) rounds.

// ROWS:       kernels = [{name = "affine", params = ["begin", "end", "pointer 0", "pointer 1", "scalar 2", "pointer 3", "pointer 4", "size r", "size t", "stride 1 r", "stride 3 r"], rows = [], tiled = "r", tile = 4 : i64, per_block = 1 : i64, block = 1 : i64, shared_bytes = 0 : i64}]
// ROWS:       func.func private @load_4_of_rows_4xf32
// ROWS-COUNT-4: llvm.load {{.*}} : !llvm.ptr -> vector<4xf32>
// ROWS-COUNT-8: vector.shuffle
// ROWS-NOT:     vector.shuffle
// ROWS:         func.return
// ROWS:       func.func private @store_4_of_rows_4xf32
// ROWS-COUNT-8: vector.shuffle
// ROWS-COUNT-4: llvm.store {{.*}} {alignment = 4 : i64} : vector<4xf32>, !llvm.ptr
// ROWS:         func.return

// ROWS:       func.func @affine(%begin: i64, %end: i64, %pointer: !llvm.ptr,
// ROWS-DAG:     %[[WIDE:.*]] = llvm.alloca %{{.*}} x vector<4xf32> {alignment = 16 : i64}
// ROWS-DAG:     %[[NARROW:.*]] = llvm.alloca %{{.*}} x f32
// ROWS:         scf.for %{{.*}} = %begin to %end
// An axis that is shorter than a vector: row by row.
// ROWS:           scf.if
// ROWS-NOT:         vector
// ROWS:             llvm.store %{{.*}}, %[[NARROW]]
// ROWS:           } else {
// Starts of four rows are neighbours.
// ROWS:             %[[H0:.*]] = llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
// ROWS-NEXT:        llvm.store %[[H0]], %[[WIDE]]
// ROWS:             scf.for
// ROWS:               func.call @load_4_of_rows_4xf32
// ROWS-NEXT:          %[[H:.*]] = llvm.load %[[WIDE]]
// ROWS-NEXT:          arith.mulf %{{.*}}, %[[H]] : vector<4xf32>
// A number given at the call is the same in every lane.
// ROWS-NEXT:          vector.broadcast %scalar : f32 to vector<4xf32>
// ROWS-COUNT-4:       arith.addf {{.*}} : vector<4xf32>
// ROWS:               func.call @store_4_of_rows_4xf32
// ROWS-NEXT:          llvm.store %{{.*}}, %[[WIDE]]
// What is left over, step by step: an element of each row.
// ROWS:             scf.for
// ROWS:               func.call @gather_4xf32
// ROWS-COUNT-1:       arith.addf
// ROWS-NOT:           arith.addf
// ROWS:               func.call @scatter_4xf32
// ROWS:       func.return

// A row at a time.

// SCALAR:     rows = ["r"], tile = 1 : i64
// SCALAR:     func.func @affine
// SCALAR-NOT:   vector.shuffle
// SCALAR:       scf.for %{{.*}} = %begin to %end
// SCALAR:         scf.for
// SCALAR:           llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// SCALAR-COUNT-4:   arith.addf {{.*}} : f32
// SCALAR:         scf.for
// SCALAR-NOT:       vector
// SCALAR:       func.return
func.func @affine(%as: tensor<?x?xf32>, %g: f32, %h0: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %y, %last = scan.generic forward [r: parallel, t: time]
    states(h[r] = %h0[r] : tensor<?xf32>)
    inputs(a = %as[r, t] : tensor<?x?xf32>, g = %g[] : f32)
    results(y[r, t] : tensor<?x?xf32>, last h[r] : tensor<?xf32>)
    layouts("r" 4, "t" 16, "" 4, "t" 16, "r" 4)
    schedule #scan.schedule<target = "cpu", SHAPE, row_warps = 1, steps = 4>
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
