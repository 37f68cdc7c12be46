"""Builds by `./dev build`, whose lock lets one at a time into a folder."""

import process
from paths import ROOT
from progress import Failure

TIMEOUT_S = 1800


def built(preset):
    """Builds; False when that failed."""
    return process.call([str(ROOT / "dev"), "build", preset], TIMEOUT_S) == 0


def build(preset):
    if not built(preset):
        raise Failure(f"build of {preset} failed")
