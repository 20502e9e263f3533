// RUN: scanweaver-opt %s --split-input-file --verify-diagnostics | filecheck %s

// What mlir-opt refuses.

gpu.module @m {
  gpu.func @k(%i: i32) kernel {
    // CHECK: 'nvvm.barrier' with a number of threads needs a barrier id
    nvvm.barrier number_of_threads = %i
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%i: i32, %h: bf16) kernel {
    // CHECK: 'nvvm.shfl.sync' moves i32 or f32, got bf16
    %r = nvvm.shfl.sync up %i, %h, %i, %i : bf16 -> bf16
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%i: i32, %x: f32) kernel {
    // CHECK: 'nvvm.shfl.sync' gives !llvm.struct<(f32, i1)>, got f32
    %r = nvvm.shfl.sync up %i, %x, %i, %i {return_value_and_is_valid} : f32 -> f32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%i: i32, %x: f32) kernel {
    // CHECK: 'nvvm.shfl.sync' gives f32, got i32
    %r = nvvm.shfl.sync up %i, %x, %i, %i : f32 -> i32
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%dst: !llvm.ptr<3>, %src: !llvm.ptr<1>) kernel {
    // CHECK: 'nvvm.cp.async.shared.global' copies !llvm.ptr<1> to !llvm.ptr<3>, got !llvm.ptr<1>
    nvvm.cp.async.shared.global %src, %dst, 16, cache = cg : !llvm.ptr<1>, !llvm.ptr<3>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%dst: !llvm.ptr<3>, %src: !llvm.ptr<1>) kernel {
    // CHECK: 'nvvm.cp.async.shared.global' copies 4, 8 or 16 bytes, with cg 16, got 8 with cg
    nvvm.cp.async.shared.global %dst, %src, 8, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k(%dst: !llvm.ptr<3>, %src: !llvm.ptr<1>) kernel {
    // CHECK: 'nvvm.cp.async.shared.global' copies 4, 8 or 16 bytes, with cg 16, got 32 with ca
    nvvm.cp.async.shared.global %dst, %src, 32, cache = ca : !llvm.ptr<3>, !llvm.ptr<1>
    gpu.return
  }
}

// -----

gpu.module @m {
  gpu.func @k() kernel {
    // CHECK: 'nvvm.cp.async.wait.group' takes a number of groups, got -1
    nvvm.cp.async.wait.group -1
    gpu.return
  }
}

// -----

// CHECK: #nvvm.target has no parameter 'chp = "sm_90"'
gpu.module @m [#nvvm.target<chp = "sm_90">] {
}

// -----

// What mlir-opt takes, warns about, and compiles for another chip or PTX version.

// CHECK: #nvvm.target: chip is such as sm_90, got h200
gpu.module @m [#nvvm.target<chip = "h200">] {
}

// -----

// CHECK: #nvvm.target: features is a PTX version such as +ptx83, got ptx83
gpu.module @m [#nvvm.target<chip = "sm_90", features = "ptx83">] {
}

// -----

gpu.module @m {
  gpu.func @k() kernel {
    // CHECK: 'nvvm.barrier0' has no attribute 'id'; mlir-opt would drop it in silence
    nvvm.barrier0 {id = 1 : i32}
    gpu.return
  }
}

// -----

gpu.module @m {
  // CHECK: nvvm.maxntid is an array<i32: …> of one to three sizes, got [128 : i64]
  gpu.func @k() kernel attributes {nvvm.maxntid = [128]} {
    gpu.return
  }
}
