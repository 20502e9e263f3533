// RUN: scanweaver-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// What mlir-opt refuses.

gpu.module @m {
  // CHECK: 'gpu.return' gives (f32), @k returns ()
  gpu.func @k(%x: f32) kernel {
    gpu.return %x : f32
  }
}

// -----

gpu.module @m {
  // CHECK: kernel @k returns nothing; write to a pointer instead
  gpu.func @k(%x: f32) -> f32 kernel {
    gpu.return %x : f32
  }
}

// -----

gpu.module @m {
  // CHECK: @k: the entry block starts with (i32), the function type has (f32)
  "gpu.func"() <{function_type = (f32) -> ()}> ({
  ^bb0(%x: i32):
    "gpu.return"() : () -> ()
  }) {gpu.kernel, sym_name = "k", workgroup_attributions = 0 : i64} : () -> ()
}

// -----

gpu.module @m {
  // CHECK: @k needs a body
  "gpu.func"() <{function_type = (f32) -> ()}> ({}) {sym_name = "k", workgroup_attributions = 0 : i64} : () -> ()
}

// -----

// CHECK: 'gpu.func' expects parent op 'gpu.module'
gpu.func @k() kernel {
  gpu.return
}

// -----

gpu.module @m {
  // CHECK: known_block_size is array<i32: x, y, z> of positive sizes, got array<i32: 128, 1>
  gpu.func @k() kernel attributes {known_block_size = array<i32: 128, 1>} {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: a workgroup buffer is a memref in #gpu.address_space<workgroup>, got f32
  gpu.func @k() workgroup(%w: f32) kernel {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: a private buffer is a memref in #gpu.address_space<private>, got memref<4xf32, #gpu.address_space<workgroup>>
  gpu.func @k() private(%w: memref<4xf32, #gpu.address_space<workgroup>>) kernel {
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k() kernel {
    // CHECK: Expected attribute memref<?xi8, #gpu.address_space<workgroup>> but got memref<?xf32, #gpu.address_space<workgroup>>
    %m = gpu.dynamic_shared_memory : memref<?xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// -----

// CHECK: 'gpu.module' has an empty list of targets; leave the list out
gpu.module @m [] {
}

// -----

gpu.module @m {
  gpu.func @k(%x: f32, %i: i32) kernel {
    // CHECK: Expected `xor`, `down`, `up`, or `idx`.
    %r, %ok = gpu.shuffle bfly %x, %i, %i : f32
    gpu.return
  }
}

// -----

// What mlir-opt takes and then drops, or cannot lower.

gpu.module @m {
  // CHECK: 'gpu.func' has no attribute 'gpu.known_block_size'; mlir-opt would drop it in silence
  gpu.func @k() kernel attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: known_block_size is array<i32: x, y, z> of positive sizes, got [128 : i32, 1 : i32, 1 : i32]
  gpu.func @k() kernel attributes {known_block_size = [128 : i32, 1 : i32, 1 : i32]} {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: known_block_size is array<i32: x, y, z> of positive sizes, got array<i64: 128, 1, 1>
  gpu.func @k() kernel attributes {known_block_size = array<i64: 128, 1, 1>} {
    gpu.return
  }
}

// -----

gpu.module @m {
  // xDSL's spelling: mlir-opt does not look for either here, and the PTX then has no `.entry`.
  // CHECK: property 'kernel' is not defined by the operation 'gpu.func'
  "gpu.func"() <{function_type = () -> (), kernel}> ({
    "gpu.return"() : () -> ()
  }) {sym_name = "k", workgroup_attributions = 0 : i64} : () -> ()
}

// -----

gpu.module @m {
  // CHECK: 'gpu.func' has no attribute 'nvvm.minctas'; mlir-opt would drop it in silence
  gpu.func @k() kernel attributes {nvvm.minctas = 2 : i32} {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: nvvm.minctasm is a positive i32, got 2 : i64
  gpu.func @k() kernel attributes {nvvm.minctasm = 2 : i64} {
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k() kernel {
    // CHECK: 'gpu.thread_id' has no attribute 'upper_bond'; mlir-opt would drop it in silence
    %t = gpu.thread_id x {upper_bond = 4 : index}
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: a workgroup buffer has a static shape, got memref<?xf32, #gpu.address_space<workgroup>>
  gpu.func @k() workgroup(%w: memref<?xf32, #gpu.address_space<workgroup>>) kernel {
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: a workgroup buffer is a memref in #gpu.address_space<workgroup>, got memref<4xf32>
  gpu.func @k() workgroup(%w: memref<4xf32>) kernel {
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%h: bf16, %i: i32) kernel {
    // CHECK: 'gpu.shuffle' moves i32, i64, f32 or f64, got bf16
    %r, %ok = gpu.shuffle up %h, %i, %i : bf16
    gpu.return
  }
}

// -----

// What traps when it runs: a 16-byte access to a buffer that LLVM aligns to its element.

gpu.module @m {
  // CHECK: workgroup buffer 1 of @k is aligned to 4 bytes and accessed 16 bytes wide: give it {llvm.align = 16 : i64}
  gpu.func @k(%v: vector<4xf32>) workgroup(%w: memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64}, %w2: memref<4xf32, #gpu.address_space<workgroup>>) kernel {
    %a = "memref.extract_aligned_pointer_as_index"(%w2) : (memref<4xf32, #gpu.address_space<workgroup>>) -> index
    %b = arith.index_cast %a : index to i64
    %p = llvm.inttoptr %b : i64 to !llvm.ptr<3>
    llvm.store %v, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: workgroup buffer 0 of @k is aligned to 8 bytes and accessed 16 bytes wide: give it {llvm.align = 16 : i64}
  gpu.func @k(%src: !llvm.ptr<1>) workgroup(%w: memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 8 : i64}) kernel {
    %a = "memref.extract_aligned_pointer_as_index"(%w) : (memref<4xf32, #gpu.address_space<workgroup>>) -> index
    %b = arith.index_cast %a : index to i64
    %p = llvm.inttoptr %b : i64 to !llvm.ptr<3>
    nvvm.cp.async.shared.global %p, %src, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: workgroup buffer 0 of @k is aligned to 4 bytes and accessed 16 bytes wide
  gpu.func @k(%i: index, %v: vector<4xf32>) workgroup(%w: memref<16xf32, #gpu.address_space<workgroup>>) kernel {
    %s = memref.reinterpret_cast %w to offset: [0], sizes: [4, 4], strides: [4, 1] : memref<16xf32, #gpu.address_space<workgroup>> to memref<4x4xf32, #gpu.address_space<workgroup>>
    vector.store %v, %s[%i, %i] {alignment = 16 : i64} : memref<4x4xf32, #gpu.address_space<workgroup>>, vector<4xf32>
    gpu.return
  }
}
