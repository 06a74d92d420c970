"""Fails if a test was skipped that is not on the list: `check_skips.py JUNIT_XML ALLOWED`."""

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree


def allowed_patterns(path: Path) -> list[str]:
    patterns: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, reason = (part.strip() for part in line.partition("|"))
        if not reason:
            sys.exit(f"{path}:{number}: a skip needs a reason: pattern | reason")
        patterns.append(pattern)
    return patterns


def skipped_tests(report: Path) -> tuple[int, dict[str, str]]:
    """How many tests there were, and those skipped with what they said; an expected failure is no skip."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    skipped: dict[str, str] = {}
    for case in cases:
        mark = case.find("skipped")
        if mark is not None and mark.get("type") != "pytest.xfail":
            # Of a module that skips itself as a whole, only the text tells why.
            skipped["::".join(filter(None, (case.get("classname"), case.get("name"))))] = mark.text or ""
    return len(cases), skipped


def main(report: str, allowed: str) -> None:
    patterns = allowed_patterns(Path(allowed))
    count, skipped = skipped_tests(Path(report))
    if count == 0:
        sys.exit(f"{report} names no test at all")
    unexpected = {
        name: reason for name, reason in skipped.items() if not any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    print(f"{count} tests, {len(skipped)} skipped, {len(unexpected)} of these without leave")
    for name, reason in unexpected.items():
        print(f"  {name}: {reason}")
    if unexpected:
        sys.exit(f"make them run, or list them in {allowed} with the reason")


if __name__ == "__main__":
    main(*sys.argv[1:])
