# Shell functions that run a build or the tests and tell how far they are; other scripts take them in with `source`. On a
# terminal that is one line that is written over, elsewhere a line every tenth, both on stderr. The whole output goes to the
# end of a log file, which is named when the command fails; the functions return the command's status.
#   progress_quiet LOG COMMAND...   tells nothing of it while it goes well
#   progress_build LOG COMMAND...   a build by Ninja, e.g. `cmake --build`: how many files are built, and errors
#   progress_tests LOG COMMAND...   ctest with --output-on-failure: how many tests are done, what failing ones print, and the sums

progress_quiet() {
  local log=$1 status=0
  shift
  "$@" >>"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    tail -n 30 "$log" >&2
    progress_name_log "$log"
  fi
  return $status
}

progress_build() { progress_filtered progress_ninja_lines "$@"; }
progress_tests() { progress_filtered progress_ctest_lines "$@"; }

progress_filtered() {
  local filter=$1 log=$2 status=0
  shift 2
  # The shell of the pipe has its own pipefail, so that the command's failure is seen whatever the script has set.
  (set -o pipefail; "$@" 2>&1 | tee -a "$log" | "$filter") || status=$?
  [ $status -eq 0 ] || progress_name_log "$log"
  return $status
}

progress_name_log() { echo "$(basename "$0"): failed; the whole log is $(realpath "$1")" >&2; }

# progress_show DONE ALL TEXT: on a terminal always, elsewhere when another tenth is done.
progress_show() {
  local tenth=$(($2 > 0 ? 10 * $1 / $2 : 0))
  [ "$1" -ge "${progress_done:-0}" ] || progress_tenth=0  # Ninja begins anew after it has run CMake
  progress_done=$1
  if [ -t 2 ]; then
    printf '\r%s: %s\033[K' "$(basename "$0")" "$3" >&2
    progress_open=1
  elif [ $tenth -gt "${progress_tenth:-0}" ]; then
    echo "$(basename "$0"): $3" >&2
    progress_tenth=$tenth
  fi
}

# progress_pass LINE: prints a line of the command in place of the one that is written over.
progress_pass() {
  [ -z "${progress_open:-}" ] || printf '\r\033[K' >&2
  progress_open=
  printf '%s\n' "$1" >&2
}

progress_end() { [ -z "${progress_open:-}" ] || echo >&2; }

# Ninja's lines "[done/all] what". What follows "FAILED:", the compiler's errors, is shown at once.
progress_ninja_lines() {
  local line failed='' begun=$SECONDS
  local counted='^\[([0-9]+)/([0-9]+)\] '
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ $line =~ $counted ]]; then
      failed=
      progress_show "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" \
        "built ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files ($((100 * BASH_REMATCH[1] / BASH_REMATCH[2])) %), $((SECONDS - begun)) s"
    elif [[ $line == FAILED:* || $line == ninja:\ error:* || $line == "CMake Error"* || $line == Error:* || -n $failed ]]; then
      failed=1
      progress_pass "$line"
    fi
  done
  progress_end
}

# ctest's lines "done/all Test #number: name ... Passed", or "***Failed" and the test's output, which is shown at once.
progress_ctest_lines() {
  local line result failed=0 shown='' begun=$SECONDS
  local counted='^ *([0-9]+)/([0-9]+) +Test +#[0-9]+: .*(Passed|\*\*\*)'
  local started='^ +Start +[0-9]+: '
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ $line =~ $counted ]]; then
      result=("${BASH_REMATCH[@]}")
      shown=
      if [[ ${result[3]} != Passed && $line != *'***Skipped'* && $line != *'***Not Run (Disabled)'* ]]; then
        failed=$((failed + 1)) shown=1
        progress_pass "$line"
      else
        progress_show "${result[1]}" "${result[2]}" "${result[1]} of ${result[2]} tests, $failed failed, $((SECONDS - begun)) s"
      fi
    elif [[ $line =~ $started ]]; then
      shown=
    elif [[ $line =~ ^[0-9]+%\ tests\ passed || $line == "No tests were found"* || $line == "CMake Error"* ]]; then
      shown=1
      progress_pass "$line"
    elif [[ $line == "Label Time Summary:" ]]; then
      shown=
    elif [[ $line == "Total Test time"* || -n $shown ]]; then
      shown=1
      progress_pass "$line"
    fi
  done
  progress_end
}
