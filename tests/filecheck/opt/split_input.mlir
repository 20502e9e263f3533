// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: func.func @first
func.func @first() {
  return
}

// -----

// CHECK: Operation does not verify: {{.*}}
func.func @second() -> f32 {
  return
}

// -----

// CHECK: func.func @third
func.func @third() {
  return
}
