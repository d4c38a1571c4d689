// Small functions for the pictures of the table of primitives (Example in primitive.h).
#pragma once

namespace nestor::schedules::examples {

inline constexpr const char* kMap = R"(func f(in X: f32[100], out Y: f32[100]) {
  for i in 100 {
    block Y(vi: S 100 = i) {
      Y[vi] = X[vi] * 2.0f32
    }
  }
})";

inline constexpr const char* kGrid = R"(func f(in X: f32[8,48], out Y: f32[8,48]) {
  for i in 8, j in 48 {
    block Y(vi: S 8 = i, vj: S 48 = j) {
      Y[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
})";

inline constexpr const char* kMatmul = R"(func f(in A: f32[64,48], const B: f32[48,96], out Y: f32[64,96]) {
  for i in 64, j in 96, k in 48 {
    block Y(vi: S 64 = i, vj: S 96 = j, vk: R 48 = k) {
      init { Y[vi,vj] = 0.0f32 }
      Y[vi,vj] += A[vi,vk] * B[vk,vj]
    }
  }
})";

inline constexpr const char* kSums = R"(func f(in X: f32[8,64], out Y: f32[8]) {
  for i in 8, k in 64 {
    block Y(vi: S 8 = i, vk: R 64 = k) {
      init { Y[vi] = 0.0f32 }
      Y[vi] += X[vi,vk]
    }
  }
})";

// A product of bytes, of which the second is stored as an instruction for it reads it.
inline constexpr const char* kDot = R"(func f(in A: u8[4,8], const B: i8[32,8], out C: i32[4,32]) {
  for i in 4, j in 32, k in 8 {
    block C(vi: S 4 = i, vj: S 32 = j, vk: R 8 = k) {
      init { C[vi,vj] = 0i32 }
      C[vi,vj] += i32(A[vi,vk]) * i32(B[vj,vk])
    }
  }
})";

// A producer and a consumer of the same shape.
inline constexpr const char* kChain = R"(func f(in X: f32[8,48], out Y: f32[8,48]) {
  alloc T: f32[8,48]
  for i in 8, j in 48 {
    block T(vi: S 8 = i, vj: S 48 = j) {
      T[vi,vj] = X[vi,vj] * 2.0f32
    }
  }
  for i in 8, j in 48 {
    block Y(vi: S 8 = i, vj: S 48 = j) {
      Y[vi,vj] = T[vi,vj] + 1.0f32
    }
  }
})";

// The same in one loop.
inline constexpr const char* kPair = R"(func f(in X: f32[8], out Y: f32[8]) {
  alloc T: f32[8]
  for i in 8 {
    block T(vi: S 8 = i) {
      T[vi] = X[vi] * 2.0f32
    }
    block Y(vi: S 8 = i) {
      Y[vi] = T[vi] + 1.0f32
    }
  }
})";

// A padded input and a sum over a window of it.
inline constexpr const char* kWindow = R"(func f(in X: f32[56], const W: f32[3], out Y: f32[56]) {
  alloc P: f32[58]
  for i in 58 {
    block P(vi: S 58 = i) {
      P[vi] = if 1 <= vi && vi < 57 then X[vi-1] else 0.0f32
    }
  }
  for x in 56, r in 3 {
    block Y(vx: S 56 = x, vr: R 3 = r) {
      init { Y[vx] = 0.0f32 }
      Y[vx] += P[vx+vr] * W[vr]
    }
  }
})";

// The same without the padded copy.
inline constexpr const char* kPaddedSum = R"(func f(in X: f32[56], const W: f32[3], out Y: f32[56]) {
  for x in 56, r in 3 {
    block Y(vx: S 56 = x, vr: R 3 = r) {
      init { Y[vx] = 0.0f32 }
      Y[vx] += (if 1 <= vx + vr && vx + vr < 57 then X[vx+vr-1] else 0.0f32) * W[vr]
    }
  }
})";

// A matrix-vector product and an epilogue.
inline constexpr const char* kEpilogue = R"(func f(in A: f32[64,48], in x: f32[48], out Y: f32[64]) {
  alloc T: f32[64]
  for i in 64, k in 48 {
    block T(vi: S 64 = i, vk: R 48 = k) {
      init { T[vi] = 0.0f32 }
      T[vi] += A[vi,vk] * x[vk]
    }
  }
  for i in 64 {
    block Y(vi: S 64 = i) {
      Y[vi] = max(0.0f32, T[vi])
    }
  }
})";

}  // namespace nestor::schedules::examples
