"""Completion in an interactive bash on a terminal, and the manual page as groff sets it.

    python3 tests/cli/completion.py --isobar build/isobar
"""

import argparse
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time


def check_bash(isobar):
    """Lines that TAB completes; a key of its own prints what a line has become."""
    failed = []
    with tempfile.TemporaryDirectory() as home:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(home)
            os.environ.update(PATH=f"{os.path.dirname(isobar)}:{os.environ['PATH']}", TERM="dumb", PS1="$ ", HOME=home)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        # A key of its own writes the line as it is and empties it.
        os.write(terminal, b"show() { echo \"LINE[$READLINE_LINE]\"; READLINE_LINE=; READLINE_POINT=0; }\n")
        os.write(terminal, b"bind 'set bell-style none'; bind -x '\"\\C-g\": show'; source <(isobar completions bash)\n")
        os.write(terminal, b"echo rea''dy\n")
        got = ""

        def wait(pattern, seconds=60):
            nonlocal got
            end = time.time() + seconds
            while time.time() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    got += os.read(terminal, 4096).decode(errors="replace")
                found = re.search(pattern, got)
                if found:
                    got = got[found.end():]
                    return found
            raise SystemExit(f"FAILED: {pattern} did not come; bash printed {got[-400:]!r}")

        wait(r"\nready")
        for line, wanted in [
            ("isobar pred", "isobar predict "),
            ("isobar predict llama3-4", "isobar predict llama3-405b "),
            ("isobar predict llama3-8b --machine dgx-h1", "isobar predict llama3-8b --machine dgx-h100 "),
            ("isobar train vit-tiny --rank-o", "isobar train vit-tiny --rank-output "),
            ("isobar train vit-tiny --rank-output fi", "isobar train vit-tiny --rank-output fi"),  # first, files
            ("isobar train vit-tiny --set train.lr_sche", "isobar train vit-tiny --set train.lr_schedule="),
            ("isobar train vit-tiny --set train.lr_schedule=pl", "isobar train vit-tiny --set train.lr_schedule=plateau "),
            ("isobar train vit-tiny --set train.valid_every=e", "isobar train vit-tiny --set train.valid_every=epoch "),
            ("isobar sweep vit-tiny policy.amp=bf", "isobar sweep vit-tiny policy.amp=bf16 "),
            ("isobar data make-po", "isobar data make-points "),
            ("isobar config schema sw", "isobar config schema sweep "),
        ]:
            os.write(terminal, f"{line}\t".encode())
            time.sleep(1.0)
            os.write(terminal, b"\x07")
            now = wait(r"LINE\[([^\n\r]*)\]").group(1)
            if now != wanted:
                failed.append(f"{line!r} became {now!r}, not {wanted!r}")
        os.write(terminal, b"exit\n")
        os.close(terminal)
        os.waitpid(pid, 0)
    return failed


def check_scripts(isobar):
    """The scripts of other shells, where those are installed; the words that they ask for in any case."""
    failed = []
    words = subprocess.run([isobar, "completions", "words", "--", "train", "--r"], capture_output=True, text=True)
    if words.stdout.split() != ["--rank-output", "--ranks", "--results", "--resume"]:
        failed.append(f"train --r gives {words.stdout.split()}")
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.run([isobar, "completions", shell], capture_output=True, text=True, check=True).stdout
        if shutil.which(shell):
            syntax = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
            if syntax.returncode:
                failed.append(f"{shell}: {syntax.stderr}")
    return failed


def check_man(isobar):
    page = subprocess.run([isobar, "man"], capture_output=True, text=True, check=True).stdout
    failed = []
    text = page
    if shutil.which("groff"):
        shown = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-cbou"], input=page, capture_output=True, text=True)
        text = shown.stdout
        if shown.returncode or shown.stderr:
            failed.append(f"groff says {shown.stderr[:400]}")
    text = text.replace("\\-", "-")
    for word in ("isobar train", "isobar data make-archive", "isobar config schema", "--set-aside-damaged", "--what-if"):
        if word not in text:
            failed.append(f"the manual lacks {word}")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    isobar = os.path.abspath(parser.parse_args().isobar)
    failed = check_bash(isobar) + check_scripts(isobar) + check_man(isobar)
    print("\n".join(failed) or "completion and manual as wanted")
    sys.exit(1 if failed else 0)
