"""Callback of ansible-playbook that reports to the driver: one line of JSON per event on file descriptor 3."""

import json
import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: ostler_events
    type: stdout
    short_description: one line of JSON per event, for the driver ansible of Ostler
    description: plays, tasks, results of hosts, and at the end the data of set_stats
"""

TEXT_LENGTH_MAX = 2000


def text_of(value):
    """A text of limited length, with its end, where the reason of a failure is."""
    text = value if isinstance(value, str) else json.dumps(value, default=plain)
    return text if len(text) <= TEXT_LENGTH_MAX else "…" + text[-TEXT_LENGTH_MAX:]


def plain(value):
    """A value that JSON lacks. An encrypted one would be decrypted by str."""
    return "***" if getattr(value, "__ENCRYPTED__", False) else str(value)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "ostler_events"

    def __init__(self):
        super().__init__()
        self.out = os.fdopen(3, "w", encoding="utf-8")
        self.output_max = int(os.environ["OSTLER_ANSIBLE_OUTPUT_MAX"])
        self.plays = 0

    def report(self, event, **data):
        self.out.write(json.dumps({"event": event, **data}, default=plain) + "\n")
        self.out.flush()

    def result(self, status, result):
        found = result._result
        reason = {}
        if status in ("failed", "unreachable", "ignored"):
            names = ("msg", "stderr", "module_stderr", "module_stdout", "censored")
            reason = {name: text_of(found[name]) for name in names if found.get(name)}
        self.report(
            "result",
            status="changed" if status == "ok" and found.get("changed") else status,
            host=result._host.get_name(),
            task=result._task.get_name(),
            **({"reason": reason} if reason else {}),
        )

    def v2_playbook_on_play_start(self, play):
        self.plays += 1
        self.report("play", name=play.get_name())

    def v2_playbook_on_no_hosts_matched(self):
        self.plays -= 1
        self.report("skipped")

    def v2_playbook_on_task_start(self, task, is_conditional):
        self.report("task", name=task.get_name())

    def v2_playbook_on_handler_task_start(self, task):
        self.report("task", name=task.get_name())

    def v2_runner_on_ok(self, result):
        self.result("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.result("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result):
        self.result("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self.result("unreachable", result)

    def v2_playbook_on_stats(self, stats):
        output = {}
        # That of the whole run, then that of its host.
        for name in sorted(stats.custom, key=lambda name: name != "_run"):
            output.update(stats.custom[name])
        size = len(json.dumps(output, default=plain))
        fits = size <= self.output_max
        self.report("end", plays=self.plays, size=size, output=output if fits else None)
