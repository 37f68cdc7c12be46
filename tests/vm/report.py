"""Test results: one Case per test, read from the junit files of ctest and pytest, and the closing report."""

import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

MESSAGE_LINES_MAX = 40


@dataclass(frozen=True)
class Case:
    suite: str
    name: str
    state: str  # "passed", "failed" or "skipped"
    message: str = ""


@dataclass
class Outcome:
    """What one suite gave. `shortened` says what it left out, empty for nothing."""
    suite: str
    cases: list = field(default_factory=list)
    shortened: list = field(default_factory=list)
    boots_repeated: int = 0
    seconds: float = 0

    def fail(self, name, message):
        self.cases.append(Case(self.suite, name, "failed", message))

    def count(self, state):
        return sum(case.state == state for case in self.cases)


def text_of(element):
    parts = [element.get("message") or "", element.text or ""]
    return "\n".join(part.strip() for part in parts if part.strip())


def skip_reason(element, output):
    """pytest names the reason; ctest says only that a test skipped, the reason is a line of the test's own output."""
    reason = element.get("message") or text_of(element)
    lines = [line.strip() for line in output.splitlines() if "skip" in line.lower()]
    return lines[0] if lines and reason.startswith("SKIP_") else reason


def case_of(suite, element):
    name = "::".join(part for part in (element.get("classname"), element.get("name")) if part)
    if element.get("classname") == element.get("name"):  # ctest says it twice
        name = element.get("name")
    output = (element.findtext("system-out") or "").strip()
    for tag in ("failure", "error"):
        found = element.find(tag)
        if found is not None:
            return Case(suite, name, "failed", f"{text_of(found)}\n{output}")
    found = element.find("skipped")
    if found is not None:
        return Case(suite, name, "skipped", skip_reason(found, output))
    if element.get("status") in ("notrun", "disabled"):
        return Case(suite, name, "skipped", "not run")
    return Case(suite, name, "passed")


def read_junit(outcome, path, what):
    """Adds the file's tests to the outcome. A file that is missing or broken is a failed test named `what`."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        outcome.fail(what, f"did not report: {error}")
        return
    outcome.cases += [case_of(outcome.suite, element) for element in root.iter("testcase")]
    for element in root.iter("property"):
        if element.get("name") == "shortened" and element.get("value") not in outcome.shortened:
            outcome.shortened.append(element.get("value"))


def indented(text):
    lines = text.strip().splitlines()
    if len(lines) > MESSAGE_LINES_MAX:
        half = MESSAGE_LINES_MAX // 2
        lines = lines[:half] + [f"... {len(lines) - 2 * half} lines ..."] + lines[-half:]
    return "".join(f"    {line}\n" for line in lines)


def show(outcomes, out=sys.stdout):
    """Prints every skip and failure and the closing lines; returns the exit status."""
    cases = [case for outcome in outcomes for case in outcome.cases]
    for case in cases:
        if case.state == "skipped":
            reason = " ".join(case.message.split()) or "no reason given"
            print(f"skipped: {case.suite}: {case.name}: {reason}", file=out)
    for case in cases:
        if case.state == "failed":
            print(f"FAILED: {case.suite}: {case.name}\n{indented(case.message)}", file=out, end="")
    short = [f"{outcome.suite} ({'; '.join(outcome.shortened)})" for outcome in outcomes if outcome.shortened]
    print(f"shortened: {', '.join(short) or 'none'}; "
          f"guest boots repeated: {sum(outcome.boots_repeated for outcome in outcomes)}", file=out)
    passed, failed, skipped = (sum(case.state == state for case in cases)
                               for state in ("passed", "failed", "skipped"))
    print(f"ublkd: {passed} passed, {failed} failed, {skipped} skipped", file=out, flush=True)
    return 1 if failed or not passed else 0
