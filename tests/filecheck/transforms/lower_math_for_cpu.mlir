// RUN: scanweaver-opt %s -p lower-math-for-cpu --split-input-file | filecheck %s
// RUN: scanweaver-opt %s -p lower-math-for-cpu --split-input-file | scanweaver-opt --split-input-file | filecheck %s
// RUN: scanweaver-opt %s -p "lower-math-for-cpu{avx512=true}" --split-input-file | filecheck %s --check-prefix=AVX512

// A function of its own for each operation and type, which LLVM inlines. exp is eighteen operations besides
// reinterpretation; with AVX-512's instructions for the power of two, twelve.
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
// CHECK-NEXT:    %[[K:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : vector<16xf32>
// CHECK-NEXT:    %[[BITS:.*]] = vector.bitcast %[[SHIFTED]] : vector<16xf32> to vector<16xi32>
// CHECK-NEXT:    %[[HALF:.*]] = arith.shrsi %[[BITS]], %{{.*}} : vector<16xi32>
// CHECK-NEXT:    %[[REST:.*]] = arith.subi %[[BITS]], %[[HALF]] : vector<16xi32>
// CHECK-NEXT:    %[[MOVED:.*]] = arith.shli %[[HALF]], %{{.*}} : vector<16xi32>
// CHECK-NEXT:    %[[SCALE:.*]] = vector.bitcast %[[MOVED]] : vector<16xi32> to vector<16xf32>
// CHECK-NEXT:    %[[MOVED2:.*]] = arith.shli %[[REST]], %{{.*}} : vector<16xi32>
// CHECK-NEXT:    %[[SCALE2:.*]] = vector.bitcast %[[MOVED2]] : vector<16xi32> to vector<16xf32>
// CHECK-NEXT:    %[[HI:.*]] = math.fma %[[K]], %{{.*}}, %[[X]] : vector<16xf32>
// CHECK-NEXT:    %[[R:.*]] = math.fma %[[K]], %{{.*}}, %[[HI]] : vector<16xf32>
// CHECK-COUNT-6: math.fma %{{.*}}, %[[R]], %{{.*}} : vector<16xf32>
// CHECK-NEXT:    %[[ONCE:.*]] = arith.mulf %{{.*}}, %[[SCALE]] : vector<16xf32>
// CHECK-NEXT:    %{{.*}} = arith.mulf %[[ONCE]], %[[SCALE2]] : vector<16xf32>
// CHECK-NEXT:    func.return

// AVX512-LABEL: func.func private @exp_16xf32
// AVX512-NOT:     arith.{{maximumf|minimumf|shli}}
// AVX512:         %[[SHIFTED:.*]] = math.fma %[[X:.*]], %{{.*}}, %[[MAGIC:.*]] : vector<16xf32>
// AVX512-NEXT:    %[[K:.*]] = arith.subf %[[SHIFTED]], %[[MAGIC]] : vector<16xf32>
// AVX512:         %[[HI:.*]] = math.fma %[[K]], %{{.*}}, %[[X]] : vector<16xf32>
// AVX512-NEXT:    %[[FAR:.*]] = math.fma %[[K]], %{{.*}}, %[[HI]] : vector<16xf32>
// AVX512:         %[[R:.*]] = llvm.call_intrinsic "llvm.x86.avx512.mask.range.ps.512"(%[[FAR]], %{{.*}}) : (vector<16xf32>, vector<16xf32>, i32, vector<16xf32>, i16, i32) -> vector<16xf32>
// AVX512-COUNT-6: math.fma %{{.*}}, %[[R]], %{{.*}} : vector<16xf32>
// AVX512:         llvm.call_intrinsic "llvm.x86.avx512.mask.scalef.ps.512"(%{{.*}}, %[[K]], %{{.*}}) : (vector<16xf32>, vector<16xf32>, vector<16xf32>, i16, i32) -> vector<16xf32>
// AVX512-NEXT:    func.return
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
// What fills no register is written out on every host.
// AVX512-LABEL: func.func private @exp_f32
// AVX512:         arith.minimumf
func.func @first(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  func.return %0 : f32
}
func.func @second(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  func.return %0 : f32
}

// -----

// Conversions of halves that hosts lack. Not every compiler's library has them.
// CHECK-LABEL: func.func @halves
// CHECK-NEXT:    func.call @extf_8xbf16_f32
// CHECK-NEXT:    func.call @truncf_8xf32_bf16
// CHECK-NEXT:    func.call @extf_bf16_f64
// CHECK-NEXT:    func.call @truncf_f64_bf16
// CHECK-NEXT:    func.call @truncf_f64_f16
// CHECK-NEXT:    arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT:    arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT:    func.return
// CHECK:       func.func private @extf_8xbf16_f32
// CHECK:         arith.shli
// CHECK:         func.return %{{.*}} : vector<8xf32>
// CHECK:       func.func private @truncf_8xf32_bf16
// CHECK-NOT:     arith.truncf
// CHECK:         func.return %{{.*}} : vector<8xbf16>
// CHECK:       func.func private @extf_bf16_f64
// CHECK:         arith.extf %{{.*}} : f32 to f64
// CHECK:       func.func private @truncf_f64_bf16
// CHECK:         arith.truncf %{{.*}} : f64 to f32
// CHECK:       func.func private @truncf_f64_f16
// CHECK:         arith.truncf %{{.*}} : f64 to f32
// CHECK:         arith.truncf %{{.*}} : f32 to f16
func.func @halves(%v: vector<8xbf16>, %b: bf16, %h: f16) -> (vector<8xbf16>, bf16, f16, f16) {
  %0 = arith.extf %v : vector<8xbf16> to vector<8xf32>
  %1 = arith.truncf %0 : vector<8xf32> to vector<8xbf16>
  %2 = arith.extf %b : bf16 to f64
  %3 = arith.truncf %2 : f64 to bf16
  %4 = arith.truncf %2 : f64 to f16
  %5 = arith.extf %h : f16 to f32
  %6 = arith.truncf %5 : f32 to f16
  func.return %1, %3, %4, %6 : vector<8xbf16>, bf16, f16, f16
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
