// RUN: not scanweaver-opt %s -p 'lower-block-scan{algorithm=magic}' 2>&1 | filecheck %s --check-prefix ALGORITHM
// RUN: not scanweaver-opt %s -p lower-block-scan 2>&1 | filecheck %s --check-prefix SIZE

// ALGORITHM: algorithm is one of shuffle, blelloch, got magic
// SIZE:      scan.block_scan over several warps stands in a gpu.func of known block size
func.func @f(%q: f32, %carry: f32, %lane: i32, %m: !llvm.ptr<3>) {
  %h = scan.block_scan [lanes 32, row_lanes 1, warps 4] elements(%q : f32) carry(%carry : f32) position(%lane, %lane, %lane : i32, i32, i32) scratch(%m : !llvm.ptr<3>) combine {
  ^bb0(%q1: f32, %q2: f32):
    scan.yield %q2 : f32
  } apply {
  ^bb0(%b: f32, %s: f32):
    scan.yield %b : f32
  }
  return
}
