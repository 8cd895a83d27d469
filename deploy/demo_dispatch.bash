# The parts of deploy/demo that show kvrouterd as the front of its fleet: --dispatch, --disagg and --migration. Sourced by it.

start_door() { # [kvrouterd's options]: kvrouterd in front of the engines of $work/workers.yaml
  rm -f "$work/daemon.addresses"
  "$bin/kvrouterd" --config "$work/workers.yaml" --http-listen "$http_listen" --grpc-listen "$grpc_listen" --dispatch \
    --dispatch-listen "$dispatch_listen" --addresses-file "$work/daemon.addresses" "$@" >"$work/kvrouterd.log" 2>&1 &
  children+=($!)
  wait_for kvrouterd $! test -f "$work/daemon.addresses"
  router_http=$(sed -n 's/^http=//p' "$work/daemon.addresses")
  router_grpc=$(sed -n 's/^grpc=//p' "$work/daemon.addresses")
  door=$(sed -n 's/^openai=//p' "$work/daemon.addresses")
  wait_for kvrouterd $! http_ok "$router_http" /ready
}

start_exchanging_engines() { # [kvrouter-sim's options]: engines that hand each other KV
  rm -f "$work/engines.addresses"
  "$bin/kvrouter-sim" engine --service batching --model demo --kv-role both --blocks $blocks \
    --addresses-file "$work/engines.addresses" --workers-file "$work/workers.yaml" "$@" >"$work/engines.log" 2>&1 &
  children+=($!)
  wait_for engines $! test -f "$work/engines.addresses"
}

# Four engines behind the door, until somebody stops it.
dispatch_demo() {
  say "dispatch: four simulated engines, and kvrouterd as the OpenAI server in front of them"
  start_exchanging_engines --engines 4 --block-size 16 --speedup 1
  start_door
  cat <<END
kvrouterd answers at http://$door; the simulated model writes letters that depend on the prompt alone. Try, in another terminal:

  curl -s http://$door/v1/models
  curl -s http://$door/v1/completions -H 'content-type: application/json' -d '{"model": "demo", "prompt": "Once upon a time", "max_tokens": 24}'
  curl -sN http://$door/v1/chat/completions -H 'content-type: application/json' -d '{"model": "demo", "stream": true, "max_tokens": 24, "messages": [{"role": "user", "content": "Hello"}]}'

Where did it go, and why? The second time it goes to where the first left its blocks:

  curl -si -H 'x-route-explain: 1' http://$door/v1/completions -H 'content-type: application/json' -d '{"model": "demo", "prompt": "$(printf 'tell me of the router %.0s' 1 2 3 4)", "max_tokens": 8}'

What the router knows: http://$router_http/ (a page), http://$router_http/metrics, $bin/kvrouterctl --grpc $router_grpc loads
END
  if [ "$run_seconds" -gt 0 ]; then
    run sleep "$run_seconds"
  else
    echo "Ctrl-C ends it."
    run sleep infinity
  fi
  stop_children
}

# The trace with short answers: it is how prompts are computed that is compared, and each token of an answer costs real
# time in three processes, more than two cores have at this speed-up.
cut_answers() { # TOKENS
  run /usr/bin/python3 -c '
import gzip, json, sys
with gzip.open(sys.argv[1], "rt") as trace, open(sys.argv[2], "w") as cut:
    for line in trace:
        row = json.loads(line)
        row["output_length"] = min(row["output_length"], int(sys.argv[3]))
        cut.write(json.dumps(row) + "\n")
' "$traces/$live_trace.jsonl.gz" "$work/$live_trace.jsonl" "$1"
}

disagg_run() { # NAME [kvrouterd's options]
  local name=$1
  shift
  say "disagg: $name${*:+ ($*)}"
  start_exchanging_engines --engines 6 --prefill-engines 2 --block-size $live_block_size --speedup "$speedup" \
    --prefill-rate $prefill_rate --kv-transfer-us-per-block $transfer_us_per_block
  start_door "$@"
  run "$bin/kvrouter-sim" play "$work/$live_trace.jsonl" --block-size $live_block_size --speedup "$speedup" --model demo \
    --max-requests "$max_requests" --router "$router_grpc" --router-http "$router_http" --door "http://$door" --label "$name" \
    --json "$work/disagg-$name.json"
  stop_children
}

# Two engines that only prefill and four that decode, on the same trace, with ever more of the fork's rules.
disagg_demo() {
  prefill_rate=20000
  transfer_us_per_block=1000
  local migration_floor_tokens=8192
  local answer_tokens=16
  [ "$max_requests" -gt 0 ] || max_requests=1500
  cut_answers $answer_tokens
  say "disaggregation: $live_trace over 2 prefill and 4 decode engines, $prefill_rate prompt tokens a second each; a block of
   $live_block_size tokens moves in $transfer_us_per_block us; answers are cut at $answer_tokens tokens.
   What each run did with its requests, and why, is below its row.
   Engines count a prompt once for each leg, so their hit rates compare only where plans do; what they computed always does."
  disagg_run always_remote
  disagg_run gate --min-remote-prefill-tokens 4096
  disagg_run affinity --min-remote-prefill-tokens 4096 --router-session-affinity-ttl-secs 600 --local-continuations
  disagg_run migration --min-remote-prefill-tokens 4096 --router-session-affinity-ttl-secs 600 --local-continuations \
    --kv-migration migrate --kv-migration-min-tokens $migration_floor_tokens
  say "disaggregation: one table"
  "$bin/kvrouter-sim" table "$work"/disagg-{always_remote,gate,affinity,migration}.json ${json:+--json "$json"}
  say "migration: from where on does it pay?"
  # Not sped up: the milliseconds of this machine would be multiplied, too.
  start_exchanging_engines --engines 2 --block-size $live_block_size --speedup 1 --prefill-rate $prefill_rate \
    --kv-transfer-us-per-block $transfer_us_per_block
  run /usr/bin/python3 deploy/break_even.py "$work/engines.addresses" --assumed $migration_floor_tokens \
    --block-size $live_block_size
  stop_children
  echo "What it is worth where the cost alone decides, at several prices of a transfer, without this machine's noise: docs/performance.md#migration"
}

migration_run() { # NAME TRANSFER_US [kvrouterd's options]
  local name=$1 transfer_us=$2
  shift 2
  say "migration: $name, a block is $transfer_us us under way${*:+ ($*)}"
  start_exchanging_engines --engines 4 --block-size $live_block_size --speedup "$speedup" --prefill-rate $prefill_rate \
    --inter-token-us 50000 --kv-transfer-us-per-block "$transfer_us"
  start_door "$@"
  run "$bin/kvrouter-sim" play "$work/conversations.jsonl" --block-size $live_block_size --speedup "$speedup" --model demo \
    --max-requests "$max_requests" --router "$router_grpc" --router-http "$router_http" --door "http://$door" --label "$name" \
    --json "$work/migration-$name.json"
  stop_children
}

measured_break_even() { # TRANSFER_US
  say "break-even between two idle engines, a block is $1 us under way"
  # Hardly sped up: the milliseconds of this machine are multiplied, too.
  start_exchanging_engines --engines 2 --block-size $live_block_size --speedup 4 --prefill-rate $prefill_rate \
    --kv-transfer-us-per-block "$1"
  run /usr/bin/python3 deploy/break_even.py "$work/engines.addresses" --speedup 4 --assumed $migration_floor_tokens \
    --prices $prefill_rate "$1" --block-size $live_block_size
  stop_children
}

# Four engines that compute and decode, and conversations that come back when their engine has more to decode than others.
migration_demo() {
  local prefill_rate=8000 migration_floor_tokens=2048 cheap_us=1000 dear_us=40000 name
  local migrate="--kv-migration migrate --kv-migration-min-tokens $migration_floor_tokens"
  local priced="$migrate --kv-migration-prefill-tokens-per-s $prefill_rate --kv-migration-transfer-us-per-block"
  /usr/bin/python3 deploy/long_conversations.py "$work/conversations.jsonl" --block-size $live_block_size
  say "migration: 48 conversations of 3 turns about documents of 10,000 to 20,000 tokens, over 4 engines of $prefill_rate prompt
   tokens a second; a block of $live_block_size tokens takes $((live_block_size * 1000000 / prefill_rate)) us to compute.
   What each run did with its requests, and why, is below its row."
  migration_run recompute $cheap_us
  migration_run cheap $cheap_us $priced $cheap_us
  migration_run dear $dear_us $priced $dear_us
  migration_run dear_unpriced $dear_us $migrate
  say "migration: one table"
  "$bin/kvrouter-sim" table "$work"/migration-{recompute,cheap,dear,dear_unpriced}.json ${json:+--json "$json"}
  for name in recompute cheap dear dear_unpriced; do
    printf '%s: %.0f of %.0f requests were to be migrated; engines computed %.3f of every prompt token\n' $name \
      "$(figure migration-$name $name planned_migrations)" "$(figure migration-$name $name requests)" \
      "$(figure migration-$name $name computed_per_prompt_token)"
  done
  measured_break_even $cheap_us
  measured_break_even $dear_us
}
