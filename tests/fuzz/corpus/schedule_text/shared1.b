func f(in X: f32[16,20], out Y: f32[16,20]) {
  for i in 16 {
    alloc T: f32[20] {
      for j in 20 {
        block T(vi: S 16 = i, vj: S 20 = j) {
          T[vj] = X[vi,vj] * 3.0f32
        }
      }
      for j in 20 {
        block Y(vi: S 16 = i, vj: S 20 = j) {
          Y[vi,vj] = T[vj] + T[19-vj]
        }
      }
    }
  }
}
---
vectorize Y.i
