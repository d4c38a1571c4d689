#!/usr/bin/env bash
# What README promises of a fresh Debian 12, done in one: a root that debootstrap makes, which has none of the packages of
# this machine. As root; it says SKIPPED, with the reason, where no root can be made.
#
#   tests/fresh_debian.sh [--quick] [--keep] [--cache=DIR]
#
#  1. The wheel in build/wheels (./dev wheel) is installed by pip, without LLVM; README's lines of Python and docs/python.md run.
#  2. ./dev demo and ./dev test, on a copy of what is committed. With --quick neither.
#  3. The installed program and its CMake package make the example of examples/cmake, which labels an image. With --quick the
#     program is that of build/release, and the root gets the libraries that it loads.
#
# Mirrors, proxies and certificates are those of this machine. --keep leaves the root where it was made.
# With --cache=DIR the compilers in the root use DIR as ccache's folder, so that ./dev test needn't compile for an hour.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "SKIPPED: $*"
  exit 0
}
say() { printf '\033[1m==> %s\033[0m\n' "$*"; }

quick= keep= cache=
for word in "$@"; do
  case $word in
    --quick) quick=1 ;;
    --keep) keep=1 ;;
    --cache=*) cache=$(realpath -e "${word#*=}") ;;
    *) echo "usage: tests/fresh_debian.sh [--quick] [--keep] [--cache=DIR]" >&2 && exit 2 ;;
  esac
done

# Mounts of this script's own go with it.
if [ -z "${NESTOR_OWN_MOUNTS:-}" ]; then
  [ "$(id -u)" = 0 ] || skip "a root is made by root alone"
  command -v debootstrap > /dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
  unshare --mount true 2> /dev/null || skip "this machine gives no mounts of one's own"
  NESTOR_OWN_MOUNTS=1 exec unshare --mount --fork --kill-child "$0" "$@"
fi

wheel=$(ls build/wheels/nestor-*.whl 2> /dev/null | tail -1) || true
[ -n "$wheel" ] || skip "there is no wheel (./dev wheel)"
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2> /dev/null |
  sed -nE 's/^URIs: *(\S+).*/\1/p; s/^deb +(\[[^]]*\] +)?(\S+).*/\2/p' | grep -E '/debian/?$' | head -1) || true
[ -n "$mirror" ] || skip "no mirror of Debian is among the sources of apt"

root=$(mktemp -d "${TMPDIR:-/var/tmp}/nestor-debian.XXXXXX") && chmod 755 "$root"  # apt's own user reads there
finish() {
  local status=$?
  umount -R -l "$root/proc" "$root/sys" "$root/dev" "$root/ccache" 2> /dev/null || true
  grep -q " $root/" /proc/self/mounts && echo "left: $root, where something is still mounted" && exit 1
  [ -n "$keep" ] && echo "the root is $root" || rm -rf --one-file-system "$root"
  exit $status
}
trap finish EXIT

say "a root of Debian 12"
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" > "$root.log" 2>&1 ||
  { tail -5 "$root.log"; rm -f "$root.log"; skip "debootstrap makes no root"; }
rm -f "$root.log"
rm -f "$root/etc/apt/sources.list"
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/keyrings /usr/share/keyrings \
  /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf /etc/resolv.conf /etc/hosts; do
  [ -e $path ] && mkdir -p "$root$(dirname $path)" && cp -rL --remove-destination $path "$root$(dirname $path)/" 2> /dev/null || true
done
{ mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" && mount -t proc proc "$root/proc"; } ||
  skip "this machine mounts nothing in the root"
[ -z "$cache" ] || { mkdir "$root/ccache" && mount --bind "$cache" "$root/ccache"; }
chroot "$root" /bin/true || skip "this machine lets nothing run in the root"
mkdir "$root/nestor" "$root/wheel"
git archive HEAD | tar -x -C "$root/nestor"
cp "$wheel" "$root/wheel/"

inside() { # SCRIPT: by bash in the root, from the sources
  chroot "$root" /usr/bin/env HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${cache:+CCACHE_DIR=/ccache CCACHE_BASEDIR=/nestor CCACHE_NOHASHDIR=1} \
    DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "cd /nestor; $1"
}
need() { inside "apt-get install -y -qq --no-install-recommends $* > /dev/null"; }
inside 'apt-get update -qq'

say "pip install of the wheel, and README's lines of Python"
need python3 python3-venv
inside '! ls /usr/lib/llvm-* 2> /dev/null
python3 -m venv /venv && /venv/bin/pip install --quiet /wheel/*.whl
mkdir /try && cd /try && cp /nestor/examples/digits/digits.onnx model.onnx
cat > readme.py <<END
import re, numpy as np
x = np.zeros((1, 1, 8, 8), "float32")
blocks = re.findall(r"^\`\`\`python\n(.*?)^\`\`\`", open("/nestor/README.md").read(), re.M | re.S)
assert blocks
import nestor
m = nestor.compile("model.onnx", dims={"batch": 1})  # where README has a module of PyTorch, which the root has not
for block in blocks:
    lines = "".join(line + "\n" for line in block.splitlines() if "torch" not in line and "net =" not in line)
    exec(lines, globals())
    print(lines)
END
/venv/bin/python readme.py
/venv/bin/nestor --version
/venv/bin/python /nestor/tests/python/docs_test.py'

if [ -z "$quick" ]; then
  say "./dev demo"
  inside './dev demo'
  say "./dev test"
  inside './dev test'
  inside 'cmake --install build/release --prefix /opt/nestor'
else
  say "the program of build/release, with the libraries that it loads"
  [ -x build/release/bin/nestor ] || { echo "build/release has no program: ./dev build" >&2 && exit 1; }
  cmake --install build/release --prefix "$root/opt/nestor" > /dev/null
  need $(ldd build/release/bin/nestor | awk '$3 ~ /^\// {print $3}' | xargs -n 1 realpath | xargs dpkg -S 2> /dev/null | cut -d: -f1 | sort -u) \
    cmake make gcc libc6-dev
fi

say "the CMake example"
inside 'cmake -S examples/cmake -B /try/which_digit -DCMAKE_PREFIX_PATH=/opt/nestor > /dev/null
cmake --build /try/which_digit > /dev/null
printf "%s " 0 0 5 13 9 1 0 0 0 0 13 15 10 15 5 0 0 3 15 2 0 11 8 0 0 4 12 0 0 8 8 0 0 5 8 0 0 9 8 0 0 4 11 0 1 12 7 0 0 2 14 5 10 12 0 0 0 0 6 13 10 0 0 0 |
  /try/which_digit/which_digit | tee /try/said
grep -qx "[0-9]" /try/said'
echo "a fresh Debian 12 does what README says"
