#!/usr/bin/env python3
"""Holds README.md, SECURITY.md and docs/*.md to three rules, in milliseconds:

- no sentence has more than 35 words: a paragraph, a heading, a list item and a table's cell are read on their own;
  code in backquotes is one word, blocks of code are skipped;
- README.md has at most 200 lines;
- docs/README.md, the index, links to every document.

    prose.py [FILE ...]        FILEs are checked for their sentences alone
"""

import glob
import os
import re
import sys

MOST_WORDS = 35
MOST_README_LINES = 200
NO_END = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Inc|No)\.|\b[A-Z]\.)$")


def paragraphs(text):
    """(line number, text) of each paragraph, heading, list item and table cell; blocks of code and HTML are left out."""
    out = []
    fence = None
    fresh = True
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if fence is not None:
            if stripped == fence:
                fence = None
            fresh = True
        elif match := re.match(r"(`{3,}|~{3,})", stripped):
            fence = match.group(1)
        elif line.startswith("    ") and fresh:
            pass  # an indented block of code
        elif not stripped or stripped.startswith("<"):
            fresh = True
        elif stripped.startswith("|"):
            if not re.fullmatch(r"[|:\- ]+", stripped):
                cells = re.sub(r"`[^`]*`", lambda m: m.group().replace("|", "/"), stripped.replace("\\|", "/"))
                out += [(number, cell) for cell in cells.strip("|").split("|")]
            fresh = True
        elif match := re.match(r"(?:#+|[-*]|\d+\.) +(.*)", stripped):
            out.append((number, match.group(1)))
            fresh = stripped.startswith("#")
        elif fresh:
            out.append((number, stripped))
            fresh = False
        else:
            out[-1] = (out[-1][0], out[-1][1] + " " + stripped)
    return out


def plain(text):
    """Markdown without its marks: code is the word CODE, a link its text."""
    text = re.sub(r"``.*?``|`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"</?\w[^>]*>", " ", text)
    return text.replace("**", "").replace("*", "")


def sentences(text):
    """Ends are `.`, `!`, `?` before a space and something that isn't a small letter."""
    start = 0
    text = plain(text)
    for match in re.finditer(r"[.!?][\"')\]]*(?=\s+[^a-z\s])", text):
        if NO_END.search(text[start:match.start() + 1]):
            continue
        yield text[start:match.end()].strip()
        start = match.end()
    if rest := text[start:].strip():
        yield rest


def words(sentence):
    return len(re.findall(r"[^\s]*\w[^\s]*", sentence))


def long_sentences(path):
    with open(path) as f:
        for number, paragraph in paragraphs(f.read()):
            for sentence in sentences(paragraph):
                if (count := words(sentence)) > MOST_WORDS:
                    yield f"{path}:{number}: {count} words: {sentence}"


def index_faults(documents):
    with open("docs/README.md") as f:
        linked = {os.path.normpath(os.path.join("docs", link.partition("#")[0]))
                  for link in re.findall(r"\]\(([^)\s]+)\)", f.read()) if "://" not in link}
    for path in documents:
        if path not in linked and path != "docs/README.md":
            yield f"docs/README.md: has no link to {path}"


def main():
    documents = ["README.md", "SECURITY.md", *sorted(glob.glob("docs/*.md"))]
    faults = [fault for path in sys.argv[1:] or documents for fault in long_sentences(path)]
    if not sys.argv[1:]:
        with open("README.md") as f:
            lines = f.read().count("\n")
        if lines > MOST_README_LINES:
            faults.append(f"README.md: {lines} lines, more than {MOST_README_LINES}")
        faults += index_faults(documents)
    print("\n".join([*faults, f"{len(documents)} documents, {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
