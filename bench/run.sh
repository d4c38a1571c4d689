#!/usr/bin/env bash
# The benchmarks, called by ./dev bench with the build folder: bench/run.sh BUILD [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(readlink -f "$1")
seed=${2:-0}
python=build/venv/bin/python
out=$build/bench
mkdir -p "$out"

echo "== untuned matrix products, seed $seed"
$python bench/matmul_sizes.py "$build/bin/nestor" --seed "$seed"
echo "== untuned MobileNetV2 beside ONNX Runtime"
[ -f "$out/mobilenetv2.onnx" ] || $python examples/mobilenet/make.py "$out" > /dev/null
"$build/bin/nestor" compile "$out/mobilenetv2.onnx" --threads 1 -o "$out/mobilenetv2.so"
$python bench/peers/side_by_side.py "$out/mobilenetv2.onnx" "default=$out/mobilenetv2.so" --threads 1 --seconds 3
echo "== compile time"
"$build/bin/bench_compile_time"
