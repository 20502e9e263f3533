// RUN: %mlir-opt %s --mlir-print-op-generic | filecheck %s
// RUN: %mlir-opt %s --mlir-print-op-generic 2>&1 >/dev/null | filecheck %s --check-prefix SILENT --allow-empty
// RUN: not scanweaver-opt %s 2>&1 | filecheck %s --check-prefix OURS

// Why we keep a `gpu` dialect of our own: mlir-opt takes all of this, says nothing, and does not know the block's size.
// Should a later mlir-opt refuse it, this test fails and our verifiers may shrink.

gpu.module @kernels {
  // CHECK: "gpu.func"() <{function_type = () -> ()}> ({
  // CHECK: }) {gpu.kernel, gpu.known_block_size = array<i32: 128, 1, 1>, sym_name = "prefixed", workgroup_attributions = 0 : i64}
  gpu.func @prefixed() kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
    gpu.return
  }
  // CHECK: "gpu.func"() <{function_type = () -> ()}> ({
  // CHECK: }) {gpu.kernel, sym_name = "list", workgroup_attributions = 0 : i64}
  gpu.func @list() kernel attributes {known_block_size = [128 : i32, 1 : i32, 1 : i32]} {
    gpu.return
  }
}

// SILENT-NOT: {{.}}
// OURS: 'gpu.func' has no attribute 'gpu.known_block_size'; mlir-opt would drop it in silence
