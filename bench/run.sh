#!/usr/bin/env bash
# The benchmarks, called by ./dev bench with the build folder: bench/run.sh BUILD [cpu|random|sizes|definitions|models|compile|pool|proof|all] [ARG ...]
# ARGs go to the benchmark, e.g. `./dev bench cpu --benchmark_filter=dw --seconds=3`.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(readlink -f "$1")
name=${2:-all}
shift $(($# < 2 ? $# : 2))
python=build/venv/bin/python
out=$build/bench
mkdir -p "$out"

beside_libraries() {  # NAME [ARG ...]: the run to NAME.json, NAME.html
  cmake --build "$build" --target bench_cpu > "$out/build.log" || { cat "$out/build.log"; exit 1; }
  "$build/bin/bench_cpu" --benchmark_out="$out/$1.json" "${@:2}"
  $python bench/cpu/report.py "$out/$1.json" "$out/$1.html"
  $python bench/cpu/summary.py "$out/$1.json"
}

cpu() {
  echo "== untuned operators beside oneDNN and OpenBLAS"
  beside_libraries cpu "$@"
}

random() {  # --seed=S and --count=N are the draw's, the rest bench_cpu's
  local draw=() rest=() arg
  for arg in "$@"; do
    case $arg in --seed=* | --count=*) draw+=("$arg") ;; *) rest+=("$arg") ;; esac
  done
  echo "== operators of random shapes beside oneDNN and OpenBLAS"
  $python bench/cpu/random_works.py "${draw[@]}" > "$out/random.txt"
  beside_libraries random --works="$out/random.txt" "${rest[@]}"
}

sizes() {
  echo "== untuned matrix products of random sizes"
  $python bench/matmul_sizes.py "$build/bin/nestor" "$@"
}

definitions() {
  echo "== the library's definitions beside naive nests"
  $python bench/definitions.py "$build/bin/nestor" "$@"
}

models() {
  echo "== untuned networks beside ONNX Runtime and OpenVINO"
  $python -c 'import openvino' 2> /dev/null || build/venv/bin/pip install --quiet --disable-pip-version-check openvino
  [ -f "$out/mobilenetv2.onnx" ] || $python examples/mobilenet/make.py "$out" > /dev/null
  [ -f "$out/resnet50.onnx" ] || $python examples/models/light.py "$out" resnet50 > /dev/null
  local model
  for model in mobilenetv2 resnet50; do
    "$build/bin/nestor" compile "$out/$model.onnx" --threads 1 -o "$out/$model.so"
    $python bench/peers/side_by_side.py "$out/$model.onnx" "default=$out/$model.so" --threads 1 --seconds 5 "$@"
  done
}

compile() {
  echo "== compile time"
  "$build/bin/bench_compile_time" "$@"
}

proof() {
  echo "== how long the proof of a schedule takes"
  "$build/bin/bench_proof_time"
}

pool() {  # [THREADS] [none|compact|spread]
  cmake --build "$build" --target bench_pool > "$out/build.log" || { cat "$out/build.log"; exit 1; }
  echo "== what a parallel loop costs"
  "$build/bin/bench_pool" "$@"
}

case $name in
  cpu | random | sizes | definitions | models | compile | pool | proof) "$name" "$@" ;;
  all) sizes && definitions && cpu && models && compile && pool && proof ;;
  *) echo "no benchmark is called $name; there are cpu, random, sizes, definitions, models, compile, pool, proof and all" >&2; exit 2 ;;
esac
