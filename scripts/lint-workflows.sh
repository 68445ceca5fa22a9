#!/usr/bin/env bash
# Checks .github/workflows: actionlint, actions named by their commit, and the least permissions. Without Go, it says so and
# checks the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
status=0
workflows=(.github/workflows/*.yml)
tool=$(scripts/go-tool.sh actionlint 2>/dev/null) || status=$?
case $status in
  0) "$tool" -shellcheck= -pyflakes= "${workflows[@]}" ;;
  3) echo "workflows: not checked by actionlint, which is built by Go" ;;
  *) exit "$status" ;;
esac
# A tag can be moved to other code. Workflows of this repository are exempt.
if grep -nE '^\s*(- )?uses: ' "${workflows[@]}" | grep -vE 'uses: (\./|[A-Za-z0-9._/-]+@[0-9a-f]{40} # v[0-9.]+$)'; then
  echo "workflows: an action must be named by its commit, with the version as a comment" >&2
  exit 1
fi
for workflow in "${workflows[@]}"; do
  # Each job asks for what it needs.
  if ! grep -qx 'permissions: {}' "$workflow"; then
    echo "workflows: $workflow must begin with no permissions: permissions: {}" >&2
    exit 1
  fi
done
