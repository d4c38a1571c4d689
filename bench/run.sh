#!/usr/bin/env bash
# The benchmarks, called by ./dev bench with the build folder: bench/run.sh BUILD [cpu|random|torch|attention|verify|sizes|definitions|models|compile|networks|pool|proof|python|errors|other|tune|all] [ARG ...]
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

# --seed=S, --count=N and --families=A,B draw works of random shapes; otherwise they are those of works.txt. The rest goes to the benchmark.
choose_works() {
  local draw=() arg
  rest=() works=bench/cpu/works.txt
  for arg in "$@"; do
    case $arg in --seed=* | --count=* | --families=*) draw+=("$arg") ;; *) rest+=("$arg") ;; esac
  done
  [ ${#draw[@]} -gt 0 ] || return 0
  works=$out/random.txt
  $python bench/cpu/random_works.py "${draw[@]}" > "$works"
}

# One table over all peers, PyTorch too where it is installed.
random() {
  choose_works --count=100 "$@"
  cmake --build "$build" --target bench_cpu > "$out/build.log" || { cat "$out/build.log"; exit 1; }
  echo "== operators of random shapes beside oneDNN, OpenBLAS and PyTorch (progress in $out/random.log)"
  : > "$out/random.log"
  "$build/bin/bench_cpu" --works="$works" --benchmark_out="$out/random.json" "${rest[@]}" >> "$out/random.log"
  local torch=() both=() arg
  for arg in "${rest[@]}"; do
    case $arg in --threads=* | --seconds=*) both+=("$arg") ;; esac
  done
  if [ -x build/torch/bin/python ]; then
    build/torch/bin/python bench/peers/beside_torch.py "$build/bin/nestor" "$works" --json "$out/random_torch.json" \
      "${both[@]}" >> "$out/random.log"
    torch=("$out/random_torch.json")
  else
    cat "$out/random.log"
    echo "PyTorch isn't among the peers: \`./dev bench torch\` installs it in build/torch, some 5 GB"
  fi
  $python bench/cpu/report.py "$out/random.json" "$out/random.html"
  $python bench/cpu/summary.py "$out/random.json" "${torch[@]}"
}

need_torch() {
  if ! [ -x build/torch/bin/python ]; then
    echo "installing PyTorch in build/torch, some 5 GB"
    python3 -m venv build/torch && build/torch/bin/pip install --quiet --disable-pip-version-check numpy torch onnx onnxruntime
  fi
}

torch() {
  choose_works "$@"
  need_torch
  echo "== untuned operators beside PyTorch"
  build/torch/bin/python bench/peers/beside_torch.py "$build/bin/nestor" "$works" --json "$out/torch.json" "${rest[@]}"
}

attention() {
  $python bench/cpu/attention_works.py "$out/attention"
  need_torch
  echo "== attention beside PyTorch and ONNX Runtime"
  build/torch/bin/python bench/peers/beside_torch.py "$build/bin/nestor" "$out/attention/works.txt" --json "$out/attention.json" "$@"
}

verify() {
  choose_works "$@"
  echo "== kernels within their error bounds, schedules proved"
  $python bench/cpu/verify_works.py "$build/bin/nestor" "$works" "${rest[@]}"
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
  make_networks
  local model
  for model in mobilenetv2 resnet50; do
    [ -f "$out/${model}_int8.onnx" ] || $python examples/models/quantize.py "$out/$model.onnx" "$out/${model}_int8.onnx" 2> /dev/null
    beside_runtimes "$model" "$@"
    # Bytes are rounded to steps: of sums that lie between two, runtimes choose one or the other.
    beside_runtimes "${model}_int8" --tolerance 0.1 "$@"
  done
}

make_networks() {
  [ -f "$out/mobilenetv2.onnx" ] || $python examples/mobilenet/make.py "$out" > /dev/null
  [ -f "$out/resnet50.onnx" ] || $python examples/models/light.py "$out" resnet50 > /dev/null
}

beside_runtimes() {  # MODEL [ARG ...]
  NESTOR_PYTHON=$python "$build/bin/nestor" bench "$out/$1.onnx" --beside onnxruntime,openvino --threads 1 --seconds 5 "${@:2}"
}

compile() {
  echo "== compile time"
  "$build/bin/bench_compile_time" "$@"
}

# NESTOR ... of other builds are measured beside this one.
networks() {  # [NESTOR ...] [--times N]
  echo "== time and memory of compiling networks"
  make_networks
  [ -f "$out/bert/bert_block.onnx" ] || $python examples/models/bert_block.py "$out/bert" --layers 12 --hidden 768 --heads 12 --tokens 128 > /dev/null
  $python bench/compile_models.py "$build/bin/nestor" "$@" --models "$out"/{mobilenetv2,resnet50,bert/bert_block}.onnx
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

python() {  # [--times N]
  cmake --build "$build" --target nestor_python > "$out/build.log" || { cat "$out/build.log"; exit 1; }
  echo "== what Python costs"
  PYTHONPATH=$build/python $python bench/python_times.py "$@"
}

errors() {  # [--target=T] [--stride=N] [OPERATOR ...]
  cmake --build "$build" --target bench_errors > "$out/build.log" || { cat "$out/build.log"; exit 1; }
  echo "== the largest errors of unary operators over all floats (minutes each)"
  "$build/bin/bench_errors" "$@"
}

other() {  # OTHER_NESTOR [ARG ...]
  echo "== this build beside another one"
  $python bench/other_build.py "$build/bin/nestor" "$@"
}

tune() {  # [--time 60s] [--trials N] [--operators]
  echo "== what tuning finds"
  $python bench/tune/gains.py "$build/bin/nestor" "$@"
}

case $name in
  cpu | random | torch | attention | verify | sizes | definitions | models | compile | networks | pool | proof | python | errors | other | tune) "$name" "$@" ;;
  all) sizes && definitions && cpu && models && compile && pool && proof && python ;;
  *) echo "no benchmark is called $name; there are cpu, random, torch, attention, verify, sizes, definitions, models, compile, networks, pool, proof, python, errors, other, tune and all" >&2; exit 2 ;;
esac
