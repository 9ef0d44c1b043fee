#!/bin/sh
# Runs a program for a worker, and ends it with everything that it has started: when it ends itself, or when the worker
# dies, whatever the cause. setpriv sends SIGTERM then.
#
#     guard.sh WORKER RUN HOLDER TOKEN PIPE PROGRAM ARGUMENT…
#
# WORKER is the process that starts this script. RUN marks the processes of the program, in their environment. HOLDER is
# a file with the token of the newest run on the machine; with another TOKEN than that the program is not started. PIPE
# is the path of a named pipe, for a program that opens its second input by name. "-" stands for none of these.
#
# Descriptors: 0 is the input of the program, 3 takes its events, and 4 has its second input. 5 has the private key for
# ssh-agent, if that runs.

worker=$1 run=$2 holder=$3 token=$4 pipe=$5
shift 5

marked() {
  grep -lsz "^OSTLER_ANSIBLE_RUN=$run\$" /proc/[0-9]*/environ | cut -d / -f 3
}

end() {
  [ -z "$SSH_AGENT_PID" ] || kill "$SSH_AGENT_PID" 2>/dev/null
  tries=0
  # A process may start another one before it is killed.
  while left=$(marked) && [ -n "$left" ] && [ "$tries" -lt 100 ]; do
    kill -KILL $left 2>/dev/null
    tries=$((tries + 1))
    [ "$tries" -lt 5 ] || sleep 0.05
  done
}

trap 'end; exit 143' TERM INT HUP
# It died before setpriv asked for the signal.
[ "$PPID" = "$worker" ] || exit 143

if [ -n "$SSH_AGENT_PID" ]; then
  ssh-add -q - <&5 || {
    end
    exit 71
  }
fi
[ "$holder" = - ] || [ "$(cat "$holder")" = "$token" ] || {
  end
  exit 72
}
exec 5<&- 6<&0
export OSTLER_ANSIBLE_RUN="$run"
if [ "$pipe" != - ]; then
  mkfifo -m 600 "$pipe"
  # Waits until the program opens the pipe.
  cat <&4 >"$pipe" 3<&- 6<&- &
  exec 4<&-
fi
"$@" <&6 6<&- &
program=$!
unset OSTLER_ANSIBLE_RUN
exec 4<&- 6<&-
wait "$program"
code=$?
end
exit "$code"
