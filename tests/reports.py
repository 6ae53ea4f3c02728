"""What replay writes as JSON for programs, held against the schemas of schema/REPORTS.md."""

import json
import pathlib

import jsonschema

from paths import ROOT

SCHEMAS = {path.name: json.loads(path.read_text()) for path in sorted((ROOT / "schema").glob("*.schema.json"))}
# report: the validator of its schema.
VALIDATORS = {kind["$ref"].rpartition("/")[2]: jsonschema.Draft202012Validator(schema)
              for schema in SCHEMAS.values() for kind in schema["oneOf"]}


def fault(report):
    """The first place where it is against its schema, and why; None where it is not."""
    error = jsonschema.exceptions.best_match(VALIDATORS[report["report"]].iter_errors(report))
    return None if error is None else f"{error.json_path}: {error.message[:300]}"


def written(arguments, status, out):
    """The text of the report that a run of replay with these arguments made; "" for none."""
    arguments = [str(argument) for argument in arguments]
    if not arguments:
        return ""
    if arguments[0] == "export":
        if status != 0 or "--slice" not in arguments:  # what lies there is somebody else's
            return ""
        path = pathlib.Path(arguments[arguments.index("-o") + 1], "slice.json")
    elif "--json" not in arguments:
        return ""
    elif arguments[0] == "show":  # else it prints lines, which are no reports
        return out if "--tensor" in arguments else ""
    else:
        path = pathlib.Path(arguments[arguments.index("--json") + 1])
    if path == pathlib.Path("-"):
        return out
    return path.read_text() if path.is_file() else ""


def check_written(arguments, status, out):
    text = written(arguments, status, out)
    if text:
        wrong = fault(json.loads(text))
        assert wrong is None, f"replay {' '.join(map(str, arguments))}: against its schema: {wrong}"
