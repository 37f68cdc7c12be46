"""Packages of another Debian suite, without touching the machine's own apt state.

The sources are the machine's own entries for its release, with another suite name, so mirrors, keys and proxies stay as
the machine's owner set them. Lists and downloads live in a private folder. Nothing is installed: packages are unpacked.
"""

import fcntl
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

from progress import Failure

APT_TIMEOUT_S = 600


@contextmanager
def locked(path):
    """Holds an exclusive lock on a file: one process at a time makes the thing next to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def machine_codename():
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r'^VERSION_CODENAME="?([\w-]+)', text, re.M)
    if not found:
        raise Failure("no VERSION_CODENAME in /etc/os-release: kernels are fetched by apt on Debian only")
    return found.group(1)


def deb822_stanzas(text):
    """Yields each stanza as a list of `Name: value` fields, continuation lines joined, comments dropped."""
    text = re.sub(r"^#.*\n?", "", text, flags=re.M)
    for block in re.split(r"\n\s*\n", text):
        fields = {}
        name = None
        for line in block.splitlines():
            if line[:1].isspace() and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, value = line.split(":", 1)
                fields[name] = value.strip()
        if fields:
            yield fields


def from_deb822(text, codename, suite, kind):
    for fields in deb822_stanzas(text):
        lower = {name.lower(): name for name in fields}
        suites = fields.get(lower.get("suites", ""), "").split()
        kinds = fields.get(lower.get("types", ""), "").split()
        enabled = fields.get(lower.get("enabled", ""), "yes")
        if "deb" in kinds and codename in suites and enabled.lower() not in ("no", "false", "off", "0"):
            fields[lower["suites"]] = suite
            fields[lower["types"]] = kind
            return "".join(f"{name}: {value}\n" for name, value in fields.items())
    return None


def from_one_line(text, codename, suite, kind):
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
        if found and found.group(3) == codename:
            return f"{kind} {found.group(1) or ''}{found.group(2)} {suite} {found.group(4)}\n"
    return None


def derive_sources(suite, kind, etc=Path("/etc/apt"), codename=None):
    """Returns (file suffix, text) of an apt source for `suite`, made from the machine's entry for its own release."""
    codename = codename or machine_codename()
    files = [*sorted((etc / "sources.list.d").glob("*.sources")), etc / "sources.list",
             *sorted((etc / "sources.list.d").glob("*.list"))]
    for path in files:
        if not path.is_file():
            continue
        derive = from_deb822 if path.suffix == ".sources" else from_one_line
        text = derive(path.read_text(encoding="utf-8"), codename, suite, kind)
        if text:
            return (".sources" if path.suffix == ".sources" else ".list"), text
    raise Failure(f"no apt source for '{codename}' in /etc/apt/sources.list or /etc/apt/sources.list.d: "
                  f"add the machine's Debian mirror there, '{suite}' is derived from it")


class Suite:
    """One suite (`kind` deb or deb-src) with its own apt state under `state`."""

    def __init__(self, suite, state, kind="deb"):
        self.suite = suite
        self.state = Path(state)
        parts = self.state / "parts"
        for folder in (parts, self.state / "lists/partial", self.state / "cache/archives/partial"):
            folder.mkdir(parents=True, exist_ok=True)
        suffix, text = derive_sources(suite, kind)
        (parts / f"derived{suffix}").write_text(text, encoding="utf-8")
        self.options = ["-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}",
                        "-o", f"Dir::State::Lists={self.state}/lists", "-o", f"Dir::Cache={self.state}/cache",
                        "-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none",
                        "-o", "Acquire::Retries=3"]

    def call(self, *command, cwd=None):
        try:
            done = subprocess.run([command[0], *self.options, *command[1:]], cwd=cwd, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=APT_TIMEOUT_S, check=False)
        except FileNotFoundError:
            raise Failure(f"{command[0]} is not on this machine: kernels are fetched by apt on Debian only") from None
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(command)} for suite {self.suite}: no end after {APT_TIMEOUT_S} s") from None
        if done.returncode:
            hint = ""
            if "NO_PUBKEY" in done.stderr:
                hint = "\ntry: apt-get install --only-upgrade debian-archive-keyring"
            raise Failure(f"{' '.join(command)} for suite {self.suite} failed:\n{done.stderr.strip()}{hint}")
        return done.stdout

    def update(self):
        self.call("apt-get", "update")

    def names(self, prefix):
        return self.call("apt-cache", "pkgnames", prefix).split()

    def depends(self, package):
        return re.findall(r"Depends: (\S+)", self.call("apt-cache", "depends", package))

    def version(self, package):
        found = re.search(r"Candidate: (\S+)", self.call("apt-cache", "policy", package))
        return found.group(1) if found and found.group(1) != "(none)" else None

    def unpack(self, packages, into):
        """Downloads packages and unpacks them under `into`."""
        debs = self.state / "debs"
        debs.mkdir(exist_ok=True)
        self.call("apt-get", "download", *packages, cwd=debs)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg", "-x", deb, into], check=True)
            deb.unlink()

    def source(self, package, into):
        """Downloads and unpacks a source package under `into`; returns its folder."""
        Path(into).mkdir(parents=True, exist_ok=True)
        self.call("apt-get", "source", "--only-source", package, cwd=into)
        folders = [path for path in Path(into).iterdir() if path.is_dir()]
        if len(folders) != 1:
            raise Failure(f"source package {package} of {self.suite} unpacked to {len(folders)} folders in {into}")
        return folders[0]
