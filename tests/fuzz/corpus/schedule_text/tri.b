func tri(in A: f32[40,40], in B: f32[40], out Y: f32[40]) {
  for i in 40, k in 40 {
    block Y(vi: S 40 = i, vk: R 40 = k) where vk <= vi {
      init { Y[vi] = 0.0f32 }
      Y[vi] += A[vi,vk] * B[vk]
    }
  }
}
---
k0 k1 = split Y.k [_, 16] tail=mask
R = rfactor Y.k1
