"""Runs the validation and the tests against one mutant after the other, for scripts/mutants."""
import concurrent.futures
import hashlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import time

FACTOR, EXTRA_SECONDS = 4, 5  # of the processor's time that a run takes without a mutant


class Run:
    """One command: its name, its arguments, and what it takes without a mutant."""

    def __init__(self, name, arguments, seconds=0.0, reached=()):
        self.name, self.arguments = name, arguments
        self.seconds, self.reached = seconds, frozenset(reached)


def execute(arguments, folder, library, mutant=0, cpu_limit=600.0, wall_limit=600.0, reached=None):
    """(how it ended, seconds of the processor): 'passes', 'fails', 'crashes' or 'never ends'."""
    environment = os.environ | {"PLUMB_MUTANT": str(mutant), "OMP_WAIT_POLICY": "passive",
                                "OMP_NUM_THREADS": "2", "LD_LIBRARY_PATH": str(library)}
    environment.pop("CI", None)
    if reached:
        environment["PLUMB_MUTANTS_REACHED"] = reached

    def limit():
        os.nice(10)
        seconds = int(cpu_limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))

    process = subprocess.Popen(arguments, cwd=folder, env=environment, preexec_fn=limit,
                               start_new_session=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + wall_limit
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
            status = None
            break
        time.sleep(0.01)
    process.returncode = 0  # it has been waited for
    seconds = usage.ru_utime + usage.ru_stime
    if status is None or (os.WIFSIGNALED(status) and
                          os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return "never ends", seconds
    if os.WIFSIGNALED(status):
        return "crashes", seconds
    return ("passes" if os.WEXITSTATUS(status) in (0, 4) else "fails"), seconds


class Sequence:
    """The runs that each mutant goes through, until one of them notices."""

    def __init__(self, folder, programs, config, stamp, jobs):
        self.folder, self.bin = folder, programs.resolve() / "bin"
        self.library = folder / "build/lib"
        self.scratch = folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        path = folder / "reached.json"
        commands = [(f"validation: {line}", self._command(line)) for line in config["validation"]]
        kept = json.loads(path.read_text()) if path.is_file() else {}
        # What is reached depends on the tests as well.
        for name in ("plumb", "plumb_tests"):
            if (self.bin / name).is_file():
                stamp += hashlib.sha256((self.bin / name).read_bytes()).hexdigest()[:16]
        if kept.get("stamp") != stamp:
            kept = {"stamp": stamp, "runs": {}}
        wanted = commands + self._tests(config)
        missing = [one for one in wanted if one[0] not in kept["runs"]]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, one in pool.map(lambda run: self._record(*run), missing):
                kept["runs"][name] = one
                path.write_text(json.dumps(kept))
        self.runs = []
        for name, arguments in wanted:
            one = kept["runs"][name]
            if one["how"] == "passes" and one["reached"]:
                self.runs.append(Run(name, arguments, one["seconds"], one["reached"]))
        # The validations in the order of the list, then the tests, the quickest first.
        validations, tests = self.runs[:len(commands)], self.runs[len(commands):]
        self.runs = validations + sorted(tests, key=lambda run: run.seconds)
        print(f"{len(validations)} validations and {len(tests)} tests reach "
              f"{len(frozenset().union(*(r.reached for r in self.runs)))} sites", flush=True)

    def keep(self, part):
        """Only the runs that have this in their name."""
        self.runs = [run for run in self.runs if part in run.name]

    def _command(self, line):
        """Of the program; words like NAME=value before its arguments are its environment."""
        words = line.split()
        first = next(i for i, word in enumerate(words) if "=" not in word)
        return ["env", *words[:first], str(self.bin / "plumb"), *words[first:]]

    def _tests(self, config):
        program = str(self.bin / "plumb_tests")
        if not os.path.exists(program):
            print("  no plumb_tests: the validation alone judges", flush=True)
            return []
        listed = subprocess.run([program, "--list-tests", "--verbosity", "quiet"],
                                capture_output=True, text=True, check=True).stdout
        escape = lambda name: "".join("\\" + c if c in ",[]\\" else c for c in name)
        return [(f"test: {name}", [program, escape(name), "--abort"])
                for name in listed.splitlines()
                if name and not any(part in name for part in config["tests_left_out"])]

    def _record(self, name, arguments):
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            how, seconds = execute(arguments, self.scratch, self.library,
                                   reached=file.name)
            ids = sorted({int(line) for line in file.read().decode().split()})
        print(f"  {name}: {how}, {seconds:.1f} s, {len(ids)} sites", flush=True)
        if how != "passes" and name.startswith("validation"):
            raise SystemExit(f"mutants: without a mutant '{name}' {how}")
        return name, {"how": how, "seconds": seconds, "reached": ids}

    def judge(self, mutant):
        """(what notices or None, how, seconds of the processor)."""
        total, runs = 0.0, [run for run in self.runs if mutant in run.reached]
        for run in runs:
            limit = FACTOR * run.seconds + EXTRA_SECONDS
            run_with = lambda id: execute(run.arguments, self.scratch, self.library, id, limit,
                                          20 * limit)
            how, seconds = run_with(mutant)
            total += seconds
            # Again, and without the mutant: a test that fails now and then kills nothing.
            if how != "passes" and run_with(mutant)[0] != "passes" and run_with(0)[0] == "passes":
                return run.name, how, total
        return None, "passes all that reach it" if runs else "reached by nothing", total
