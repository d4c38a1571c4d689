func mm(in A: f32[30,23], const B: f32[23,50], out Y: f32[30,50]) {
  for i in 30, j in 50, k in 23 {
    block Y(vi: S 30 = i, vj: S 50 = j, vk: R 23 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
---
Bt Yt = pad_einsum Y [8, 16, 8]
