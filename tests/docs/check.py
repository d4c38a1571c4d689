#!/usr/bin/env python3
"""Runs what README.md and docs/*.md show. In a block

    ```console
    $ nestor inspect ... --stage func
    func matmul(...
    ...
    ```

each line after `$ ` is a command for bash, the lines up to the next one what it must print (stdout and stderr). A line
that is only `...` stands for any number of lines; `...` inside a line for any text. Commands run in a scratch
folder with `examples` linked in; `nestor` is on the PATH. Other blocks are not run.

Links between documents must lead somewhere; prose.py checks that the index has them all.
What docs/limits.md calls unsupported must be so.

Each use of a .sched file says on stderr that the schedule is proved: such lines need not be shown.

    check.py --bin FOLDER [--update] [--only FILE ...]        --update writes what is printed into the blocks
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile


def blocks(lines):
    """(first line, lines) of each console block."""
    start = None
    for i, line in enumerate(lines):
        if start is None and line.strip() == "```console":
            start = i + 1
        elif start is not None and line.strip() == "```":
            yield start, lines[start:i]
            start = None


def steps(block):
    """(command, expected lines) of each `$ ` line; a trailing backslash continues the command."""
    result = []
    continued = False
    for line in block:
        if line.startswith("$ "):
            result.append([line[2:], []])
        elif continued:
            result[-1][0] += "\n" + line
        elif result:
            result[-1][1].append(line)
        continued = bool(result) and not result[-1][1] and result[-1][0].endswith("\\")
    return result


def matches(expected, got):
    """`...` alone skips lines, inside a line it skips text."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in got)) is not None


PROVED = re.compile(r"\S+\.sched: the schedule of \w+ is proved in ")


def without_proofs(got, expected):
    if any(PROVED.match(line) for line in expected):
        return got
    return [line for line in got if not PROVED.match(line)]


def anchor(heading):
    """As GitHub makes them: `## From CMake` is #from-cmake."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(path):
    with open(path) as f:
        text = re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", text, re.M)}


def broken_links(documents):
    """Links that lead nowhere, and files that contributing.md and internals.md name and that aren't there."""
    for path in documents:
        with open(path) as f:
            text = f.read()
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if "://" in link:
                continue
            to, _, at = link.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), to)) if to else path
            if not os.path.exists(to):
                yield f"{path}: there is no {link}"
            elif at and at not in headings(to):
                yield f"{path}: {to} has no heading #{at}"
        if path in ("docs/contributing.md", "docs/internals.md"):
            for name in re.findall(r"`((?:src|tests|schedules|cmake|examples)/[\w/.-]*)`", text):
                if not os.path.exists(re.sub(r"[A-Z]+\.\w+$", "", name)):
                    yield f"{path}: there is no {name}"


def stale_limits(environment):
    """Operators that docs/limits.md calls unsupported without a condition, and that `nestor doctor` lists."""
    doctor = json.loads(subprocess.run(["nestor", "doctor", "--json"], env=environment, check=True, capture_output=True).stdout)
    with open("docs/limits.md") as f:
        rows = re.findall(r"^\| ([^|]*) \|", f.read().partition("## Types")[0], re.M)
    conditional = {"Compress", "If", "Loop", "NonMaxSuppression", "NonZero", "Scan", "TopK", "Unique"}
    for name in {name for row in rows for name in re.findall(r"\b[A-Z]\w+", row)} - conditional:
        if name in doctor["operators"]:
            yield f"docs/limits.md: {name} is supported"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", metavar="FILE", nargs="+", help="documents to look at, instead of all")
    args = parser.parse_args()
    root = os.getcwd()
    environment = dict(os.environ, PATH=os.path.abspath(args.bin) + os.pathsep + os.environ["PATH"], NO_COLOR="1")
    failures = count = 0
    documents = ["README.md", "SECURITY.md", *sorted(glob.glob("docs/*.md"))]
    documents = args.only or documents
    for fault in [*broken_links(documents), *stale_limits(environment)]:
        failures += 1
        print(fault)
    for path in documents:
        with open(path) as f:
            text = f.read()
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(root, "examples"), os.path.join(folder, "examples"))
            for start, block in blocks(text.split("\n")):
                for command, expected in steps(block):
                    count += 1
                    run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                    got = run.stdout.rstrip("\n").split("\n") if run.stdout.strip() else []
                    got = without_proofs(got, expected)
                    if matches(expected, got):
                        continue
                    if args.update:
                        old = "\n".join(["$ " + command, *expected])
                        text = text.replace(old, "\n".join(["$ " + command, *got]), 1)
                        continue
                    failures += 1
                    print(f"{path}:{start + 1}: $ {command}\n--- shown\n" + "\n".join(expected) + "\n--- printed\n" + "\n".join(got))
        if args.update:
            with open(path, "w") as f:
                f.write(text)
    print(f"{count} commands of the documentation; {failures} commands and links are wrong")
    sys.exit(1 if failures or not count else 0)


if __name__ == "__main__":
    main()
