func mm(in A: f32[60,33], in B: f32[33,70], out Y: f32[60,70]) {
  for i in 60, j in 70, k in 33 {
    block Y(vi: S 60 = i, vj: S 70 = j, vk: R 33 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
}
---
i0 j0 i1 j1 = tile Y (i j) [16, 16]
k0 k1 = split Y.k [_, 8]
reorder Y (i0 j0 k0 i1 j1 k1)
As = cache_read Y A shared
Bs = cache_read Y B shared
a b = compute_at As Y.k0
c d = compute_at Bs Y.k0
software_pipeline Y.k0 stages=3
bind Y.i0 blockIdx.y
bind Y.j0 blockIdx.x
bind Y.i1 threadIdx.y
bind Y.j1 threadIdx.x
bind As.a threadIdx.y
bind As.b threadIdx.x
bind Bs.d threadIdx.y
bind Bs.c threadIdx.x
