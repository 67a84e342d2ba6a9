"""Comments, READMEs and help read as a good engineer writes English: patterns that do not, each with its reason.

    python3 tests/words.py             # prints file:line, what was found and why; exit 1 where there is any
    python3 tests/words.py --count     # findings by folder, for a pass over the tree
    python3 tests/words.py PATH...     # only what lies in these files or folders
"""

import collections
import io
import re
import subprocess
import sys
import tokenize

# Anywhere in a comment, a README or a help text
WORDS = [
    (r"\b(?:is|are|was|were|be|been|being) told\b|\btold (?:by|in|of|to|what|how|that|apart)\b|^told\b", "say: reported, given, known"),
    (r"\btells (?:what|how|that|whether|of|it|a|the)\b", "code says, reports or returns"),
    (r"\bnobody\b", "name what does not happen: 'no rank reads it', 'unused'"),
    (r"\bwhoever\b", "name the caller"),
    (r"\bso many\b", "say the count: 'n', 'this number of'"),
    (r"\bas (?:it|they) lies?\b", "say: in file order, in memory order, unchanged"),
    (r"\b(?:fast|slow|full|slowest|fastest|both|two|three) gears?\b|\bgears\b", "say: closed form, replay"),
    (r"\b(?:near|far) cores\b", "one machine's fact: a measurement's, not a comment's"),
    (r"\b(?:this|that|each|every|its|whose|other|own|data|the engine's|one library a) rooms?\b(?! (?:for|in|to|left|beside))|\brooms (?:of|below|that|see|name|take)\b",
     "say: module"),
    (r"\bmends?\b|\bmended\b|\bmending\b", "say: fix"),
    (r"\b(?:and|or) the like\b", "name them, or stop"),
    (r"\bby itself alone\b|\bbeside(?:s)? it all\b", "plain English"),
    (r"\b(?:on|at|in|from) the developers'", "no fact of one machine"),
]
# At the beginning of a comment, and of a sentence in one
SUBJECT = re.compile(r"^(?:Of|What|Whether|Who|Where)\b(?!.*\?$)(?! NaN)")
SENTENCE = re.compile(r"(?<=[.;:] )(?:Of|Whether|Who) (?!course)")
# A time or a rate of one machine: a comment keeps the rule, `bench/results/measured.jsonl` the figure
MACHINE = re.compile(r"\b(?:Zen ?\d|EPYC|Xeon|Sapphire Rapids)\b.*\b\d[\d.,]* ?(?:ns|us|ms|s|GB/s|GFLOP/s|TFLOP/s|%)|"
                     r"\b\d[\d.,]* ?(?:ns|us|ms|GB/s|GFLOP/s|TFLOP/s)\b.*\b(?:Zen ?\d|EPYC|Xeon|Sapphire Rapids)\b")
CELL_WORDS, PARAGRAPH_LINES = 25, 5

SLASHES = (".cpp", ".h", ".cu", ".cuh", ".hpp", ".c", ".js")
HASHES = (".py", ".sh", ".cmake", ".yaml", "CMakeLists.txt", ".ci/run")
HELP = re.compile(r"^bench/(?:cli|doctor)/.*\.cpp$")


def slash_comments(text):
    """(line, comment) of // and /* */, with neighbouring lines of // joined: what a reader takes in at once."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
    joined, last = None, (-2, -1)
    for m in token.finditer(text):
        if not m[0].startswith(("//", "/*")):
            continue
        line = text.count("\n", 0, m.start()) + 1
        column = m.start() - text.rfind("\n", 0, m.start())
        words = re.sub(r"^(?:///?<?|/\*+)|\*/$", "", m[0]).strip()
        if joined and (line, column) == (last[0] + 1, last[1]) and m[0].startswith("//") and words:
            joined = (joined[0], joined[1] + " " + words)
        else:
            if joined:
                yield joined
            joined = (line, words)
        last = (line, column)
    if joined:
        yield joined


def hash_comments(path, text):
    if path.endswith(".py"):
        try:
            for t in tokenize.generate_tokens(io.StringIO(text).readline):
                if t.type == tokenize.COMMENT:
                    yield t.start[0], t.string.lstrip("#! ").strip()
        except (tokenize.TokenError, IndentationError, SyntaxError):
            pass  # `format` says that this file does not parse
        return
    for number, line in enumerate(text.splitlines(), 1):
        if m := re.search(r"(?:^|\s)#\s+(.*)$", line):
            yield number, m[1]


def help_texts(text):
    """String literals of the command: what --help and messages are made of."""
    for m in re.finditer(r'"((?:\\.|[^"\\\n])*)"', re.sub(r"//[^\n]*", "", text)):
        if " " in m[1]:
            yield text.count("\n", 0, m.start()) + 1, m[1]


def document(text):
    """(line, words, why or None): lines of a Markdown file without its code, and what is too long."""
    code, paragraph = False, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            code, paragraph = not code, 0
            continue
        if code or line.startswith("    "):
            continue
        yield number, re.sub(r"`[^`]*`", "``", line), None
        if line.startswith("|"):
            paragraph = 0
            for cell in line.strip("|").split("|"):
                if len(cell.split()) > CELL_WORDS:
                    yield number, cell.strip(), f"a table's cell has at most {CELL_WORDS} words"
        elif not line.strip() or re.match(r"\s*(?:[-*#>]|\d+\.)", line):
            paragraph = 1 if line.strip() else 0
        else:
            paragraph += 1
            if paragraph == PARAGRAPH_LINES + 1:
                yield number, line.strip(), f"a paragraph has at most {PARAGRAPH_LINES} lines"


def findings(path, text):
    if path.endswith(".md"):
        for line, words, why in document(text):
            if why:
                yield line, words, why
                continue
            for pattern, reason in WORDS:
                if m := re.search(pattern, words, re.I):
                    yield line, m[0], reason
        return
    if path.endswith(SLASHES):
        comments = slash_comments(text)
    elif path.endswith(HASHES):
        comments = hash_comments(path, text)
    else:
        return
    for line, words in comments:
        if m := SUBJECT.match(words):
            yield line, words[:60], "a comment begins with its subject"
        elif m := SENTENCE.search(words):
            yield line, words[m.start():m.start() + 60], "a sentence begins with its subject"
        if m := MACHINE.search(words):
            yield line, m[0][:60], "a figure of one machine is a measurement"
        for pattern, reason in WORDS:
            if m := re.search(pattern, words, re.I):
                yield line, m[0], reason
    if HELP.match(path):
        for line, words in help_texts(text):
            for pattern, reason in WORDS:
                if m := re.search(pattern, words, re.I):
                    yield line, m[0], reason


def main(arguments):
    paths = [a for a in arguments if a != "--count"]
    tracked = subprocess.run(["git", "ls-files", "--", *paths], capture_output=True, text=True, check=True).stdout.split("\n")
    by_folder = collections.Counter()
    read = 0
    for path in filter(None, tracked):
        if path == "tests/words.py" or not path.endswith((*SLASHES, *HASHES, ".md")) or path.startswith("tests/fixtures/"):
            continue
        read += 1
        for line, found, why in findings(path, open(path, encoding="utf-8").read()):
            by_folder[path.rsplit("/", 1)[0] if "/" in path else "."] += 1
            if "--count" not in arguments:
                print(f"{path}:{line}: '{found}': {why}")
    for folder, n in sorted(by_folder.items()) if "--count" in arguments else ():
        print(f"{n:5} {folder}")
    print(f"{sum(by_folder.values())} findings in {read} files")
    if not read:
        sys.exit("no file was read: git ls-files names none here")
    return 1 if by_folder else 0


sys.exit(main(sys.argv[1:]))
