"""One line of perf/pipeline: SCHEDULE simulated.json trace.json metrics.jsonl"""
import json
import statistics
import sys

schedule, simulated_file, trace_file, metrics_file = sys.argv[1:]
simulated = json.load(open(simulated_file))["schedule"]
trace = json.load(open(trace_file))
events = [e for e in (trace["traceEvents"] if isinstance(trace, dict) else trace) if e.get("ph") == "X"]
rows = {(e["pid"], e["tid"]): e["args"]["name"]
        for e in (trace["traceEvents"] if isinstance(trace, dict) else trace) if e.get("name") == "thread_name"}
begin = min(e["ts"] for e in events)
step = max(e["ts"] + e["dur"] for e in events) - begin
ranks = sorted({e["pid"] for e in events})
computes = [sum(e["dur"] for e in events if e["pid"] == rank and rows[e["pid"], e["tid"]] == "compute")
            for rank in ranks]
bubble = statistics.mean(1 - c / step for c in computes)
seconds = [r["step_seconds"] for r in map(json.loads, open(metrics_file)) if "step_seconds" in r][1:]
median = statistics.median(seconds)
print(f"{schedule:12} bubble {100 * bubble:5.1f} % measured, {100 * simulated['bubble']:5.1f} % simulated; "
      f"step {1e3 * median:7.1f} ms measured (traced {step / 1e3:7.1f}), {1e3 * simulated['step_seconds']:7.1f} ms simulated: "
      f"{simulated['step_seconds'] / median:.3f}")
