// RUN: not scanweaver-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix PASS
// RUN: not scanweaver-opt %s -p "cse{a=1}" 2>&1 | filecheck %s --check-prefix OPTION
// RUN: not scanweaver-opt %s -p "cse{a" 2>&1 | filecheck %s --check-prefix SPEC
// RUN: not scanweaver-opt %s.missing 2>&1 | filecheck %s --check-prefix MISSING
// RUN: not scanweaver-opt %s -t elf 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not scanweaver-opt %s -t "ptx{chp=sm_90}" 2>&1 | filecheck %s --check-prefix CHIP
// RUN: not scanweaver-opt %s --chip sm_90 2>&1 | filecheck %s --check-prefix WHERE
// RUN: not scanweaver-opt %s 2>&1 | filecheck %s --check-prefix PARSE

// PASS:    scanweaver-opt: error: argument -p/--passes: Unrecognized passes: ['no-such-pass']
// OPTION:  scanweaver-opt: error: argument -p/--passes: Provided arguments ["a"] not found
// SPEC:    scanweaver-opt: error: Error parsing pass pipeline specification
// MISSING: scanweaver-opt: error: cannot read {{.*}}.missing: No such file or directory
// TARGET:  scanweaver-opt: error: argument -t/--target: invalid choice: 'elf'
// CHIP:    scanweaver-opt: error: argument -t/--target: Provided arguments ["chp"] not found
// WHERE:   scanweaver-opt: error: --chip goes with -t nvvm, ptx, cubin; the target is mlir
// PARSE:   scanweaver-opt: error: {{.*}}errors.mlir:
// PARSE:   Operation no.such is not registered
"no.such"() : () -> ()
