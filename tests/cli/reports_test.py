"""The schemas of the reports say all of them and no more. That the reports of the other tests keep to
them is the business of `run`, which holds each against its own."""

import copy
import json
import re

import jsonschema
import numpy
import planted_fault
import pytest

import reports
from paths import ROOT

DEFINITIONS = reports.SCHEMAS["report.schema.json"]["$defs"]
KINDS = list(reports.VALIDATORS)
SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "replayer").rglob("*.cpp")))

# Objects whose keys are names from the trace; any may be missing.
MAPS = {"zones", "rerouted", "misrouted", "lost"}
# Objects that another document describes.
FOREIGN = {("slice", ("calls", 0))}
WORDS = {"report", "version", "verdict", "exit", "exit_status", "status", "zone", "evidence", "mode", "promote",
         "value"}


def objects_of(schema):
    """Every schema of an object of ours in it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for inner in schema.values():
            yield from objects_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from objects_of(inner)


def words(definition):
    return {choice["const"] for choice in definition["oneOf"]}


def words_in(name):
    """All that the function of this name returns, or the array has; of one that is in replayer/."""
    found = re.findall(rf"const char\* {name}(?:\([^;]*?\) \{{\n(.*?)\n\}}\n|\[\] = \{{(.*?)\}})", SOURCES,
                       re.DOTALL)
    assert len(found) == 1, f"{len(found)} definitions of {name}"
    return set(re.findall(r'"(\w+)"', "".join(found[0])))


@pytest.mark.parametrize("name", reports.SCHEMAS)
def test_a_schema_is_one(name):
    jsonschema.Draft202012Validator.check_schema(reports.SCHEMAS[name])


@pytest.mark.parametrize("name", reports.SCHEMAS)
def test_every_field_is_required_and_described_and_no_other_is_allowed(name):
    objects = list(objects_of(reports.SCHEMAS[name]["$defs"]))
    assert len(objects) > 5
    for schema in objects:
        fields = schema["properties"]
        assert list(fields) == schema["required"]
        assert schema["additionalProperties"] is False
        assert [name for name, field in fields.items() if not field.get("description")] == []


def test_every_report_that_is_written_is_in_the_schema():
    assert set(re.findall(r'\{"report", "(\w+)"\}', SOURCES)) == set(KINDS)


@pytest.mark.parametrize("name, definition", [
    ("verdict_name", DEFINITIONS["verdict"]),
    ("status_name", DEFINITIONS["status"]),
    ("evidence_name", DEFINITIONS["evidence"]),
    ("zone_name", DEFINITIONS["zone"]),
    ("verify_verdict", DEFINITIONS["verify"]["properties"]["verdict"]),
    ("kVerifyModes", DEFINITIONS["verify"]["properties"]["mode"]),
    ("verdicts", DEFINITIONS["check"]["properties"]["verdict"]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_words_of_the_schema_are_those_that_are_written(name, definition):
    # "unknown" is what no value of the enumeration has.
    assert words(definition) == words_in(name) - {"unknown"}


# ---- the schema is tight ------------------------------------------------------------------------

@pytest.fixture(scope="module")
def written(record, run, tiny, tmp_path_factory):
    """A report of each kind in which as much as possible is told."""
    import goldentrace
    folder = tmp_path_factory.mktemp("written")

    def report(*arguments):
        path = folder / "report.json"
        path.unlink(missing_ok=True)
        answer = run("replay", *arguments, "--json", path)
        assert path.exists(), answer.err
        return json.loads(path.read_text())

    def done(*arguments):
        answer = run("replay", *arguments)
        assert answer.status == 0, answer.err
        return answer.out

    def break_two(model):
        planted_fault.FAULTS["wrong-eps"](model.model.layers[1])
        planted_fault.FAULTS["norm-without-one"](model.model.layers[2])

    gold = record("reports-gold", tiny, max_new_tokens=3)
    wrong = record("reports-wrong", tiny, break_two, rules=["scope=**:values"],
                   forced=goldentrace.open(gold).requests[0].output_ids, max_new_tokens=None)

    place = "model.layers.2.mlp.down_proj"
    tensor = folder / "tensor.npy"
    done("export", wrong, "--scope", place, "--op", "aten::linear", "--step", 0, "-o", tensor)
    done("export", gold, "--slice", place, "--weights", tiny, "-o", folder / "slice")

    # Another engine's tensors can't be computed again.
    engine = folder / "engine.fb"
    with goldentrace.Writer(engine, engine="engine", dtype="float32") as trace:
        trace.request(prompt_ids=[1])
        trace.tensor("head", numpy.zeros(99, numpy.float32), op="MUL_MAT")
        trace.step(1)
    none = folder / "none.safetensors"
    none.write_bytes(b"\x02" + bytes(7) + b"{}")

    damaged = folder / "damaged.fb"
    data = bytearray(gold.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)

    return {
        "replay": report(wrong, "--against", gold, "--weights", tiny),
        "replay_candidates": report(wrong, gold, "--against", gold),
        "place": report(tensor, "--against", gold, "--at", place, "--weights", tiny),
        "tensor": json.loads(done("show", gold, "--tensor", place, "--weights", tiny, "--json")),
        "slice": json.loads((folder / "slice" / "slice.json").read_text()),
        "verify": report("verify", engine, "--weights", none),
        "check": report("check", damaged),
    }


def places(value, path=()):
    """The path of every object in it; of a list, only in the first item."""
    if isinstance(value, dict):
        yield path
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def changes(report):
    """(what was done, a changed copy) for everything that must not be done to a report."""
    for path in places(report):
        if any((report["report"], path[:end]) in FOREIGN for end in range(len(path) + 1)):
            continue

        def changed(change):
            whole = copy.deepcopy(report)
            place = whole
            for key in path:
                place = place[key]
            change(place)
            return whole

        where = ".".join(map(str, path))
        yield f"{where}: added", changed(lambda place: place.update(unknown="?"))
        names = path[-1] if path else ""
        for key, value in (at(report, path)).items():
            if names not in MAPS:
                yield f"{where}.{key}: removed", changed(lambda place: place.pop(key))
            yield f"{where}.{key}: another type", changed(lambda place: place.update({key: [[0]]}))
            if key in WORDS:
                yield f"{where}.{key}: unknown word", changed(lambda place: place.update({key: "?"}))
            if isinstance(value, int):
                yield f"{where}.{key}: half", changed(lambda place: place.update({key: 0.5}))


def at(value, path):
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_with_a_field_more_or_less_or_an_unknown_word_is_refused(kind, written):
    report = written[kind]
    assert report["report"] == kind and reports.fault(report) is None
    tried = 0
    for what, changed in changes(report):
        assert not reports.VALIDATORS[kind].is_valid(changed), what
        tried += 1
    assert tried > 40


def test_the_reports_that_are_tried_have_all_that_may_be_null_or_empty(written):
    replay, verify = written["replay"], written["verify"]
    filled = [replay["local"], replay["ops"]["first_constant"], replay["ops"]["first_out_of_band"],
              replay["ops"]["last_good"], replay["ops"]["missing_in_module"], replay["tokens"]["first"],
              replay["local"]["findings"][0]["cuts"][0], verify["lost"], verify["findings"],
              written["check"]["faults"], written["place"]["worst_slice"], written["tensor"]["stats"],
              written["slice"]["inputs"], written["slice"]["outputs"][0]["band"]]
    assert all(filled), [i for i, value in enumerate(filled) if not value]


def test_what_is_wrong_with_a_report_is_said_by_its_place(written):
    report = copy.deepcopy(written["replay"])
    report["local"]["findings"][0]["cuts"][0]["zone"] = "twilight"
    wrong = reports.fault(report)
    assert "local.findings[0].cuts[0].zone" in wrong and "twilight" in wrong
