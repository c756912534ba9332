"""Judges every stream of a directory with `ag-ui-validate`, in one process: one line of JSON a file."""

import contextlib
import io
import json
import pathlib
import sys

from ag_ui_validate import cli


def judge(file: pathlib.Path) -> dict:
    sys.argv = ["ag-ui-validate", str(file), "--json"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            cli.main()
        except SystemExit as done:
            status = done.code
    if status not in (0, 1):  # 1 is a stream with findings
        raise SystemExit(f"{file}: the validator failed with {status}")
    report = json.loads(said.getvalue())
    found = [[one["rule"], one["severity"], one["message"]] for one in report["diagnostics"]]
    return {"file": file.name, "events": report["eventCount"], "found": found}


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.sse")):
    print(json.dumps(judge(path)))
