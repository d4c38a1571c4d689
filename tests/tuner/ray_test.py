"""Workers on a Ray cluster of three nodes, one of which is killed while they work. Usage: ray_test.py NESTOR. Needs the
Python package ray; exits with 77 (skipped) without it."""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NESTOR = str(Path(sys.argv[1]).resolve())
try:
    import ray  # noqa: F401
    from ray.cluster_utils import Cluster
except ImportError:
    print("SKIPPED: the Python package ray isn't installed")
    sys.exit(77)


def main():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    doomed = cluster.add_node(num_cpus=2)
    cluster.add_node(num_cpus=2)
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "tune.db"
        process = subprocess.Popen(
            [NESTOR, "tune", "MatMul(f32[40,24], const f32[24,1000])", "--db", str(db), "--threads", "1", "--trials", "40",
             "--time", "120s", "--workers", f"ray:{cluster.address}", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and len(done(db)) < 8:
            time.sleep(0.2)
        cluster.remove_node(doomed, allow_graceful=False)
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        result = json.loads(out)
        assert result["measured"] == 40 == sum(result["outcomes"].values()), result
        # What waits too long for the actor's new start is measured again, as another trial.
        assert result["outcomes"]["ok"] >= 35, (result, err)
        assert len(done(db)) == 40, "a trial is missing"
    cluster.shutdown()
    print("ok: 40 trials, a node killed among them")


def done(db):
    if not db.exists():
        return []
    listed = subprocess.run([NESTOR, "db", str(db), "list", "--json"], capture_output=True, text=True)
    return listed.stdout.splitlines() if listed.returncode == 0 else []


if __name__ == "__main__":
    main()
