"""Where things are. GOLDENTRACE_BUILD names another build folder."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("GOLDENTRACE_BUILD", ROOT / "build")).resolve()
