func h(in X: f32[64], out A: f32[12,64]) {
  for i in 64 {
    block A0(vi: S 64 = i) {
      A[0,vi] = X[vi]
    }
  }
  for t in 11, i in 64 {
    block A(vt: S 11 = t, vi: S 64 = i) {
      A[vt+1,vi] = if 1 <= vi && vi < 63 then (A[vt,vi-1] + A[vt,vi] * 2.0f32 + A[vt,vi+1]) * 0.25f32 else A[vt,vi]
    }
  }
}
---
vectorize A.i
