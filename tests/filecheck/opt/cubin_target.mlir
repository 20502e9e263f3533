// REQUIRES: ptxas
// RUN: scanweaver-opt %s -t cubin -o %t.cubin
// RUN: scanweaver-opt %s -t cubin > %t.piped
// RUN: diff %t.cubin %t.piped
// RUN: %python -c "import sys; print(open(sys.argv[1], 'rb').read(4))" %t.cubin | filecheck %s

// CHECK: b'\x7fELF'

builtin.module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @nothing() kernel {
      gpu.return
    }
  }
}
