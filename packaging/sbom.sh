#!/usr/bin/env bash
# Prints the parts of the command as CycloneDX: packaging/sbom.sh [FEATURES]
# FEATURES is full unless given. Needs cargo, and python3.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cargo tree --locked --offline --package elevon --features "${1:-full}" --edges normal --prefix none \
  --no-dedupe --format '{p}|{l}' | python3 -c '
import json, sys
parts = {}
for line in sys.stdin:
    package, _, licence = line.strip().partition("|")
    name, version = package.split()[:2]
    is_ours = "(/" in package
    part = {"type": "library", "name": name, "version": version[1:]}
    if licence:
        part["licenses"] = [{"expression": licence.replace("/", " OR ").replace("  ", " ")}]
    if not is_ours:
        part["purl"] = f"pkg:cargo/{name}@{version[1:]}"
    parts[name, version] = part
components = [parts[key] for key in sorted(parts) if key[0] != "elevon"]
command = next(part for key, part in parts.items() if key[0] == "elevon")
command = {**command, "type": "application"}
print(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                  "metadata": {"component": command}, "components": components}, indent=1))
'
