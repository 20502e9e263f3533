// RUN: scanweaver-opt %s | filecheck %s
// RUN: scanweaver-opt %s -t mlir --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: scanweaver-opt %s | %mlir-opt | filecheck %s

// CHECK:      func.func @twice(%{{.*}}: f32) -> f32 {
// CHECK-NEXT:   %{{.*}} = arith.addf %{{.*}}, %{{.*}} : f32
// GENERIC:    "arith.addf"(%{{.*}}, %{{.*}})
func.func @twice(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
