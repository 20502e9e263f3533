// RUN: scanweaver-opt %s -p lower-math-for-cpu --split-input-file | filecheck %s
// RUN: scanweaver-opt %s -p lower-math-for-cpu --split-input-file | scanweaver-opt --split-input-file | filecheck %s

// A function of its own for each operation and type, which LLVM inlines. exp is sixteen operations besides
// reinterpretation.
// CHECK-LABEL: func.func @vectors
// CHECK:         scf.for
// CHECK-NEXT:      func.call @exp_16xf32(%{{.*}}) : (vector<16xf32>) -> vector<16xf32>
// CHECK-NEXT:      func.call @exp_16xf32
// CHECK-NEXT:      scf.yield
// CHECK-LABEL: func.func private @exp_16xf32
// CHECK-SAME:    passthrough = ["alwaysinline"]
// CHECK:         %[[ABOVE:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK-NEXT:    %[[X:.*]] = arith.minimumf %[[ABOVE]], %{{.*}} : vector<16xf32>
// CHECK-NEXT:    %[[SHIFTED:.*]] = math.fma %[[X]], %{{.*}}, %[[MAGIC:.*]] : vector<16xf32>
// CHECK-NEXT:    %[[M:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : vector<16xf32>
// CHECK-NEXT:    %[[BITS:.*]] = vector.bitcast %[[SHIFTED]] : vector<16xf32> to vector<16xi32>
// CHECK-NEXT:    %[[MOVED:.*]] = arith.shli %[[BITS]], %{{.*}} : vector<16xi32>
// CHECK-NEXT:    %[[SCALE:.*]] = vector.bitcast %[[MOVED]] : vector<16xi32> to vector<16xf32>
// CHECK-NEXT:    %[[HI:.*]] = math.fma %[[M]], %{{.*}}, %[[X]] : vector<16xf32>
// CHECK-NEXT:    %[[R:.*]] = math.fma %[[M]], %{{.*}}, %[[HI]] : vector<16xf32>
// CHECK-COUNT-7: math.fma %{{.*}}, %[[R]], %{{.*}} : vector<16xf32>
// CHECK-NEXT:    %[[HALF:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : vector<16xf32>
// CHECK-NEXT:    %{{.*}} = arith.mulf %[[HALF]], %[[SCALE]] : vector<16xf32>
// CHECK-NEXT:    func.return
func.func @vectors(%x: vector<16xf32>, %n: index) -> vector<16xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> (vector<16xf32>) {
    %y = math.exp %v : vector<16xf32>
    %z = math.exp %y : vector<16xf32>
    scf.yield %z : vector<16xf32>
  }
  func.return %last : vector<16xf32>
}

// -----

// CHECK-LABEL: func.func @all
// CHECK-NOT:     math.{{exp|log|tanh}}
// CHECK:         func.return
func.func @all(%x: f32, %y: f64) -> (f32, f64) {
  %0 = math.exp2 %x : f32
  %1 = math.expm1 %0 : f32
  %2 = math.log %1 : f32
  %3 = math.log2 %2 : f32
  %4 = math.log1p %3 : f32
  %5 = math.tanh %4 : f32
  %6 = math.exp2 %y : f64
  %7 = math.expm1 %6 : f64
  %8 = math.log %7 : f64
  %9 = math.log2 %8 : f64
  %10 = math.log1p %9 : f64
  %11 = math.tanh %10 : f64
  func.return %5, %11 : f32, f64
}

// -----

// Written once for all functions, and where it is there already, called.
// CHECK-LABEL: func.func @first
// CHECK-NEXT:    func.call @exp_f32
// CHECK-LABEL: func.func @second
// CHECK-NEXT:    func.call @exp_f32
// CHECK:       func.func private @exp_f32
// CHECK-NOT:   func.func
func.func @first(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  func.return %0 : f32
}
func.func @second(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  func.return %0 : f32
}

// -----

// CHECK-LABEL: func.func @left_alone
// CHECK-NEXT:    math.sqrt %{{.*}} : vector<8xf32>
// CHECK-NEXT:    math.sin %{{.*}} : vector<8xf32>
// CHECK-NEXT:    math.powf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK-NEXT:    math.exp %{{.*}} : f16
// CHECK-NEXT:    func.return
func.func @left_alone(%x: vector<8xf32>, %z: f16) -> (vector<8xf32>, f16) {
  %0 = math.sqrt %x : vector<8xf32>
  %1 = math.sin %0 : vector<8xf32>
  %2 = math.powf %1, %x : vector<8xf32>
  %3 = math.exp %z : f16
  func.return %2, %3 : vector<8xf32>, f16
}
