"""`record -o TRACE -- COMMAND`: scripts that know nothing of it, and what becomes of their traces."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from cases import NEW_TOKENS, PROMPT

PYTHON = sys.executable


class Script:
    """A script, its trace, and both run by `record`."""

    def __init__(self, run, folder):
        self._run = run
        self.folder = folder
        self.trace = folder / "out.fb"

    def write(self, text, name="script.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def record(self, *command, options=(), environment=None, **how):
        return self._run("record", "-o", self.trace, *options, "--", *command, cwd=self.folder,
                         env={**os.environ, **(environment or {})}, **how)

    def others(self):
        """Traces of further processes."""
        return sorted(set(self.folder.glob("out.*.fb")))


@pytest.fixture
def script(run, tmp_path):
    return Script(run, tmp_path)


def ops(calls, trace):
    return [call["op"] for call in calls(trace)]


def assert_refused(answer, *words):
    """Status 2 and one line of ours that says why."""
    assert answer.status == 2, (answer.status, answer.out, answer.err)
    lines = [line for line in answer.err.splitlines() if line.startswith("record: ")]
    assert len(lines) == 1, answer.err
    for word in words:
        assert word in lines[0]


# ---- how a script may end -------------------------------------------------------------------------

ENDINGS = {
    "normally": ("pass", 0, True),
    "by an exception": ("raise ValueError('mine')", 1, True),
    "by sys.exit": ("sys.exit(3)", 3, True),
    "interrupted": ("os.kill(os.getpid(), signal.SIGINT)", 130, True),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM)", 143, False),  # atexit does not run
    "by its own handler": (
        "signal.signal(signal.SIGTERM, lambda *a: sys.exit(5)); os.kill(os.getpid(), signal.SIGTERM)",
        5, True),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_trace_is_whole_however_the_script_ends(ending, script, calls):
    statement, status, exits = ENDINGS[ending]
    path = script.write(f"""
        import atexit, os, signal, sys, torch
        atexit.register(lambda: torch.ones(2).neg())
        torch.ones(3).exp()
        {statement}
        """)
    answer = script.record(PYTHON, path)
    assert answer.status == status, answer.err
    assert answer.out == ""
    want = ["aten::ones", "aten::exp"] + (["aten::ones", "aten::neg"] if exits else [])
    assert ops(calls, script.trace) == want
    assert f"record: {script.trace}: {len(want)} calls, " in answer.err.splitlines()[-1]


@pytest.mark.parametrize("number, to_group, status", [(signal.SIGTERM, False, 143),
                                                      (signal.SIGINT, True, 130)])
def test_signals_reach_the_script(number, to_group, status, script, build, calls):
    """SIGTERM by way of `record`; SIGINT as a terminal sends it, to both."""
    path = script.write("""
        import time, torch
        torch.ones(3)
        print("ready", flush=True)
        for _ in range(600):  # not one long sleep: a signal just before it would wait for its end
            time.sleep(0.1)
        """)
    child = subprocess.Popen(
        [build / "bin/record", "-o", script.trace, "--", PYTHON, path], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert child.stdout.readline() == "ready\n"
    (os.killpg if to_group else os.kill)(child.pid, number)
    error = child.communicate()[1]
    assert child.returncode == status, error
    assert ops(calls, script.trace) == ["aten::ones"]


def test_a_script_that_leaves_by_os_exit_has_no_whole_trace(script):
    answer = script.record(PYTHON, "-c", "import os, torch; torch.ones(2); os._exit(0)")
    assert_refused(answer, "out.fb: not whole", "os._exit")


# ---- no trace at all ------------------------------------------------------------------------------

@pytest.mark.parametrize("command, words", [
    ([PYTHON, "-I", "-c", "pass"], ["not written", "python -I, -E and -S"]),
    ([PYTHON, "-c", "pass"], ["not written", "no process imported torch"]),
    (["true"], ["not written", "no Python was started"]),
    (["no-such-command"], ["can't run no-such-command: No such file"]),
], ids=["-I", "without torch", "no Python", "not found"])
def test_a_command_without_a_trace_is_told_why(command, words, script):
    assert_refused(script.record(*command), *words)
    assert not script.trace.exists()


@pytest.mark.parametrize("arguments, word", [
    ([], "give a command"),
    (["-o", "out.fb"], "give a command"),
    (["-o", "out.fb", "--"], "give a command"),
    (["--", "true"], "-o TRACE"),
    (["-o", "out.fb", "--rule", "op=x", "--", "true"], "no digest"),
    (["-o", "no/such/out.fb", "--", "true"], "no/such: no such folder"),
])
def test_a_command_line_that_lacks_something_is_refused(arguments, word, run, tmp_path):
    assert_refused(run("record", *arguments, cwd=tmp_path), word)


def test_the_status_of_a_failing_command_stands_without_a_trace(script):
    answer = script.record(PYTHON, "-c", "raise SystemExit(7)")
    assert answer.status == 7
    assert "not written" in answer.err


def test_another_torch_is_told_and_the_script_runs_on(script):
    (script.folder / "torch").mkdir()
    script.write("__version__ = '1.0.0+cpu'", "torch/__init__.py")
    answer = script.record(PYTHON, "-c", "import torch; print(torch.__version__)",
                           environment={"PYTHONPATH": str(script.folder)})
    assert answer.status == 2
    assert answer.out == "1.0.0+cpu\n"
    assert "this process is not recorded: goldentrace was built with torch 2." in answer.err


# ---- the script is left alone ---------------------------------------------------------------------

def test_a_sitecustomize_of_the_user_runs_as_without_us(script, calls):
    (script.folder / "own").mkdir()
    script.write("import sys; sys.own = __file__", "own/sitecustomize.py")
    path = script.write("""
        import sitecustomize, sys, torch
        print(sys.own, sitecustomize.__file__, sys.path, vars(torch.__spec__.loader))
        torch.ones(2)
        """)
    environment = {"PYTHONPATH": str(script.folder / "own")}
    plain = subprocess.run([PYTHON, path], capture_output=True, text=True,
                           env={**os.environ, **environment})
    answer = script.record(PYTHON, path, environment=environment)
    assert answer.status == 0, answer.err
    assert answer.out == plain.stdout
    assert answer.out.startswith(str(script.folder / "own/sitecustomize.py"))
    assert ops(calls, script.trace) == ["aten::ones"]


def test_rules_and_the_command_line_are_in_the_trace(script, calls, run):
    path = script.write("""
        import sys, torch
        torch.ones(len(sys.argv)).neg()
        """)
    answer = script.record(PYTHON, path, "-x", "--", "y", options=["--rule", "op=aten::neg:values"])
    assert answer.status == 0, answer.err
    assert [call["writes"][0]["value_kept"] for call in calls(script.trace)] == [False, True]
    shown = run("replay", "show", script.trace).out
    assert json.dumps([PYTHON, str(path), "-x", "--", "y"], separators=(",", ":")) in shown


def test_importing_the_package_imports_nothing_heavy(build):
    code = "import goldentrace, sys; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([PYTHON, "-c", code], env={"PYTHONPATH": str(build / "python")},
                          capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


# ---- more than one process ------------------------------------------------------------------------

def test_each_process_of_a_shell_has_its_own_trace(script, calls):
    answer = script.record("sh", "-c", f"{PYTHON} -c 'import torch; torch.ones(1)';"
                                       f"{PYTHON} -c 'import torch; torch.zeros(1)'")
    assert answer.status == 0, answer.err
    assert ops(calls, script.trace) == ["aten::ones"]
    assert [ops(calls, trace) for trace in script.others()] == [["aten::zeros"]]


def test_processes_that_multiprocessing_forks_before_torch_have_their_own_traces(script, calls):
    path = script.write("""
        import multiprocessing
        def work(size):
            import torch
            torch.ones(size)
        if __name__ == "__main__":
            for size in 1, 2:
                child = multiprocessing.get_context("fork").Process(target=work, args=(size,))
                child.start(); child.join()
        """)
    answer = script.record(PYTHON, path)
    assert answer.status == 0, answer.err
    assert ops(calls, script.trace) == ["aten::ones"]
    assert [ops(calls, trace) for trace in script.others()] == [["aten::ones"]]


def test_a_helper_that_imports_torch_first_does_not_take_the_scripts_name(script, calls):
    path = script.write("""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import torch; torch.zeros(2)"], check=True)
        import torch
        torch.ones(3)
        """)
    assert script.record(PYTHON, path).status == 0
    assert ops(calls, script.trace) == ["aten::ones"]
    assert [ops(calls, other) for other in script.others()] == [["aten::zeros"]]


def test_a_launcher_that_records_nothing_leaves_the_name_to_what_it_starts(script, calls):
    path = script.write("""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import torch; torch.zeros(2)"], check=True)
        """)
    assert script.record(PYTHON, path).status == 0
    assert ops(calls, script.trace) == ["aten::zeros"]
    assert not script.others()


def test_a_forked_process_is_told_of_and_can_be_terminated(script):
    path = script.write("""
        import multiprocessing, os, time, torch
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        process.start()
        process.terminate()
        process.join(30)
        print(process.exitcode)
        """)
    answer = script.record(PYTHON, path)
    assert answer.out == "-15\n"
    assert "record: not recorded: 1 forked processes\n" in answer.err


def test_a_signal_that_comes_twice_closes_the_trace_once(script, calls):
    """A process group gets it, and `record` forwards it."""
    path = script.write("""
        import os, signal, torch
        torch.ones(3)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
        from goldentrace import script
        end = script.end
        def slow_end():
            os.kill(os.getpid(), signal.SIGTERM)  # the second one, in the middle of the first
            for _ in range(100): pass
            end()
        script.end = slow_end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        """)
    assert script.record(PYTHON, path).status == 143
    assert ops(calls, script.trace) == ["aten::ones"]


def test_names_that_are_not_utf8_are_no_obstacle(script, calls, run):
    path = script.write("import torch; torch.ones(3)")
    assert script.record(PYTHON, path, b"\xff").status == 0
    assert ops(calls, script.trace) == ["aten::ones"]


def test_workers_of_a_data_loader_record_where_they_are_processes_of_their_own(script, calls):
    """Forked workers stop recording (trap 16); spawned ones, and those of a fork server, do not."""
    path = script.write("""
        import torch
        from torch.utils.data import DataLoader
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.full((3,), float(index)).exp()
        if __name__ == "__main__":
            for kind, workers in ("fork", 2), ("spawn", 1), ("forkserver", 1):
                loader = DataLoader(Data(), num_workers=workers, multiprocessing_context=kind)
                print(kind, round(sum(batch.log().sum().item() for batch in loader)))
        """)
    answer = script.record(PYTHON, path)
    assert answer.status == 0, answer.err
    assert answer.out == "fork 18\nspawn 18\nforkserver 18\n"
    assert ops(calls, script.trace).count("aten::log") == 12
    assert "aten::exp" not in ops(calls, script.trace)
    assert [ops(calls, trace).count("aten::exp") for trace in script.others()] == [4, 4]


# ---- models ---------------------------------------------------------------------------------------

GENERATE = """
    import sys, torch, transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], attn_implementation="eager")
    ids = torch.tensor([[int(i) for i in sys.argv[3:]]])
    with torch.no_grad():
        out = model.generate(ids, max_new_tokens=int(sys.argv[2]), do_sample=False,
                             eos_token_id=None, pad_token_id=0)
    print(out[0, ids.shape[1]:].tolist())
    """


@pytest.fixture(scope="module")
def generated(run, tiny, tmp_path_factory):
    """The script above, recorded: (Answer, trace)."""
    script = Script(run, tmp_path_factory.mktemp("generate"))
    path = script.write(GENERATE)
    return script.record(PYTHON, path, tiny, NEW_TOKENS, *PROMPT), script.trace


@pytest.mark.xdist_group("generated")
def test_a_script_that_generates_is_recorded_as_record_hf_would(generated, gold, calls, run):
    answer, trace = generated
    assert answer.status == 0, answer.err
    tokens = json.loads(run("replay", "show", gold, "--tokens", "--json").out)
    assert json.loads(answer.out) == tokens["requests"][0]["output_ids"]
    ours, theirs = calls(trace), calls(gold)
    assert {call["scope"] for call in ours} == {call["scope"] for call in theirs}
    # Each forward of the model is a step, as there.
    def in_layers(rows):
        return [(row["step"], row["scope"], row["op"]) for row in rows
                if row["scope"].startswith("model.layers.")]
    assert in_layers(ours) == in_layers(theirs)


@pytest.fixture(scope="module")
def parameters(run):
    def read(trace, *fields):
        lines = run("replay", "show", trace, "--params", "--json").out.splitlines()
        return {p["name"]: [p[field] for field in fields] for p in map(json.loads, lines)}
    return read


@pytest.mark.xdist_group("generated")
def test_the_model_of_a_script_has_its_parameters_in_the_trace(generated, gold, parameters):
    ours = parameters(generated[1], "kind", "type", "hash")
    assert ours == parameters(gold, "kind", "type", "hash")
    assert len(ours) == 111


@pytest.mark.xdist_group("generated")
def test_a_script_that_generates_is_reproduced_from_the_checkpoint(generated, gold, tiny, verify,
                                                                   parameters):
    answer, report = verify(generated[1], tiny)
    assert answer.status == 0, answer.out
    assert report["not_executable"] == 0
    assert parameters(generated[1], "recipe", "sources") == parameters(gold, "recipe", "sources")


# ---- scripts that nobody wrote for this -----------------------------------------------------------

def checkpoint(folder):
    import torch
    torch.save({"weight": torch.randn(30, 7), "step": torch.arange(3)}, folder / "model.pt")


def file_of(module):
    import importlib.util
    return importlib.util.find_spec(module).origin


# What is run by `python`, what to prepare in its folder, and the least calls in all of its traces.
REAL = {
    "two processes of torchrun": (["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
                                   "-m", "torch.utils.benchmark.examples.simple_timeit"], None, 1000),
    "a checkpoint converted": (["-m", "torch.distributed.checkpoint.format_utils", "torch_to_dcp",
                                "model.pt", "dcp"], checkpoint, 5),
    "doctest": (["-m", "doctest", file_of("torch.distributions.independent")], None, 20),
    "timeit": (["-m", "timeit", "-n", "500", "-r", "1", "-s", "import torch; x = torch.ones(64, 64)",
                "x @ x"], None, 501),
    "an example of torch.export": (["-m", "torch._export.db.examples.cond_closed_over_variable"],
                                   None, 10),
}


@pytest.mark.parametrize("name", REAL)
def test_a_script_of_an_installed_wheel_is_recorded_as_it_is(name, script, run, verify):
    command, prepare, least_calls = REAL[name]
    if prepare is not None:
        prepare(script.folder)
    answer = script.record(PYTHON, *command)
    assert answer.status == 0, answer.err
    shown = {trace: json.loads(run("replay", "show", trace, "--json").out)
             for trace in [script.trace, *script.others()]}
    assert sum(about["calls"] for about in shown.values()) >= least_calls
    assert all(about["counters"]["recorder_errors"]["value"] == 0 for about in shown.values())
    no_weights = script.folder / "none.safetensors"
    no_weights.write_bytes(b"\x02" + bytes(7) + b"{}")
    largest = max(shown, key=lambda trace: shown[trace]["calls"])
    answer, report = verify(largest, no_weights)
    assert answer.status == 0, answer.out
    assert report["not_executable"] == 0
