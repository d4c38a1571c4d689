"""A tuner's worker on a Ray cluster: each line of stdin is a job, which an actor on some node has done, by `nestor worker`
there. Where its node dies Ray starts the actor elsewhere and gives it the job again.

    ray_worker.py ADDRESS NESTOR...  ADDRESS: "auto", or host:port of a cluster; NESTOR: the command on every node, its words
    ray_worker.py ADDRESS --count    prints how many nodes the cluster has
"""

import ctypes
import json
import os
import signal
import subprocess
import sys


def die_with_parent():
    """A candidate that hangs doesn't outlive its actor."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main():
    address, nestor = sys.argv[1], sys.argv[2:]
    # Answers alone go to stdout, whatever Ray has to say.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        import ray
    except ImportError:
        sys.exit("workers on Ray need the Python package ray: pip install ray")
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        sys.exit(f"there is no Ray cluster at {address}: {error}")
    if nestor == ["--count"]:
        answers.write(f"{sum(node['Alive'] for node in ray.nodes())}\n")
        answers.flush()
        return

    @ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=3, scheduling_strategy="SPREAD")
    class Worker:
        def __init__(self):
            self.process = None

        def measure(self, line):
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen([*nestor, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                text=True, preexec_fn=die_with_parent)
            try:
                self.process.stdin.write(line)
                self.process.stdin.flush()
                answer = self.process.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if answer:
                return answer
            ended = self.process.wait()  # the candidate took its process along
            how = f"signal {signal.Signals(-ended).name}" if ended < 0 else f"exit code {ended}"
            return json.dumps({"id": json.loads(line)["id"], "outcome": "crash", "detail": f"its process ended by {how}"}) + "\n"

    worker = Worker.remote()
    for line in sys.stdin:
        answers.write(ray.get(worker.measure.remote(line)))
        answers.flush()


if __name__ == "__main__":
    main()
