"""The documents against the program and the tree: every link, heading, path, command, option and key that they name is there.

    python3 tests/documents.py --isobar build/isobar       # prints file:line and what is wrong; exit 1 where there is any

Also their sizes, the rows of verified.md with their tests, and the measurements of bench/results/measured.jsonl.
"""

import argparse
import collections
import csv
import os
import re
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/results"))
import measured

GUIDE_WORDS, ROOT_WORDS, CLAIMS, CLAIM_LENGTH, CLAIM_WORDS = 14200, 900, 95, 140, 2500
REFERENCES = ("tests/verified.md", "configs/keys.md")  # the other documents are guides
FOLDERS = ("bench/", "model/", "perfmodel/", "reports/", "configs/", "tests/")
MADE = ("reports/out", "reports/change")  # by the commands of the guides
SECTIONS = ("net", "data", "train", "layout", "policy", "run")

wrong = []


def say(path, line, what):
    wrong.append(f"{path}:{line}: {what}")


class Command:
    """The command's own account of itself: subcommands, their options, keys of runs."""

    def __init__(self, program):
        self.program, self.known = program, {}
        self.keys = set(re.findall(r"^\| `([a-z]+\.\w+)`", self.ask("config", "keys", "--markdown"), re.M))
        if len(self.keys) < 100:
            sys.exit(f"`{program} config keys` lists {len(self.keys)} keys")

    def ask(self, *words):
        return subprocess.run([self.program, *words], capture_output=True, text=True, timeout=60).stdout

    def options(self, words):
        """Options of the longest beginning of `words` that is a subcommand, and that beginning."""
        path = []
        while len(path) < len(words) and re.fullmatch(r"[a-z][a-z-]*", words[len(path)]):
            if words[len(path)] not in self.subcommands(tuple(path)):
                break
            path.append(words[len(path)])
        return path, self.help(tuple(path))[0]

    def subcommands(self, path):
        return self.help(path)[1]

    def help(self, path):
        if path not in self.known:
            text = self.ask(*path, "--help")
            below = text[text.find("\nSubcommands:"):] if "\nSubcommands:" in text else ""
            names = re.findall(r"^  (-[\w,-]+)", text, re.M)  # "-o,--out", in groups
            self.known[path] = ({name for all in names for name in all.split(",")},
                                set(re.findall(r"^  ([a-z][a-z-]*) ", below, re.M)))
        return self.known[path]


def anchors(text):
    """Of the headings of a Markdown file, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_links(path, text):
    for m in re.finditer(r"\]\(([^)\s]+)\)", text):
        target, _, anchor = m[1].partition("#")
        line = text.count("\n", 0, m.start()) + 1
        if target.startswith(("http:", "https:")):
            continue
        file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(file):
            say(path, line, f"links to {m[1]}, which is not there")
        elif anchor and anchor not in set(anchors(open(file, encoding="utf-8").read())):
            say(path, line, f"{file} has no heading #{anchor}")


def commands_of(text):
    """(line, words) of code and `code` that calls isobar; lines that end in \\ go on."""
    joined = re.sub(r"\\\n\s*", lambda m: " " * len(m[0]), text)
    for m in re.finditer(r"^ {4,}(.*)$|`([^`\n]+)`", joined, re.M):
        code = (m[1] or m[2] or "").split(" #")[0]
        for part in re.split(r"&&|\||;", code):
            if call := re.match(r"\s*(?:\S+=\S+ )*(?:mpiexec [^i]*)?(?:\S*/)?isobar ([a-z].*)", part):
                try:
                    yield text.count("\n", 0, m.start()) + 1, shlex.split(call[1])
                except ValueError:  # a quoted string that the split above has cut
                    continue


def check_commands(path, text, command):
    for line, words in commands_of(text):
        at, options = command.options(words)
        if not at:
            say(path, line, f"isobar has no command '{words[0]}'")
            continue
        for i, word in enumerate(words):
            name = word.split("=")[0].rstrip(",.:")
            if re.match(r"--?[a-zA-Z]", word) and name not in options:
                say(path, line, f"isobar {' '.join(at)} has no option {name}")
            if word == "--set" and i + 1 < len(words) and (key := words[i + 1].split("=")[0]) not in command.keys:
                say(path, line, f"there is no key {key}")


def check_keys(path, text, command):
    for m in re.finditer(rf"`((?:{'|'.join(SECTIONS)})\.[a-z_0-9]+)(?:[:=][^`]*)?`", text):
        if m[1] not in command.keys:
            say(path, text.count("\n", 0, m.start()) + 1, f"there is no key {m[1]}")


def check_paths(path, text):
    for m in re.finditer(rf"(?<![\w/.~-])((?:{'|'.join(FOLDERS)})[\w./-]+)(?![\w*<{{/])", text):
        name = m[1].rstrip(".")
        if name.startswith(MADE) or os.path.exists(name) or text[m.end():m.end() + 1] in "*<{":
            continue
        say(path, text.count("\n", 0, m.start()) + 1, f"{name} is not there")


def check_claims():
    text = open("tests/verified.md", encoding="utf-8").read()
    rows = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.startswith("|")][2:]
    if not 1 <= len(rows) <= CLAIMS or len(text.split()) > CLAIM_WORDS:
        say("tests/verified.md", 1, f"{len(rows)} rows and {len(text.split())} words: at most {CLAIMS} and {CLAIM_WORDS}")
    for line, row in rows:
        test = re.fullmatch(r"\| [^|]+ \| [^|]+ \| `([\w./]+)` \|", row)
        if len(row) > CLAIM_LENGTH or not test:
            say("tests/verified.md", line, f"is not `| claim | bound | test |` of at most {CLAIM_LENGTH} characters")
        elif not os.path.exists("tests/" + test[1]):
            say("tests/verified.md", line, f"tests/{test[1]} is not there")


def check_capabilities():
    """Those of the systems that Isobar replaces, each with the tests that show it."""
    path = "tests/capabilities.csv"
    with open(path, encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), 2):
            if row["number"] != str(line - 1) or not row["tests"]:
                say(path, line, f"is not number {line - 1} with its tests")
            for test in row["tests"].split():
                if not os.path.exists("tests/" + test):
                    say(path, line, f"tests/{test} is not there")


def check_sizes(words):
    if words["README.md"] > ROOT_WORDS:
        say("README.md", 1, f"has {words['README.md']} words: at most {ROOT_WORDS}")
    guides = sum(n for path, n in words.items() if path not in REFERENCES)
    if guides > GUIDE_WORDS:
        say("README.md", 1, f"all guides have {guides} words: at most {GUIDE_WORDS}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--isobar", default="build/isobar")
    program = os.path.abspath(arguments.parse_args().isobar)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    listed = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True)
    files = listed.stdout.split()
    if listed.returncode != 0 or not files:
        print("SKIPPED: git names no documents here")
        return 77
    command, words = Command(program), collections.Counter()
    calls = 0
    for path in files:
        text = open(path, encoding="utf-8").read()
        words[path] = len(text.split())
        check_links(path, text)
        check_commands(path, text, command)
        calls += sum(1 for _ in commands_of(text))
        if path != "configs/keys.md":
            check_keys(path, text, command)
        if path != "tests/verified.md":  # whose paths are below tests/
            check_paths(path, text)
    if calls < 50:
        say("README.md", 1, f"only {calls} calls of isobar were found in all documents: is their form another?")
    check_claims()
    check_capabilities()
    check_sizes(words)
    try:
        rows = measured.measurements()
        if not rows:
            say("bench/results/measured.jsonl", 1, "is empty")
    except ValueError as e:
        wrong.append(str(e))
    print("\n".join(wrong + [f"{len(wrong)} findings in {len(files)} documents, {calls} calls of isobar, {sum(words.values())} words"]))
    return 1 if wrong else 0


sys.exit(main())
