// RUN: scanweaver-opt %s -p 'fuse-multiply-add,convert-recurrence-to-scan,schedule-scan,lower-scan-to-gpu,lower-block-scan,lower-math-for-gpu' -t ptx | filecheck %s
// RUN: scanweaver-opt %s -p 'fuse-multiply-add,convert-recurrence-to-scan,schedule-scan{strategy=serial},lower-scan-to-gpu,lower-block-scan,lower-math-for-gpu' -t ptx | filecheck %s --check-prefix SERIAL
// RUN: scanweaver-opt %s -p 'fuse-multiply-add,convert-recurrence-to-scan,schedule-scan{target=sm_100 sizes="r=64,t=65536"},lower-scan-to-gpu,lower-block-scan,lower-math-for-gpu' -t 'ptx{chip=sm_100}' | filecheck %s --check-prefix SPLIT

// A whole kernel, from the recurrence to PTX: a lane reads 16 bytes of each input, five rounds of three shuffles and one to
// move up, multiply-adds fused, 16 bytes written. No stack, no calls.

// CHECK:          .entry steps(
// CHECK:          .maxntid 128, 1, 1
// CHECK-NOT:      .local
// CHECK-NOT:      .func
// CHECK:          ld.global.v4.b32
// CHECK:          ld.global.v4.b32
// CHECK-COUNT-3:  fma.rn.f32
// CHECK-COUNT-3:  shfl.sync.up.b32 {{.*}}, 1, 0, -1;
// CHECK-COUNT-3:  shfl.sync.up.b32 {{.*}}, 2, 0, -1;
// CHECK-COUNT-3:  shfl.sync.up.b32 {{.*}}, 4, 0, -1;
// CHECK-COUNT-3:  shfl.sync.up.b32 {{.*}}, 8, 0, -1;
// CHECK-COUNT-3:  shfl.sync.up.b32 {{.*}}, 16, 0, -1;
// CHECK:          shfl.sync.up.b32 {{.*}}, 1, 0, -1;
// CHECK-NOT:      shfl
// CHECK-COUNT-4:  fma.rn.f32
// CHECK-NOT:      fma.rn.f32
// CHECK:          st.global.v4.b32
// CHECK-COUNT-16: shfl.sync.up.b32
// CHECK-NOT:      shfl
// CHECK:          ret;

// The state of a serial walk is a register.

// SERIAL-NOT:     .shared
// SERIAL-NOT:     .local
// SERIAL:         .entry steps(
// SERIAL-NOT:     shfl
// SERIAL-NOT:     bar.
// SERIAL:         ld.global.v4.b32
// SERIAL:         ld.global.v4.b32
// SERIAL-COUNT-4: fma.rn.f32
// SERIAL-NOT:     fma.rn.f32
// SERIAL:         st.global.v4.b32
// SERIAL-NOT:     .local
// SERIAL:         ret;

// Few long rows: the warps of a block share one, and meet in workgroup memory.

// SPLIT:          .target sm_100
// SPLIT:          .extern .shared .align 16 .b8 dynamic_shared[];
// SPLIT:          .maxntid 256, 1, 1
// SPLIT-NOT:      .local
// SPLIT:          shfl.sync.up.b32
// SPLIT:          st.shared.b32
// SPLIT:          bar.sync 0;
// SPLIT:          ld.shared
// SPLIT:          bar.sync 0;
// SPLIT:          st.global.{{v4.b32|v2.b64}}
func.func @steps(%as: tensor<?x?xf32>, %xs: tensor<?x?xf32>, %h0: tensor<?xf32>) -> (tensor<?x?xf32>, tensor<?xf32>) {
  %y, %last = recurrence.generic forward [r: parallel, t: time]
    states(h[r] = %h0[r] : tensor<?xf32>)
    inputs(a = %as[r, t] : tensor<?x?xf32>, x = %xs[r, t] : tensor<?x?xf32>)
    results(y[r, t] : tensor<?x?xf32>, last h[r] : tensor<?xf32>)
    layouts("r" 4, "t" 16, "t" 16, "t" 16, "r" 4)
  {
  ^bb0(%h: f32, %a: f32, %x: f32):
    %kept = arith.mulf %a, %h : f32
    %new = arith.addf %kept, %x : f32
    recurrence.yield states(%new : f32) outputs(%new : f32)
  }
  return %y, %last : tensor<?x?xf32>, tensor<?xf32>
}
