"""A tool that the gateway runs: arguments as one JSON object on stdin, the result on stdout. Standard library only.

The gateway has checked the arguments against schemas/greet.json before this starts. CAUSEWAY_IDEMPOTENCY_KEY names this very
call: a tool whose work must not be done twice remembers it. Anything but exit status 0 is a failure.
"""

import json
import os
import sys

arguments = json.load(sys.stdin)
with open(os.environ.get("GREETINGS", os.devnull), "a", encoding="utf-8") as file:
    file.write(f"{os.environ.get('CAUSEWAY_IDEMPOTENCY_KEY')} {arguments['name']}\n")
print(f"Hello, {arguments['name']}!", end="")
