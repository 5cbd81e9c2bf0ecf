import { readFileSync } from 'node:fs'
import {
  answerLimits,
  type BacktestLine,
  endpoints,
  parsedJson,
  type ReplyOf,
  type RuleBacktest,
} from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { Failure } from './exit.ts'
import { instantOption } from './instant.ts'
import { withLists } from './lists.ts'
import { barText } from './progress-bar.ts'
import { openStream } from './service/open-stream.ts'
import { withService } from './service/options.ts'
import { hasShape } from './service/reply-shape.ts'
import { findService, noKey, notWardline, type Service, systemCode, unreachable } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const hourMs = 3_600_000
const eraseLine = '\r\u001b[2K'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

type Progress = Extract<BacktestLine, { progress: unknown }>['progress']

/** Lines of an answer, each bounded like any other answer. */
async function* linesOf(chunks: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()!
    if (rest.length > answerLimits.other) return
    yield* lines
  }
}

async function run<Name extends 'backtestRule' | 'backtestPolicy'>(
  service: Service,
  name: Name,
  body: object,
  show: (progress: Progress) => void,
): Promise<ReplyOf<Name>> {
  const { url, key, keyFrom } = service
  if (key === undefined) throw noKey(url)
  const { path, reply } = endpoints[name]
  const signal = new AbortController().signal
  const { chunks } = await openStream({ url, path, key, keyFrom, type: 'application/x-ndjson', signal, body })
  try {
    for await (const line of linesOf(chunks)) {
      const said = (parsedJson(line) ?? {}) as Record<string, unknown>
      if (typeof said.error === 'string') throw new Failure(said.error, String(said.code), 'failed')
      if (said.result !== undefined && hasShape(reply, said.result)) return said.result as ReplyOf<Name>
      const progress = said.progress as Progress | undefined
      if (typeof progress?.percent !== 'number') throw notWardline(url, 'its response has another format')
      show(progress)
    }
  } catch (fault) {
    if (fault instanceof Failure || systemCode(fault) === undefined) throw fault
    throw unreachable(url, fault)
  }
  throw notWardline(url, 'an answer that ends early')
}

/** Runs a backtest, and shows on a terminal how far it is. */
export async function runBacktest<Name extends 'backtestRule' | 'backtestPolicy'>(
  service: Service,
  name: Name,
  body: object,
): Promise<ReplyOf<Name>> {
  const { isTTY } = process.stderr
  return run(service, name, body, ({ percent, events_read }) => {
    if (isTTY) process.stderr.write(`${eraseLine}${barText(percent, 100)}  ${counted(events_read, 'event')}`)
  }).finally(() => {
    if (isTTY) process.stderr.write(eraseLine)
  })
}

/** `7 days`, `12 hours`, `5 minutes`. */
function spanText(ms: number): string {
  const hours = ms / hourMs
  if (hours >= 48) return counted(Math.round(hours / 24), 'day')
  return hours >= 2 ? counted(Math.round(hours), 'hour') : counted(Math.max(1, Math.round(hours * 60)), 'minute')
}

/** The time that the stored events of a backtest cover; undefined without any. */
export function coveredText({ from, to, data_from = from }: Pick<RuleBacktest, 'from' | 'to' | 'data_from'>) {
  if (data_from === null) return undefined
  const covered = spanText(Date.parse(to) - Date.parse(data_from))
  return Date.parse(data_from) > Date.parse(from) ? `the ${covered} of events that there are` : covered
}

/** One sentence: firings, agents and suspensions of a backtest. */
export function backtestSentence(found: Omit<RuleBacktest, 'samples' | 'hours'>): string {
  const { firings, instances, suspensions } = found
  const span = coveredText(found)
  if (span === undefined) return 'There are no stored events to run the rule on.'
  if (firings === 0) return `The rule would not have fired in ${span}.`
  return `The rule would have fired ${counted(firings, 'time')} on ${counted(instances, 'agent')} in ${span} and suspended ${suspensions}.`
}

function print(found: RuleBacktest): void {
  console.log(backtestSentence(found))
  console.error(`${counted(found.events_read, 'event')} in ${(found.duration_ms / 1_000).toFixed(1)} s.`)
  if (found.suppressed > 0) {
    console.error(`${counted(found.suppressed, 'more firing')} would have been counted, not stored.`)
  }
  if (found.evicted > 0) {
    console.error(`${counted(found.evicted, 'group')} were forgotten to limit memory: firings may be missing.`)
  }
  if (found.samples.length === 0) return
  const rows = found.samples.map(({ at, group, count, events, event_id }) => [
    at,
    sanitize(group.join(', ')),
    String(count),
    event_id,
    String(events.length),
  ])
  console.log(textTable([['AT', 'GROUP', 'COUNT', 'LAST EVENT', 'EVENTS'], ...rows]))
  const hidden = found.firings - found.samples.length
  if (hidden > 0) console.error(`and ${counted(hidden, 'earlier firing')}.`)
}

interface BacktestFlags {
  from?: string
  to?: string
  list?: Map<string, string[]>
}

async function backtest(name: string, flags: ServiceFlags & BacktestFlags): Promise<void> {
  const rule = uuid.test(name) ? { id: name } : { rule: readFileSync(name, 'utf8') }
  const service = await findService(flags)
  const { from = instantOption('7d'), to, list } = flags
  const body = {
    ...rule,
    from,
    ...(to === undefined ? {} : { to }),
    ...(list === undefined ? {} : { lists: Object.fromEntries(list) }),
  }
  const found = await runBacktest(service, 'backtestRule', body)
  if (flags.json) console.log(safeJson(found, 2))
  else print(found)
}

export function addBacktest(rules: Command): void {
  withService(
    withLists(
      rules
        .command('backtest')
        .description('run a rule against stored events and report what it would have done; changes nothing')
        .argument('<rule>', 'file with one rule, YAML or JSON, or the id of a stored rule')
        .option('--from <time>', 'ISO 8601 instant, day (UTC), or age such as 12h; default: 7d', instantOption)
        .option('--to <time>', 'end, in the same formats; default: now', instantOption),
    ),
  ).action(backtest)
}
