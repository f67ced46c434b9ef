"""The dashboard: what stands in it, from top to bottom as an operator asks. Makes heed.json:

    python3 deploy/grafana/dashboard.py > deploy/grafana/heed.json

Metrics: docs/metrics.md. What begins with `heed:` is recorded by deploy/prometheus/rules.
"""
import json
import sys

INSTANCE = 'job="heed", instance=~"$instance"'
MODEL = INSTANCE + ', model_name=~"$model"'
RECORDED = 'job="heed", model_name=~"$model"'  # over all instances
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


# -------------------------------------------------------------------------------------------------------- expressions

def rate(family, by, labels=MODEL):
    return f"sum by ({by}) (rate({family}{{{labels}}}[$__rate_interval]))"


def quantile(q, family, by="model_name", labels=MODEL):
    return f"histogram_quantile({q}, {rate(family + '_bucket', by + ', le', labels)})"


def mean(family, by="model_name"):
    return f"{rate(family + '_sum', by)} / {rate(family + '_count', by)}"


def total(family, by, labels=MODEL):
    return f"sum by ({by}) ({family}{{{labels}}})"


# ------------------------------------------------------------------------------------------------------------- panels

def target(expr, legend):
    return {"datasource": SOURCE, "expr": expr, "legendFormat": legend}


def panel(kind, title, says, targets, unit, width, field, options):
    for i, query in enumerate(targets):
        query["refId"] = chr(ord("A") + i)
    return {"type": kind, "title": title, "description": says, "datasource": SOURCE, "targets": targets,
            "gridPos": {"w": width, "h": 4 if kind == "stat" else 8},
            "fieldConfig": {"defaults": {"unit": unit, **field}, "overrides": []}, "options": options}


def stat(title, says, expr, legend="", unit="none", good=None):
    """The last values as numbers; green where `good` ("0" or "above 0") holds of them, else red."""
    first, then = {None: ("green", None), "above 0": ("red", "green"), "0": ("green", "red")}[good]
    steps = [{"color": first, "value": None}] + ([{"color": then, "value": 1}] if then else [])
    return panel("stat", title, says, [target(expr, legend)], unit, 4,
                 {"thresholds": {"mode": "absolute", "steps": steps}},
                 {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "graphMode": "none",
                  "colorMode": "value", "textMode": "auto"})


def graph(title, says, *targets, unit="short", width=8, stacked=False):
    """Lines over time: (expression, legend) each."""
    custom = {"lineWidth": 1, "fillOpacity": 30 if stacked else 0, "showPoints": "never",
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}
    return panel("timeseries", title, says, [target(*query) for query in targets], unit, width,
                 {"min": 0, "custom": custom},
                 {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                  "tooltip": {"mode": "multi", "sort": "desc"}})


def quantiles(title, says, family):
    return graph(title, says, (quantile(0.5, family), "{{model_name}} 50%"),
                 (quantile(0.99, family), "{{model_name}} 99%"), unit="s")


ROWS = {
    "Is it up?": [
        stat("Servers up", "Targets that answer Prometheus.", 'sum(up{job="heed"})', good="above 0"),
        stat("Ports open", "Those of gRPC that take connections, as each server finds by one of its own.",
             f"sum(heed_listener_up{{{INSTANCE}}})", good="above 0"),
        stat("Models ready", "On all servers together.",
             f'sum(heed_model_state{{{MODEL}, state="ready"}})', good="above 0"),
        stat("Models failed", "They could not be loaded; the log says why.",
             f'sum(heed_model_state{{{MODEL}, state="failed"}})', good="0"),
        stat("Alerts", "That fire. docs/operations.md says of each what to do.",
             'count(ALERTS{alertname=~"Heed.*", alertstate="firing"}) or vector(0)', good="0"),
        stat("Up for", "Since the process that was started last.",
             f"time() - max(process_start_time_seconds{{{INSTANCE}}})", unit="s"),
    ],
    "How fast?": [
        graph("Objectives: burn rate", "1: what may be late in 30 days is used up in 30 days. Over the last hour.",
              (f"heed:objective_late:ratio_rate1h{{{RECORDED}}} / 0.01", "{{model_name}} {{objective}}")),
        graph("Answered, from arrival", "Inputs that were answered; a text counts when it has ended.",
              (quantile(0.5, "heed_e2e_request_latency_seconds", labels=MODEL + ', outcome="ok"'), "{{model_name}} 50%"),
              (quantile(0.99, "heed_e2e_request_latency_seconds", labels=MODEL + ', outcome="ok"'), "{{model_name}} 99%"),
              unit="s"),
        quantiles("Waiting for the first pass", "In the queue.", "heed_request_queue_time_seconds"),
        quantiles("First token made", "From submission.", "heed_time_to_first_token_seconds"),
        quantiles("Next token made", "Since the one before.", "heed_inter_token_latency_seconds"),
        quantiles("Next token taken", "As clients read their streams: far above \"made\" where they are slow.",
                  "heed_stream_inter_token_seconds"),
    ],
    "How full?": [
        graph("At work and waiting", "Inputs.", (total("heed_num_requests_running", "model_name"), "{{model_name}} at work"),
              (total("heed_num_requests_waiting", "model_name"), "{{model_name}} waiting")),
        graph("Share of the state", "Keys, values and memories, with what passes work in, of what there may be.",
              (f"heed:state_used:ratio{{{MODEL}}}", "{{instance}} {{model_name}}"), unit="percentunit"),
        graph("Share of the answers' memory", "Reserved by answers that are not yet written, of limits.answers_bytes.",
              (f"heed:answers_used:ratio{{{INSTANCE}}}", "{{instance}}"), unit="percentunit"),
        graph("Inputs that share a pass", "Mean.", (mean("heed_batch_size"), "{{model_name}}")),
        graph("Rows of a pass", "Mean.", (mean("heed_batch_tokens"), "{{model_name}}")),
        graph("Calls inside", "Begun and not yet answered.", (f"heed_calls_in_flight{{{INSTANCE}}}", "{{instance}}")),
    ],
    "Who is refused, and why?": [
        graph("Turned away under load", "A second, by why.",
              (rate("heed_requests_shed_total", "model_name, reason", INSTANCE), "{{model_name}} {{reason}}")),
        graph("Not answered", "Inputs a second, by the reason that the client got.",
              (rate("heed_request_failure_total", "model_name, reason"), "{{model_name}} {{reason}}")),
        graph("Deadlines missed", "Inputs a second, by how far they were.",
              (rate("heed_deadline_missed_total", "model_name, stage"), "{{model_name}} {{stage}}")),
        graph("Readers that stall", "Share of inputs whose client has read nothing for limits.stall_seconds.",
              (f"heed:readers_stalled:ratio_rate5m{{{RECORDED}}}", "{{model_name}}"), unit="percentunit"),
        graph("Calls by code", "A second.", (rate("grpc_server_handled_total", "grpc_code", INSTANCE) + " > 0", "{{grpc_code}}")),
        graph("Calls by method", "A second.",
              (rate("grpc_server_started_total", "grpc_method", INSTANCE) + " > 0", "{{grpc_method}}")),
    ],
    "Each model": [
        graph("Inputs", "A second, by how they ended.",
              (rate("heed_e2e_request_latency_seconds_count", "model_name, outcome") + " > 0", "{{model_name}} {{outcome}}"),
              width=12),
        graph("Tokens read", "A second.", (rate("heed_prompt_tokens_total", "model_name"), "{{model_name}}"), width=6),
        graph("Tokens made", "A second.", (rate("heed_generation_tokens_total", "model_name"), "{{model_name}}"), width=6),
        graph("Text to tokens", "Mean of an input.", (mean("heed_request_tokenization_time_seconds"), "{{model_name}}"),
              unit="s", width=6),
        graph("Reading an input", "Mean, from the first pass until it was read.",
              (mean("heed_request_prefill_time_seconds"), "{{model_name}}"), unit="s", width=6),
        graph("Writing a text", "Mean, from when the input was read to the last token.",
              (mean("heed_request_decode_time_seconds"), "{{model_name}}"), unit="s", width=6),
        graph("Loading", "What it took.", (f"heed_model_load_seconds{{{MODEL}}}", "{{instance}} {{model_name}}"), unit="s",
              width=6),
    ],
    "Each attention": [
        graph("State", "Reserved by the inputs at work.", (total("heed_state_reserved_bytes", "attention"), "{{attention}}"),
              unit="bytes"),
        graph("State of one input", "Mean of those at work.",
              (f"{total('heed_state_reserved_bytes', 'attention')} / {total('heed_num_requests_running', 'attention')}",
               "{{attention}}"), unit="bytes"),
        graph("Workspace", "Of the passes under way.", (total("heed_workspace_bytes", "attention"), "{{attention}}"),
              unit="bytes"),
        graph("Tokens read", "A second.", (rate("heed_prompt_tokens_total", "attention"), "{{attention}}")),
        graph("Tokens made", "A second.", (rate("heed_generation_tokens_total", "attention"), "{{attention}}")),
        graph("Next token made", "Mean.", (mean("heed_inter_token_latency_seconds", "attention"), "{{attention}}"), unit="s"),
    ],
    "The process": [
        graph("Processors", "That are busy.", (rate("process_cpu_seconds_total", "instance", INSTANCE), "{{instance}}"), width=6),
        graph("Resident memory", "Weights, state, workspace, answers; and what is left where the process runs.",
              (f"process_resident_memory_bytes{{{INSTANCE}}}", "{{instance}}"),
              (f"heed_memory_available_bytes{{{INSTANCE}}}", "{{instance}} left"), unit="bytes", width=6),
        graph("Open files", "Sockets too.", (f"process_open_fds{{{INSTANCE}}}", "{{instance}}"), width=6),
        graph("Threads", "All.", (f"process_threads{{{INSTANCE}}}", "{{instance}}"), width=6),
        graph("Tasks that have thrown", "Of request and answer threads, and lines of the log that were dropped, a second.",
              (rate("heed_task_failures_total", "instance", INSTANCE), "{{instance}} tasks"),
              (rate("heed_log_lines_dropped_total", "instance", INSTANCE), "{{instance}} lines"), width=12),
        stat("Version", "Of each server.", f"heed_build_info{{{INSTANCE}}}", "{{version}}"),
        stat("Instruction set", "That the engine computes with, and its CPUs.", f"heed_isa_info{{{INSTANCE}}}", "{{isa}}, {{cpus}}"),
        stat("A scrape takes", "The slowest.", 'max(scrape_duration_seconds{job="heed"})', unit="s"),
    ],
}


def placed(rows):
    """All panels, each row's after its headline, from left to right and then down."""
    panels, y = [], 0
    for title, members in rows.items():
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                       "panels": []})
        x, y, lowest = 0, y + 1, y + 1
        for one in members:
            box = one["gridPos"]
            if x + box["w"] > 24:
                x, y = 0, lowest
            box.update(x=x, y=y)
            x, lowest = x + box["w"], max(lowest, y + box["h"])
            panels.append(one)
        y = lowest
    for i, one in enumerate(panels):
        one["id"] = i + 1
    return panels


def variable(name, label, family):
    query = f"label_values({family}{{job=\"heed\"}}, {name})"
    return {"type": "query", "name": label.lower(), "label": label, "datasource": SOURCE, "query": query, "refresh": 2,
            "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def dashboard():
    return {
        "uid": "heed-overview", "title": "Heed", "tags": ["heed"],
        "description": "A Heed, as an operator asks. docs/operations.md says what to do.",
        "schemaVersion": 39, "editable": True, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
            variable("instance", "Instance", "heed_build_info"),
            variable("model_name", "Model", "heed_model_state")]},
        "panels": placed(ROWS),
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2)
    print()
