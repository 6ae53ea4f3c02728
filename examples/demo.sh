#!/bin/sh
# The whole story on a tiny model: record the oracle, prove its trace, record the same model with a
# fault that a person could make, and let replay say where it is.
#   demo.sh BUILD_DIR PYTHON [FAULT]      faults: examples/planted_fault.py --help
set -eu
build=$1 python=$2 fault=${3:-norm-without-one}
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prompt='def forward(self, hidden_states, attention_mask=None): # return the hidden states of each layer'

# Shows a command as one would type it, then runs it.
run() {
  shown=
  for word in "$@"; do
    case $word in *" "*) word="'$word'" ;; esac
    shown="$shown $word"
  done
  echo "\$$shown" | sed "s#$here/##g; s#$python#python#g"
  "$@"
}
absolute() { echo "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"; }
here=$(absolute "$here")
build=$(absolute "$build")
case $python in */*) python=$(absolute "$python") ;; esac
PATH=$build/bin:$PATH
PYTHONPATH=$build/python
GOLDENTRACE_PYTHON=$python
export PATH PYTHONPATH GOLDENTRACE_PYTHON
cd "$folder"

echo "1. A tiny Qwen3.5: gated DeltaNet and gated attention, random weights."
run "$python" "$here/make_tiny_qwen35.py" tiny
echo
echo "2. The oracle: transformers' own code, eager, every operator recorded."
run record hf tiny --prompt "$prompt" --max-new-tokens 9 -o gold.fb
echo
echo "3. The proof: the recorded program is executed again and gives every output's hash."
run replay verify gold.fb --weights tiny
echo
echo "4. Another engine, with a fault: $fault in layer 2."
run "$python" "$here/planted_fault.py" tiny --fault "$fault" --layer 2 --prompt "$prompt" -o engine.fb
echo
echo "5. Which engine is wrong, and where?"
status=0
run replay engine.fb --against gold.fb || status=$?
[ "$status" = 1 ] || { echo "demo: expected exit status 1 for a faulty engine, got $status" >&2; exit 1; }
