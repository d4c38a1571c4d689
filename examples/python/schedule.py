"""Writes a schedule for a matrix product, step by step, and times it beside the naive loops and the default."""

import nestor

f = nestor.func("MatMul(f32[256,256], const f32[256,256])", threads=1)
s = f.schedule()
s.cache_write("Y", "local", results="Y_out")
s.split("Y.j", [None, 16], results="j0 j1")
s.split("Y.i", [None, 8], results="i0 i1")
s.reorder("Y", "(i0 j0 k i1 j1)")
s.reverse_compute_at("Y_out", "Y.j0", results="wi wj")
s.vectorize("Y.j1").vectorize("Y_out.wj").unroll("Y.i1").unroll("Y_out.wi")

assert s.verify(), s.verify().text
print("naive  ", f.bench(f.schedule()))
print("by hand", f.bench(s))
print("default", f.bench("default"))

# What isn't possible says so, and what is instead.
try:
    s.parallel("Y.k")
except nestor.ScheduleError as e:
    print(e)
