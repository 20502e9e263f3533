// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// What mlir-opt refuses.

func.func @f(%a: vector<4xf32>, %c: vector<8xi1>) {
  // CHECK: 'arith.select' of vector<4xf32> has a condition of type i1 or vector<4xi1>, not vector<8xi1>
  %r = "arith.select"(%c, %a, %a) : (vector<8xi1>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  func.return
}

// -----

func.func @f(%a: f32, %c: vector<4xi1>) {
  // CHECK: 'arith.select' of f32 has a condition of type i1, not vector<4xi1>
  %r = "arith.select"(%c, %a, %a) : (vector<4xi1>, f32, f32) -> f32
  func.return
}

// -----

func.func @f(%a: f32, %b: f64, %c: i1) {
  // CHECK: 'arith.select' chooses between values of its own type f32, got f32 and f64
  %r = "arith.select"(%c, %a, %b) : (i1, f32, f64) -> f32
  func.return
}

// -----

func.func @f(%a: vector<4xf32>) {
  // CHECK: 'arith.cmpf' of vector<4xf32> gives vector<4xi1>, not i1
  %r = "arith.cmpf"(%a, %a) <{predicate = 1 : i64}> : (vector<4xf32>, vector<4xf32>) -> i1
  func.return
}

// -----

func.func @f(%a: i32, %b: i64) {
  // CHECK: 'arith.cmpi' compares values of one type, got i32 and i64
  %r = "arith.cmpi"(%a, %b) <{predicate = 1 : i64}> : (i32, i64) -> i1
  func.return
}

// -----

func.func @f(%a: i32) {
  // CHECK: 'arith.cmpi' has no predicate 10
  %r = "arith.cmpi"(%a, %a) <{predicate = 10 : i64}> : (i32, i32) -> i1
  func.return
}

// -----

func.func @f(%a: i32) {
  // CHECK: 'arith.cmpi' has no predicate 'olt': one of eq, ne, slt,
  %r = arith.cmpi olt, %a, %a : i32
  func.return
}

// -----

func.func @f(%a: vector<4xi32>) {
  // CHECK: 'arith.sitofp' keeps the shape, got vector<4xi32> to f32
  %r = arith.sitofp %a : vector<4xi32> to f32
  func.return
}

// -----

func.func @f(%a: vector<4xi32>) {
  // CHECK: 'arith.extui' gives more bits, got i32 to i8
  %r = arith.extui %a : vector<4xi32> to vector<4xi8>
  func.return
}

// -----

func.func @f(%a: i8) {
  // CHECK: 'arith.trunci' gives fewer bits, got i8 to i32
  %r = arith.trunci %a : i8 to i32
  func.return
}

// -----

func.func @f(%a: i8) {
  // CHECK: 'arith.index_cast' is from or to index, got i8 to i32
  %r = arith.index_cast %a : i8 to i32
  func.return
}
