// RUN: scanweaver-opt %s | filecheck %s
// RUN: scanweaver-opt %s | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt %s | %mlir-opt | scanweaver-opt | filecheck %s
// RUN: scanweaver-opt %s --print-op-generic | %mlir-opt --mlir-print-op-generic | scanweaver-opt | filecheck %s

// What xDSL's arith has for scalars alone, on vectors as well; comparisons keep their attributes.

func.func @vectors(%a: vector<4xf32>, %b: vector<4xf32>, %i: vector<4xi64>, %c: i1, %k: vector<4xindex>) -> vector<4xf32> {
  // CHECK: %[[LESS:.*]] = arith.cmpf olt, %{{.*}}, %{{.*}} {scan.note = "kept"} : vector<4xf32>
  %less = arith.cmpf olt, %a, %b {scan.note = "kept"} : vector<4xf32>
  // CHECK-NEXT: arith.cmpf uno, %{{.*}}, %{{.*}} fastmath<nsz> : vector<4xf32>
  %nan = arith.cmpf uno, %a, %a fastmath<nsz> : vector<4xf32>
  // CHECK-NEXT: arith.cmpi ult, %{{.*}}, %{{.*}} : vector<4xi64>
  %below = arith.cmpi ult, %i, %i : vector<4xi64>
  // CHECK-NEXT: arith.cmpi eq, %{{.*}}, %{{.*}} : vector<4xindex>
  %same = arith.cmpi eq, %k, %k : vector<4xindex>
  // CHECK-NEXT: arith.select %[[LESS]], %{{.*}}, %{{.*}} : vector<4xi1>, vector<4xf32>
  %each = arith.select %less, %a, %b : vector<4xi1>, vector<4xf32>
  // CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %{{.*}} {scan.note = "kept"} : vector<4xf32>
  %all = arith.select %c, %each, %b {scan.note = "kept"} : vector<4xf32>
  // CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi1>, vector<4xi1>
  %bools = arith.select %nan, %below, %same : vector<4xi1>, vector<4xi1>
  // CHECK-NEXT: arith.sitofp %{{.*}} : vector<4xi64> to vector<4xf32>
  %f = arith.sitofp %i : vector<4xi64> to vector<4xf32>
  // CHECK-NEXT: arith.uitofp %{{.*}} : vector<4xi1> to vector<4xf32>
  %u = arith.uitofp %bools : vector<4xi1> to vector<4xf32>
  // CHECK-NEXT: arith.fptosi %{{.*}} : vector<4xf32> to vector<4xi64>
  %s = arith.fptosi %u : vector<4xf32> to vector<4xi64>
  // CHECK-NEXT: arith.fptoui %{{.*}} : vector<4xf32> to vector<4xi8>
  %t = arith.fptoui %f : vector<4xf32> to vector<4xi8>
  // CHECK-NEXT: arith.extui %{{.*}} : vector<4xi1> to vector<4xi8>
  %e = arith.extui %less : vector<4xi1> to vector<4xi8>
  // CHECK-NEXT: arith.extsi %{{.*}} : vector<4xi8> to vector<4xi64>
  %w = arith.extsi %e : vector<4xi8> to vector<4xi64>
  // CHECK-NEXT: arith.trunci %{{.*}} : vector<4xi64> to vector<4xi32>
  %n = arith.trunci %w : vector<4xi64> to vector<4xi32>
  // CHECK-NEXT: arith.index_cast %{{.*}} : vector<4xi32> to vector<4xindex>
  %x = arith.index_cast %n : vector<4xi32> to vector<4xindex>
  func.return %all : vector<4xf32>
}

func.func @scalars(%a: f32, %i: i32, %c: i1) -> f32 {
  // CHECK: arith.cmpf oge, %{{.*}}, %{{.*}} : f32
  %0 = arith.cmpf oge, %a, %a : f32
  // CHECK-NEXT: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
  %1 = arith.cmpi sgt, %i, %i : i32
  // CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %{{.*}} : i1
  %2 = arith.select %0, %1, %c : i1
  // CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
  %3 = arith.select %2, %a, %a : f32
  // CHECK-NEXT: arith.extsi %{{.*}} : i32 to i64
  %4 = arith.extsi %i : i32 to i64
  func.return %3 : f32
}
