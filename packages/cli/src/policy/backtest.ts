import { existsSync } from 'node:fs'
import type { PolicyBacktest } from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { coveredText, runBacktest } from '../backtest.ts'
import { instantOption } from '../instant.ts'
import { withService } from '../service/options.ts'
import { findService } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { readTools, readWhole } from './files.ts'
import { idOf } from './stored.ts'

/** One sentence: what a policy would have decided. */
function sentenceOf(found: PolicyBacktest): string {
  const span = coveredText(found)
  if (span === undefined) return 'There are no stored events to run the policy on.'
  const { calls, asked, denied, agents, asks_per_session } = found
  if (calls === 0) return `No tool call of an agent that the policy is for is stored in ${span}.`
  const of = `of ${counted(calls, 'call')} in ${span}`
  if (asked + denied === 0) return `The policy would have allowed all ${of}.`
  return `The policy would have asked ${counted(asked, 'time')} and denied ${denied} ${of}, on ${counted(agents, 'agent')}: ${asks_per_session} asks a session.`
}

function print(found: PolicyBacktest): void {
  console.log(sentenceOf(found))
  const { unjudged, without_arguments, evicted, events_read, duration_ms, rules, samples, asked, denied } = found
  console.error(`${counted(events_read, 'event')} in ${(duration_ms / 1_000).toFixed(1)} s.`)
  if (unjudged > 0) {
    console.error(
      `${counted(unjudged, 'more call')} would have been asked unless their destination came from the person or a directory, which was not stored.`,
    )
  }
  if (without_arguments > 0) {
    console.error(`${counted(without_arguments, 'call')} were stored without arguments: conditions cannot match them.`)
  }
  if (evicted > 0) console.error(`${counted(evicted, 'session')} were forgotten to limit memory.`)
  if (samples.length === 0) return
  const named = (rule: string | null) => sanitize(rule ?? '(default)')
  console.log(
    textTable([
      ['DECISION', 'COUNT', 'RULE'],
      ...rules.map((one) => [one.decision, String(one.count), named(one.rule)]),
    ]),
  )
  console.log()
  const rows = samples.map(({ at, decision, tool, rule, instance_id, session_id, event_id }) => [
    at,
    decision,
    sanitize(tool),
    named(rule),
    sanitize(instance_id ?? '-'),
    sanitize(session_id ?? '-'),
    event_id,
  ])
  console.log(textTable([['AT', 'DECISION', 'TOOL', 'RULE', 'AGENT', 'SESSION', 'EVENT'], ...rows]))
  const hidden = asked + denied - samples.length
  if (hidden > 0) console.error(`and ${counted(hidden, 'earlier call')}.`)
}

interface BacktestFlags extends ServiceFlags {
  from?: string
  to?: string
  tools?: string
}

async function backtest(given: string, { from, to, tools, ...flags }: BacktestFlags): Promise<void> {
  const service = await findService(flags)
  const body = {
    ...(existsSync(given) ? { policy: await readWhole(given) } : { id: await idOf(service, given) }),
    ...(tools === undefined ? {} : { tools: await readTools(tools) }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
  }
  const found = await runBacktest(service, 'backtestPolicy', body)
  if (flags.json) console.log(safeJson(found, 2))
  else print(found)
}

export function addPolicyBacktest(policy: Command): void {
  withService(
    policy
      .command('backtest')
      .description('run a policy against stored tool calls and report what it would have decided; changes nothing')
      .argument('<policy>', 'file, or id or title of a stored policy')
      .option('--tools <file>', 'what the servers answer to tools/list: labels of tools that the policy has none for')
      .option('--from <time>', 'ISO 8601 instant, day (UTC), or age such as 12h; default: 7d', instantOption)
      .option('--to <time>', 'end, in the same formats; default: now', instantOption),
  ).action(backtest)
}
