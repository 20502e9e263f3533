"""What we print is what mlir-opt reads: for each operation that kernels use, the structure survives a trip through
mlir-opt, in both syntaxes, and the PTX has the instruction that the operation stands for.

mlir-opt drops what it does not know without a word. So nothing short of the comparison tells a wrong spelling.
"""

from __future__ import annotations

import difflib
import re
import runpy
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from documents import ROOT
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, f32, i32
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

import scanweaver as sw
from scanweaver import compiler
from scanweaver.dialects import context_of_all, gpu, nvvm
from scanweaver.errors import ToolchainError
from scanweaver.gpu_exec.abi import Recipe
from scanweaver.gpu_exec.artifact import Artifact
from scanweaver.gpu_exec.lower import assemble, to_ptx
from scanweaver.gpu_exec.toolchain import INPUT, find, look, run_tool

CHIP = "sm_90"
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))

# Defaults that mlir-opt writes out and xDSL's dialects do not know or leave unset.
UPSTREAM_DEFAULTS = (
    r" <\{overflowFlags = #arith\.overflow<none>\}>(?=.*\(i64\) -> i32)",
    r", unnamed_addr = 0 : i64",
    r", visibility_ = 0 : i64",
)


context = cache(context_of_all)


def parsed(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def printed(op: Operation, generic: bool) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(op)
    return out.getvalue()


def through_mlir_opt(text: str) -> ModuleOp:
    """What mlir-opt understood of `text`; a word on stderr raises ToolchainError."""
    answer = run_tool(find("mlir-opt"), ["--mlir-print-op-generic", INPUT], text, suffix=".mlir").output.decode()
    for default in UPSTREAM_DEFAULTS:
        answer = re.sub(default, "", answer)
    return parsed(answer)


def difference(ours: ModuleOp, theirs: ModuleOp) -> str:
    """Empty where both are one structure (names of values aside), otherwise the lines that differ."""
    if ours.is_structurally_equivalent(theirs):
        return ""
    mine, other = (printed(module, generic=True).splitlines() for module in (ours, theirs))
    return "\n".join(difflib.unified_diff(mine, other, "ours", "mlir-opt", lineterm="")) or "order of attributes"


@dataclass(frozen=True)
class Case:
    """The body of a kernel, and patterns that the kernel's PTX has, in this order."""

    body: str
    ptx: tuple[str, ...]


WG = "#gpu.address_space<workgroup>"
KERNEL = """
  gpu.func @{name}(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>, %n: i64, %i: i32, %b: i1, %x: f32, %y: f32, %d: f64,
      %h: bf16, %g: f16, %v: vector<4xf32>, %u: vector<8xbf16>)
      workgroup(%w: memref<128xf32, {wg}> {{llvm.align = 16 : i64}})
      kernel attributes {{known_block_size = array<i32: 32, 4, 2>}} {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %full = arith.constant -1 : i32
    %warp = arith.constant 32 : i32
    %t = gpu.thread_id x
    {body}
    gpu.return
  }}
"""


def stored(value: str, type: str, *ptx: str) -> Case:
    """`value` computes %r; it is stored so that nothing of it is dead."""
    return Case(f"{value}\n llvm.store %r, %p : {type}, !llvm.ptr<1>", ptx)


def index(op: str, *ptx: str) -> Case:
    return stored(f"%k = {op}\n %r = arith.index_cast %k : index to i32", "i32", *ptx)


def called(name: str, arguments: str, type: str, ptx: str) -> Case:
    types = ", ".join([type] * len(arguments.split(", ")))
    return stored(f'%r = llvm.call_intrinsic "llvm.{name}"({arguments}) : ({types}) -> {type}', type, ptx)


def on_integers(op: str, ptx: str) -> Case:
    return stored(f"%j = arith.trunci %n : i64 to i32\n %r = {op} %i, %j : i32", "i32", ptx)


def intrinsic(name: str, ptx: str) -> Case:
    return stored(f'%r = llvm.call_intrinsic "llvm.nvvm.{name}"(%x) : (f32) -> f32', "f32", ptx)


CASES: dict[str, Case] = {
    # gpu
    "thread_id": index("gpu.thread_id y", r"%tid\.y"),
    "thread_id_bounded": index("gpu.thread_id z upper_bound 2", r"%tid\.z"),
    "block_id": index("gpu.block_id x", r"%ctaid\.x"),
    "block_dim": index("gpu.block_dim y", r"%ntid\.y"),
    "grid_dim": index("gpu.grid_dim z", r"%nctaid\.z"),
    "lane_id": index("gpu.lane_id", r"%laneid"),
    "barrier": Case("gpu.barrier", (r"bar\.sync\s+0;",)),
    "shuffle_xor": stored("%r, %ok = gpu.shuffle xor %x, %i, %warp : f32", "f32", r"shfl\.sync\.bfly\.b32.*, 31, -1;"),
    "shuffle_up": stored("%r, %ok = gpu.shuffle up %x, %i, %warp : f32", "f32", r"shfl\.sync\.up\.b32.*, 0, -1;"),
    "shuffle_down": stored("%r, %ok = gpu.shuffle down %x, %i, %warp : f32", "f32", r"shfl\.sync\.down.*, 31, -1;"),
    "shuffle_idx": stored("%r, %ok = gpu.shuffle idx %x, %i, %warp : f32", "f32", r"shfl\.sync\.idx.*, 31, -1;"),
    "shuffle_f64": stored("%r, %ok = gpu.shuffle up %d, %i, %warp : f64", "f64", *[r"shfl\.sync\.up\.b32"] * 2),
    "shuffle_valid": stored(
        "%s, %ok = gpu.shuffle up %x, %i, %warp : f32\n %r = arith.select %ok, %s, %y : f32",
        "f32",
        r"shfl\.sync\.up\.b32\s+%r\d+\|%p1",
        r"selp\.f32 .*%p1;",
    ),
    # nvvm
    "nvvm_tid": stored("%r = nvvm.read.ptx.sreg.tid.x : i32", "i32", r"%tid\.x"),
    "nvvm_ntid": stored("%r = nvvm.read.ptx.sreg.ntid.x : i32", "i32", r"%ntid\.x"),
    "nvvm_ctaid": stored("%r = nvvm.read.ptx.sreg.ctaid.x : i32", "i32", r"%ctaid\.x"),
    "nvvm_laneid": stored("%r = nvvm.read.ptx.sreg.laneid : i32", "i32", r"%laneid"),
    "nvvm_bar_warp_sync": Case("nvvm.bar.warp.sync %full : i32", (r"bar\.warp\.sync\s+-1;",)),
    "nvvm_barrier0": Case("nvvm.barrier0", (r"bar\.sync\s+0;",)),
    "nvvm_barrier": Case(
        "%id = arith.constant 1 : i32\n nvvm.barrier\n nvvm.barrier id = %id\n"
        " nvvm.barrier id = %id number_of_threads = %warp",
        (r"bar\.sync\s+0;", r"bar\.sync\s+1;", r"bar\.sync\s+1, 32;"),
    ),
    "nvvm_shfl": stored(
        "%r = nvvm.shfl.sync bfly %full, %x, %i, %warp : f32 -> f32", "f32", r"shfl\.sync\.bfly\.b32.*, 32, -1;"
    ),
    "nvvm_shfl_valid": stored(
        "%s = nvvm.shfl.sync up %full, %x, %i, %warp {return_value_and_is_valid} : f32 -> !llvm.struct<(f32, i1)>\n"
        " %r = llvm.extractvalue %s[0] : !llvm.struct<(f32, i1)>",
        "f32",
        r"shfl\.sync\.up\.b32",
    ),
    "nvvm_shfl_idx": stored("%r = nvvm.shfl.sync idx %full, %i, %i, %warp : i32 -> i32", "i32", r"shfl\.sync\.idx"),
    "nvvm_shfl_down": stored("%r = nvvm.shfl.sync down %full, %i, %i, %warp : i32 -> i32", "i32", r"shfl\.sync\.down"),
    "nvvm_cp_async": Case(
        f'%a = "memref.extract_aligned_pointer_as_index"(%w) : (memref<128xf32, {WG}>) -> index\n'
        " %a64 = arith.index_cast %a : index to i64\n %s = llvm.inttoptr %a64 : i64 to !llvm.ptr<3>\n"
        " nvvm.cp.async.shared.global %s, %p, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>\n"
        " nvvm.cp.async.shared.global %s, %p, 8, cache = ca, %i : !llvm.ptr<3>, !llvm.ptr<1>, i32\n"
        " nvvm.cp.async.commit.group\n nvvm.cp.async.wait.group 1",
        (
            r"cp\.async\.cg\.shared\.global \[__wg_\w+\], \[%rd\d+\], 16;",
            r"cp\.async\.ca\.shared\.global \[__wg_\w+\], \[%rd\d+\], 8, %r\d+;",
            r"cp\.async\.commit_group;",
            r"cp\.async\.wait_group\s+1;",
        ),
    ),
    # memory
    "llvm_f32x4": Case(
        "%r = llvm.load %q {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>\n"
        " llvm.store %r, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>",
        (r"ld\.global\.v4\.b32", r"st\.global\.v4\.b32"),
    ),
    "llvm_bf16x8": Case(
        "%r = llvm.load %q {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>\n"
        " llvm.store %r, %p {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>",
        (r"ld\.global\.v4\.b32", r"st\.global\.v4\.b32"),
    ),
    "llvm_i64": Case(
        "%r = llvm.load %q {alignment = 8 : i64} : !llvm.ptr<1> -> i64\n"
        " llvm.store %r, %p {alignment = 8 : i64} : i64, !llvm.ptr<1>",
        (r"ld\.global\.b64", r"st\.global\.b64"),
    ),
    "llvm_gep": stored(
        "%a = llvm.getelementptr %q[%n] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32\n"
        " %a3 = llvm.getelementptr %a[3] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32\n"
        " %r = llvm.load %a3 : !llvm.ptr<1> -> f32",
        "f32",
        r"shl\.b64 .*, 2;",
        r"ld\.global\.b32 .*\+12\]",
    ),
    "llvm_shared": Case(
        "%s = llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>\n"
        " %a = llvm.getelementptr %s[%i] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, vector<4xf32>\n"
        " llvm.store %v, %a {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>\n gpu.barrier\n"
        " %r = llvm.load %s {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>\n"
        " llvm.store %r, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>",
        (r"st\.shared\.v4\.b32", r"bar\.sync", r"ld\.shared\.v4\.b32 .*\[dynamic_shared\]"),
    ),
    "memref_workgroup": stored(
        f"memref.store %x, %w[%t] : memref<128xf32, {WG}>\n gpu.barrier\n"
        f" %r = memref.load %w[%one] : memref<128xf32, {WG}>",
        "f32",
        r"st\.shared\.b32",
        r"bar\.sync",
        r"ld\.shared\.b32 .*\[__wg_\w+\+4\]",
    ),
    "memref_alloca": stored(
        "%m = memref.alloca() : memref<4xf32>\n memref.store %x, %m[%t] : memref<4xf32>\n gpu.barrier\n"
        " %r = memref.load %m[%one] : memref<4xf32>",
        "f32",
        r"st\.local\.b32",
        r"ld\.local\.b32",
    ),
    "vector_workgroup": Case(
        f"vector.store %v, %w[%t] : memref<128xf32, {WG}>, vector<4xf32>\n gpu.barrier\n"
        f" %r = vector.load %w[%one] : memref<128xf32, {WG}>, vector<4xf32>\n"
        " llvm.store %r, %p : vector<4xf32>, !llvm.ptr<1>",
        # Of unknown alignment, as upstream has it: one element at a time.
        (*[r"st\.shared\.b32"] * 4, *[r"ld\.shared\.b32"] * 4),
    ),
    # llvm's own
    "ex2_ftz": intrinsic("ex2.approx.ftz.f", r"ex2\.approx\.ftz\.f32"),
    "ex2": intrinsic("ex2.approx.f32", r"ex2\.approx\.f32"),
    "lg2_ftz": intrinsic("lg2.approx.ftz.f", r"lg2\.approx\.ftz\.f32"),
    "lg2": intrinsic("lg2.approx.f", r"lg2\.approx\.f32"),
    "rcp_ftz": intrinsic("rcp.approx.ftz.f", r"rcp\.approx\.ftz\.f32"),
    "rcp": intrinsic("rcp.rn.f", r"rcp\.rn\.f32"),
    "rsqrt_ftz": intrinsic("rsqrt.approx.ftz.f", r"rsqrt\.approx\.ftz\.f32"),
    "rsqrt": intrinsic("rsqrt.approx.f", r"rsqrt\.approx\.f32"),
    "sqrt": intrinsic("sqrt.rn.f", r"sqrt\.rn\.f32"),
    "inline_asm": stored(
        '%r = llvm.inline_asm "tanh.approx.f32 $0, $1;", "=f,f" %x : (f32) -> f32', "f32", r"tanh\.approx\.f32"
    ),
    "inline_asm_acquire_release": stored(
        '%r = llvm.inline_asm has_side_effects "ld.acquire.gpu.b32 $0, [$1];", "=r,l,~{memory}" %q '
        ": (!llvm.ptr<1>) -> i32\n"
        ' llvm.inline_asm has_side_effects "st.release.gpu.b32 [$0], $1;", "l,r,~{memory}" %q, %i '
        ": (!llvm.ptr<1>, i32) -> ()",
        "i32",
        r"ld\.acquire\.gpu\.b32",
        r"st\.release\.gpu\.b32",
    ),
    "llvm_fma": stored("%r = llvm.intr.fma(%x, %y, %x) : (f32, f32, f32) -> f32", "f32", r"fma\.rn\.f32"),
    "llvm_alloca": stored(
        "%c = arith.constant 4 : i32\n %m = llvm.alloca %c x f32 : (i32) -> !llvm.ptr\n"
        " %a = llvm.getelementptr %m[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32\n"
        " llvm.store %x, %a : f32, !llvm.ptr\n %r = llvm.load %m : !llvm.ptr -> f32",
        "f32",
        r"st\.local\.b32",
        r"ld\.local\.b32",
    ),
    "ex2_ftz_f32": intrinsic("ex2.approx.ftz.f32", r"ex2\.approx\.ftz\.f32"),
    "fma_sat": called("nvvm.fma.rn.sat.f", "%x, %y, %x", "f32", r"fma\.rn\.sat\.f32"),
    "fma_f32": called("fma.f32", "%x, %y, %x", "f32", r"fma\.rn\.f32"),
    "fma_f64": called("fma.f64", "%d, %d, %d", "f64", r"fma\.rn\.f64"),
    "sqrt_f32": called("sqrt.f32", "%x", "f32", r"sqrt\.rn\.f32"),
    "sqrt_f64": called("sqrt.f64", "%d", "f64", r"sqrt\.rn\.f64"),
    "fabs_f32": called("fabs.f32", "%x", "f32", r"abs\.f32"),
    "fabs_f64": called("fabs.f64", "%d", "f64", r"abs\.f64"),
    "copysign_f32": called("copysign.f32", "%x, %y", "f32", r"copysign\.f32"),
    "copysign_f64": stored(
        '%e = arith.extf %x : f32 to f64\n %r = llvm.call_intrinsic "llvm.copysign.f64"(%d, %e) : (f64, f64) -> f64',
        "f64",
        r"abs\.f64",
        r"neg\.f64",
    ),
    "floor_f32": called("floor.f32", "%x", "f32", r"cvt\.rmi\.f32\.f32"),
    "floor_f64": called("floor.f64", "%d", "f64", r"cvt\.rmi\.f64\.f64"),
    "roundeven_f32": called("roundeven.f32", "%x", "f32", r"cvt\.rni\.f32\.f32"),
    "roundeven_f64": called("roundeven.f64", "%d", "f64", r"cvt\.rni\.f64\.f64"),
    # arith
    "andi": on_integers("arith.andi", r"and\.b32"),
    "ori": on_integers("arith.ori", r"or\.b32"),
    "xori": on_integers("arith.xori", r"xor\.b32"),
    "shli": on_integers("arith.shli", r"shl\.b32"),
    "shrsi": on_integers("arith.shrsi", r"shr\.s32"),
    "shrui": on_integers("arith.shrui", r"shr\.u32"),
    "subi": on_integers("arith.subi", r"sub\.s32"),
    "muli": on_integers("arith.muli", r"mul\.lo\.s32"),
    "divui": on_integers("arith.divui", r"div\.u32"),
    "remui": on_integers("arith.remui", r"rem\.u32|div\.u32"),
    "minsi": on_integers("arith.minsi", r"min\.s32"),
    "maxsi": on_integers("arith.maxsi", r"max\.s32"),
    "extui": stored(
        "%e = arith.extui %i : i32 to i64\n %r = arith.muli %e, %n : i64",
        "i64",
        r"ld\.param\.b32\s+%rd\d",
        r"mul\.lo\.s64",
    ),
    "subf": stored("%r = arith.subf %x, %y : f32", "f32", r"sub\.rn\.f32"),
    "addf": stored("%m = arith.mulf %x, %y : f32\n %r = arith.addf %m, %y : f32", "f32", r"mul\.rn\.f32", r"add\.rn"),
    "contract": stored(
        "%m = arith.mulf %x, %y fastmath<contract> : f32\n %r = arith.addf %m, %y fastmath<contract> : f32",
        "f32",
        r"fma\.rn\.f32",
    ),
    "divf": stored("%r = arith.divf %x, %y : f32", "f32", r"div\.rn\.f32"),
    "divf_fast": stored("%r = arith.divf %x, %y fastmath<arcp,afn> : f32", "f32", r"div\.approx\.f32"),
    "extf_bf16": stored("%r = arith.extf %h : bf16 to f32", "f32", r"cvt\.f32\.bf16"),
    "extf_f16": stored("%r = arith.extf %g : f16 to f32", "f32", r"cvt\.f32\.f16"),
    "extf_bf16x8": stored(
        "%e = arith.extf %u : vector<8xbf16> to vector<8xf32>\n %r = vector.extract %e[7] : f32 from vector<8xf32>",
        "f32",
        r"cvt\.f32\.bf16",
    ),
    "truncf_bf16": stored("%r = arith.truncf %x : f32 to bf16", "bf16", r"cvt\.rn\.bf16\.f32"),
    "truncf_f16": stored("%r = arith.truncf %x : f32 to f16", "f16", r"cvt\.rn\.f16\.f32"),
    "maximumf": stored("%r = arith.maximumf %x, %y : f32", "f32", r"max\.NaN\.f32"),
    "minimumf": stored("%r = arith.minimumf %x, %y : f32", "f32", r"min\.NaN\.f32"),
    "negf": stored("%r = arith.negf %x : f32", "f32", r"neg\.f32"),
    "cmpf_select": stored(
        "%c = arith.cmpf olt, %x, %y : f32\n %r = arith.select %c, %x, %y : f32", "f32", r"setp\.lt\.f32", r"selp\.f32"
    ),
    "cmpi": stored(
        "%c = arith.cmpi slt, %i, %warp : i32\n %r = arith.select %c, %x, %y : f32", "f32", r"setp\.\w\w\.s32", "selp"
    ),
    "bitcast": stored("%k = arith.bitcast %x : f32 to i32\n %r = arith.addi %k, %i : i32", "i32", r"add\.s32"),
    "trunci": stored("%r = arith.trunci %n : i64 to i32", "i32", r"st\.global\.b32\s+\[%rd\d+\], %rd\d+;"),
    "extsi": stored("%e = arith.extsi %i : i32 to i64\n %r = arith.addi %e, %n : i64", "i64", r"add\.s64"),
    "integers_to_floats": stored(
        "%f = arith.sitofp %i : i32 to f32\n %k = arith.fptosi %f : f32 to i32\n %m = arith.uitofp %b : i1 to f32\n"
        " %l = arith.sitofp %k : i32 to f32\n %r = arith.mulf %m, %l : f32",
        "f32",
        r"cvt\.rn\.f32\.s32",
        r"cvt\.rzi\.s32\.f32",
    ),
    "minus_infinity": stored("%r = arith.constant 0xFF800000 : f32", "f32", r"\], -8388608;"),
    # Digits that do not survive a shorter printing.
    "constant_f32": stored("%r = arith.constant 1.44269502 : f32", "f32", r"\], 1069066811;"),
    "constant_f64": stored("%r = arith.constant 1.4426950408889634 : f64", "f64", r"\], 4609176140021203710;"),
    "constant_tiny": stored("%r = arith.constant 1.1754944e-38 : f32", "f32", r"\], 8388608;"),
    # math: libdevice's, by convert-gpu-to-nvvm
    "math_fma": stored("%r = math.fma %x, %y, %x : f32", "f32", r"fma\.rn\.f32"),
    "math_exp2": stored("%r = math.exp2 %x : f32", "f32", r"ex2\.approx\.f32"),
    "math_log1p": stored("%r = math.log1p %x : f32", "f32", r"add\.rz\.f32"),
    "math_absf": stored("%r = math.absf %x : f32", "f32", r"abs\.f32"),
    "math_copysign": stored("%r = math.copysign %x, %y : f32", "f32", r"copysign\.f32"),
    "math_sqrt_f64": stored("%r = math.sqrt %d : f64", "f64", r"sqrt\.rn\.f64"),
    **{
        f"math_{name}_{letter}": stored(f"%r = math.{name} {value} : {type}", type, pattern)
        for name, pattern in {
            **dict.fromkeys(("exp", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "erf"), r"fma\.rn\.f\d\d"),
            "floor": r"cvt\.rmi",
            "roundeven": r"cvt\.rni",
            "rsqrt": r"rsqrt\.approx",
        }.items()
        for letter, value, type in (("s", "%x", "f32"), ("d", "%d", "f64"))
    },
    "math_powf": stored("%r = math.powf %x, %y : f32", "f32", r"lg2|fma"),
    # scf
    "scf_for": stored(
        "%c0 = arith.constant 0 : i64\n %c1 = arith.constant 1 : i64\n"
        " %r = scf.for %j = %c0 to %n step %c1 iter_args(%acc = %x) -> (f32) : i64 {\n"
        "  %z = arith.mulf %acc, %y : f32\n  scf.yield %z : f32\n }",
        "f32",
        r"mul\.rn\.f32",
        r"bra\s",
    ),
    "scf_if_guards_a_load": stored(
        "%r = scf.if %b -> (f32) {\n  %z = llvm.load %q : !llvm.ptr<1> -> f32\n  scf.yield %z : f32\n"
        " } else {\n  scf.yield %y : f32\n }",
        "f32",
        r"@%p\d bra",
        r"ld\.global\.b32",
    ),
    # vector
    "vector_extract": stored("%r = vector.extract %v[2] : f32 from vector<4xf32>", "f32", r"st\.global\.b32 .*, %r3;"),
    "vector_insert": stored(
        "%r = vector.insert %x, %v[2] : f32 into vector<4xf32>", "vector<4xf32>", r"st\.global\.v4\.b32"
    ),
    "vector_broadcast": stored(
        "%r = vector.broadcast %x : f32 to vector<4xf32>", "vector<4xf32>", r"\{(%r\d+), \1, \1, \1\}"
    ),
    "vector_shuffle": stored("%r = vector.shuffle %v, %v [3, 2, 1, 0] : vector<4xf32>, vector<4xf32>", "vector<4xf32>"),
    "vector_bitcast": stored(
        "%r = vector.bitcast %u : vector<8xbf16> to vector<4xf32>", "vector<4xf32>", r"st\.global\.v4\.b32"
    ),
    "vector_reduction": stored(
        "%r = vector.reduction <add>, %v : vector<4xf32> into f32", "f32", *[r"add\.rn\.f32"] * 3
    ),
    "vector_arith": stored("%r = arith.addf %v, %v : vector<4xf32>", "vector<4xf32>", *[r"add\.rn\.f32"] * 4),
}

DYNAMIC_SHARED = """
  llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
"""
DIRECTIVES = """
  gpu.func @directives(%m: memref<?xf32>, %a: !llvm.ptr<1> {llvm.noalias}, %s: i64)
      workgroup(%w: memref<64xbf16, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      private(%l: memref<8xf32, #gpu.address_space<private>>)
      kernel attributes {known_block_size = array<i32: 96, 2, 1>, nvvm.minctasm = 2 : i32, nvvm.maxnreg = 64 : i32} {
    %t = gpu.thread_id x
    %x = memref.load %m[%t] : memref<?xf32>
    %h = arith.truncf %x : f32 to bf16
    memref.store %h, %w[%t] : memref<64xbf16, #gpu.address_space<workgroup>>
    gpu.barrier
    %r = memref.load %w[%t] : memref<64xbf16, #gpu.address_space<workgroup>>
    llvm.store %r, %a : bf16, !llvm.ptr<1>
    gpu.return
  }
  gpu.func @helper(%x: f32) -> f32 {
    gpu.return %x : f32
  }
"""


def module(*functions: str, target: str = "") -> str:
    return f"module {{ gpu.module @kernels {target} {{ {''.join(functions)} }} }}"


def kernel(name: str, body: str) -> str:
    return KERNEL.format(name=name, body=body, wg=WG)


ALL = module(
    DYNAMIC_SHARED,
    DIRECTIVES,
    *(kernel(name, case.body) for name, case in CASES.items()),
    target=f'[#nvvm.target<chip = "{CHIP}", features = "+ptx83">]',
)


def functions(of: ModuleOp) -> dict[str, gpu.FuncOp]:
    return {op.sym_name.data: op for op in of.walk() if isinstance(op, gpu.FuncOp)}


@pytest.fixture(scope="module")
def ours() -> ModuleOp:
    return parsed(ALL)


@pytest.fixture(scope="module", params=["custom", "generic"])
def theirs(request: pytest.FixtureRequest, ours: ModuleOp) -> ModuleOp:
    return through_mlir_opt(printed(ours, generic=request.param == "generic"))


@pytest.fixture(scope="module")
def whole_ptx() -> str:
    """The PTX of all kernels, from one call of mlir-opt."""
    return to_ptx(module(DYNAMIC_SHARED, DIRECTIVES, *(kernel(name, case.body) for name, case in CASES.items())), CHIP)


@pytest.fixture(scope="module")
def ptx(whole_ptx: str) -> dict[str, str]:
    """Each kernel's part by the kernel's name."""
    names = re.findall(r"\.visible \.entry (\w+)\(", whole_ptx)
    return dict(zip(names, re.split(r"\.visible \.entry \w+\(", whole_ptx)[1:], strict=True))


@pytest.mark.parametrize("name", [*CASES, "directives", "helper"])
def test_mlir_opt_understands_the_same(name: str, ours: ModuleOp, theirs: ModuleOp) -> None:
    mine, other = functions(ours)[name], functions(theirs)[name]
    assert difference(ModuleOp([mine.clone()]), ModuleOp([other.clone()])) == ""


def test_the_module_around_them_is_the_same(ours: ModuleOp, theirs: ModuleOp) -> None:
    assert difference(ours, theirs) == ""


@pytest.mark.parametrize("name", CASES)
def test_ptx(name: str, ptx: dict[str, str]) -> None:
    pattern = ".*".join(f"(?-s:{part})" for part in CASES[name].ptx)
    assert re.search(pattern, ptx[name], re.DOTALL), f"no {CASES[name].ptx} in\n{ptx[name]}"


def test_ptxas_takes_all_of_it(whole_ptx: str) -> None:
    if look("ptxas") is None:
        pytest.skip("no ptxas")
    _, resources = assemble(whole_ptx, CHIP)
    assert set(resources) == {*CASES, "directives"}


def test_ptx_directives(ptx: dict[str, str]) -> None:
    text = ptx["directives"]
    assert len(re.findall(r"\.param", text.split(")")[0])) == 7  # a memref of rank 1 is five
    for directive in (r"\.maxntid 96, 2, 1", r"\.minnctapersm 2", r"\.maxnreg 64"):
        assert re.search(directive, text), directive
    assert "helper" not in ptx  # no kernel


def test_every_operation_of_gpu_and_nvvm_is_tried(ours: ModuleOp) -> None:
    tried = {op.name for op in ours.walk()}
    # lower.py refuses it: upstream makes of it a static variable without size. tests/filecheck has its syntax.
    untried = {"gpu.dynamic_shared_memory"}
    assert {op.name for op in (*gpu.Gpu.operations, *nvvm.Nvvm.operations)} - tried == untried


def names(module: ModuleOp) -> set[str]:
    """Of operations, and of the intrinsics that are called."""
    calls = [op for op in module.walk() if isinstance(op, llvm.CallIntrinsicOp)]
    return {op.name for op in module.walk()} | {call.intrin.data for call in calls}


ELEMENTWISE = (
    *(sw.exp, sw.exp2, sw.expm1, sw.log, sw.log1p, sw.log2, sw.sqrt, sw.rsqrt, sw.sin, sw.cos, sw.tanh, sw.erf),
    *(sw.sigmoid, sw.silu, sw.softplus, sw.relu, abs),
)


def every_function(h: Any, s: Any, x: Any, k: Any, m: Any) -> Any:
    """A step with all that a step may say."""
    terms = [function(x) for function in ELEMENTWISE]
    terms += [
        x / (x + 2),
        x**x,
        -x,
        x - k,
        sw.minimum(x, k),
        sw.maximum(x, 0.3),
        sw.logaddexp(x, 1.0),
        sw.clamp(x, 0, 1),
    ]
    terms += [
        sw.where(m & ~(x < 1) | (k == 3), x, 0.5),
        sw.where(sw.isnan(x), 0.0, x),
        sw.cast(x, "int32"),
        sw.cast(x, "bfloat16"),
    ]
    terms += [(k << 2) ^ (k >> 1) | (k & 7), k * k - k, sw.minimum(k, 5), abs(k), sw.maximum(k, 2)]
    total = sum(terms)
    h = 0.5 * h + total
    s = sw.exp(-x * x) * s + sw.argmax(h, "n") + sw.max(h, "n") + sw.take(h, k & 3, "n")
    return (h, s), (sw.sum(h * x, "n"), sw.logsumexp(h, "n"), sw.where(m, s, -s))


@pytest.fixture
def no_further(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compilations end at the stage `gpu`: no tool is started, and nothing of it is kept."""

    def to_artifact(name: str, texts: dict[str, str], recipe: Recipe) -> Artifact:
        return Artifact(name, CHIP, recipe, texts, {}, {}, {}, {})

    monkeypatch.setattr(compiler, "_to_artifact", lambda _: to_artifact)
    monkeypatch.setattr(sw.config, "cache_dir", tmp_path)


def used(program: Any, call: dict[str, Any], **options: Any) -> set[str]:
    return names(parsed(program.artifact_for(CHIP, **call, **options).stages["gpu"]))


@pytest.mark.parametrize(
    ("dtype", "strategy"),
    [(torch.float32, "lanes"), (torch.float32, "blelloch"), (torch.float64, "serial"), (torch.bfloat16, "serial")],
)
def test_whatever_a_step_says_is_tried(dtype: torch.dtype, strategy: str, ours: ModuleOp, no_further: None) -> None:
    signature = "h[b n], s[b]; x[b t], k[b t], m[b t] -> y[b t], l[b t], z[b t]"
    program = sw.recurrence(signature)(every_function)
    x = torch.rand(2, 9, dtype=dtype)
    call = {"x": x, "k": torch.ones(2, 9, dtype=torch.int32), "m": x > 0.5, "init": (torch.zeros(2, 4), None)}
    assert used(program, call, strategy=strategy) - names(ours) == set()


@pytest.mark.parametrize("file", GALLERY, ids=lambda file: file.stem)
def test_all_that_the_gallery_uses_is_tried(file: Path, ours: ModuleOp, no_further: None) -> None:
    def rand(*shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        return low + (high - low) * torch.rand(shape)

    program, call = runpy.run_path(str(file))["example"](rand)
    assert used(program, call) - names(ours) == set()


def test_constructors_build_what_the_text_says() -> None:
    text = module(
        DYNAMIC_SHARED,
        """
  gpu.func @k(%p: !llvm.ptr<1>, %x: f32) workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>
      {llvm.align = 16 : i64}) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 2 : i32} {
    %t = gpu.thread_id x
    %g = gpu.grid_dim y upper_bound 7
    %l = gpu.lane_id
    %c = arith.constant 1 : i32
    %s, %ok = gpu.shuffle up %x, %c, %c : f32
    %f = nvvm.shfl.sync idx %c, %x, %c, %c {return_value_and_is_valid} : f32 -> !llvm.struct<(f32, i1)>
    gpu.barrier
    nvvm.barrier id = %c
    %a = llvm.mlir.addressof @dynamic_shared : !llvm.ptr<3>
    nvvm.cp.async.shared.global %a, %p, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
    nvvm.cp.async.wait.group 1
    gpu.return
  }""",
        target='[#nvvm.target<chip = "sm_90", features = "+ptx83">]',
    )
    function = gpu.FuncOp(
        "k",
        [llvm.LLVMPointerType(IntAttr(1)), f32],
        known_block_size=(128, 1, 1),
        workgroup=[gpu.workgroup_memref([64], f32)],
        attributes={"nvvm.minctasm": IntegerAttr(2, i32)},
    )
    pointer, x = function.arguments
    c = arith.ConstantOp.from_int_and_width(1, 32)
    shared = llvm.AddressOfOp(gpu.DYNAMIC_SHARED, llvm.LLVMPointerType(IntAttr(3)))
    function.body.block.add_ops(
        [
            gpu.ThreadIdOp("x"),
            gpu.GridDimOp("y", upper_bound=7),
            gpu.LaneIdOp(),
            c,
            gpu.ShuffleOp(x, c, c, "up"),
            nvvm.ShflSyncOp(c, x, c, c, "idx", return_valid=True),
            gpu.BarrierOp(),
            nvvm.BarrierOp(c),
            shared,
            nvvm.CpAsyncOp(shared, pointer, 16),
            nvvm.CpAsyncWaitGroupOp(1),
            gpu.ReturnOp(),
        ]
    )
    target = nvvm.TargetAttr("sm_90", "+ptx83")
    built = ModuleOp([gpu.ModuleOp("kernels", [gpu.dynamic_shared_global(), function], targets=[target])])
    built.verify()
    assert difference(built, parsed(text)) == ""
    assert [value.type for value in function.workgroup] == [gpu.workgroup_memref([64], f32)]


# A check that cannot fail checks nothing: spellings that mlir-opt takes without a word.

WRONG = {
    "block_size_with_a_prefix": (
        "known_block_size = array<i32: 32, 4, 2>",
        "gpu.known_block_size = array<i32: 32, 4, 2>",
    ),
    "block_size_in_brackets": ("known_block_size = array<i32: 32, 4, 2>", "known_block_size = [32, 4, 2]"),
    "misspelt_attribute": ("gpu.thread_id x", "gpu.thread_id x {upper_bond = 4 : index}"),
    "misspelt_directive": ("known_block_size =", "nvvm.minctas = 2 : i32, known_block_size ="),
    "directive_of_a_wrong_type": ("known_block_size =", "nvvm.minctasm = 2 : i64, known_block_size ="),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_spelling_is_refused_by_us_and_not_by_mlir_opt(wrong: str) -> None:
    text = module(kernel("k", ""))
    assert text.count(WRONG[wrong][0]) == 1
    misspelt = text.replace(*WRONG[wrong])
    run_tool(find("mlir-opt"), [INPUT], misspelt, suffix=".mlir")  # takes it
    with pytest.raises(Exception, match=r"mlir-opt would drop it|known_block_size|positive i32"):
        parsed(misspelt)


def test_what_mlir_opt_lost_is_told() -> None:
    """The comparison itself: `ours` as xDSL's gpu dialect has it, with names that mlir-opt does not look for."""
    right = parsed(module(kernel("k", "")))
    lost = parsed(module(kernel("k", "").replace("kernel attributes", "attributes")))
    assert "gpu.kernel" in difference(right, through_mlir_opt(printed(lost, generic=True)))
    shrunk = parsed(module(kernel("k", "").replace("array<i32: 32, 4, 2>", "array<i32: 64, 1, 1>")))
    assert "known_block_size" in difference(right, through_mlir_opt(printed(shrunk, generic=False)))


def test_a_word_on_stderr_fails() -> None:
    with pytest.raises(ToolchainError, match="no_such_operation"):
        through_mlir_opt('"gpu.no_such_operation"() : () -> ()')


def test_a_wrong_ptx_expectation_fails(ptx: dict[str, str]) -> None:
    assert not re.search(r"ex2\.approx\.ftz", ptx["ex2"])
    assert not re.search(r"fma", ptx["addf"])
