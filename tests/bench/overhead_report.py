"""What overhead.py prints: a table of the modes, and which targets they meet."""

import os
import platform
import time

import torch

PHASES = ("prefill", "decode")
# Ratios not to be exceeded on the small model; the medium one may add half as much.
TARGETS = {"goldentrace_idle": (1.01, 1.01), "goldentrace_stats": (1.12, 1.18),
           "goldentrace_sketch": (1.20, 1.25), "goldentrace_values": (2.2, 2.8)}
PEERS_ADD = 3  # times what goldentrace_stats adds, if they see every op
NOT_EVERY_OP = ("msprobe_L1_stat",)  # sees calls of torch's Python functions
KEEPS_NOTHING = {"disp_noop": " (it only looks on and keeps nothing)",
                 "exec_trace": " (no hash, no statistics)",
                 "profiler_shapes": " (no hash, no statistics)"}


def ratio(phase):
    return (f"{phase['ratio']:.3f} ({phase['ratio_of_minima']:.3f}, "
            f"{phase['processor_ratio']:.3f})" if phase else "-")


def table(results):
    calls = next((r for r in results.values() if r.get("decode", {}).get("calls")), {})
    lines = ["| mode | prefill | decode | bytes a call | MB written | peak MB above plain |",
             "| --- | --- | --- | --- | --- | --- |"]
    for name, result in results.items():
        if "error" in result:
            lines.append(f"| {name} | failed: {result['error']} | | | | |")
            continue
        phases = [phase for phase in PHASES if phase in result]
        per_call = [f"{result[phase]['bytes'] / calls[phase]['calls']:,.0f}" if calls else "-"
                    for phase in phases]
        written = [f"{result[phase]['bytes'] / 1e6:.2f}" for phase in phases]
        peak = f"{result['peak_bytes'] / 1e6:.0f}" if "peak_bytes" in result else "-"
        wrong = "" if result["same_logits"] else " (other logits!)"
        lines.append(f"| {name}{wrong} | {ratio(result.get('prefill'))} | "
                     f"{ratio(result.get('decode'))} | {' / '.join(per_call)} | "
                     f"{' / '.join(written)} | {peak} |")
    return "\n".join(lines)


def targets(size, results):
    """[(what is asked, what was measured, whether it is met)]."""
    good = {name: result for name, result in results.items() if "error" not in result}
    rows = []
    for name, limits in TARGETS.items():
        for phase, limit in zip(PHASES, limits):
            if phase in good.get(name, {}):
                limit = limit if size == "small" else 1 + (limit - 1) / 2
                got, met = good[name][phase], good[name][phase]["ratio"] <= limit
                else_met = not met and got["processor_ratio"] <= limit
                rows.append((f"{name} {phase} at most {limit:.3f}", ratio(got)
                             + else_met * ", met by processor time", met))
    for name in good:
        if name.startswith("goldentrace_") or name in (*NOT_EVERY_OP, "empty_callback"):
            continue
        for phase in PHASES:
            if phase in good[name] and phase in good.get("goldentrace_stats", {}):
                ours = good["goldentrace_stats"][phase]["ratio"] - 1
                adds = good[name][phase]["ratio"] - 1
                got = f"{adds / ours:.1f} times" if ours > 0 else "ours is too small to tell"
                rows.append((f"{name} {phase} adds {PEERS_ADD} times what goldentrace_stats adds"
                             f"{KEEPS_NOTHING.get(name, '')}", got, adds >= PEERS_ADD * ours))
    return rows


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores, torch {torch.__version__}"


def report(size, threads, results, left):
    lines = [
        f"\n## {size}, threads {threads}\n",
        f"{machine()}, {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}.",
        "Time as a ratio to plain: median of the pairs (ratio of the minima, median ratio of "
        "processor time).", "Bytes, calls and MB are those of one forward: prefill / decode step. "
        "Calls are counted by goldentrace; its decode", "steps are a recording of their own, which "
        "stores the cache that it begins with by value. Our peak holds the",
        "checkpoint's file, mapped to hash it: what idle has.\n",
        table(results),
        "\nProcessor time of plain after all modes, as a ratio to before any: prefill "
        f"{left['prefill']:.2f}, decode {left['decode']:.2f}.\n"]
    if threads == 1:
        lines += [f"- {'met' if met else 'NOT MET'}: {asked}; measured {got}"
                  for asked, got, met in targets(size, results)]
    print("\n".join(lines), flush=True)
